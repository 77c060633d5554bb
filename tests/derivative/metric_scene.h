// An arm with all that the discrete integrator's metric reads, and rows of every kind that it scales.
#ifndef COSTATE_TESTS_DERIVATIVE_METRIC_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_METRIC_SCENE_H_

#include <string>

namespace costate {

/// Springs, dampers and servos on joints and along tendons that move; limits, dry friction, equalities, and contacts of
/// the arm's tip with the floor and with a cart that moves itself.
inline std::string MetricScene(const std::string& cone, int condim) {
  const std::string contact =
      " condim='" + std::to_string(condim) + "' friction='.8 .03 .01' solimp='.3 .95 .2' margin='.02'";
  return R"(<mujoco><option timestep='0.004' integrator='discrete' cone=')" + cone + R"('/>
  <default><geom contype='0' conaffinity='0'/><default class='touch'><geom contype='1' conaffinity='1')" +
         contact + R"(/></default></default>
  <worldbody>
    <geom class='touch' type='plane' size='2 2 .1'/><site name='post' pos='.2 .3 .6'/>
    <body pos='0 0 .45'>
      <joint name='a' axis='0 1 .2' damping='.3' stiffness='2' range='-.05 .05' limited='true' frictionloss='.1' solimplimit='.4 .95 .5'/>
      <geom type='capsule' fromto='0 0 0 .3 0 -.05' size='.03' mass='1'/>
      <body pos='.3 0 -.05'>
        <joint name='ball' type='ball' damping='.05' stiffness='3' armature='.01' range='0 .05' limited='true' solimplimit='.4 .95 .5'/>
        <geom type='capsule' fromto='0 0 0 .1 .1 -.2' size='.03' mass='.5'/><site name='s' pos='.05 .1 0'/>
        <body pos='.1 .1 -.2'><joint name='b' axis='1 0 .3' damping='.1' armature='.005'/>
          <geom name='tip' class='touch' size='.1' pos='0 .02 -.12' mass='.3'/><site name='t' pos='0 0 -.05'/>
          <site name='tip' size='.11' pos='0 .02 -.12'/></body></body></body>
    <body pos='.55 .1 .1'><joint name='x' type='slide' axis='1 0 0' damping='4' stiffness='20'/><joint name='c' axis='0 .3 1' damping='.1'/>
      <geom class='touch' size='.09' pos='.01 .02 0' mass='.6'/><geom type='box' size='.1 .05 .02' pos='0 .1 0' mass='.3'/></body>
  </worldbody>
  <tendon>
    <fixed name='fixed' stiffness='30' damping='2' springlength='-.02 .01' limited='true' range='-.01 .01' frictionloss='.2'>
      <joint joint='a' coef='1'/><joint joint='b' coef='-.5'/></fixed>
    <spatial name='spatial' stiffness='10' damping='1' springlength='.1' limited='true' range='0 .3' frictionloss='.2'>
      <site site='s'/><site site='post'/></spatial>
    <spatial name='pulled'><site site='t'/><site site='post'/></spatial>
  </tendon>
  <equality><joint joint1='x' joint2='c' polycoef='0 .05 .1 .02 0' solimp='.5 .9 .5'/>
    <tendon tendon1='fixed' tendon2='pulled' polycoef='0 .1 .2 0 0' solimp='.5 .9 .5'/></equality>
  <actuator><position joint='b' kp='20' kv='1'/><position tendon='pulled' kp='40' kv='3'/><velocity joint='c' kv='.4'/>
    <general joint='a' dyntype='filter' dynprm='.05' gainprm='15' biastype='affine' biasprm='0 -15 -1' forcerange='-3 3'/></actuator>
  <sensor><touch site='tip'/><force site='t'/><torque site='s'/><contact geom1='tip' data='found force torque pos' reduce='netforce'/>
    <contact geom1='tip' data='force dist' num='2'/><jointlimitfrc joint='a'/><tendonlimitfrc tendon='fixed'/></sensor>
</mujoco>)";
}

