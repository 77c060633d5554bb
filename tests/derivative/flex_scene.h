// An arm that holds soft things, and soft things on the floor.
#ifndef COSTATE_TESTS_DERIVATIVE_FLEX_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_FLEX_SCENE_H_

#include <string>

namespace costate {

/// A pad of tetrahedra and a net that hangs together by its edges, both on a body behind a hinge and a ball joint; a
/// sheet that stretches and bends, pinned at two corners, a shell that is bent at rest, and a block on the floor. But under the discrete integrator,
/// which has none, a rope of springs and dampers.
inline std::string FlexScene(const std::string& integrator, const std::string& cone, int condim) {
  const std::string contact = "<contact selfcollide='none' condim='" + std::to_string(condim) + "'/>";
  const bool discrete = integrator == "discrete";
  const std::string rope =
      discrete
          ? ""
          : R"(<flexcomp type='grid' count='4 1 1' spacing='.05 .05 .05' pos='.08 -.1 0' radius='.01' name='rope' dim='1' mass='.1'>
        <edge stiffness='20' damping='.05'/><pin id='0'/><contact selfcollide='none'/></flexcomp>)";
  return "<mujoco><option timestep='" + std::string(discrete ? ".004" : ".001") + "' integrator='" + integrator +
         "' cone='" + cone + R"('/><worldbody>
    <geom type='plane' size='2 2 .1' friction='.8 .03 .01' margin='.02' solimp='.3 .95 .02'/>
    <body pos='0 0 .3'><joint axis='0 1 .2' damping='.2'/>
      <geom type='capsule' fromto='0 0 0 .2 0 0' size='.02' mass='.5' contype='0' conaffinity='0'/><site name='s' pos='.2 0 0' euler='10 20 30'/>
      <body name='hand' pos='.2 0 0'><joint type='ball' damping='.1' stiffness='1'/><geom size='.03' mass='.2' contype='0' conaffinity='0'/><site name='t'/>
        <flexcomp type='grid' count='2 2 3' spacing='.05 .05 .05' pos='.08 0 -.02' euler='10 30 20' radius='.01' name='pad' dim='3' mass='.3'>
          <elasticity young='2e3' poisson='.2' damping='.02'/><pin gridrange='0 0 0 1 1 0'/><contact selfcollide='none'/></flexcomp>
        <flexcomp type='grid' count='3 2 1' spacing='.05 .05 .05' pos='.05 .1 0' radius='.01' name='net' dim='2' mass='.1'>
          <edge equality='true' solimp='.5 .9 .02'/><pin id='0'/><contact selfcollide='none'/></flexcomp>)" +
         rope + R"(
      </body></body>
    <body name='tilted' pos='-.3 .3 .012' euler='5 3 20'><flexcomp type='grid' count='3 3 1' spacing='.05 .05 .05' radius='.01' name='sheet' dim='2' mass='.1'>
      <elasticity young='1e4' poisson='.2' thickness='.006' damping='1e-2' elastic2d='both'/><pin id='0 2'/>)" +
         contact + R"(</flexcomp></body>
    <flexcomp type='direct' point='0 0 0 .05 0 .01 .1 0 0 0 .05 0 .05 .05 .012 .1 .05 0' element='0 1 4 0 4 3 1 2 5 1 5 4' pos='-.3 -.3 .2'
      radius='.01' name='shell' dim='2' mass='.1'><elasticity young='1e4' poisson='.2' thickness='.006' damping='1e-2' elastic2d='both'/><pin id='0'/>
      <contact selfcollide='none'/></flexcomp>
    <flexcomp type='grid' count='2 2 2' spacing='.05 .05 .05' pos='-.3 0 .033' euler='5 3 20' radius='.01' name='block' dim='3' mass='.3'>
      <elasticity young='2e3' poisson='.2' damping='.02'/>)" +
         contact + R"(</flexcomp>
  </worldbody></mujoco>)";
}

/// A sheet, pinned at two vertices, and a rope that fall over a ball, a capsule and a box on a hinge; under the discrete integrator, whose metric
/// bends where edges begin to pull, a net alone.
inline std::string DrapedScene(const std::string& integrator, const std::string& cone, int condim) {
  const std::string touch = " condim='" + std::to_string(condim) + "' friction='.6 .02 .01' solimp='.3 .95 .02'/>";
  const auto hinge = [&](const std::string& y) {
    return "<body pos='0 " + y +
           R"( 0'><joint axis='0 1 .3' armature='.05' damping='20'/><geom size='.02' mass='1' contype='0' conaffinity='0'/>
      <geom type='sphere' size='.06' pos='-.15 0 .1')" +
           touch + "<geom type='capsule' size='.04 .05' pos='0 0 .122' euler='80 10 0'" + touch +
           "<geom type='box' size='.04 .05 .06' pos='.15 .01 .1' euler='3 4 10'" + touch + "</body>";
  };
  const std::string contact = "<contact selfcollide='none'" + touch;
  const std::string rope =
      R"(<flexcomp type='grid' count='12 1 1' spacing='.035 .03 .03' pos='0 .4 .178' euler='2 1 1' radius='.01' name='rope' dim='1' mass='.1'>
      <edge stiffness='40' damping='.02'/>)" +
      contact + "</flexcomp>" + hinge(".4");
  return "<mujoco><option timestep='.001' integrator='" + integrator + "' cone='" + cone + "'/><worldbody>" +
         hinge("0") +
         R"(<flexcomp type='grid' count='9 4 1' spacing='.05 .05 .05' pos='0 .01 .18' euler='2 -1 5' radius='.01' name='sheet' dim='2' mass='.2'>
      )" +
         (integrator == "discrete"
              ? "<edge equality='true'/>"
              : "<elasticity young='1e4' poisson='.2' thickness='.004' damping='1e-3' elastic2d='stretch'/>") +
         "<pin id='5 35'/>" + contact + "</flexcomp>" + (integrator == "discrete" ? "" : rope) +
         "</worldbody></mujoco>";
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_FLEX_SCENE_H_
