#include <costate/derivative.h>
#include <costate/parameter.h>
#include <costate/state.h>

#include <algorithm>
#include <cstring>

#include "parameter/stencils.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using ParameterSetTest = support::EngineTest;

constexpr const char* kModel = R"(
<mujoco model="zoo">
  <compiler angle="radian"/>
  <option gravity="0 0 -9" density="1.2" viscosity="0.01"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0 0 1">
      <joint name="hip" axis="0 1 0" damping="0.3" stiffness="2" springref="0.1" range="-1 1"/>
      <geom name="foot" type="capsule" size="0.05 0.2" pos="0 0 -0.2" friction="0.8 0.01 0.001"/>
      <site name="eye" pos="0.1 0 0"/>
      <body name="link2" pos="0 0 -0.4">
        <joint name="ball" type="ball" damping="0.1"/>
        <geom name="tip" type="box" size="0.05 0.06 0.07" pos="0.02 0.01 -0.1"/>
      </body>
    </body>
    <body name="free" pos="1 0 1"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <tendon><spatial name="cord" stiffness="3" springlength="0.2"><site site="eye"/><site site="anchor"/></spatial></tendon>
  <equality><connect name="pin" body1="link2" anchor="0 0 -0.1" body2="base"/></equality>
  <actuator>
    <position name="servo" joint="hip" kp="20" kv="0.5"/>
    <velocity name="drive" joint="hip" kv="4"/>
    <general name="slow" joint="hip" dyntype="filter" dynprm="0.2" gainprm="3"/>
  </actuator>
</mujoco>)";

ModelPtr Zoo() {
  std::string xml = kModel;
  const std::string site = "<geom name=\"floor\"";
  xml.insert(xml.find(site), "<site name=\"anchor\" pos=\"0.3 0 1.5\"/>");
  return LoadModelFromString(xml);
}

bool SameBytes(const mjModel* a, const mjModel* b) {
  return std::memcmp(a->buffer, b->buffer, static_cast<std::size_t>(a->nbuffer)) == 0 &&
         std::memcmp(&a->opt, &b->opt, sizeof(a->opt)) == 0;
}

TEST_F(ParameterSetTest, NamesMeanTheNumbersOfTheModel) {
  const ModelPtr model = Zoo();
  const mjModel* m = model.get();
  const int hip = mj_name2id(m, mjOBJ_JOINT, "hip"), foot = mj_name2id(m, mjOBJ_GEOM, "foot");
  const int link2 = mj_name2id(m, mjOBJ_BODY, "link2"), servo = mj_name2id(m, mjOBJ_ACTUATOR, "servo");
  ParameterSet set(m, {"joint:hip/damping", "geom:foot/friction[0]", "option/gravity[2]", "body:link2/pos[2]",
                       "joint:ball/damping", "joint:hip/springref", "actuator:servo/kp", "actuator:servo/kv",
                       "actuator:slow/timeconst", "option/density"});
  ASSERT_EQ(set.size(), 12);  // ball: three dofs
  EXPECT_EQ(set[4].name, "joint:ball/damping[0]");
  EXPECT_EQ(set[4].unit, "N m s/rad");
  VectorXd given(12);
  given << 0.3, 0.8, -9, -0.4, 0.1, 0.1, 0.1, 0.1, 20, 0.5, 0.2, 1.2;
  EXPECT_TRUE(support::MatricesNear(set.Get(), given, 0));
  VectorXd other(12);
  other << 0.4, 0.9, -1.6, -0.5, 0.2, 0.3, 0.4, 0.2, 30, 0.7, 0.1, 1000;
  set.Set(other);
  const mjModel* c = set.model();
  EXPECT_EQ(c->dof_damping[m->jnt_dofadr[hip]], 0.4);
  EXPECT_EQ(c->geom_friction[3 * foot], 0.9);
  EXPECT_EQ(c->opt.gravity[2], -1.6);
  EXPECT_EQ(c->body_pos[3 * link2 + 2], -0.5);
  EXPECT_EQ(c->dof_damping[2], 0.3);
  EXPECT_EQ(c->qpos_spring[m->jnt_qposadr[hip]], 0.2);
  EXPECT_EQ(c->actuator_gainprm[mjNGAIN * servo], 30);
  EXPECT_EQ(c->actuator_biasprm[mjNBIAS * servo + 1], -30);
  EXPECT_EQ(c->actuator_biasprm[mjNBIAS * servo + 2], -0.7);
  EXPECT_EQ(c->opt.density, 1000);
  EXPECT_TRUE(SameBytes(m, Zoo().get()));
}