/// The same with muscles and gains that are affine, along joints, tendons and at a site, in place of its servos.
inline std::string GainScene(const std::string& cone, int condim) {
  std::string scene = MetricScene(cone, condim);
  const std::size_t first = scene.find("<actuator>"), last = scene.find("</actuator>");
  scene.replace(first, last - first,
                R"(<actuator><muscle tendon='pulled' lengthrange='.1 .7' force='60' tausmooth='.2'/>
    <muscle joint='b' lengthrange='-2 2' force='15' fpmax='3' tausmooth='.2'/>
    <general joint='b' gaintype='affine' gainprm='3 -9 -2' biastype='affine' biasprm='0 -8 -.9'/>
    <general tendon='pulled' dyntype='filter' dynprm='.05' gaintype='affine' gainprm='9 -30 -4' biastype='muscle' biasprm='.75 1.05 40 200 .5 1.6 1.5 1.3 1.2' lengthrange='.1 .5'/>
    <general tendon='fixed' dyntype='filter' dynprm='.05' actearly='true' gaintype='affine' gainprm='1 -9 -3' biastype='affine' biasprm='0 -3 -.4'/>
    <general joint='c' gaintype='affine' gainprm='1 0 -.5' biastype='affine' biasprm='0 0 -.8'/>
    <general joint='x' gaintype='affine' gainprm='1 -8 -.5'/><muscle joint='c' lengthrange='-2 2' force='15'/>
    <general site='t' refsite='post' gear='1 .2 0 0 0 0' gaintype='affine' gainprm='9 -30 -4' biastype='affine' biasprm='0 -40 -5'/>
    <general joint='a' gaintype='affine' gainprm='15 -40 -3' biastype='affine' biasprm='0 -60 -4' forcerange='-3 3'/>)");
  return scene;
}

/// A scene of these in a wind, all its geoms ellipsoids for the fluid if asked for.
inline std::string InFluid(std::string scene, bool ellipsoids) {
  const auto insert = [&](const std::string& behind, const std::string& text) {
    scene.insert(scene.find(behind) + behind.size(), text);
  };
  const std::string shape = " fluidshape='ellipsoid' fluidcoef='.1 .6 2 .8 .7'";
  if (ellipsoids && scene.find("<default><geom") != std::string::npos) insert("<default><geom", shape);
  else if (ellipsoids) insert("<default>", "<geom" + shape + "/>");
  insert("<option", " density='60' viscosity='.4' wind='1 .5 -.3'");
  return scene;
}

/// Loops that connects and welds close, of bodies and of sites, between trees and with the world, beside springs, dampers
/// and servos of joints and along a tendon.
inline std::string LoopScene(const std::string& flags = "") {
  return R"(<mujoco><option timestep='0.004' integrator='discrete'><flag contact='disable' )" + flags + R"(/></option>
  <default><equality solref='.05 .8' solimp='.4 .95 .3'/></default>
  <worldbody>
    <body name='upper' pos='0 0 1'><joint name='a' axis='0 1 .2' damping='.3' stiffness='2'/>
      <geom type='capsule' fromto='0 0 0 .3 0 -.05' size='.03' mass='1'/>
      <body name='lower' pos='.3 0 -.05'><joint type='ball' damping='.05' stiffness='3' armature='.01'/>
        <geom type='capsule' fromto='0 0 0 .1 .1 -.2' size='.03' mass='.5'/><site name='s' pos='.05 .1 0' euler='20 30 0'/>
        <body name='tip' pos='.1 .1 -.2'><joint name='b' axis='1 0 .3' damping='.1'/>
          <geom type='box' size='.1 .05 .03' pos='0 .02 -.1' mass='.3'/><site name='t' pos='0 0 -.05' euler='0 40 10'/></body></body></body>
    <body name='cart' pos='.55 .1 .6'><joint name='x' type='slide' axis='1 0 0' damping='4' stiffness='20'/><joint name='c' axis='0 .3 1' damping='.1'/>
      <geom type='box' size='.1 .05 .02' pos='0 .1 0' mass='.6'/><site name='u' pos='0 .1 .05'/></body>
    <body name='load' pos='.5 .3 .7'><freejoint/><geom type='box' size='.1 .2 .05' pos='.02 .01 0' mass='.8'/><site name='w' pos='.1 0 0' euler='0 0 30'/></body>
  </worldbody>
  <tendon><spatial name='rope' stiffness='10' damping='1' springlength='.1'><site site='s'/><site site='u'/></spatial></tendon>
  <equality><connect body1='tip' body2='cart' anchor='0 .1 -.1'/><connect site1='s' site2='w'/><connect body1='load' anchor='0 .1 .1'/>
    <weld body1='tip' body2='load' torquescale='.4'/><weld site1='u' site2='w' torquescale='2'/><weld body1='lower' relpose='.3 0 .9 1 .1 0 .2'/></equality>
  <actuator><position joint='b' kp='20' kv='1'/><velocity joint='c' kv='.4'/><motor joint='a'/></actuator>
  <sensor><force site='t'/><torque site='s'/><accelerometer site='w'/></sensor>
</mujoco>)";
}

