#include "cli/average.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "cli/gradient_table.h"

namespace costate::cli {
namespace {

bool Limited(const Task& task, int i) { return std::isfinite(task.u_upper[i] - task.u_lower[i]); }

VectorXd ControlNoise(const AverageArguments& arguments, const Task& task) {
  VectorXd sigma = VectorXd::Zero(task.U_guess.rows());
  for (int i : task.inputs.controls)
    sigma[i] = arguments.sigma * (Limited(task, i) ? task.u_upper[i] - task.u_lower[i] : 1);
  return sigma;
}

// "5 % of the range of 3 controls, 0.05 in the unit of 1"
std::string NoiseText(const AverageArguments& arguments, const Task& task) {
  int limited = 0, free = 0;
  for (int i : task.inputs.controls) ++(Limited(task, i) ? limited : free);
  std::string text;
  const auto add = [&](int n, const std::string& what) {
    if (n > 0)
      text +=
          fmt::format("{}{} {} control{}", text.empty() ? "" : ", ", what, n, n == 1 ? "" : "s");
  };
  add(limited, fmt::format("{:.4g} % of the range of", 100 * arguments.sigma));
  add(free, fmt::format("{:.4g} in the unit of", arguments.sigma));
  return text;
}

struct NamedSlope {
  const char *name, *key;
  const BundleSlope* slope;
};
std::array<NamedSlope, 3> Orders(const BundleGradient& average) {
  return {{{"order one", "first", &average.first},
           {"order zero", "zeroth", &average.zeroth},
           {"combined", "combined", &average.combined}}};
}

}  // namespace

void AddAverageOptions(CLI::App* command, AverageArguments* arguments) {
  command
      ->add_option("--average", arguments->sigma,
                   "average over noise of this standard deviation on the controls: a share of the "
                   "range of each that has "
                   "limits, in its unit of others")
      ->check(Positive());
  arguments->pairs_option =
      command->add_option("--pairs", arguments->pairs, "of samples of --average, at +w and -w")
          ->check(CLI::Range(2, 10000000));
  arguments->seed_option =
      command->add_option("--seed", arguments->seed, "of the noise of --average");
}

void CheckAverage(const AverageArguments& arguments, const Task& task) {
  if (!arguments.chosen()) {
    for (const CLI::Option* option : {arguments.pairs_option, arguments.seed_option}) {
      if (option && option->count() > 0)
        throw Error(ErrorCode::kInvalidArgument, option->get_name() + " belongs to --average");
    }
    return;
  }
  if (task.inputs.controls.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "--average puts noise on the controls that the gradient is by, and this task names none");
  }
}

BundleGradient Average(const AverageArguments& arguments, const Task& task,
                       const AdjointOptions& adjoint) {
  BundleGradient out;
  Bundle(task.model.get(), task.context, task.substeps)
      .Gradient(task.x0, task.U_guess, *task.cost,
                {.pairs = arguments.pairs,
                 .seed = arguments.seed,
                 .state = {},
                 .control = ControlNoise(arguments, task)},
                adjoint, &out);
  return out;
}

void PrintAverage(const AverageArguments& arguments, const Task& task,
                  const BundleGradient& average, const RolloutGradient& exact) {
  const MatrixXd truth = exact.U(task.inputs.controls, Eigen::all);
  fmt::print("average       {} pairs, seed {}; noise: {}\n", arguments.pairs, arguments.seed,
             NoiseText(arguments, task));
  fmt::print("  loss        {:.9g} ± {:.1g}; without noise {:.9g}\n", average.loss,
             average.loss_deviation, exact.loss);
  fmt::print("  by controls {:>12} {:>14} {:>16} {:>8}\n", "norm", "standard error",
             "from the exact", "cosine");
  fmt::print("  {:<11} {:>12.6g}\n", "exact", truth.norm());
  for (const NamedSlope& order : Orders(average)) {
    const MatrixXd U = order.slope->U(task.inputs.controls, Eigen::all);
    const double lengths = U.norm() * truth.norm();
    fmt::print("  {:<11} {:>12.6g} {:>14.3g} {:>16.6g} {:>8}\n", order.name, U.norm(),
               order.slope->noisy_deviation, (U - truth).norm(),
               lengths > 0 ? fmt::format("{:.4f}", U.cwiseProduct(truth).sum() / lengths)
                           : std::string("-"));
  }
  fmt::print(
      "  weights     {:.4g} of order one, {:.4g} of order zero; bias of order one {:.4g}{}\n",
      average.weight, 1 - average.weight, average.bias,
      average.bias == 0 ? ": two standard errors explain what they differ by" : "");
  if (average.failed > 0)
    fmt::print("  left out    {} pairs; the first: {}\n", average.failed, average.failure);
}

std::map<std::string, std::string> AverageSettings(const AverageArguments& arguments,
                                                   const BundleGradient& average) {
  const auto number = [](double value) { return fmt::format("{:.17g}", value); };
  std::map<std::string, std::string> out = {
      {"average_sigma", number(arguments.sigma)},
      {"average_pairs", fmt::format("{}", arguments.pairs)},
      {"average_pairs_failed", fmt::format("{}", average.failed)},
      {"average_seed", fmt::format("{}", arguments.seed)},
      {"average_loss", number(average.loss)},
      {"average_loss_standard_error", number(average.loss_deviation)},
      {"average_weight_of_first", number(average.weight)},
      {"average_bias_of_first", number(average.bias)}};
  for (const NamedSlope& order : Orders(average))
    out[fmt::format("average_{}_standard_error", order.key)] = number(order.slope->noisy_deviation);
  return out;
}

std::string AverageTable(const Task& task, double dt, const BundleGradient& average,
                         const RolloutGradient& exact) {
  const std::vector<std::string> names = ControlNames(task.model.get());
  std::string text = "knot,time (s)";
  for (int i : task.inputs.controls) {
    for (const char* order : {"exact", "first", "zeroth", "combined"})
      text += "," + Quoted(names[static_cast<std::size_t>(i)] + " " + order);
  }
  text += "\n";
  for (Eigen::Index t = 0; t < exact.U.cols(); ++t) {
    text += fmt::format("{},{:.17g}", t, static_cast<double>(t) * dt);
    for (int i : task.inputs.controls) {
      text += fmt::format(",{:.17g}", exact.U(i, t));
      for (const NamedSlope& order : Orders(average))
        text += fmt::format(",{:.17g}", order.slope->U(i, t));
    }
    text += "\n";
  }
  return text;
}

}  // namespace costate::cli
