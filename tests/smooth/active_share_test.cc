// What SmoothActiveSet writes into data, row by row, against differences of the costs that section
// W smooths.
#include <costate/derivative.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <Eigen/Dense>

#include "derivative/smoothed_set.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using ActiveShareTest = support::EngineTest;

// σ without the exponential of the code under test
double Share(double x, double width) { return 0.5 * (1 - std::tanh(x / (2 * width))); }

MatrixXd RowJacobian(const mjModel* m, const mjData* d) {
  MatrixXd J(d->nefc, m->nv);
  VectorXd row(d->nefc);
  for (int j = 0; j < m->nv; j++) {
    const VectorXd unit = VectorXd::Unit(m->nv, j);
    mj_mulJacVec(m, d, row.data(), unit.data());
    J.col(j) = row;
  }
  return J;
}

VectorXd RowResidual(const mjModel* m, const mjData* d) {
  return RowJacobian(m, d) * Eigen::Map<const VectorXd>(d->qacc, m->nv) -
         Eigen::Map<const VectorXd>(d->efc_aref, d->nefc);
}

// the middle zone's cost φ(y) = ½ Dm g², g = μ (y₀ − √(T² + μ₁² w²)) of (W3)
struct RoundedCone {
  double mu, Dm, width;
  VectorXd friction;

  double Tangential(const VectorXd& y) const { return y.tail(y.size() - 1).cwiseProduct(friction).norm(); }
  double g(const VectorXd& y) const { return mu * (y[0] - std::hypot(Tangential(y), friction[0] * width)); }

  // of fourth order, from the differences at e and 2 e
  template <typename Value, typename F>
  static Value Slope(F f, double e) {
    return (8 * (f(e) - f(-e)) - (f(2 * e) - f(-2 * e))) / (12 * e);
  }
  VectorXd GradientOfG(const VectorXd& y, double e) const {
    VectorXd out(y.size());
    for (int i = 0; i < y.size(); i++)
      out[i] = Slope<double>([&](double s) { return g(y + s * VectorXd::Unit(y.size(), i)); }, e);
    return out;
  }
  // inside the cone ∇²φ, outside without the curvature of g
  MatrixXd Hessian(const VectorXd& y, double e) const {
    const VectorXd slope = GradientOfG(y, e);
    if (g(y) >= 0) return Dm * slope * slope.transpose();
    MatrixXd out(y.size(), y.size());
    for (int i = 0; i < y.size(); i++) {
      const auto gradient = [&](double s) -> VectorXd {
        const VectorXd at = y + s * VectorXd::Unit(y.size(), i);
        return Dm * g(at) * GradientOfG(at, e);
      };
      out.col(i) = Slope<VectorXd>(gradient, e);
    }
    return out;
  }
};

// a ball on a floor: its six dofs give the contact's rows any y
ModelPtr TouchingBall(int condim) {
  return LoadModelFromString(
      "<mujoco><option timestep='.002' cone='elliptic' impratio='3'/><worldbody>"
      "<geom name='floor' type='plane' size='1 1 1'/><body pos='0 0 .0995'><freejoint/>"
      "<geom name='ball' size='.1' mass='1'/></body></worldbody><contact><pair geom1='floor' "
      "geom2='ball' condim='" +
      std::to_string(condim) + "' friction='.9 .6 .2 .3 .15'/></contact></mujoco>");
}

struct ConeState {
  const char* name;
  double normal, slip;  // y₀, and T over −y₀
};

TEST_F(ActiveShareTest, ConeHessianIsThatOfTheRoundedCost) {
  const ConeState states[] = {{"sticking", -4, 0},         {"sticking and pulled", -4, 0.8},
                              {"sliding", -3, 3},          {"sliding fast", -0.5, 40},
                              {"nearly apart", -0.05, 2},  {"just apart", 0.5, -0.9},
                              {"at the apex", -0.01, 0.1}, {"at the rim", 1, -1},
                              {"apart", 1.2, -0.2}};
  for (int condim : {3, 4, 6}) {
    const ModelPtr model = TouchingBall(condim);
    for (const ConeState& state : states) {
      for (double width : {0.3, 1.0, 4.0}) {
        SCOPED_TRACE(std::string(state.name) + ", condim " + std::to_string(condim) + ", width " +
                     std::to_string(width));
        const DataPtr data = MakeData(model.get());
        mj_forward(model.get(), data.get());
        ASSERT_EQ(data->ncon, 1);
        ASSERT_EQ(data->nefc, condim);
        const mjContact& contact = data->contact[0];
        RoundedCone cone{contact.mu, 0, width, VectorXd(condim - 1)};
        for (int j = 1; j < condim; j++) cone.friction[j - 1] = contact.friction[j - 1];
        const VectorXd D = Eigen::Map<const VectorXd>(data->efc_D, condim);
        cone.Dm = D[0] / (cone.mu * cone.mu * (1 + cone.mu * cone.mu));

        // an acceleration at which the rows have this y
        VectorXd y(condim);
        y << state.normal, VectorXd::LinSpaced(condim - 1, 1, -0.7);
        y.tail(condim - 1) *= -state.slip * state.normal / cone.Tangential(y);
        const MatrixXd J = RowJacobian(model.get(), data.get());
        Eigen::Map<VectorXd>(data->qacc, model->nv) =
            J.colPivHouseholderQr().solve(y + Eigen::Map<const VectorXd>(data->efc_aref, condim));
        ASSERT_TRUE(support::MatricesNear(RowResidual(model.get(), data.get()), y, 1e-10));

        const double T = cone.Tangential(y), p = Share(y[0] - T, width),
                     q = Share((T + cone.mu * cone.mu * y[0]) / cone.friction[0], width);
        const MatrixXd inner = D.asDiagonal();
        std::vector<double> scratch;
        SmoothActiveSet(model.get(), data.get(), width, &scratch);
        const MatrixXd H = Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>(contact.H, condim, condim);
        for (double e : {3e-4, 1e-3}) {
          const MatrixXd expected = p * ((1 - q) * cone.Hessian(y, e) + q * inner);
          EXPECT_TRUE(support::MatricesNearRelative(H, expected, 1e-5)) << e;
        }
        for (int i = 0; i < condim; i++) EXPECT_EQ(data->efc_state[i], mjCNSTRSTATE_CONE);
        EXPECT_EQ(Eigen::Map<const VectorXd>(data->efc_D, condim), D);
      }
    }
  }
}