// what the caller has, bit for bit; and after any excursion again
TEST_F(ParameterSetTest, SetOfTheGivenValuesChangesNoBit) {
  const ModelPtr model = Zoo();
  ParameterSet set(model.get(),
                   {"body:base/mass", "body:link2/inertia", "geom:tip/size", "site:eye/pos", "body:base/rotation",
                    "actuator:drive/kv", "tendon:cord/springlength", "joint:hip/axis"});
  const VectorXd given = set.Get();
  EXPECT_TRUE(SameBytes(set.model(), model.get()));
  const mjModel* pointer = set.model();
  VectorXd moved = given;
  for (int i = 0; i < moved.size(); i++) moved[i] += 1e-3;
  set.Set(set.Clamp(moved));
  EXPECT_FALSE(SameBytes(set.model(), model.get()));
  set.Set(given);
  EXPECT_TRUE(SameBytes(set.model(), model.get()));
  EXPECT_EQ(set.model(), pointer);
  EXPECT_EQ(set.revision(), 2u);
}

// a model compiled with the other value has the same numbers everywhere
TEST_F(ParameterSetTest, DerivedConstantsAreThoseOfTheCompiler) {
  const auto compile = [](const char* from, const char* to) {
    std::string xml = kModel;
    xml.insert(xml.find("<geom name=\"floor\""), "<site name=\"anchor\" pos=\"0.3 0 1.5\"/>");
    xml.replace(xml.find(from), std::strlen(from), to);
    return LoadModelFromString(xml);
  };
  const ModelPtr model = Zoo();
  ParameterSet site(model.get(), {"site:eye/pos"});
  site.Set(Eigen::Vector3d(0.2, 0.1, 0));
  const ModelPtr moved_site = compile("name=\"eye\" pos=\"0.1 0 0\"", "name=\"eye\" pos=\"0.2 0.1 0\"");
  EXPECT_NEAR(site.model()->tendon_length0[0], moved_site->tendon_length0[0], 1e-15);
  EXPECT_NEAR(site.model()->tendon_invweight0[0], moved_site->tendon_invweight0[0], 1e-13);
  EXPECT_NE(site.model()->tendon_length0[0], model->tendon_length0[0]);

  ParameterSet body(model.get(), {"body:link2/pos[2]"});
  body.Set(VectorXd::Constant(1, -0.6));
  const ModelPtr longer = compile("name=\"link2\" pos=\"0 0 -0.4\"", "name=\"link2\" pos=\"0 0 -0.6\"");
  for (int i = 0; i < 2 * model->nbody; i++) {
    EXPECT_NEAR(body.model()->body_invweight0[i], longer->body_invweight0[i], 1e-12 * (1 + longer->body_invweight0[i]));
  }
  for (int i = 0; i < model->nv; i++) EXPECT_NEAR(body.model()->dof_M0[i], longer->dof_M0[i], 1e-13);
  EXPECT_NE(body.model()->dof_M0[0], model->dof_M0[0]);
  for (int i = 0; i < 6; i++)
    EXPECT_NEAR(body.model()->eq_data[i], longer->eq_data[i], 1e-13);  // the pin's second anchor
}

TEST_F(ParameterSetTest, ScaleAndInertiaAreOneBody) {
  const ModelPtr model = Zoo();
  const int link2 = mj_name2id(model.get(), mjOBJ_BODY, "link2");
  ParameterSet scale(model.get(), {"body:link2/scale"});
  scale.Set(VectorXd::Constant(1, 2));
  EXPECT_NEAR(scale.model()->body_mass[link2], 2 * model->body_mass[link2], 1e-14);
  for (int i = 0; i < 3; i++)
    EXPECT_NEAR(scale.model()->body_inertia[3 * link2 + i], 2 * model->body_inertia[3 * link2 + i], 1e-14);
  EXPECT_NEAR(scale.model()->body_subtreemass[1] - model->body_subtreemass[1], model->body_mass[link2], 1e-13);

  // twice the mass of the same shape: α grows by ½ ln 2 and nothing else
  ParameterSet inertia(model.get(), {"body:link2/inertia"});
  ASSERT_EQ(inertia.size(), 10);
  VectorXd theta = inertia.Get();
  theta[0] += 0.5 * std::log(2.);
  inertia.Set(theta);
  EXPECT_NEAR(inertia.model()->body_mass[link2], scale.model()->body_mass[link2], 1e-13);
  for (int i = 0; i < 3; i++) {
    EXPECT_NEAR(inertia.model()->body_inertia[3 * link2 + i], scale.model()->body_inertia[3 * link2 + i], 1e-13);
    EXPECT_NEAR(inertia.model()->body_ipos[3 * link2 + i], model->body_ipos[3 * link2 + i], 1e-13);
  }
  for (int i = 0; i < 4; i++)
    EXPECT_NEAR(inertia.model()->body_iquat[4 * link2 + i], model->body_iquat[4 * link2 + i], 1e-12);
}

