// Fields to numbers of mjModel and back. Section 1 of README.md.
#include <Eigen/Eigenvalues>
#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "parameter/parameter_set.h"

namespace costate {
namespace {

using Matrix3 = Eigen::Matrix3d;
using Vector3 = Eigen::Vector3d;

constexpr double kSoftNudge = 1e-4;         // of the size: five points leave its fourth power, rounding 1e-12
constexpr double kGeometricNudge = 1.5e-6;  // contacts bend within fractions of a millimetre
constexpr double kRotationNudge = 2.5e-6;   // half of it enters the quaternion

Matrix3 Rotation(const mjtNum* quat) {
  Eigen::Matrix<double, 3, 3, Eigen::RowMajor> R;
  mju_quat2Mat(R.data(), quat);
  return R;
}

constexpr double kEqualMoments = 1e-12;  // of the largest moment: those of a capsule differ by their rounding

bool AreEqual(const mjtNum* moments, int i, int j) {
  return std::abs(moments[i] - moments[j]) <= kEqualMoments * std::max({moments[0], moments[1], moments[2]});
}

// where moments are equal their axes are free in the plane, or in space: those nearest to a given frame
void TurnEqualAxes(const Matrix3& near, const mjtNum* moments, Matrix3* axes) {
  if (AreEqual(moments, 0, 1) && AreEqual(moments, 1, 2) && AreEqual(moments, 2, 0)) {
    *axes = near;
    return;
  }
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3;
    if (!AreEqual(moments, i, j)) continue;
    const int k = 3 - i - j;
    if (axes->col(k).dot(near.col(k)) < 0) {
      axes->col(k) *= -1;
      axes->col(i) *= -1;
    }
    const Vector3 a = axes->col(i), b = axes->col(j);
    const double angle = std::atan2(b.dot(near.col(i)) - a.dot(near.col(j)), a.dot(near.col(i)) + b.dot(near.col(j)));
    axes->col(i) = std::cos(angle) * a + std::sin(angle) * b;
    axes->col(j) = std::cos(angle) * b - std::sin(angle) * a;
  }
}

// moments and axes of an inertia; of the axes that it has, those nearest to a given frame
void PrincipalAxes(const Matrix3& inertia, const Matrix3& near, mjtNum* moments, mjtNum* quat) {
  const Eigen::SelfAdjointEigenSolver<Matrix3> solver(inertia);
  const Matrix3 overlap = solver.eigenvectors().transpose() * near;
  int order[3] = {0, 1, 2}, best[3] = {0, 1, 2};
  double largest = -1;
  do {
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += std::abs(overlap(order[k], k));
    if (sum > largest) {
      largest = sum;
      std::copy(order, order + 3, best);
    }
  } while (std::next_permutation(order, order + 3));
  Matrix3 axes;
  for (int k = 0; k < 3; k++) {
    axes.col(k) = solver.eigenvectors().col(best[k]) * (overlap(best[k], k) < 0 ? -1 : 1);
    moments[k] = solver.eigenvalues()[best[k]];
  }
  if (axes.determinant() < 0) axes.col(2) *= -1;
  TurnEqualAxes(near, moments, &axes);
  const Eigen::Matrix<double, 3, 3, Eigen::RowMajor> R = axes;
  mju_mat2Quat(quat, R.data());
}

RigidInertia BodyInertia(const mjModel* m, int body) {
  const Matrix3 R = Rotation(m->body_iquat + 4 * body);
  RigidInertia inertia;
  inertia.mass = m->body_mass[body];
  inertia.com = Eigen::Map<const Vector3>(m->body_ipos + 3 * body);
  inertia.inertia = R * Eigen::Map<const Vector3>(m->body_inertia + 3 * body).asDiagonal() * R.transpose();
  return inertia;
}

bool IsPositionServo(const mjModel* m, int i) {
  const mjtNum *gain = m->actuator_gainprm + mjNGAIN * i, *bias = m->actuator_biasprm + mjNBIAS * i;
  return m->actuator_gaintype[i] == mjGAIN_FIXED && m->actuator_biastype[i] == mjBIAS_AFFINE && gain[0] == -bias[1] &&
         gain[0] != 0;
}
bool IsVelocityServo(const mjModel* m, int i) {
  const mjtNum *gain = m->actuator_gainprm + mjNGAIN * i, *bias = m->actuator_biasprm + mjNBIAS * i;
  return m->actuator_gaintype[i] == mjGAIN_FIXED && m->actuator_biastype[i] == mjBIAS_AFFINE && bias[1] == 0 &&
         gain[0] == -bias[2];
}

[[noreturn]] void NotOfThisForm(const mjModel* m, const Field& field, int id, const std::string& why) {
  const std::string name = FullName(m, field, id, 0);
  throw Error(ErrorCode::kInvalidArgument, "'" + name.substr(0, name.find('[')) + "': " + why);
}

// typical magnitude; a joint's armature and damping count by what they add to M and M / h
double Size(const mjModel* m, const Field& field, int id, int index) {
  const std::string array = field.array;
  const bool armature = array == "dof_armature", damping = array == "dof_damping";
  if (!armature && !damping) return field.size;
  return std::max(m->dof_M0[m->jnt_dofadr[id] + index], mjMINVAL) / (armature ? 1 : m->opt.timestep);
}

bool BeginsWith(const std::string& field, const std::string& name) {
  return field.starts_with(name) || field.starts_with("o_" + name);  // of geoms, joints …; of the override
}

// what mj_makeImpedance and the check of references make of a number
void DescribeClamp(const mjModel* m, const std::string& field, int index, double value, Parameter* p) {
  p->clamp_lower = -kInf;
  p->clamp_upper = kInf;
  if (field == "friction" || field == "o_friction") p->clamp_lower = mjMINMU;
  const bool time_constant = BeginsWith(field, "solref") && index == 0 && value > 0;  // else it is a stiffness
  if (time_constant && !(m->opt.disableflags & mjDSBL_REFSAFE)) p->clamp_lower = 2 * m->opt.timestep;
  if (!BeginsWith(field, "solimp")) return;
  if (index == 4) p->clamp_lower = 1;
  if (index == 2 || index == 4) return;
  p->clamp_lower = mjMINIMP;
  p->clamp_upper = mjMAXIMP;
}

}  // namespace

