// Prints a robot's numbers and Costate's derivatives of its acceleration at random states, as JSON: what
// smooth_jacobians.py compares with Pinocchio. Linked to formulas with plants it can make one wrong by one per cent.
//   smooth_jacobians MODEL.xml STATES [PLANT]
#include <costate/derivative.h>
#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/engine_guard.h"
#include "derivative/plant.h"
#include "support/random_state.h"

namespace costate {
namespace {

using nlohmann::json;

constexpr double kPlant = 1.01;

json Rows(const MatrixXd& m) {
  json rows = json::array();
  for (Eigen::Index i = 0; i < m.rows(); i++) rows.push_back(std::vector<double>(m.row(i).begin(), m.row(i).end()));
  return rows;
}

json Row(const mjtNum* x, int n) { return std::vector<double>(x, x + n); }

// bodies with their inertias and joints, in the engine's order
json Robot(const mjModel* m) {
  json bodies = json::array();
  for (int b = 1; b < m->nbody; b++) {
    json joints = json::array();
    for (int j = m->body_jntadr[b]; j < m->body_jntadr[b] + m->body_jntnum[b]; j++) {
      const int dof = m->jnt_dofadr[j], type = m->jnt_type[j];
      joints.push_back({{"type", type == mjJNT_FREE    ? "free"
                                 : type == mjJNT_BALL  ? "ball"
                                 : type == mjJNT_SLIDE ? "slide"
                                                       : "hinge"},
                        {"pos", Row(m->jnt_pos + 3 * j, 3)},
                        {"axis", Row(m->jnt_axis + 3 * j, 3)},
                        {"q", m->jnt_qposadr[j]},
                        {"v", dof},
                        {"qpos0", m->qpos0[m->jnt_qposadr[j]]},
                        {"armature", m->dof_armature[dof]}});
    }
    bodies.push_back({{"parent", m->body_parentid[b]},
                      {"pos", Row(m->body_pos + 3 * b, 3)},
                      {"quat", Row(m->body_quat + 4 * b, 4)},
                      {"mass", m->body_mass[b]},
                      {"ipos", Row(m->body_ipos + 3 * b, 3)},
                      {"iquat", Row(m->body_iquat + 4 * b, 4)},
                      {"inertia", Row(m->body_inertia + 3 * b, 3)},
                      {"joints", joints}});
  }
  return {{"gravity", Row(m->opt.gravity, 3)}, {"bodies", bodies}};
}

// about a random state under a random applied force
json Point(const mjModel* m, unsigned seed) {
  const Dims dims(m);
  const DataPtr data = MakeData(m);
  const VectorXd x = support::RandomState(m, seed, {.position = 1.2, .velocity = 2});
  const VectorXd force = support::Random(seed + 100).Vector(dims.nv, 3);
  mju_copy(data->qfrc_applied, force.data(), dims.nv);
  Linearizer linearizer(m);
  linearizer.SetContext(GetContext(m, data.get()));
  AccelerationDerivative d;
  linearizer.LinearizeAcceleration(x, VectorXd::Zero(dims.nu), &d);
  for (const TermCoverage& term : d.coverage.terms) {
    if (term.level != Level::kAnalytic)
      throw Error(ErrorCode::kUnsupported, term.term + " is not analytic: " + term.reason);
  }
  return {{"qpos", Row(x.data(), dims.nq)},
          {"qvel", Row(x.data() + dims.nq, dims.nv)},
          {"force", Row(force.data(), dims.nv)},
          {"qacc", Row(d.qacc.data(), dims.nv)},
          {"by q", Rows(d.x.leftCols(dims.nv))},
          {"by v", Rows(d.x.middleCols(dims.nv, dims.nv))},
          {"by force", Rows(d.force)}};
}

void SetPlant(const std::string& name) {
  const auto plant = Plants().find(name);
  if (plant == Plants().end()) throw Error(ErrorCode::kInvalidArgument, "there is no plant '" + name + "'");
  plant->second = kPlant;
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: smooth_jacobians MODEL.xml STATES [PLANT]\n");
    return 2;
  }
  if (argc > 3) SetPlant(argv[3]);
  const ModelPtr model = LoadModel(argv[1]);
  json points = json::array();
  for (int k = 0; k < std::atoi(argv[2]); k++) points.push_back(Point(model.get(), k + 1));
  fmt::print("{}\n", json{{"robot", Robot(model.get())}, {"points", points}}.dump());
  return 0;
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  try {
    return costate::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
