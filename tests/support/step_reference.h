// A and B by centred differences of the converged step at two sizes, extrapolated: the judge of small test models.
#ifndef COSTATE_TESTS_SUPPORT_STEP_REFERENCE_H_
#define COSTATE_TESTS_SUPPORT_STEP_REFERENCE_H_

#include <costate/state.h>

namespace costate::support {

/// How near derivatives come to the reference: of a matrix' largest entry, beyond three error bars.
inline constexpr double kReference = 1e-9;

inline MatrixXd Both(const MatrixXd& left, const MatrixXd& right) {
  MatrixXd both(left.rows(), left.cols() + right.cols());
  both << left, right;
  return both;
}

/// [A B] and [C D] about the state, ctrl and context of a point, with how far the two best extrapolations disagree.
struct StepReference {
  MatrixXd step, step_error, sensors, sensors_error;
};

inline StepReference MakeStepReference(const mjModel* model, const mjData* point, double largest = 3.2e-5) {
  mjModel m = *model;
  m.opt.tolerance = 0;
  m.opt.iterations = 200;
  m.opt.solver = mjSOL_NEWTON;
  const Dims dims(model);
  const int columns = dims.ndx + dims.nu, sizes = 4;
  std::vector<mjtNum> state(mj_stateSize(model, mjSTATE_INTEGRATION));
  mj_getState(model, point, state.data(), mjSTATE_INTEGRATION);
  const DataPtr d = MakeData(model);
  const auto step = [&](int column, double offset, VectorXd* x, VectorXd* s) {
    mj_setState(&m, d.get(), state.data(), mjSTATE_INTEGRATION);
    VectorXd dx = VectorXd::Zero(dims.ndx);
    if (column < dims.ndx) dx[column] = offset;
    else d->ctrl[column - dims.ndx] += offset;
    SetState(&m, d.get(), Retract(model, GetState(model, d.get()), dx));
    mj_step(&m, d.get());
    *x = GetState(model, d.get());
    *s = Eigen::Map<VectorXd>(d->sensordata, dims.ns);
  };
  StepReference out;
  out.step = out.step_error = MatrixXd::Zero(dims.ndx, columns);
  out.sensors = out.sensors_error = MatrixXd::Zero(dims.ns, columns);
  for (int c = 0; c < columns; c++) {
    VectorXd x[2], s[2], dx(dims.ndx), step_at[sizes], sensors_at[sizes];
    for (int k = 0; k < sizes; k++) {
      const double h = largest / (1 << k);
      step(c, h, &x[0], &s[0]);
      step(c, -h, &x[1], &s[1]);
      Difference(model, x[0], x[1], dx);
      step_at[k] = dx / (2 * h);
      sensors_at[k] = (s[0] - s[1]) / (2 * h);
    }
    // centred differences err by h²: two neighbours cancel it, two such pairs show what is left
    const auto extrapolate = [&](const VectorXd* f, auto value, auto error) {
      const VectorXd coarse = (4 * f[sizes - 2] - f[sizes - 3]) / 3, fine = (4 * f[sizes - 1] - f[sizes - 2]) / 3;
      value = fine;
      error = (fine - coarse).cwiseAbs();
    };
    extrapolate(step_at, out.step.col(c), out.step_error.col(c));
    extrapolate(sensors_at, out.sensors.col(c), out.sensors_error.col(c));
  }
  return out;
}

/// |value − reference| ≤ tolerance × the reference's largest entry + 3 error bars, in each entry.
inline ::testing::AssertionResult AgreesWithReference(const MatrixXd& value, const MatrixXd& reference,
                                                      const MatrixXd& error, double tolerance) {
  if (value.rows() != reference.rows() || value.cols() != reference.cols()) {
    return ::testing::AssertionFailure() << "sizes differ: " << value.rows() << "×" << value.cols() << " and "
                                         << reference.rows() << "×" << reference.cols();
  }
  if (value.size() == 0) return ::testing::AssertionSuccess();
  const double scale = reference.cwiseAbs().maxCoeff();
  const MatrixXd excess = ((value - reference).cwiseAbs() - 3 * error) / (scale > 0 ? scale : 1);
  Eigen::Index row = 0, col = 0;
  for (Eigen::Index j = 0; j < excess.cols(); j++) {
    for (Eigen::Index i = 0; i < excess.rows(); i++) {
      if (!(excess(i, j) <= excess(row, col))) row = i, col = j;
    }
  }
  if (excess(row, col) <= tolerance) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "row " << row << ", column " << col << ": value " << value(row, col)
                                       << ", reference " << reference(row, col) << " ± " << error(row, col)
                                       << ", largest entry " << scale;
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_STEP_REFERENCE_H_
