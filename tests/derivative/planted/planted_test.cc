// Each formula of the derivative made wrong by one per cent, one at a time: the comparison with the reference must
// notice every one, and nothing where nothing is wrong. Linked to the derivative's sources compiled with
// COSTATE_PLANTS.
#include <costate/derivative_check.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "derivative/analytic.h"
#include "derivative/crossed_boxes.h"
#include "derivative/flex_scene.h"
#include "derivative/metric_scene.h"
#include "derivative/noslip_scene.h"
#include "derivative/plant.h"
#include "derivative/planted/scenes.h"
#include "derivative/yielding_scene.h"
#include "support/engine_test.h"
#include "support/random_state.h"

namespace costate {
namespace {

using planted::Scene;

constexpr double kTolerance = 1e-7;  // of a block's largest entry: the accuracy that is promised

std::vector<Scene> Scenes() {
  std::vector<Scene> scenes;
  const auto add = [&](Scene scene) { scenes.push_back(std::move(scene)); };

  // every integrator and cone in contact, with forces applied
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    for (int cone : {mjCONE_ELLIPTIC, mjCONE_PYRAMIDAL}) {
      add({"many terms " + std::to_string(integrator) + std::to_string(cone), "", 3, 60, 0, 0, false, [=](mjModel* m) {
             m->opt.integrator = integrator;
             m->opt.cone = cone;
           }});
    }
  }
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    add({"springs", planted::kSprings, 1, 0, 0.4, 2, false, [=](mjModel* m) {
           m->opt.integrator = integrator;
           planted::PolynomialSprings(m);
         }});
    add({"thrusters", planted::kThrusters, 8, 0, 0.4, 2, false, [=](mjModel* m) { m->opt.integrator = integrator; }});
  }
  for (unsigned seed = 1; seed < 13; seed++) {
    add({"muscles", planted::kMuscles, seed, 0, 1.2, 8, false, [=](mjModel* m) {
           if (seed % 2) m->opt.integrator = mjINT_IMPLICITFAST;
         }});
  }
  add({"free bodies", planted::kFree, 2, 0, 0.4, 6});
  for (int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    add({"fluid", planted::kFluid, 4, 0, 0.8, 2, false, [=](mjModel* m) { m->opt.integrator = integrator; }});
  }
  add({"rows", planted::kRows, 2, 0, 0.4, 2});
  for (const char* equality : {"<connect body1='b' body2='c' anchor='0.1 0.2 0' solimp='.5 .95 2'/>",
                               "<weld body1='c' body2='e' torquescale='0.3' solimp='.5 .95 2'/>",
                               "<weld site1='s1' site2='s2'/>", "<weld body1='a' body2='b'/>"}) {
    std::string xml = planted::kEquality;
    add({"equality", xml.replace(xml.find('%'), 1, equality), 11, 0, 0.4, 2});
  }

  // contacts of every closed pair and of a differenced one
  for (const auto& [cone, condim] : {std::pair{"pyramidal", 3}, std::pair{"elliptic", 6}, std::pair{"elliptic", 3}}) {
    for (const planted::Pair& pair : planted::kPairs)
      add({"touching", planted::Touching(pair, cone, condim), 5, 0, 0, 0.2, true});
  }
  add({"concentric", planted::kChain, 3, 0, 0, 3});
  add({"free body that touches", planted::Touching(planted::kPairs[5], "elliptic", 3), 5, 0, 0, 0.5, true,
       [](mjModel* m) { m->opt.integrator = mjINT_IMPLICITFAST; }});
  add({"adhesion", planted::Touching(planted::kPairs[0], "elliptic", 3), 5, 0, 0, 0.2, true, [](mjModel* m) {
         m->flg_adhesion = 1;
         std::fill_n(m->geom_adhesion, m->ngeom, 2.0);
       }});
  add({"adhesion of curved geoms", planted::Touching(planted::kPairs[7], "elliptic", 3), 5, 0, 0, 0.2, true,
       [](mjModel* m) {
         m->flg_adhesion = 1;
         std::fill_n(m->geom_adhesion, m->ngeom, 20.0);
       }});

