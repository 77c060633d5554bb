// The smallest models that show what a step can depend on, with a start and controls for each.
#ifndef COSTATE_TESTS_ROLLOUT_MODELS_H_
#define COSTATE_TESTS_ROLLOUT_MODELS_H_

#include <costate/rollout.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {

struct NamedModel {
  std::string name, xml;
};

// two links with a motor, sensors and a limit; `option` and `actuator` vary
inline std::string TwoLinks(const std::string& option, const std::string& actuator) {
  return "<mujoco model='two links'><option timestep='.004' " + option + "/><worldbody>" +
         "<body pos='0 0 1'><joint name='shoulder' type='hinge' axis='0 1 0' damping='.1'/>"
         "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/>"
         "<body pos='.3 0 0'><joint name='elbow' type='hinge' axis='0 1 0' range='-60 60' stiffness='1'/>"
         "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/><site name='tip' pos='.3 0 0'/></body></body>"
         "</worldbody><actuator>" +
         actuator +
         "</actuator><sensor><framepos objtype='site' objname='tip'/><jointvel joint='elbow'/></sensor></mujoco>";
}

// every integrator, and every part of the context that a step reads or moves
inline std::vector<NamedModel> RolloutModels() {
  const std::string motor = "<motor name='motor' joint='shoulder' gear='2' ctrlrange='-1 1'/>";
  return {
      {"Euler", TwoLinks("", motor)},
      {"RK4", TwoLinks("integrator='RK4'", motor)},
      {"implicit", TwoLinks("integrator='implicit'", motor)},
      {"implicitfast", TwoLinks("integrator='implicitfast'", motor)},
      {"discrete", TwoLinks("integrator='discrete'", motor)},
      {"delayed control", TwoLinks("", "<motor name='motor' joint='shoulder' gear='2' nsample='5' delay='.016'/>")},
      {"activation", TwoLinks("",
                              "<general name='lag' joint='shoulder' dyntype='filter' dynprm='.05' gainprm='3'/>"
                              "<muscle name='muscle' joint='elbow' ctrlrange='0 1' lengthrange='-1 1'/>")},
      {"plastic",
       "<mujoco><option timestep='.002'/><worldbody><body><joint name='j' type='hinge' axis='0 1 0' "
       "stiffness='20' springyield='.1'/><geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/></body>"
       "</worldbody><actuator><motor joint='j' gear='10'/></actuator></mujoco>"},
      {"mocap, weld and a switched equality",
       "<mujoco><worldbody><body name='hand' mocap='true' pos='0 0 1'/>"
       "<body name='box' pos='0 0 1'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"
       "<body name='ball' pos='0 0 2'><joint type='ball'/><geom type='capsule' size='.05' fromto='0 0 0 .3 0 "
       "0'/></body>"
       "</worldbody><equality><weld body1='hand' body2='box'/><connect body1='box' body2='ball' anchor='0 0 .1'/>"
       "</equality></mujoco>"},
      {"contacts and quaternions",
       "<mujoco><option cone='elliptic'/><worldbody><geom type='plane' size='2 2 .1'/>"
       "<body pos='0 0 .3'><freejoint/><geom type='box' size='.1 .15 .2'/>"
       "<body pos='0 0 .2'><joint name='arm' type='hinge' axis='1 0 0'/>"
       "<geom type='capsule' size='.04' fromto='0 0 .1 0 .3 .1'/></body></body></worldbody>"
       "<actuator><motor name='motor' joint='arm' gear='5'/></actuator>"
       "<sensor><jointpos joint='arm'/></sensor></mujoco>"},
      {"sleep",
       "<mujoco><option><flag sleep='enable'/></option><worldbody><geom type='plane' size='2 2 .1'/>"
       "<body pos='0 0 .1'><freejoint/><geom size='.1'/></body>"
       "<body pos='1 0 .1'><joint name='slide' type='slide' axis='1 0 0'/><geom size='.05'/></body></worldbody>"
       "<actuator><motor joint='slide'/></actuator></mujoco>"},
  };
}

// everything that the context can hold is set to something: velocities, forces, mocap, one equality off
inline DataPtr StartData(const mjModel* m) {
  DataPtr d = MakeData(m);
  for (int i = 0; i < m->nv; ++i) d->qvel[i] = 0.3 * std::sin(1 + i);
  for (int i = 0; i < m->nv; ++i) d->qfrc_applied[i] = 0.05 * std::cos(i);
  for (int i = 0; i < m->na; ++i) d->act[i] = 0.1;
  if (m->nmocap > 0) d->mocap_pos[0] = 0.2;
  if (m->neq > 1) d->eq_active[1] = 0;
  if (m->nbody > 1) d->xfrc_applied[6 + 2] = 0.1;
  d->time = 0.5;
  for (int i = 0; i < m->nv; ++i) d->qacc_warmstart[i] = 0.01 * i;
  return d;
}

// within [-0.8, 0.8], different for each actuator
inline MatrixXd WavyControls(const mjModel* m, int N) {
  MatrixXd U(m->nu, N);
  for (int t = 0; t < N; ++t) {
    for (int i = 0; i < m->nu; ++i) U(i, t) = 0.8 * std::sin(0.15 * t + i);
  }
  return U;
}

// waves about the controls of `data`
inline MatrixXd ControlsAbout(const mjModel* m, const mjData* data, int N, double amplitude) {
  MatrixXd U(m->nu, N);
  for (int t = 0; t < N; ++t) {
    for (int i = 0; i < m->nu; ++i) U(i, t) = data->ctrl[i] + amplitude * std::sin(0.3 * t + i);
  }
  return U;
}

// the motion from the start under wavy controls, and what made it
struct WavyMotion {
  WavyMotion(const std::string& xml, int N, int threads = 1)
      : model(LoadModelFromString(xml)),
        start(StartData(model.get())),
        simulator(model.get(), GetContext(model.get(), start.get()), 1, threads),
        dims(simulator.dims()) {
    if (!simulator.Rollout(GetState(model.get(), start.get()), WavyControls(model.get(), N), &trajectory).ok())
      throw std::runtime_error("a step failed");
  }

  ModelPtr model;
  DataPtr start;
  Simulator simulator;
  Dims dims;
  Trajectory trajectory;
};

using support::BitwiseEqual;

inline bool BitwiseEqual(const Trajectory& a, const Trajectory& b) {
  return BitwiseEqual(a.X, b.X) && BitwiseEqual(a.U, b.U) && BitwiseEqual(a.S, b.S) && BitwiseEqual(a.time, b.time) &&
         BitwiseEqual(a.context, b.context);
}

}  // namespace costate

#endif  // COSTATE_TESTS_ROLLOUT_MODELS_H_
