// One walk about a point past all switches of a step. Where a row switches: section 2 of README.md.
#ifndef COSTATE_DERIVATIVE_CERTIFIER_H_
#define COSTATE_DERIVATIVE_CERTIFIER_H_

#include <costate/certificate.h>
#include <costate/model.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/joint.h"
#include "derivative/onset.h"

namespace costate {

/// Fills a certificate's switches, what is one-sided and the label, from data behind a converged mj_forward.
class Certifier {
 public:
  Certifier(const mjModel* model, mjData* data, const CertifyOptions& options)
      : m_(model), d_(data), options_(options) {}

  void Run(Certificate* out);

 private:
  void Add(std::string name, std::string state, std::string next, double distance, std::string unit, bool active) {
    out_->switches.push_back(
        {std::move(name), std::move(state), std::move(next), std::max(0.0, distance), std::move(unit), active});
  }
  void OneSided(const std::string& name) {
    std::vector<std::string>& names = out_->one_sided;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string Name(const char* what, int type, int id) const {
    return std::string(what) + " of " + ElementName(m_, type, id);
  }
  const char* DofUnit(int dof) const {
    const int joint = m_->dof_jntid[dof], type = m_->jnt_type[joint];
    const bool turns = type == mjJNT_HINGE || dof - m_->jnt_dofadr[joint] >= JointLinearDofs(type);
    return turns ? "rad" : "m";
  }
  const char* Unit(int joint) const { return m_->jnt_type[joint] == mjJNT_SLIDE ? "m" : "rad"; }
  static std::pair<int, int> Objects(const mjContact& contact) {
    return {ContactObject(contact, 0), ContactObject(contact, 1)};
  }
  std::string ObjectName(int object) const {
    return object >= 0 ? ElementName(m_, mjOBJ_GEOM, object) : ElementName(m_, mjOBJ_FLEX, -1 - object);
  }
  std::string ContactName(const std::pair<int, int>& objects) const {
    return "contact of " + ObjectName(objects.first) + " and " + ObjectName(objects.second);
  }

  // of rows, states, tendons, flexes and neighbours (certificate.cc)
  void Rows();
  void Magnitudes();
  void Impedances();
  std::string RowName(int row) const;
  void Limits();
  void Springs();
  void Direction(const std::string& name, double velocity, const std::string& unit);
  void Dampers();
  void Reversals();
  void MetricGains();
  void Cutoffs();
  void Neighbours();
  void Tendons();
  void Flexes();
  void Rods();

  // of contacts (certificate_contact.cc)
  void Contacts();
  double TiltOfUpright(const mjContact& contact) const;
  void Pulls();
  bool IsPartOfForces(int contact) const;
  void Jumps();
  std::vector<char> ReadContacts() const;
  void Facets();
  void Searches();
  void Noslip();
  void ContactSensors();
  void NearGeoms();

  // of controls, activations and forces (certificate_actuator.cc)
  void Clamp(const std::string& name, double value, const mjtNum* range, const char* unit);
  void Forces();
  void Torque(int i);
  DataPtr Beyond(mjtBool* mjModel::*limits, int n) const;
  void Saturation(const std::string& name, double force, double beyond, const mjtNum* range);
  void Inputs();
  void Integral(int i);
  void Bristles();
  void Turn(const std::string& name, double angle);
  void Lengths();
  void Muscle(int i, const std::vector<std::string>& controls);

  const mjModel* m_;
  mjData* d_;
  const CertifyOptions& options_;
  Certificate* out_ = nullptr;
  VectorXd y_;                // J a − aref
  std::vector<char> pulled_;  // contacts
  std::set<std::pair<int, int>> touching_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CERTIFIER_H_
