#include <costate/derivative.h>
#include <costate/model.h>
#include <costate/state.h>

#include <string>

#include "derivative/closed_forms.h"
#include "derivative/flex_scene.h"
#include "support/engine_test.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using FlexTest = support::EngineTest;
using support::Apart;
constexpr support::RandomStateOptions kNear{.position = 0.008, .velocity = 0.3, .inside_limits = false};

// (P6)–(P8), (H4), (I11): elasticity on moving bodies and on the floor, rows of edges, vertices that touch a plane
TEST_F(FlexTest, ClosedFormsAreTheDifferencesOfTheResidual) {
  for (const char* integrator : {"Euler", "discrete"}) {
    for (const auto& [cone, condim] : {std::pair{"pyramidal", 3}, std::pair{"elliptic", 4}, std::pair{"elliptic", 1}}) {
      int rows = 0, contacts = 0;
      for (unsigned seed = 1; seed <= 2; seed++) {
        SCOPED_TRACE(std::string(integrator) + " " + cone + " " + std::to_string(condim) + ", seed " +
                     std::to_string(seed));
        const ModelPtr model = LoadModelFromString(FlexScene(integrator, cone, condim));
        support::ExpectClosed(model.get(), seed, kNear, &rows, &contacts);
      }
      EXPECT_GT(rows, 20);
      EXPECT_GT(contacts, 4);
    }
  }
}

// (C24), (G17): balls, capsules and boxes that move, against vertices, edges and faces
TEST_F(FlexTest, ContactsOfElementsAreTheDifferencesOfTheResidual) {
  int corners = 0, borders = 0, contacts = 0;
  for (const char* integrator : {"Euler", "discrete"}) {
    for (const auto& [cone, condim] : {std::pair{"pyramidal", 3}, std::pair{"pyramidal", 6}, std::pair{"elliptic", 4},
                                       std::pair{"elliptic", 6}, std::pair{"elliptic", 1}}) {
      const ModelPtr model = LoadModelFromString(DrapedScene(integrator, cone, condim));
      const DataPtr data = MakeData(model.get());
      for (int k = 0; k < 90; k++) {
        mj_step(model.get(), data.get());
        if (k % 30 != 29) continue;
        SCOPED_TRACE(std::string(integrator) + " " + cone + " " + std::to_string(condim) + ", step " +
                     std::to_string(k));
        mj_forward(model.get(), data.get());
        const StepDerivative one = Linearize(model.get(), data.get()),
                             two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
        if (one.coverage.Worst() != Level::kAnalytic) {
          corners++;  // the nearest points are not unique
          continue;
        }
        for (int c = 0; c < data->ncon; c++) contacts += data->contact[c].elem[1] >= 0;
        // within a nudge of a border level 2 has its mean: whole steps, at several sizes, judge
        const bool near = Apart(one.A, two.A) >= 1e-9;
        if (near) support::ExpectReference(model.get(), data.get(), one);
        borders += near;
        const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Zero(0);
        const VectorXd lambda = support::Random(1).Vector(static_cast<int>(one.A.rows()));
        StepVjp vjp;
        Linearizer(model.get()).Vjp(x, u, lambda, &vjp);
        EXPECT_LT(Apart(vjp.x, one.A.transpose() * lambda), 1e-9);
      }
    }
  }
  EXPECT_GT(contacts, 200);
  EXPECT_LT(corners, 5);
  EXPECT_LT(borders, 3);
}

// Each of springs and dampers alone.
TEST_F(FlexTest, SpringsAndDampersAreSwitchedOffApart) {
  int rows = 0, contacts = 0;
  for (const char* integrator : {"Euler", "discrete"}) {
    for (const int off : {int{mjDSBL_SPRING}, int{mjDSBL_DAMPER}, mjDSBL_SPRING | mjDSBL_DAMPER}) {
      SCOPED_TRACE(std::string(integrator) + ", without " + std::to_string(off));
      const ModelPtr model = LoadModelFromString(FlexScene(integrator, "pyramidal", 3));
      model->opt.disableflags |= off;
      support::ExpectClosed(model.get(), 3, kNear, &rows, &contacts);
    }
  }
  EXPECT_GT(contacts, 0);
}