// numbers set by hand against the engine stay, the others follow
TEST_F(ParameterSetTest, KeepsWhatACallerHadOtherwise) {
  const ModelPtr model = Zoo();
  model->body_invweight0[2] = 5;
  ParameterSet set(model.get(), {"body:link2/mass"});
  ASSERT_EQ(set.kept(), std::vector<std::string>{"body_invweight0"});
  set.Set(2 * set.Get());
  EXPECT_EQ(set.model()->body_invweight0[2], 5);
  EXPECT_NE(set.model()->body_invweight0[4], model->body_invweight0[4]);
}

// an element without a name is known by what messages call it, and by its number
TEST_F(ParameterSetTest, FindsElementsWithoutANameAsEverywhere) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint damping='.1'/><geom size='.1'/><body><joint name='b' damping='.2'/>"
      "<geom size='.1'/></body></body></worldbody></mujoco>");
  for (const char* name : {"joint:joint 0/damping", "joint:0/damping"}) {
    const ParameterSet set(model.get(), {name});
    EXPECT_EQ(set.Names(), std::vector<std::string>{"joint:0/damping"});
    EXPECT_EQ(set.Get()[0], 0.1);
  }
  EXPECT_ERROR(ParameterSet(model.get(), {"joint:joint 2/damping"}), ErrorCode::kInvalidArgument,
               "'joint:joint 2/damping': model '", "no joint 'joint 2', did you mean 'joint 0'?");
}

