// Each closed form by parameters made wrong by one per cent: P must show it, and the pull-back must show it.
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "derivative/plant.h"
#include "derivative/planted/scenes.h"
#include "parameter/differences.h"
#include "parameter/scenes.h"
#include "support/engine_test.h"

namespace costate {
namespace {

constexpr double kColumnTolerance = 3e-7;  // of a column's largest entry

// a model of which every parameter has a closed form, P by differences, and its products with one covector
struct ParameterPoint {
  std::string name;
  ModelPtr model;
  DataPtr data;
  ParameterSet set;
  MatrixXd P, allowed;
  VectorXd lambda;

  ParameterPoint(int integrator, int cone, int steps)
      : name("integrator " + std::to_string(integrator) + ", cone " + std::to_string(cone)),
        model(LoadModelFromString(ClosedScene().xml)),
        set(Prepared(model.get(), integrator, cone), ClosedScene().parameters) {
    data = support::ScenePoint(model.get(), steps);
    const support::ParameterReference reference = support::Differences(set, data.get(), 1);
    P = reference.P;
    allowed = 3 * reference.P_error.array() + 1e-13;
    for (int k = 0; k < P.cols(); k++) allowed.col(k).array() += kColumnTolerance * P.col(k).cwiseAbs().maxCoeff();
    lambda.resize(P.rows());
    for (int i = 0; i < lambda.size(); i++) lambda[i] = std::sin(1.0 + 2.3 * i);
  }

  static const support::ParameterScene& ClosedScene() {
    static const support::ParameterScene scene = support::ParameterScenes()[2];
    return scene;
  }
  static const mjModel* Prepared(mjModel* m, int integrator, int cone) {
    m->opt.integrator = integrator;
    m->opt.cone = cone;
    return m;
  }

  // the parameter whose column, and whose entry of the pulled covector, is furthest beyond what the reference allows;
  // ""
  void Judge(std::string* of_P, std::string* of_pull) const {
    Linearizer linearizer(set.model(), {.level = Level::kAnalytic, .sensors = false});
    linearizer.SetContext(GetContext(model.get(), data.get()));
    linearizer.SetParameters(&set);
    const VectorXd x = GetState(model.get(), data.get()), u = Eigen::Map<VectorXd>(data->ctrl, model->nu);
    StepDerivative value;
    linearizer.Linearize(x, u, &value);
    StepVjp vjp;
    linearizer.Vjp(x, u, lambda, &vjp);
    ASSERT_EQ(value.status, StepStatus::kOk);
    const VectorXd pulled = P.transpose() * lambda, pulled_allowed = allowed.transpose() * lambda.cwiseAbs();
    for (int k = 0; k < set.size(); k++) {
      const auto excess = (value.P.col(k) - P.col(k)).cwiseAbs() - allowed.col(k);
      if (!(excess.maxCoeff() <= 0) && of_P->empty()) *of_P = set[k].name;
      if (!(std::abs(vjp.theta[k] - pulled[k]) <= pulled_allowed[k]) && of_pull->empty()) *of_pull = set[k].name;
    }
  }
};

class PlantedParameters : public support::EngineTest {
 protected:
  static const std::vector<ParameterPoint>& Points() {
    static const std::vector<ParameterPoint> points = [] {
      std::vector<ParameterPoint> all;
      all.emplace_back(mjINT_EULER, mjCONE_ELLIPTIC, 60);
      all.emplace_back(mjINT_RK4, mjCONE_PYRAMIDAL, 60);
      all.emplace_back(mjINT_IMPLICITFAST, mjCONE_ELLIPTIC, 20);
      all.emplace_back(mjINT_EULER, mjCONE_PYRAMIDAL, 400);
      return all;
    }();
    return points;
  }
};

TEST_F(PlantedParameters, NothingIsFlaggedWhereNothingIsWrong) {
  for (const ParameterPoint& point : Points()) {
    SCOPED_TRACE(point.name);
    std::string of_P, of_pull;
    point.Judge(&of_P, &of_pull);
    EXPECT_EQ(of_P, "");
    EXPECT_EQ(of_pull, "");
  }
}

TEST_F(PlantedParameters, EveryPlantIsFlaggedInPAndInPullBacks) {
  int plants = 0;
  for (auto& [name, factor] : Plants()) {
    if (!planted::OfParameters(name)) continue;
    plants++;
    factor = planted::kPlant;
    std::string of_P, of_pull;
    for (const ParameterPoint& point : Points()) {
      if (of_P.empty() || of_pull.empty()) point.Judge(&of_P, &of_pull);
    }
    factor = 1;
    EXPECT_NE(of_P, "") << "one per cent in '" << name << "' goes unnoticed by P";
    EXPECT_NE(of_pull, "") << "one per cent in '" << name << "' goes unnoticed by pull-backs";
  }
  EXPECT_GE(plants, 45);
}

}  // namespace
}  // namespace costate
