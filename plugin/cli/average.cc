#include "cli/average.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "cli/gradient_table.h"
#include "core/number.h"
#include "rollout/csv.h"

namespace costate::cli {
namespace {

bool Limited(const Task& task, int i) { return std::isfinite(task.u_upper[i] - task.u_lower[i]); }

VectorXd ControlNoise(const AverageArguments& arguments, const Task& task) {
  VectorXd sigma = VectorXd::Zero(task.U_guess.rows());
  for (int i : task.inputs.controls)
    sigma[i] = arguments.sigma * (Limited(task, i) ? task.u_upper[i] - task.u_lower[i] : 1);
  return sigma;
}

VectorXd StartNoise(const AverageArguments& arguments, const Task& task) {
  if (!(arguments.start > 0)) return {};
  VectorXd sigma = VectorXd::Zero(Dims(task.model.get()).ndx);
  for (int i : task.inputs.start) sigma[i] = arguments.start;
  return sigma;
}

// "5 % of the range of 3 controls, 0.05 in the unit of 1 control, 0.01 in the unit of 4 entries of the start"
std::string NoiseText(const AverageArguments& arguments, const Task& task) {
  int limited = 0, free = 0;
  if (arguments.sigma > 0) {
    for (int i : task.inputs.controls) ++(Limited(task, i) ? limited : free);
  }
  std::string text;
  const auto add = [&](int n, const std::string& amount, const char* one, const char* many) {
    if (n > 0) text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", amount, n, n == 1 ? one : many);
  };
  add(limited, fmt::format("{:.4g} % of the range of", 100 * arguments.sigma), "control", "controls");
  add(free, fmt::format("{:.4g} in the unit of", arguments.sigma), "control", "controls");
  const int start = arguments.start > 0 ? static_cast<int>(task.inputs.start.size()) : 0;
  add(start, fmt::format("{:.4g} in the unit of", arguments.start), "entry of the start", "entries of the start");
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
  command
      ->add_option(
          "--average-start", arguments->start,
          "average over noise of this standard deviation on the start that the gradient is by, in the unit of each "
          "entry; alone or with --average")
      ->check(Positive());
  arguments->pairs_option = command->add_option("--pairs", arguments->pairs, "of samples of --average, at +w and -w")
                                ->check(CLI::Range(2, 10000000));
  arguments->seed_option = command->add_option("--seed", arguments->seed, "of the noise of --average");
}

void CheckAverage(const AverageArguments& arguments, const Task& task) {
  if (!arguments.chosen()) {
    for (const CLI::Option* option : {arguments.pairs_option, arguments.seed_option}) {
      if (option && option->count() > 0)
        throw Error(ErrorCode::kInvalidArgument, option->get_name() + " belongs to --average");
    }
    return;
  }
  const auto need = [](double sigma, const std::vector<int>& by, const char* option, const char* what) {
    if (!(sigma > 0) || !by.empty()) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} puts noise on the {} that the gradient is by, and this task names none", option, what));
  };
  need(arguments.sigma, task.inputs.controls, "--average", "controls");
  need(arguments.start, task.inputs.start, "--average-start", "start");
}

BundleGradient Average(const AverageArguments& arguments, const Task& task, const AdjointOptions& adjoint) {
  BundleGradient out;
  Bundle(task.model.get(), task.context, task.substeps)
      .Gradient(task.x0, task.U_guess, *task.cost,
                {.pairs = arguments.pairs,
                 .seed = arguments.seed,
                 .state = StartNoise(arguments, task),
                 .control = ControlNoise(arguments, task)},
                adjoint, &out);
  return out;
}

void PrintAverage(const AverageArguments& arguments, const Task& task, const BundleGradient& average,
                  const RolloutGradient& exact) {
  fmt::print("average       {} pairs, seed {}; noise: {}\n", arguments.pairs, arguments.seed,
             NoiseText(arguments, task));
  fmt::print("  loss        {:.9g} ± {:.1g}; without noise {:.9g}\n", average.loss, average.loss_deviation, exact.loss);
  const auto print = [&](const char* by, const MatrixXd& truth, const auto& entries) {
    fmt::print("  {:<11} {:>12} {:>16} {:>8}\n", by, "norm", "from the exact", "cosine");
    fmt::print("  {:<11} {:>12.6g}\n", "exact", truth.norm());
    for (const NamedSlope& order : Orders(average)) {
      const MatrixXd slope = entries(*order.slope);
      const double lengths = slope.norm() * truth.norm();
      fmt::print("  {:<11} {:>12.6g} {:>16.6g} {:>8}\n", order.name, slope.norm(), (slope - truth).norm(),
                 lengths > 0 ? fmt::format("{:.4f}", slope.cwiseProduct(truth).sum() / lengths) : std::string("-"));
    }
  };
  const std::vector<int>&controls = task.inputs.controls, &start = task.inputs.start;
  if (arguments.sigma > 0) {
    print("by controls", exact.U(controls, Eigen::all),
          [&](const BundleSlope& s) { return MatrixXd(s.U(controls, Eigen::all)); });
  }
  if (arguments.start > 0) {
    print("by start", exact.x0(start), [&](const BundleSlope& s) { return MatrixXd(s.x0(start)); });
  }
  fmt::print("  standard errors, of all entries with noise together:");
  for (const NamedSlope& order : Orders(average)) fmt::print(" {} {:.3g}", order.name, order.slope->noisy_deviation);
  fmt::print("\n");
  fmt::print("  weights     {:.4g} of order one, {:.4g} of order zero; bias of order one {:.4g}{}\n", average.weight,
             1 - average.weight, average.bias,
             average.bias == 0 ? ": two standard errors explain what they differ by" : "");
  if (average.failed > 0) fmt::print("  left out    {} pairs; the first: {}\n", average.failed, average.failure);
}

std::map<std::string, std::string> AverageSettings(const AverageArguments& arguments, const BundleGradient& average) {
  std::map<std::string, std::string> out = {{"average_sigma", ExactText(arguments.sigma)},
                                            {"average_start_sigma", ExactText(arguments.start)},
                                            {"average_pairs", fmt::format("{}", arguments.pairs)},
                                            {"average_pairs_failed", fmt::format("{}", average.failed)},
                                            {"average_seed", fmt::format("{}", arguments.seed)},
                                            {"average_loss", ExactText(average.loss)},
                                            {"average_loss_standard_error", ExactText(average.loss_deviation)},
                                            {"average_weight_of_first", ExactText(average.weight)},
                                            {"average_bias_of_first", ExactText(average.bias)}};
  for (const NamedSlope& order : Orders(average))
    out[fmt::format("average_{}_standard_error", order.key)] = ExactText(order.slope->noisy_deviation);
  return out;
}

std::map<std::string, std::string> AverageTables(const AverageArguments& arguments, const Task& task, double dt,
                                                 const BundleGradient& average, const RolloutGradient& exact) {
  std::map<std::string, std::string> tables;
  const std::vector<std::string> names = ControlNames(task.model.get());
  std::string text = "knot,time (s)";
  for (int i : task.inputs.controls) {
    for (const char* order : {"exact", "first", "zeroth", "combined"})
      text += "," + QuotedCell(names[static_cast<std::size_t>(i)] + " " + order);
  }
  text += "\n";
  for (Eigen::Index t = 0; t < exact.U.cols(); ++t) {
    text += fmt::format("{},{:.17g}", t, static_cast<double>(t) * dt);
    for (int i : task.inputs.controls) {
      text += fmt::format(",{:.17g}", exact.U(i, t));
      for (const NamedSlope& order : Orders(average)) text += fmt::format(",{:.17g}", order.slope->U(i, t));
    }
    text += "\n";
  }
  if (!task.inputs.controls.empty()) tables["average.csv"] = text;
  if (!(arguments.start > 0)) return tables;

  const std::vector<std::string> tangents = TangentNames(task.model.get());
  text = "start,exact,first,zeroth,combined\n";
  for (int i : task.inputs.start) {
    text += fmt::format("{},{:.17g}", QuotedCell(tangents[static_cast<std::size_t>(i)]), exact.x0[i]);
    for (const NamedSlope& order : Orders(average)) text += fmt::format(",{:.17g}", order.slope->x0[i]);
    text += "\n";
  }
  tables["average_start.csv"] = text;
  return tables;
}

}  // namespace costate::cli