  for (unsigned seed = 1; seed <= 6; seed++)
    add({"crossed boxes", CrossedBoxes("elliptic", seed, 1), seed, 0, 0, 0.05, true});

  // behind a noslip pass: boxes and balls pushed over a plane, dry joints and tendons, some rows sticking and some
  // sliding
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (int condim : {3, 6}) {
      for (int sweeps : {1, 3}) {
        add({"noslip", Pushing(cone, condim), 1, 30, 0, 0, false, [=](mjModel* m) {
               m->opt.noslip_iterations = sweeps;
               for (int g = 0; g < m->ngeom; g++) m->geom_solimp[mjNIMP * g] = 0.4;
             }});
      }
    }
  }
  for (unsigned seed : {1u, 2u}) {
    add({"noslip along tendons", TendonModel("frictionloss='0.3'"), seed, 0, 0.4, 0.01, false,
         [](mjModel* m) { m->opt.noslip_iterations = 3; }});
  }

  // in the discrete integrator's metric
  for (const auto& [cone, condim] : {std::pair{"pyramidal", 4}, std::pair{"elliptic", 3}}) {
    for (const double timestep : {0.004, 0.03}) {
      for (unsigned seed : {1u, 2u, 3u}) {
        add({"metric", MetricScene(cone, condim), seed, 0, 0.12, 1, false,
             [=](mjModel* m) { m->opt.timestep = timestep; }});
      }
    }
  }

  for (unsigned seed : {1u, 2u, 3u}) add({"moving gains", GainScene("elliptic", 3), seed, 0, 0.12, 1, false});
  for (unsigned seed : {1u, 2u}) add({"loop", LoopScene(), seed, 0, 0.12, 1, false});
  add({"flight", FlightScene("pyramidal"), 1, 0, 0.02, 3});
  add({"in a fluid", InFluid(MetricScene("pyramidal", 3), true), 1, 0, 0.12, 1, false});

  // elasticity, edges and their rows, vertices on a plane
  for (const char* integrator : {"Euler", "discrete"}) {
    for (const auto& [cone, condim] : {std::pair{"pyramidal", 3}, std::pair{"elliptic", 4}})
      add({"flex", FlexScene(integrator, cone, condim), 1, 0, 0.008, 0.3});
    add({"draped", DrapedScene(integrator, "elliptic", 6), 1, 60});
  }

  // the ends of two capsules in one point, where their contact has no direction of its own
  add({"coincident",
       R"(<mujoco><default><geom type="capsule" size=".01"/><joint type="ball" damping=".005"/></default><worldbody>
    <body><geom fromto="0 0 0 0 0 .1"/><body pos="0 0 .1"><geom fromto="0 0 0 0 .1 .1"/><joint/></body></body></worldbody></mujoco>)",
       1, 0, 0, 0});

  for (unsigned seed : {1u, 2u, 3u}) add({"yielding contacts", kYieldingHeap, seed, 0, 0.03, 3});
  for (unsigned seed : {1u, 2u, 3u}) add({"yielding shapes", kYieldingShapes, seed, 0, 0.03, 3});

  // moments that move
  const std::string tendon = "stiffness='30' damping='0.4' springlength='0.1 0.3'";
  for (unsigned seed : {1u, 2u}) {
    for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST}) {
      const auto change = [=](mjModel* m) {
        m->opt.integrator = integrator;
        std::fill_n(m->tendon_stiffnesspoly, m->ntendon * mjNPOLY, 3.0);
        std::fill_n(m->tendon_dampingpoly, m->ntendon * mjNPOLY, 0.3);
      };
      add({"tendon springs", TendonModel(tendon), seed, 0, 0.4, 2, false, change});
      const auto set = [=](mjModel* m) { m->opt.integrator = integrator; };
      add({"tendon actuators", TendonModel("", kTendonActuators), seed, 0, 0.4, 2, false, set});
      add({"transmissions", TendonModel("", kTransmissions), seed + 2, 0, 0.4, 2, false, set});
      add({"tendon limits", TendonModel("actuatorfrclimited='true' actuatorfrcrange='-1 1.5'", planted::kTendonLimits),
           seed, 0, 0.4, 2, false, set});
      add({"tendon rows", TendonModel("limited='true' range='0.35 0.36' frictionloss='0.3'", planted::kTendonRows),
           seed, 0, 0.4, 2, false, set});
    }
  }
  return scenes;
}

