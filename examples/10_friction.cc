// Resting and sliding contact: a push on a block that sticks or slides by Coulomb's law, true and
// with smoothed friction, and forces on a box that rests on four corners. With a folder as argument
// it also writes tables there; examples/contact_answers/gradients.gp draws them.
//
// Prints:
//   block under  4 N, 9.81 N hold it: it yields 0.00 of 1, friction 100 /s 0.01, 10 /s 0.10
//   block under 16 N, 9.81 N hold it: it yields 0.99 of 1, friction 100 /s 0.97, 10 /s 1.03
//   box on four corners: acceleration by force is finite and symmetric; 1 N of 9.81 N lifts by 0.0199 m/s^2
#include <costate/costate.h>

#include <cstdio>
#include <string>

using costate::ModelPtr;

// mass / T × d speed at T / d push, of a push that lasts from rest to T = 0.5 s: 1 slides as if
// freely, 0 sticks
double Yields(const mjModel* model, double push) {
  const costate::DataPtr data = costate::MakeData(model);
  costate::Linearizer linearizer(model, {.sensors = false});
  costate::StepDerivative step;
  costate::VectorXd by = costate::VectorXd::Zero(4), control = costate::VectorXd::Constant(1, push);
  data->ctrl[0] = push;
  while (data->time < 0.5) {
    linearizer.Linearize(costate::GetState(model, data.get()), control, &step);
    by = step.A * by + step.B;
    mj_step(model, data.get());
  }
  return model->body_mass[1] / data->time * by[2];
}

void Block(const std::string& folder) {
  const ModelPtr truth = costate::LoadModelFromString(
      "<mujoco><option cone='elliptic'/><worldbody><geom type='plane' size='1 1 1' "
      "friction='.5'/><body pos='0 0 .05'>"
      "<joint name='x' type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/>"
      "<geom type='box' size='.1 .1 .05' mass='2' friction='.5'/></body></worldbody>"
      "<actuator><motor joint='x'/></actuator></mujoco>");
  const costate::SmoothModel steep = costate::MakeSmoothModel(truth.get(), {.friction = 100}),
                             flat = costate::MakeSmoothModel(truth.get(), {.friction = 10});
  std::FILE* table = folder.empty() ? nullptr : std::fopen((folder + "/block.csv").c_str(), "w");
  if (table) std::fprintf(table, "push,true,100 /s,10 /s\n");
  for (double push = 0; push <= 16; push += 0.5) {
    const double by[] = {Yields(truth.get(), push), Yields(steep.model.get(), push), Yields(flat.model.get(), push)};
    if (table) std::fprintf(table, "%g,%.9g,%.9g,%.9g\n", push, by[0], by[1], by[2]);
    if (push != 4 && push != 16) continue;
    std::printf(
        "block under %2g N, 9.81 N hold it: it yields %.2f of 1, friction 100 /s %.2f, 10 /s "
        "%.2f\n",
        push, by[0], by[1], by[2]);
  }
  if (table) std::fclose(table);
}

void Box(const std::string& folder) {
  const ModelPtr model = costate::LoadModelFromString(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 .0995'><freejoint/>"
      "<geom type='box' size='.1 .1 .1' mass='1'/></body></worldbody></mujoco>");
  costate::AccelerationDerivative by;
  const costate::VectorXd x = costate::GetState(model.get(), costate::MakeData(model.get()).get());
  costate::Linearizer(model.get()).LinearizeAcceleration(x, costate::VectorXd(), &by);
  const double asymmetry = (by.force - by.force.transpose()).norm() / by.force.norm();
  std::printf(
      "box on four corners: acceleration by force is %s and %s; 1 N of 9.81 N lifts by %.4f "
      "m/s^2\n",
      by.force.allFinite() ? "finite" : "not finite", asymmetry < 1e-12 ? "symmetric" : "not symmetric",
      by.force(2, 2));
  if (folder.empty()) return;
  std::FILE* table = std::fopen((folder + "/box.csv").c_str(), "w");
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) std::fprintf(table, "%.9g%c", by.force(i, j), j < 5 ? ',' : '\n');
  }
  std::fclose(table);
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "";
  Block(folder);
  Box(folder);
}