/// Bodies that fly: one with a welded part; one with damping, armature and a thruster; one that a tendon's spring pulls,
/// three that a flex ties. And one that lies on the floor.
inline std::string FlightScene(const std::string& cone) {
  return R"(<mujoco><option timestep='0.004' integrator='discrete' cone=')" + cone + R"('/>
  <default><default class='corner'><geom size='.02 .03 .04' type='ellipsoid' mass='.2'/></default></default>
  <worldbody>
    <geom type='plane' size='2 2 .1'/><site name='post' pos='.2 .3 .6'/>
    <body name='tumbling' pos='0 0 1'><freejoint/><geom type='box' size='.1 .2 .05' mass='1'/>
      <body pos='.1 .2 .1' euler='30 20 0'><geom type='capsule' size='.03 .1' mass='.4'/><site name='s' pos='0 0 .1'/></body></body>
    <body name='damped' pos='1 0 1'><joint type='free' damping='.2' armature='.05'/>
      <geom type='ellipsoid' size='.1 .2 .05' pos='.02 0 .05' mass='.7'/><site name='t' pos='.1 0 0'/></body>
    <body name='pulled' pos='0 1 1'><freejoint/><geom type='box' size='.1 .2 .05' mass='1'/><site name='p' pos='.1 .2 0'/></body>
    <body name='corner0' pos='2 0 1' childclass='corner'><freejoint/><geom/></body>
    <body name='corner1' pos='2.2 0 1' childclass='corner'><freejoint/><geom/></body>
    <body name='corner2' pos='2 .2 1' childclass='corner'><freejoint/><geom/></body>
    <body name='lying' pos='-1 0 .045'><freejoint/><geom type='box' size='.1 .2 .05'/></body>
  </worldbody>
  <deformable><flex name='cloth' dim='2' body='corner0 corner1 corner2' vertex='.01 0 0 0 .01 0 0 0 .01' element='0 1 2' radius='.001'>
    <elasticity young='1e4' poisson='.2' thickness='.01' elastic2d='stretch'/><contact contype='0' conaffinity='0'/></flex></deformable>
  <tendon><spatial name='rope' stiffness='40' damping='2' springlength='.1'><site site='p'/><site site='post'/></spatial></tendon>
  <actuator><motor site='t' gear='0 0 3 0 .2 .5'/><position tendon='rope' kp='20' kv='3'/></actuator>
  <sensor><accelerometer site='s'/><gyro site='t'/><force site='s'/><frameangacc objtype='body' objname='damped'/></sensor>
</mujoco>)";
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_METRIC_SCENE_H_