// a muscle's peak force stands in its gain and in its bias, and is above 0: below it means another one
TEST_F(ParameterSetTest, AMusclesForceIsOneNumber) {
  const auto muscle = [](const std::string& force) {
    return LoadModelFromString(
        "<mujoco><worldbody><body><joint name='j' axis='0 1 0'/><geom size='.05' pos='.3 0 0'/><site name='a' pos='.1 "
        "0 "
        ".05'/></body><site name='b' pos='-.1 0 .05'/></worldbody><tendon><spatial name='t'><site site='a'/><site "
        "site='b'/></spatial></tendon><actuator><muscle name='bi' tendon='t' lengthrange='.1 .3' " +
        force + "/><motor name='motor' joint='j'/></actuator></mujoco>");
  };
  const ModelPtr model = muscle("force='400'");
  ParameterSet set(model.get(), {"actuator:bi/force"});
  EXPECT_EQ(set[0].value, 400);
  EXPECT_GT(set[0].lower, 0);
  set.Set(VectorXd::Constant(1, 450));
  EXPECT_EQ(set.model()->actuator_gainprm[2], 450);
  EXPECT_EQ(set.model()->actuator_biasprm[2], 450);
  EXPECT_EQ(set.Get()[0], 450);
  const ParameterSet parts(model.get(), {"actuator:bi/gainprm[2]", "actuator:bi/biasprm[2]", "actuator:bi/biasprm[3]"});
  EXPECT_GT(parts[0].lower, 0);
  EXPECT_GT(parts[1].lower, 0);
  EXPECT_LT(parts[2].lower, 0);

  // its slope is that of both
  const DataPtr data = MakeData(model.get());
  data->act[0] = 0.6;
  const auto slope = [&](std::vector<std::string> names) {
    ParameterSet one(model.get(), std::move(names));
    Linearizer linearizer(one.model());
    linearizer.SetParameters(&one);
    StepDerivative step;
    linearizer.Linearize(GetState(model.get(), data.get()), VectorXd::Zero(2), &step);
    return VectorXd(step.P.rowwise().sum());
  };
  const VectorXd whole = slope({"actuator:bi/force"});
  EXPECT_GT(whole.cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_TRUE(support::MatricesNear(whole, slope({"actuator:bi/gainprm[2]", "actuator:bi/biasprm[2]"}),
                                    1e-8 * whole.cwiseAbs().maxCoeff()));

  const ModelPtr scaled = muscle("scale='200'");
  EXPECT_ERROR(ParameterSet(scaled.get(), {"actuator:bi/force"}), ErrorCode::kInvalidArgument, "scale makes one");
  EXPECT_ERROR(ParameterSet(model.get(), {"actuator:motor/force"}), ErrorCode::kInvalidArgument, "actuator:motor");
}

TEST_F(ParameterSetTest, ErrorsNameTheElementAndWhatIsNear) {
  const ModelPtr model = Zoo();
  const auto make = [&](std::vector<std::string> names) { ParameterSet set(model.get(), names); };
  constexpr ErrorCode kBad = ErrorCode::kInvalidArgument, kNot = ErrorCode::kUnsupported;
  EXPECT_ERROR(make({"joint:hpi/damping"}), kBad, "no joint 'hpi'", "did you mean 'hip'");
  EXPECT_ERROR(make({"joint:hip/dampin"}), kBad, "'dampin'", "did you mean 'damping'");
  EXPECT_ERROR(make({"joit:hip/damping"}), kBad, "'joit'", "did you mean 'joint'");
  EXPECT_ERROR(make({"geom:foot/friction[3]"}), kBad, "3 entries");
  EXPECT_ERROR(make({"geom:foot/friction[x]"}), kBad, "index");
  EXPECT_ERROR(make({"damping"}), kBad, "kind:element/field");
  EXPECT_ERROR(make({"geom:17/size[0]"}), kBad, "'geom:17/size[0]': there is no geom 17: model '", "has 4");
  EXPECT_ERROR(make({"geom:/size[0]"}), kBad, "has no geom ''");
  EXPECT_ERROR(make({"option/gravitas[2]"}), kBad, "did you mean 'gravity'");
  EXPECT_ERROR(make({"option/timestep"}), kBad, "time step");
  EXPECT_ERROR(make({"joint:ball/springref"}), kBad, "of this type");
  EXPECT_ERROR(make({"actuator:slow/kp"}), kBad, "no position servo");
  EXPECT_ERROR(make({"body:base/mass", "body:base/mass"}), kBad, "named twice");
  EXPECT_ERROR(make({"body:base/mass", "body:base/inertia[0]"}), kBad, "'body:base/mass'", "same number");
  EXPECT_ERROR(make({"actuator:slow/timeconst", "actuator:slow/dynprm[0]"}), kBad, "same number");
  EXPECT_ERROR(make({"equality:pin/data[4]"}), kNot, "second anchor");
  EXPECT_ERROR(make({"geom:foot/size[2]"}), kNot, "has only 2");
  EXPECT_ERROR(make({"body:free/ipos[0]"}), kNot, "simple=\"false\"");
  EXPECT_ERROR(make({"body:world/mass"}), kNot, "world");
  EXPECT_ERROR(make({"actuator:servo/delay"}), kNot, "history");
}

TEST_F(ParameterSetTest, BoundsAreKept) {
  const ModelPtr model = Zoo();
  ParameterSet set(model.get(), {"joint:hip/damping", "body:base/mass"});
  EXPECT_ERROR(set.Set(Eigen::Vector2d(-0.1, 1)), ErrorCode::kInvalidArgument, "'joint:hip/damping' is -0.1",
               "below 0");
  EXPECT_ERROR(set.Set(Eigen::Vector2d(0.1, NAN)), ErrorCode::kInvalidArgument, "'body:base/mass'");
  EXPECT_ERROR(set.Set(VectorXd::Zero(3)), ErrorCode::kDimensionMismatch, "3 entries");
  EXPECT_EQ(set.Get()[0], 0.3);
  EXPECT_EQ(set.revision(), 0u);
  EXPECT_EQ(set.Clamp(Eigen::Vector2d(-1, 2))[0], 0);
  EXPECT_EQ(set.Clamp(Eigen::Vector2d(-1, 2))[1], 2);
}

// A motor has a state for each of some numbers that is above 0: without one the engine refuses to step.
TEST_F(ParameterSetTest, NumbersThatGiveAnActuatorAStateKeepIt) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>
    <actuator><dcmotor name="m" joint="j" motorconst=".05" resistance="1" input="pos" controller="3 2 .1"/>
      <pid name="p" joint="j" kp="3" ki="2"/></actuator></mujoco>)");
  for (const char* absent : {"dynprm[0]", "dynprm[2]", "dynprm[5]", "dynprm[7]"}) {
    EXPECT_ERROR(ParameterSet(model.get(), {std::string("actuator:m/") + absent}), ErrorCode::kUnsupported, absent,
                 "a state");
  }
  EXPECT_ERROR(ParameterSet(model.get(), {"actuator:p/dynprm[1]"}), ErrorCode::kUnsupported, "a state");
  ParameterSet set(model.get(), {"actuator:m/gainprm[5]", "actuator:p/gainprm[0]"});
  EXPECT_ERROR(set.Set(Eigen::Vector2d(0, 1)), ErrorCode::kInvalidArgument, "'actuator:m/gainprm[5]' is 0", "1e-15");
  EXPECT_ERROR(set.Set(Eigen::Vector2d(1, 0)), ErrorCode::kInvalidArgument, "'actuator:p/gainprm[0]' is 0", "1e-15");
}