// rows of every other kind, with equalities that keep their D
TEST_F(ActiveShareTest, OtherRowsActByTheirShare) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep='.002' cone='pyramidal'/><worldbody>
    <geom type='plane' size='2 2 1' condim='1'/>
    <body pos='0 0 .0995'><freejoint/><geom size='.1' mass='1' condim='3'/></body>
    <body pos='1 0 .0998'><freejoint/><geom size='.1' mass='1' condim='1'/></body>
    <body pos='0 1 1'><joint name='a' frictionloss='.5' limited='true' range='.001 90'/>
      <geom size='.1' mass='1' pos='.2 0 0'/>
      <body pos='.4 0 0'><joint name='b' frictionloss='.02'/><geom size='.1' mass='1' pos='.2 0 0'/></body></body>
    </worldbody>
    <tendon><fixed name='t' frictionloss='.3' limited='true' range='-1 -.0002'>
      <joint joint='a' coef='1'/><joint joint='b' coef='-2'/></fixed></tendon>
    <equality><joint joint1='a' joint2='b'/></equality></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.2;
  data->qvel[model->nv - 1] = 1;
  for (double width : {0.2, 5.0, 60.0}) {
    SCOPED_TRACE(width);
    mj_forward(model.get(), data.get());
    const int n = data->nefc;
    const VectorXd y = RowResidual(model.get(), data.get());
    const VectorXd D = Eigen::Map<const VectorXd>(data->efc_D, n);
    std::vector<double> scratch;
    SmoothActiveSet(model.get(), data.get(), width, &scratch);
    int kinds[mjCNSTR_CONTACT_ELLIPTIC + 1] = {}, partly = 0;
    for (int i = 0; i < n; i++) {
      const bool loss = data->efc_type[i] == mjCNSTR_FRICTION_DOF || data->efc_type[i] == mjCNSTR_FRICTION_TENDON;
      const double x = loss ? std::abs(y[i]) - data->efc_frictionloss[i] / D[i] : y[i];
      const double share = data->efc_type[i] == mjCNSTR_EQUALITY ? 1 : Share(x, width);
      EXPECT_NEAR(data->efc_D[i], share * D[i], 1e-9 * share * D[i] + 1e-14 * D[i])
          << "row " << i << " of type " << data->efc_type[i];
      kinds[data->efc_type[i]]++;
      partly += share > 0.05 && share < 0.95;
    }
    for (int kind = mjCNSTR_EQUALITY; kind <= mjCNSTR_CONTACT_PYRAMIDAL; kind++) EXPECT_GT(kinds[kind], 0) << kind;
    if (width > 50) {
      EXPECT_GT(partly, 3);
    }
  }
}

// the shares reach the derivative: (M + Jᵀ H J)⁻¹ by forces, H of the rows as SmoothActiveSet
// leaves them
TEST_F(ActiveShareTest, ForcesMoveAccelerationsThroughTheSmoothedHessian) {
  for (int condim : {3, 4, 6}) {
    const ModelPtr model = TouchingBall(condim);
    const DataPtr data = MakeData(model.get());
    data->qvel[0] = 0.02;
    data->qvel[1] = -0.01;
    data->qvel[5] = 0.3;
    const double width = 3;
    Linearizer linearizer(model.get(), {.smoothing = width});
    AccelerationDerivative value;
    linearizer.LinearizeAcceleration(GetState(model.get(), data.get()), VectorXd(), &value);
    model->opt.tolerance = 0;
    mj_forward(model.get(), data.get());
    const MatrixXd J = RowJacobian(model.get(), data.get());
    std::vector<double> scratch;
    SmoothActiveSet(model.get(), data.get(), width, &scratch);
    const Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>> H(data->contact[0].H, condim, condim);
    MatrixXd M(model->nv, model->nv);
    mj_fullM(model.get(), data.get(), M.data());
    const MatrixXd expected = (M + J.transpose() * H * J).inverse();
    EXPECT_TRUE(support::MatricesNearRelative(value.force, expected, 1e-12)) << condim;
  }
}

}  // namespace
}  // namespace costate
