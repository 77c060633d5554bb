// Derivatives by parameters from steps of the changed model.
#ifndef COSTATE_TESTS_PARAMETER_DIFFERENCES_H_
#define COSTATE_TESTS_PARAMETER_DIFFERENCES_H_

#include <costate/parameter.h>
#include <costate/state.h>

#include <vector>

#include "derivative/extrapolate.h"

namespace costate::support {

struct ParameterReference {
  MatrixXd P, P_error, Ps, Ps_error;
};

/// P and Ps by centred differences of the step of the changed model at five sizes, extrapolated, with their
/// disagreement. @param longest  nudge, of the parameter's own
inline ParameterReference Differences(const ParameterSet& given, const mjData* point, int substeps,
                                      double longest = 16) {
  ParameterSet set = given;
  const Dims dims(set.model());
  const DataPtr d = MakeData(set.model());
  std::vector<mjtNum> state(mj_stateSize(set.model(), mjSTATE_INTEGRATION));
  mj_getState(set.model(), point, state.data(), mjSTATE_INTEGRATION);
  const VectorXd values = set.Get();
  const auto step = [&](int k, double offset, VectorXd* x, VectorXd* s) {
    VectorXd at = values;
    at[k] += offset;
    set.Set(at);
    mjModel m = *set.model();
    m.opt.tolerance = 0;
    m.opt.iterations = 200;
    m.opt.solver = mjSOL_NEWTON;
    mj_setState(&m, d.get(), state.data(), mjSTATE_INTEGRATION);
    for (int i = 0; i < substeps; i++) {
      mj_step(&m, d.get());
      if (i == 0) *s = Eigen::Map<VectorXd>(d->sensordata, dims.ns);
    }
    *x = GetState(&m, d.get());
  };
  ParameterReference out;
  out.P = out.P_error = MatrixXd::Zero(dims.ndx, set.size());
  out.Ps = out.Ps_error = MatrixXd::Zero(dims.ns, set.size());
  constexpr int kSizes = 5;
  for (int k = 0; k < set.size(); k++) {
    VectorXd x[2], s[2], dx(dims.ndx);
    MatrixXd quotients(dims.ndx + dims.ns, kSizes);
    const bool forward = values[k] - longest * set[k].nudge < set[k].lower;
    for (int i = 0; i < kSizes; i++) {
      const double h = longest * set[k].nudge / (1 << i);
      step(k, h, &x[0], &s[0]);
      step(k, forward ? 0 : -h, &x[1], &s[1]);
      Difference(set.model(), x[0], x[1], dx);
      quotients.col(i) << dx, s[0] - s[1];
      quotients.col(i) /= forward ? h : 2 * h;
    }
    for (int row = 0; row < quotients.rows(); row++) {
      double q[kSizes];
      for (int i = 0; i < kSizes; i++) q[i] = quotients(row, i);
      const Extrapolation e = Extrapolate(q, kSizes, !forward, 1e-15 / (longest * set[k].nudge));
      if (row < dims.ndx) out.P(row, k) = e.value, out.P_error(row, k) = e.error;
      else out.Ps(row - dims.ndx, k) = e.value, out.Ps_error(row - dims.ndx, k) = e.error;
    }
  }
  return out;
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_PARAMETER_DIFFERENCES_H_
