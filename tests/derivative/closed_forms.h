// Closed forms of the step, compared with differences of the residual.
#ifndef COSTATE_TESTS_DERIVATIVE_CLOSED_FORMS_H_
#define COSTATE_TESTS_DERIVATIVE_CLOSED_FORMS_H_

#include <costate/derivative.h>
#include <costate/model.h>
#include <costate/state.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "derivative/analytic.h"
#include "support/random_state.h"

namespace costate::support {

/// Largest difference, of Y's largest entry.
inline double Apart(const MatrixXd& X, const MatrixXd& Y) {
  return X.size() ? (X - Y).cwiseAbs().maxCoeff() / std::max(1e-300, Y.cwiseAbs().maxCoeff()) : 0;
}

/// At a random state every term is closed, and A, B, products and what follows a forward are those of level 2; counts
/// rows and contacts.
inline void ExpectClosed(const mjModel* m, unsigned seed, const RandomStateOptions& at, int* rows, int* contacts) {
  const DataPtr data = MakeData(m);
  SetState(m, data.get(), RandomState(m, seed, at));
  const VectorXd x = GetState(m, data.get()), u = RandomControl(m, seed);
  mju_copy(data->ctrl, u.data(), static_cast<int>(m->nu));
  mj_forward(m, data.get());
  *rows += data->nefc;
  *contacts += data->ncon;

  Linearizer one(m), two(m, {.level = Level::kResidual});
  StepDerivative closed, differenced;
  one.Linearize(x, u, &closed);
  two.Linearize(x, u, &differenced);
  ASSERT_EQ(closed.status, StepStatus::kOk);
  for (const TermCoverage& term : closed.coverage.terms) EXPECT_EQ(term.level, Level::kAnalytic) << term.reason;
  EXPECT_LT(Apart(closed.A, differenced.A), 1e-9);
  EXPECT_LT(Apart(closed.B, differenced.B), 1e-9);
  EXPECT_LT(Apart(closed.C, differenced.C), 1e-7);

  // rows alone are differenced with the metric that actuators make
  TermSwitch rows_alone;
  rows_alone.constraint = true;
  AnalyticBackend backend(m, false, rows_alone);
  const DataPtr work = MakeData(m);
  mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION);
  std::string missing;
  StepDerivative mixed;
  ASSERT_TRUE(backend.Linearize(m, work.get(), false, &mixed, &missing)) << missing;
  EXPECT_LT(Apart(mixed.A, differenced.A), 1e-9);

  // products are theirs, and so is what follows a forward: as far as both find the same acceleration
  Random random(seed);
  const VectorXd lambda = random.Vector(static_cast<int>(closed.A.rows())),
                 dx = random.Vector(static_cast<int>(closed.A.cols())), du = random.Vector(static_cast<int>(m->nu));
  StepVjp vjp;
  one.Vjp(x, u, lambda, &vjp);
  EXPECT_LT(Apart(vjp.x, closed.A.transpose() * lambda), 1e-9);
  EXPECT_LT(Apart(vjp.u, closed.B.transpose() * lambda), 1e-9);
  StepJvp jvp;
  one.Jvp(x, u, dx, du, &jvp);
  EXPECT_LT(Apart(jvp.dx, closed.A * dx + closed.B * du), 1e-9);
  StepDerivative after;
  one.LinearizeAfterForward(data.get(), &after);
  EXPECT_LT(Apart(after.A, closed.A), 1e-9);
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_DERIVATIVE_CLOSED_FORMS_H_
