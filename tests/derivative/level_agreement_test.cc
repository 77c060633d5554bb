#include <costate/derivative.h>
#include <costate/model.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/random_state.h"

namespace costate {
namespace {

constexpr double kAgreement = 1e-9;  // of a block's largest entry
constexpr double kEmpty = 1e-8;      // of a matrix' largest entry: a block that is zero but for rounding …
constexpr double kBorrowed = 1e-2;   // … is measured by so much of it

// the worst difference of two matrices, block by block, each relative to the block's largest entry
double WorstOfBlocks(const MatrixXd& X, const MatrixXd& Y, std::vector<int> rows, std::vector<int> columns) {
  const double largest = X.size() ? X.cwiseAbs().maxCoeff() : 0;
  double worst = 0;
  int row = 0;
  for (const int n : rows) {
    int column = 0;
    for (const int k : columns) {
      if (n > 0 && k > 0) {
        double scale = X.block(row, column, n, k).cwiseAbs().maxCoeff();
        if (scale < kEmpty * largest) scale = kBorrowed * largest;
        const double error = (X - Y).block(row, column, n, k).cwiseAbs().maxCoeff();
        if (error > 0) worst = std::max(worst, error / scale);
      }
      column += k;
    }
    row += n;
  }
  return worst;
}

std::vector<std::string> Models() {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const char* folder : {COSTATE_MODELS, COSTATE_TESTDATA}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".xml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

using LevelAgreementTest = support::EngineTest;

// Level 2 differences what level 1 has in closed form; both solve with H. Each model of this repository at its first key, in
// passive and in driven motion, under its own integrator and cone, under RK4 and under the other cone.
TEST_F(LevelAgreementTest, ClosedFormsAreTheDifferencesOfTheResidual) {
  int states = 0, contacts = 0;
  for (const std::string& file : Models()) {
    ModelPtr model;
    try {
      model = LoadModel(file);
    } catch (const Error&) {
      continue;  // a task, or a part of another file
    }
    if (model->nv == 0) continue;
    const int integrator = model->opt.integrator, cone = model->opt.cone;
    for (const int variant : {0, 1, 2}) {
      model->opt.integrator = variant == 1 ? static_cast<int>(mjINT_RK4) : integrator;
      model->opt.cone = variant == 2 ? 1 - cone : cone;
      for (const int steps : {0, 40, 200}) {
        SCOPED_TRACE(file + ", variant " + std::to_string(variant) + ", steps " + std::to_string(steps));
        const DataPtr data = MakeData(model.get());
        if (model->nkey > 0) mj_resetDataKeyframe(model.get(), data.get(), 0);
        if (steps > 0) {
          const VectorXd u = 0.2 * support::RandomControl(model.get(), static_cast<unsigned>(steps));
          mju_copy(data->ctrl, u.data(), model->nu);
        }
        for (int k = 0; k < steps; k++) mj_step(model.get(), data.get());
        if (!TakeWarnings().empty()) continue;  // the motion itself is none
        const StepDerivative one = Linearize(model.get(), data.get(), {.sensors = false});
        if (one.coverage.Worst() != Level::kAnalytic) continue;
        const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual, .sensors = false});
        ASSERT_EQ(one.status, StepStatus::kOk);
        ASSERT_EQ(two.status, StepStatus::kOk);
        const int nv = static_cast<int>(model->nv), na = static_cast<int>(model->na), nu = static_cast<int>(model->nu);
        EXPECT_LT(WorstOfBlocks(one.A, two.A, {nv, nv, na}, {nv, nv, na}), kAgreement);
        EXPECT_LT(WorstOfBlocks(one.B, two.B, {nv, nv, na}, {nu}), kAgreement);
        states++;
        contacts += data->ncon;
      }
    }
  }
  EXPECT_GT(states, 150);
  EXPECT_GT(contacts, 40);
}

}  // namespace
}  // namespace costate
