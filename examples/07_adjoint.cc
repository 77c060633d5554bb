// The throw of 02_gradient.cc again, by the library's adjoint: one reverse sweep gives the derivative of a loss by the
// start, by every control and by every force, in as little memory as one allows. Described in
// include/costate/adjoint.h.
//
// Prints:
//   loss 1.1250; by the start's velocity 4.5000, by the first control 0.0450, by a force at the start 0.0450
//   room for ten states: the same gradient to the last bit, 537 of 300 knots simulated again
//   healthy: the costate changes 3.16-fold on its way back
#include <costate/costate.h>

#include <cstdio>

// ½ (x_T - 6)²
class Landing final : public costate::Loss {
 public:
  double Value(const costate::KnotView& knot) const override {
    return knot.t == knot.N ? 0.5 * (knot.x[0] - 6) * (knot.x[0] - 6) : 0;
  }
  void Gradient(const costate::KnotView& knot, costate::KnotGradient* out) const override {
    if (knot.t == knot.N) out->x[0] = knot.x[0] - 6;
  }
  bool NeedsSensors() const override { return false; }
};

int main() {
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/projectile/projectile.xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "throw");
  const costate::VectorXd x0 = costate::GetState(model.get(), data.get());  // x, z, vx, vz
  const costate::MatrixXd U = costate::MatrixXd::Zero(model->nu, 300);

  costate::Adjoint adjoint(model.get(), costate::GetContext(model.get(), data.get()));
  costate::RolloutGradient gradient, frugal;
  adjoint.Gradient(x0, U, Landing(), {.forces = true}, &gradient);
  std::printf("loss %.4f; by the start's velocity %.4f, by the first control %.4f, by a force at the start %.4f\n",
              gradient.loss, gradient.x0[2], gradient.U(0, 0), gradient.qfrc(0, 0));

  adjoint.Gradient(x0, U, Landing(), {.memory = 10 * gradient.kept_bytes / 300}, &frugal);
  std::printf("room for ten states: %s gradient to the last bit, %d of 300 knots simulated again\n",
              frugal.U == gradient.U ? "the same" : "another", static_cast<int>(frugal.recomputed));
  std::printf("%s\n", gradient.health.text.c_str());
}