VectorXd ReadField(const mjModel* m, const Field& field, int id) {
  const int n = field.count(m, id);
  switch (field.writer) {
    case Writer::kRotation: return VectorXd::Zero(3);
    case Writer::kScale: return VectorXd::Ones(1);
    case Writer::kLogCholesky: try { return LogCholesky(BodyInertia(m, id));
      } catch (const Error& error) {
        NotOfThisForm(m, field, id, std::string(error.what()) + " (mass, ipos and diaginertia remain)");
      }
    case Writer::kPosition:
      if (IsPositionServo(m, id)) break;
      NotOfThisForm(m, field, id,
                    "the actuator is no position servo (gainprm[0] = −biasprm[1]); use gainprm and biasprm");
    case Writer::kVelocity:
      if (!IsPositionServo(m, id) && !IsVelocityServo(m, id)) {
        NotOfThisForm(m, field, id, "the actuator is no position or velocity servo; use gainprm and biasprm");
      }
      return VectorXd::Constant(1, -m->actuator_biasprm[mjNBIAS * id + 2]);
    case Writer::kMuscle:
      if (*field.at(m, id) > 0 && *field.at(m, id) == m->actuator_biasprm[mjNBIAS * id + 2]) break;
      NotOfThisForm(m, field, id,
                    "the muscle has no peak force of its own (scale makes one, gainprm[3] and biasprm[3]), or not the "
                    "same in gain and bias: use gainprm and biasprm");
    default: break;
  }
  return Eigen::Map<const VectorXd>(field.at(m, id), n);
}