// Implicit integrators leave the dampers of edges out of their matrix, which those of joints are in.
TEST_F(FlexTest, ImplicitIntegratorsTakeEdgesAsTheyAre) {
  for (const char* integrator : {"implicit", "implicitfast", "RK4"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString("<mujoco><option timestep='.002' integrator='" + std::string(integrator) +
                            R"('/><worldbody><geom type='plane' size='1 1 .1' pos='0 0 -.1'/>
        <body><joint axis='0 1 .3' damping='.3'/><geom size='.03' mass='.2' contype='0'/><body name='hand' pos='.1 0 0'><joint type='ball' damping='.02'/>
        <geom size='.03' mass='.1' contype='0'/>
        <flexcomp type='grid' count='4 1 1' spacing='.05 .05 .05' pos='.08 0 -.02' radius='.01' name='rope' dim='1' mass='.1'>
          <edge stiffness='20' damping='.3'/><pin id='0'/></flexcomp>
        <flexcomp type='grid' count='2 3 1' spacing='.05 .05 .05' pos='.05 .1 -.08' radius='.01' name='net' dim='2' mass='.1'>
          <edge equality='true' damping='.2'/><pin id='0'/></flexcomp></body></body></worldbody></mujoco>)");
    int rows = 0, contacts = 0;
    support::ExpectClosed(model.get(), 1, kNear, &rows, &contacts);
    EXPECT_GT(rows, 8);
  }
}

TEST_F(FlexTest, SensorsAndInverseDynamicsKnowThem) {
  std::string scene = FlexScene("Euler", "pyramidal", 3);
  scene.insert(scene.find("</mujoco>"),
               "<sensor><force site='t'/><torque site='s'/><accelerometer site='t'/></sensor>");
  const ModelPtr model = LoadModelFromString(scene);
  const VectorXd x = support::RandomState(model.get(), 1, kNear), u = VectorXd::Zero(0);
  Linearizer one(model.get()), two(model.get(), {.level = Level::kResidual});
  StepDerivative closed, differenced;
  one.Linearize(x, u, &closed);
  two.Linearize(x, u, &differenced);
  EXPECT_EQ(closed.coverage.Worst(), Level::kAnalytic);
  EXPECT_LT(Apart(closed.C, differenced.C), 1e-8);
  InverseDerivative inverse, other;
  const VectorXd qacc = support::Random(2).Vector(static_cast<int>(model->nv));
  one.LinearizeInverse(x, u, qacc, &inverse);
  two.LinearizeInverse(x, u, qacc, &other);
  EXPECT_EQ(inverse.coverage.Worst(), Level::kAnalytic);
  EXPECT_LT(Apart(inverse.q, other.q), 1e-8);
  EXPECT_LT(Apart(inverse.v, other.v), 1e-8);
}

// Rods have numbers of their own for bending and twisting; open and closed ones.
TEST_F(FlexTest, RodsBendAndTwist) {
  for (const char* integrator : {"Euler", "RK4", "discrete"}) {
    for (const char* shape :
         {"type='grid' count='4 1 1' spacing='.05 .05 .05'", "type='circle' count='6 1 1' spacing='.05 .05 .05'"}) {
      SCOPED_TRACE(std::string(integrator) + " " + shape);
      const ModelPtr model =
          LoadModelFromString(std::string("<mujoco><option timestep='2e-4' integrator='") + integrator +
                              "'/><worldbody><flexcomp name='f' dim='1' " + shape +
                              " radius='.01' mass='.1'><elasticity young='1e6' damping='.01'/><contact "
                              "selfcollide='none'/></flexcomp></worldbody></mujoco>");
      const DataPtr data = MakeData(model.get());
      VectorXd x = GetState(model.get(), data.get());
      x = Retract(model.get(), x, 0.01 * support::Random(3).Vector(Dims(model.get()).ndx));
      SetState(model.get(), data.get(), x);
      mj_forward(model.get(), data.get());
      const StepDerivative step = Linearize(model.get(), data.get());
      EXPECT_EQ(step.coverage.Worst(), Level::kResidual);
      support::ExpectReference(model.get(), data.get(), step);
    }
  }
}

// … and touch: rows of their contacts turn them about their axes
TEST_F(FlexTest, ContactsOfRodsTurnThem) {
  for (
      const char* scene :
      {R"(<geom type="plane" size="1 1 1"/><flexcomp name="f" type="grid" dim="1" count="3 1 1" spacing=".07 .06 .08"
    radius=".015" mass=".42" pos="0 0 .014"><elasticity young="17410"/><contact selfcollide="none"/></flexcomp>)",
       R"(<geom type="sphere" size=".1" pos=".03 .01 -.1"/><flexcomp name="f" type="grid" dim="1" count="3 1 1" spacing=".07 .06 .08"
    radius=".015" mass=".42" pos="0 0 .014"><elasticity young="17410"/><contact selfcollide="none"/></flexcomp>)"}) {
    const ModelPtr model = LoadModelFromString(std::string("<mujoco><option timestep='.002'/><worldbody>") + scene +
                                               "</worldbody></mujoco>");
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_GT(data->ncon, 0);
    const StepDerivative step = Linearize(model.get(), data.get());
    EXPECT_EQ(step.coverage.Worst(), Level::kResidual);
    support::ExpectReference(model.get(), data.get(), step);
  }
}