TEST_F(ParameterSetTest, CopiesAreIndependent) {
  const ModelPtr model = Zoo();
  ParameterSet set(model.get(), {"joint:hip/damping"});
  ParameterSet copy = set;
  copy.Set(VectorXd::Constant(1, 2));
  EXPECT_EQ(set.Get()[0], 0.3);
  EXPECT_EQ(set.model()->dof_damping[0], 0.3);
  EXPECT_EQ(copy.model()->dof_damping[0], 2);
}

// every number that a list offers can be made a parameter, written and read back
TEST_F(ParameterSetTest, EverythingListedCanBeSet) {
  const ModelPtr model = Zoo();
  int total = 0;
  for (const char* kind : {"body", "joint", "geom", "site", "equality", "tendon", "actuator", "option"}) {
    for (const Parameter& p : ListParameters(model.get(), kind)) {
      if (p.name.rfind("body:world", 0) == 0) continue;
      SCOPED_TRACE(p.name);
      ParameterSet set(model.get(), {p.name});
      ASSERT_EQ(set.size(), 1);
      EXPECT_FALSE(p.unit.empty());
      EXPECT_GT(p.nudge, 0);
      const VectorXd value = set.Clamp(VectorXd::Constant(1, p.value + 3 * p.nudge));
      const ModelPtr before = CopyModel(set.model());
      if (value[0] == p.value) continue;
      set.Set(value);
      EXPECT_EQ(set.Get()[0], value[0]);
      EXPECT_FALSE(SameBytes(set.model(), before.get()));
      total++;
    }
  }
  EXPECT_GT(total, 400);
}

// the stencil's models are those that Set makes, but for marks of equal frames, which none of the frames has that the
// parameter places, and leave nothing behind
TEST_F(ParameterSetTest, StencilsAreTheModelsOfSet) {
  const ModelPtr model = Zoo();
  ParameterSet set(model.get(), {"body:link2/inertia[1]", "geom:tip/pos[0]", "geom:tip/size[0]", "joint:hip/damping",
                                 "option/gravity[2]", "joint:hip/frictionloss"});
  ParameterStencils stencils(set);
  for (int k = 0; k < set.size(); k++) {
    double sum = 0, slope = 0;
    for (std::size_t i = 0; i < stencils.Points(k).size(); i++) {
      const auto [weight, offset] = stencils.Points(k)[i];
      sum += weight;
      slope += weight * offset;
      ParameterSet moved = set;
      VectorXd values = set.Get();
      values[k] += offset;
      EXPECT_TRUE(values[k] >= set[k].lower);
      moved.Set(values);
      const mjModel* at = stencils.Model(k, static_cast<int>(i));
      const ModelPtr expected = CopyModel(moved.model());
      if (k == 0) {
        const int body = mj_name2id(model.get(), mjOBJ_BODY, "link2");
        expected->body_sameframe[body] = mjSAMEFRAME_NONE;
        for (int g = 0; g < at->ngeom; g++) {
          if (at->geom_bodyid[g] == body) expected->geom_sameframe[g] = mjSAMEFRAME_NONE;
        }
        for (int s = 0; s < at->nsite; s++) {
          if (at->site_bodyid[s] == body) expected->site_sameframe[s] = mjSAMEFRAME_NONE;
        }
      }
      if (k == 1) expected->geom_sameframe[mj_name2id(model.get(), mjOBJ_GEOM, "tip")] = mjSAMEFRAME_NONE;
      EXPECT_EQ(std::memcmp(at->buffer, expected->buffer, static_cast<std::size_t>(at->nbuffer)), 0);
      EXPECT_EQ(at->opt.gravity[2], moved.model()->opt.gravity[2]);
    }
    EXPECT_NEAR(sum * set[k].nudge, 0, 1e-12);
    EXPECT_NEAR(slope, 1, 1e-12);
  }
  EXPECT_EQ(std::memcmp(stencils.Center()->buffer, model->buffer, static_cast<std::size_t>(model->nbuffer)), 0);
}

TEST_F(ParameterSetTest, OfNoModelThereIsNoList) {
  EXPECT_ERROR(ListParameters(nullptr, "joint"), ErrorCode::kInvalidArgument, "the model is NULL");
}

}  // namespace
}  // namespace costate
