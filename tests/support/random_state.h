// Random states, tangents and controls of any model, the same for the same seed.
#ifndef COSTATE_TESTS_SUPPORT_RANDOM_STATE_H_
#define COSTATE_TESTS_SUPPORT_RANDOM_STATE_H_

#include <costate/state.h>

#include <random>

namespace costate::support {

struct RandomStateOptions {
  double position = 0.5;      ///< largest change of an unlimited coordinate from qpos0 [m or rad]
  double velocity = 1;        ///< largest |qvel| [m/s or rad/s]
  bool inside_limits = true;  ///< limited joints strictly inside their range; otherwise as unlimited ones
};

/// Uniform random numbers with a seed.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  double Uniform(double lower, double upper) {
    // written out, so that every standard library gives the same numbers
    return lower + (upper - lower) * (static_cast<double>(engine_()) / 4294967296.0);
  }
  VectorXd Vector(int n, double largest = 1) {
    VectorXd v(n);
    for (int i = 0; i < n; ++i) v[i] = Uniform(-largest, largest);
    return v;
  }

 private:
  std::mt19937 engine_;
};

/// x (nx): every joint type, unit quaternions, activations within their range (or in [0, 1]).
inline VectorXd RandomState(const mjModel* model, unsigned seed, const RandomStateOptions& options = {}) {
  Random random(seed);
  const Dims dims(model);
  VectorXd x = VectorXd::Zero(dims.nx), dx = VectorXd::Zero(dims.ndx);
  x.head(dims.nq) = Eigen::Map<const VectorXd>(model->qpos0, dims.nq);
  dx.head(dims.nv) = random.Vector(dims.nv, options.position);
  dx.segment(dims.nv, dims.nv) = random.Vector(dims.nv, options.velocity);
  x = Retract(model, x, dx);

  // limited joints: within the middle 96 % of the range; a ball joint's limit bounds its angle
  for (int i = 0; i < model->njnt && options.inside_limits; ++i) {
    if (!model->jnt_limited[i]) continue;
    const double lower = model->jnt_range[2 * i], upper = model->jnt_range[2 * i + 1];
    const int q = model->jnt_qposadr[i], type = model->jnt_type[i];
    if (type == mjJNT_SLIDE || type == mjJNT_HINGE) {
      x[q] = lower + (upper - lower) * random.Uniform(0.02, 0.98);
    } else if (type == mjJNT_BALL) {
      double axis[3] = {random.Uniform(-1, 1), random.Uniform(-1, 1), random.Uniform(0.1, 1)};
      mju_normalize3(axis);
      mju_axisAngle2Quat(x.data() + q, axis, upper * random.Uniform(0.02, 0.98));
    }
  }
  for (int i = 0; i < model->nactuator; ++i) {
    const double lower = model->actuator_actlimited[i] ? model->actuator_actrange[2 * i] : 0;
    const double upper = model->actuator_actlimited[i] ? model->actuator_actrange[2 * i + 1] : 1;
    for (int k = 0; k < model->actuator_actnum[i]; ++k) {
      x[dims.nq + dims.nv + model->actuator_actadr[i] + k] = random.Uniform(lower, upper);
    }
  }
  return x;
}

/// u (nu): strictly inside ctrlrange where there is one, else in [-1, 1].
inline VectorXd RandomControl(const mjModel* model, unsigned seed) {
  Random random(seed);
  VectorXd u(model->nu);
  for (int i = 0; i < u.size(); ++i) {
    const bool limited = model->actuator_ctrllimited[i];
    const double lower = limited ? model->actuator_ctrlrange[2 * i] : -1;
    const double upper = limited ? model->actuator_ctrlrange[2 * i + 1] : 1;
    u[i] = lower + (upper - lower) * random.Uniform(0.02, 0.98);
  }
  return u;
}

/// Data at the default state, driven on for some steps by one random control: contacts, limits, friction, activations.
inline DataPtr DrivenData(const mjModel* model, int steps, unsigned seed = 3) {
  DataPtr data = MakeData(model);
  Eigen::Map<VectorXd>(data->ctrl, model->nu) = RandomControl(model, seed);
  for (int k = 0; k < steps; k++) mj_step(model, data.get());
  return data;
}

/// dx (ndx), each entry in [-largest, largest].
inline VectorXd RandomTangent(const mjModel* model, unsigned seed, double largest = 1) {
  return Random(seed).Vector(Dims(model).ndx, largest);
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_RANDOM_STATE_H_