// a scene, the reference about its state, and products of the reference with one covector and one direction
struct Point {
  Scene scene;
  ModelPtr model;
  DataPtr data;
  ReferenceDerivative reference;
  VectorXd lambda, pulled, pulled_allowed, direction, pushed, pushed_allowed;

  explicit Point(const Scene& s) : scene(s) {
    model = scene.xml.empty() ? LoadModel(COSTATE_TESTDATA "/many_terms.xml") : LoadModelFromString(scene.xml);
    mjModel* m = model.get();
    if (scene.change) scene.change(m);
    data = MakeData(m);
    mjData* d = data.get();
    if (scene.steps == 0 && !scene.placed) {
      SetState(m, d,
               support::RandomState(m, scene.seed,
                                    {.position = scene.position, .velocity = scene.velocity, .inside_limits = false}));
    }
    const VectorXd u = support::RandomControl(m, scene.seed);
    mju_copy(d->ctrl, u.data(), static_cast<int>(m->nu));
    for (int k = 0; k < scene.steps; k++) mj_step(m, d);
    support::Random random(scene.seed);
    for (int i = 0; i < m->nv && scene.placed; i++) d->qvel[i] = random.Uniform(-scene.velocity, scene.velocity);
    for (int k = 6; k < 6 * m->nbody; k++) d->xfrc_applied[k] = 0.3 * std::sin(k);

    if (scene.placed) {
      // down until the geoms are a millimetre deep in each other
      const auto deep = [&] {
        mj_forward(m, d);
        return std::any_of(d->contact, d->contact + d->ncon,
                           [](const mjContact& contact) { return contact.dist < -1e-3; });
      };
      for (int k = 0; k < 400 && !deep(); k++) d->qpos[2] -= 5e-4;
      EXPECT_TRUE(deep()) << "nothing touches in " << scene.xml;
    }
    reference = Reference(m, d, {.sensors = false});
    const MatrixXd &A = reference.value.A, &B = reference.value.B;
    lambda = random.Vector(static_cast<int>(A.rows()));
    direction = random.Vector(static_cast<int>(A.cols() + B.cols()));
    MatrixXd both(A.rows(), A.cols() + B.cols()), bar = both;
    both << A, B;
    bar << reference.A_error, reference.B_error;
    for (Eigen::Index c = 0; c < both.cols(); c++) {
      if (!reference.nonsmooth_column[c]) continue;
      both.col(c).setZero();
      bar.col(c).setZero();
      direction[c] = 0;
    }
    pulled = both.transpose() * lambda;
    pushed = both * direction;
    pulled_allowed = 3 * bar.transpose() * lambda.cwiseAbs();
    pushed_allowed = 3 * bar * direction.cwiseAbs();
  }

  static bool Far(const VectorXd& value, const VectorXd& reference, const VectorXd& allowed) {
    const double scale = reference.lpNorm<Eigen::Infinity>();
    return !(((value - reference).cwiseAbs() - allowed).array() <= kTolerance * scale).all();
  }

