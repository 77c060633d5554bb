// Which branch each switch of a step took: two points with the same switch set lie on one smooth piece of the step.
#ifndef COSTATE_DERIVATIVE_SWITCH_SET_H_
#define COSTATE_DERIVATIVE_SWITCH_SET_H_

#include <costate/types.h>
#include <mujoco/mujoco.h>

#include <array>
#include <cstdint>
#include <vector>

#include "derivative/flex_element.h"
#include "derivative/passive.h"
#include "derivative/sensor_contact.h"

namespace costate {

/// Of each force of actuators, joints and tendons that has limits: -1 at or beyond the lower one, 1 the upper one, 0
/// between. @param act  activations (na) of that point. @param beyond  those at a limit are between, too. @pre `data`
/// is after mj_fwdActuation.
void ForceZones(const mjModel* model, const mjData* data, const mjtNum* act, bool beyond,
                std::vector<signed char>* zones);

/// A fingerprint of the switches of one or more engine steps, kind by kind. Features inside one contact (which edge of
/// a box touches) are not seen; they show as step sizes that disagree.
class SwitchSet {
 public:
  enum Kind {
    kContacts,
    kConstraints,
    kStates,
    kForceLimits,
    kTendonPaths,
    kMuscles,
    kIntegrals,
    kServos,
    kYield,
    kFlexTensions,
    kSensorCutoffs,
    kKinds
  };

  void Clear() {
    hash_.fill(14695981039346656037u);
    axes_.clear();
    leans_.clear();
    turns_.clear();
    directions_.clear();
    choices_.clear();
    tensions_.clear();
    places_.clear();
    notes_ = 0;
    on_onset_ = false;
  }

  /// One mj_step with the switches of all that it evaluates, under RK4 of every stage.
  void Step(const mjModel* model, mjData* data);

  /// mj_forward with its switches.
  void Forward(const mjModel* model, mjData* data);

  /// After mj_forward or mj_step. Recomputes efc_state, efc_force and qfrc_constraint of `data` at the solution: what
  /// the engine leaves in efc_state is not that of the solution.
  void Note(const mjModel* model, mjData* data);

  /// Name of the first kind that differs, of those before `end`; null when none does.
  const char* DifferenceFrom(const SwitchSet& other, Kind end = kKinds) const;

  /// Did a sensor that chooses among contacts choose the same ones?
  bool SameChoice(const SwitchSet& other, int sensor) const;

  /// Was some contact's distance its margin to rounding? Then rounding decides whether it exists.
  bool on_onset() const { return on_onset_; }

 private:
  struct Place {
    Eigen::Vector3d at;
    std::array<int, 3> group;  // which note, which geoms
  };

  static bool Swings(const std::vector<Eigen::Vector3d>& a, const std::vector<Eigen::Vector3d>& b);
  static bool SameTurns(const std::vector<signed char>& a, const std::vector<signed char>& b);
  static bool Turned(const std::vector<FlexTension>& a, const std::vector<FlexTension>& b);
  static bool Reordered(const std::vector<Place>& a, const std::vector<Place>& b);
  void Add(Kind kind, int value);
  void Before(const mjModel* model, mjData* data);
  void Stages(const mjModel* model, mjData* data);
  void NoteConstraints(const mjModel* model, mjData* data);
  void NoteLean(const mjModel* model, const mjData* data, const mjContact& contact);
  void NoteStates(const mjModel* model, mjData* data);
  void NoteNoslip(const mjData* data);
  void NoteActuators(const mjModel* model, const mjData* data);
  void NoteTendons(const mjModel* model, const mjData* data);
  void NoteFlexes(const mjModel* model, const mjData* data);
  void NoteSensors(const mjModel* model, const mjData* data);

  std::array<std::uint64_t, kKinds> hash_{};
  VectorXd residual_, plastic_, act_;
  std::vector<char> yields_;                       // of plastic_
  VectorXd point_, q0_, v0_, act0_, rate_, turn_;  // of the stages of RK4
  std::vector<Eigen::Vector3d> axes_;              // of the limits of ball joints
  std::vector<Eigen::Vector3d> leans_;             // of cylinders on planes
  std::vector<signed char> turns_;                 // of muscles: 1 where activation rises, -1 where it falls
  std::vector<signed char> directions_;            // of motors' friction
  std::vector<std::array<int, 2>> choices_;        // sensors and the contacts that they chose
  std::vector<FlexTension> tensions_;              // of the edges of flexes' elements, note after note
  std::vector<Place> places_;                      // of contacts with friction, in the order of a noslip pass
  int notes_ = 0;
  std::vector<FlexTension> noted_;
  std::vector<MatchedContact> matched_;
  std::vector<signed char> forces_;
  bool on_onset_ = false;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SWITCH_SET_H_
