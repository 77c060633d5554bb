// A problem of one slide, by hand: what exploits and disturbances are tried on.
#ifndef COSTATE_TESTS_OPTIMIZER_SLIDE_PROBLEM_H_
#define COSTATE_TESTS_OPTIMIZER_SLIDE_PROBLEM_H_

#include <costate/cost.h>
#include <costate/rollout.h>
#include <costate/solver.h>
#include <costate/state.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace costate {

/// Something on a slide that shall end at `goal`: ½ kEnd (x_N − goal)² + Σ h ½ kEffort u².
struct SlideProblem {
  static constexpr double kEnd = 100, kEffort = 1e-3;
  ModelPtr model;
  std::unique_ptr<QuadraticCost> cost;
  Problem problem;
  double goal;

  SlideProblem(const std::string& xml, double velocity, double goal, int N)
      : model(LoadModelFromString(xml)), goal(goal) {
    MatrixXd Q = MatrixXd::Zero(2, 2), Qf = Q;
    Qf(0, 0) = kEnd;
    cost = std::make_unique<QuadraticCost>(model.get(), VectorXd::Unit(2, 0) * goal, Q,
                                           MatrixXd::Constant(1, 1, kEffort), Qf);
    const DataPtr data = MakeData(model.get());
    data->qvel[0] = velocity;
    problem = {model.get(), cost.get(), GetState(model.get(), data.get()), GetContext(model.get(), data.get()), N, 1,
               {},          {}};
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  }
  Trajectory Roll(const MatrixXd& U) const {
    Simulator simulator(model.get(), problem.context, 1, 1);
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(problem.x0, U, &motion).ok());
    return motion;
  }
};

}  // namespace costate

#endif  // COSTATE_TESTS_OPTIMIZER_SLIDE_PROBLEM_H_