  // what the comparison with the reference says; "" where all agrees
  std::string Judge(bool* analytic = nullptr) const {
    const mjModel* m = model.get();
    const DataPtr work = MakeData(m);
    const auto prepare = [&] { mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION); };
    AnalyticBackend backend(m, false);
    std::string missing;
    StepDerivative value;
    prepare();
    if (!backend.Linearize(m, work.get(), false, &value, &missing) || value.status != StepStatus::kOk)
      return "refused: " + missing;
    if (analytic) *analytic = value.coverage.Worst() == Level::kAnalytic;
    for (const BlockComparison& block : Compare(m, value, reference, {.tolerance = kTolerance}).blocks) {
      if (block.agrees) continue;
      char text[200];
      std::snprintf(text, sizeof text, "%s: d %s / d %s = %.12g, reference %.12g ± %.2g of %.2g", block.name.c_str(),
                    block.worst.row_name.c_str(), block.worst.col_name.c_str(), block.worst.value,
                    block.worst.reference, block.worst.error_bar, block.scale);
      return text;
    }

    StepVjp vjp;
    prepare();
    if (!backend.Vjp(m, work.get(), lambda, false, &vjp, &missing)) return "pull refused: " + missing;
    VectorXd both(pulled.size());
    both << vjp.x, vjp.u;
    for (Eigen::Index c = 0; c < both.size(); c++) {
      if (reference.nonsmooth_column[c]) both[c] = 0;
    }
    if (Far(both, pulled, pulled_allowed)) return "pulled back covector";

    StepJvp jvp;
    prepare();
    const Eigen::Index ndx = value.A.rows();
    if (!backend.Jvp(m, work.get(), direction.head(ndx), direction.tail(direction.size() - ndx), &jvp, &missing)) {
      return "push refused: " + missing;
    }
    return Far(jvp.dx, pushed, pushed_allowed) ? "pushed direction" : "";
  }
};

class Planted : public support::EngineTest {
 protected:
  static const std::vector<Point>& Points() {
    static const std::vector<Point> points = [] {
      std::vector<Point> all;
      for (const Scene& scene : Scenes()) all.emplace_back(scene);
      return all;
    }();
    return points;
  }
};

TEST_F(Planted, NothingIsFlaggedWhereNothingIsWrong) {
  int analytic = 0, all = 0;
  for (const Point& point : Points()) {
    SCOPED_TRACE(point.scene.name + ", state " + std::to_string(point.scene.seed));
    bool closed = false;
    EXPECT_EQ(point.Judge(&closed), "");
    analytic += closed;
    all++;
  }
  RecordProperty("analytic", analytic);
  EXPECT_GE(analytic, all / 2);
}

TEST_F(Planted, EveryPlantIsFlagged) {
  ASSERT_GE(Plants().size(), 200u);
  for (auto& [name, factor] : Plants()) {
    if (planted::OfParameters(name) || planted::OfIntervals(name)) continue;  // PlantedParameters, below
    factor = planted::kPlant;
    bool found = false;
    for (const Point& point : Points()) {
      if (!point.Judge().empty()) {
        found = true;
        break;
      }
    }
    factor = 1;
    EXPECT_TRUE(found) << "one per cent in '" << name << "' goes unnoticed";
  }
}

// A muscle at rest follows a control that is nudged: w' = w + h/τ (1 − w), τ = timeconst/2.
TEST_F(Planted, EveryPlantOfIntervalsIsFlagged) {
  constexpr int kSteps = 4;
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a"/><geom size="0.1"/></body></worldbody>
    <actuator><muscle joint="a" lengthrange="-1 1" timeconst=".02 .04"/></actuator></mujoco>)");
  const auto is_right = [&] {
    Linearizer linearizer(model.get(), {.level = Level::kAnalytic, .substeps = kSteps, .sensors = false});
    StepDerivative value;
    linearizer.Linearize(VectorXd::Zero(3), VectorXd::Zero(1), &value);
    return std::abs(value.B(2, 0) - (1 - std::pow(1 - model->opt.timestep / 0.01, kSteps))) < kTolerance;
  };
  EXPECT_TRUE(is_right());
  int count = 0;
  for (auto& [name, factor] : Plants()) {
    if (!planted::OfIntervals(name)) continue;
    factor = planted::kPlant;
    EXPECT_FALSE(is_right()) << "one per cent in '" << name << "' goes unnoticed";
    factor = 1;
    count++;
  }
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace costate