void WriteField(const mjModel* given, const ParameterBlock& block, mjModel* m) {
  const Field& field = *block.field;
  const int id = block.id;
  mjtNum* at = field.at(m, id);
  switch (field.writer) {
    case Writer::kPlain:
      for (int i = 0; i < block.value.size(); i++) {
        if (block.value[i] != block.given[i]) at[i] = block.value[i];
      }
      return;
    case Writer::kAxis:
      mju_copy3(at, block.value.data());
      mju_normalize3(at);
      return;
    case Writer::kRotation: {
      mju_copy4(at, field.at(given, id));
      mju_quatIntegrate(at, block.value.data(), 1);
      mju_normalize4(at);
      return;
    }
    case Writer::kScale:
      m->body_mass[id] *= block.value[0];
      mju_scl3(m->body_inertia + 3 * id, m->body_inertia + 3 * id, block.value[0]);
      return;
    case Writer::kLogCholesky: {
      const RigidInertia body = FromLogCholesky(block.value);
      m->body_mass[id] = body.mass;
      mju_copy3(m->body_ipos + 3 * id, body.com.data());
      PrincipalAxes(body.inertia, Rotation(given->body_iquat + 4 * id), m->body_inertia + 3 * id,
                    m->body_iquat + 4 * id);
      return;
    }
    case Writer::kPosition:
      m->actuator_gainprm[mjNGAIN * id] = block.value[0];
      m->actuator_biasprm[mjNBIAS * id + 1] = -block.value[0];
      return;
    case Writer::kVelocity:
      if (IsVelocityServo(given, id)) m->actuator_gainprm[mjNGAIN * id] = block.value[0];
      m->actuator_biasprm[mjNBIAS * id + 2] = -block.value[0];
      return;
    case Writer::kMuscle: *at = m->actuator_biasprm[mjNBIAS * id + 2] = block.value[0]; return;
  }
}

std::vector<std::string> Writes(const mjModel* m, const Field& field, int id, int index) {
  const auto number = [m](const mjtNum* at) {
    return std::to_string(reinterpret_cast<const char*>(at) - static_cast<const char*>(m->buffer));
  };
  std::vector<std::string> all;
  switch (field.writer) {
    case Writer::kLogCholesky:
      for (int i = 0; i < 3; i++) all.push_back(number(m->body_ipos + 3 * id + i));
      [[fallthrough]];
    case Writer::kScale:
      all.push_back(number(m->body_mass + id));
      for (int i = 0; i < 3; i++) all.push_back(number(m->body_inertia + 3 * id + i));
      return all;
    case Writer::kPosition:
      return {number(m->actuator_gainprm + mjNGAIN * id), number(m->actuator_biasprm + mjNBIAS * id + 1)};
    case Writer::kMuscle: return {number(field.at(m, id)), number(m->actuator_biasprm + mjNBIAS * id + 2)};
    case Writer::kVelocity:
      all.push_back(number(m->actuator_biasprm + mjNBIAS * id + 2));
      if (IsVelocityServo(m, id)) all.push_back(number(m->actuator_gainprm + mjNGAIN * id));
      return all;
    default: break;
  }
  if (field.array[0] == '\0') return {std::string(field.name) + "#" + std::to_string(index)};
  return {number(field.at(m, id) + index)};
}

bool TurnsFreeAxes(const mjModel* m, const Field& field, int id, int index) {
  const mjtNum* moments = m->body_inertia + 3 * id;
  return field.writer == Writer::kLogCholesky && index >= 1 && index <= 6 &&
         (AreEqual(moments, 0, 1) || AreEqual(moments, 1, 2) || AreEqual(moments, 2, 0));
}

Parameter Describe(const mjModel* m, const Field& field, int id, int index, const VectorXd& values) {
  Parameter p;
  p.name = FullName(m, field, id, index);
  p.unit = Unit(m, field, id, index);
  p.value = values[index];
  p.lower = SwitchesState(m, field, id, index) || IsPeakForce(m, field, id, index) ? mjMINVAL : field.lower;
  p.upper = field.upper;
  DescribeAt(m, field, id, index, p.value, &p);
  p.derived = IsDerivedFrom(field.array);
  p.note = Note(m, field, id);
  return p;
}

void DescribeAt(const mjModel* m, const Field& field, int id, int index, double value, Parameter* p) {
  const std::string name = field.name;
  if (field.writer == Writer::kRotation) p->nudge = kRotationNudge;
  else if (field.nudge == Nudge::kGeometric) p->nudge = kGeometricNudge;
  else p->nudge = kSoftNudge * std::max(std::abs(value), Size(m, field, id, index));
  const bool impedance = BeginsWith(name, "solimp") && index < 2;  // at fixed acceleration forces go as 1/(1 - d)
  if (impedance) p->nudge = kSoftNudge * std::clamp(1 - value, 1 - mjMAXIMP, 1.0);
  DescribeClamp(m, name, index, value, p);
  p->one_sided = name == "frictionloss" && value == 0;
}

}  // namespace costate