// a contact sensor may know a flex by the body of a vertex
TEST_F(FlexTest, ContactSensorsOfAVertexsBodyAreDifferenced) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body name="v0" pos="0 0 .009"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide"
      axis="0 0 1"/><inertial pos="0 0 0" mass=".1" diaginertia="1e-4 1e-4 1e-4"/></body>
    <body name="v1" pos=".1 0 .009"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide"
      axis="0 0 1"/><inertial pos="0 0 0" mass=".1" diaginertia="1e-4 1e-4 1e-4"/></body></worldbody>
    <deformable><flex name="f" dim="1" body="v0 v1" element="0 1" radius=".01"/></deformable>
    <sensor><contact body1="v0" data="force"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->ncon, 0);
  const StepDerivative step = Linearize(model.get(), data.get());
  EXPECT_GT(step.C.cwiseAbs().maxCoeff(), 1);
  support::ExpectReference(model.get(), data.get(), step);
}

// Adhesion at an element is a force, and in the rows' aref by what R is.
TEST_F(FlexTest, AdhesionAtElementsIsDifferenced) {
  for (const char* adhesion : {"1", "20"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(
            R"(<mujoco><option timestep=".002"/><worldbody><geom type="sphere" size=".2" pos="0 0 -.2" adhesion=")") +
        adhesion +
        R"("/><body name="b" pos="0 0 .014"><freejoint/><geom size=".02" pos="0 0 .1" contype="0" conaffinity="0"/>
        <flexcomp name="f" type="grid" dim="2" count="3 3 1" spacing=".05 .05 .05" radius=".01" mass=".1" quat="1 .02 .03 0"
        pos=".01 .013 -.006"><edge equality="true"/><pin id="0"/><contact selfcollide="none" condim="1"/></flexcomp></body>
        </worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_GT(data->ncon, 3);
    support::ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get()));
  }
}

// the engine turns an interpolated flex with its nodes from where it was turned before, and not at all within 1e-7
TEST_F(FlexTest, InterpolatedFlexesAreNudgedByWhatTheEngineSees) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.004" gravity="1 -2 -5"/><worldbody>
    <geom type="plane" size="2 2 .1" condim="1"/><flexcomp name="f" type="square" dim="2" pos="-.02 -.09 .005" radius=".002"
      mass=".24" quat="-.8 1.56 2 -.4" count="3 4 1" spacing=".07 .06 .08" dof="trilinear" cellcount="1 1 1"><edge
      equality="strain" solref=".025 .8"/><contact selfcollide="sap" condim="6"/></flexcomp></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->ncon, 0);
  for (const BlockComparison& block :
       Compare(model.get(), Linearize(model.get(), data.get()), Reference(model.get(), data.get()), {.tolerance = 1e-5})
           .blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.value << ", not " << block.worst.reference << " +- "
                              << block.worst.error_bar;
  }
}

// What has no closed form says so, by the flex' name.
TEST_F(FlexTest, OtherFlexesAreDifferencedByName) {
  const auto reason = [](const std::string& flex, const std::string& around = "%") {
    std::string body = around;
    body.replace(body.find('%'), 1,
                 "<flexcomp name='f' type='grid' spacing='.05 .05 .05' radius='.01' mass='.1' " + flex + "</flexcomp>");
    const ModelPtr model =
        LoadModelFromString("<mujoco><option timestep='1e-4'/><worldbody>" + body + "</worldbody></mujoco>");
    const StepDerivative step = Linearize(model.get(), MakeData(model.get()).get());
    EXPECT_EQ(step.coverage.Worst(), Level::kResidual);
    for (const TermCoverage& term : step.coverage.terms) {
      if (term.level != Level::kAnalytic) return term.reason;
    }
    return std::string();
  };
  const std::string young = "<elasticity young='1e3' poisson='.2'/>",
                    shell = "<elasticity young='1e3' poisson='.2' thickness='.01' elastic2d='both'/>";
  EXPECT_EQ(reason("dim='3' count='3 3 3' dof='trilinear'>" + young), "forces of f, which is interpolated");
  EXPECT_EQ(reason("dim='1' count='4 1 1'>" + young), "forces of f, a rod that bends and twists");
  EXPECT_EQ(reason("dim='2' count='3 3 1'><contact contype='0' conaffinity='0'/><pin id='0'/>" + shell,
                   "<body name='b'><freejoint/><geom size='.1' contype='0'/>%</body>"),
            "bending of f, whose vertices do not slide");
  const ModelPtr passive =
      LoadModelFromString(R"(<mujoco><option integrator='discrete'/><worldbody><geom type='plane' size='1 1 .1'/>
    <flexcomp name='f' type='grid' count='2 2 2' spacing='.05 .05 .05' pos='0 0 .034' radius='.01' mass='.1' dim='3'><elasticity young='3e3'/>
      <contact selfcollide='none' passive='true'/></flexcomp></worldbody></mujoco>)");
  const StepDerivative step = Linearize(passive.get(), MakeData(passive.get()).get());
  EXPECT_EQ(step.coverage.Worst(), Level::kResidual);
  EXPECT_NE(step.coverage.terms[0].reason.find("passive contacts of f"), std::string::npos);
}

}  // namespace
}  // namespace costate
