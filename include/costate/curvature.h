// Second derivatives of a rollout's loss as products with vectors: for Newton's method with conjugate gradients.
#ifndef COSTATE_CURVATURE_H_
#define COSTATE_CURVATURE_H_

#include <memory>
#include <vector>

#include <costate/loss.h>
#include <costate/tangent.h>

namespace costate {

struct CurvatureOptions {
  Level level = Level::kBest;                ///< of the steps' derivatives
  const ParameterSet* parameters = nullptr;  ///< directions have theta; the curvature was made with parameters->model()
};

/// A second derivative times a direction.
struct CurvatureProduct {
  RolloutStatus status;  ///< not ok: a derivative failed at status.knot, and there is no product
  RolloutDirection product;
  std::vector<int>
      one_sided;  ///< Hessian: knots where a switch lies within the nudge; there it is that of the point's side
  std::vector<int> left_out;  ///< Hessian: knots whose step's own curvature is not in it, as no two nudges gave the
                              ///< same: switches are nearer than each on both sides, or the step's derivative is noise;
                              ///< or not that by parameters, as slopes have a corner at their values
  double theta_step =
      0;  ///< Hessian by parameters: the products were differenced along theta_step · d.theta, and half of it
  /// How far those two were apart: an upper estimate of the error of what was extrapolated from them. Relative to the
  /// part of what is pulled back where that is most: states and controls, each parameter for itself; parts that are
  /// noise do not count. Infinite where a parameter of d.theta has no second derivative at some knot, see left_out.
  double theta_error = 0;
};

/// L(x0 ⊕ dx0, U + dU) = L + g·d + ½ dᵀ H d + …, about one trajectory: H d and its Gauss–Newton part, by a tangent
/// sweep and an adjoint sweep. Matrices are formed only to push sensors and parameters forward. For many products about
/// a short motion, those of Simulator::Linearize are faster.
class Curvature {
 public:
  /// @param model    must outlive it; not modified.  @param context  by kContextSignature, as of the rollout.
  /// @param threads  workers for the second derivatives of the steps; 0: one a core. Results do not depend on it.
  /// @throws Error{kUnsupported} as Adjoint.
  Curvature(const mjModel* model, ConstVectorRef context, int substeps = 1, int threads = 1);
  ~Curvature();

  /// Goes to a trajectory, as Simulator::Rollout fills it; all arguments are borrowed until the next call.
  ///
  /// @return not ok: a derivative failed at .knot, and there are no products here.
  /// @throws Error{kDimensionMismatch, kInvalidArgument, kUnsupported} as Linearizer::Vjp.
  /// Cost: N VJPs.
  RolloutStatus SetPoint(const Trajectory& trajectory, const Loss& loss, const CurvatureOptions& options = {});

  double loss() const;                       ///< L
  const RolloutDirection& gradient() const;  ///< g

  /// Jᵀ W J d, W the second derivative of the loss by states, controls and sensors or its Gauss–Newton part
  /// (Loss::GaussNewtonProduct), J theirs by the inputs. Symmetric; positive semidefinite for every Cost, and for any
  /// loss that is convex in them. Exact to rounding but for W.
  ///
  /// @throws Error{kInvalidArgument} before SetPoint.  Cost: N JVPs and N VJPs, with parameters N Linearize and N VJPs.
  void GaussNewton(const RolloutDirection& d, CurvatureProduct* out);

  /// H d: Jᵀ W J d and the curvature of the steps, Σ_t λ_{t+1}·f''(x_t, u_t)(d, ·), by centred differences of the VJP
  /// at fixed costate on converged steps. Relative error 1e-10 in free motion, up to 1e-6 in stiff contact, 4e-5 where
  /// terms of the step have no closed form; measured, not bounded. A change of active set within 3e-7 of a point is
  /// left out, see one_sided.
  ///
  /// As all derivatives, those of converged steps along the motion as it is. Where the model's solver ends early,
  /// differences of gradients or losses along its own motions tend to something else: iterations turn with their start
  /// (SolverGap::slope; a loss missed by 1e-3, H d by 3e-3). Tolerance 0 in <option> takes that away; with flexes under
  /// the discrete integrator take 1e-14, as there the engine's solver may end at NaN with 0.
  ///
  /// With parameters also their part, Σ_t (∂/∂θ of the pull-back at fixed costate), which has no closed form: centred
  /// differences of the exact pull-backs of models at θ ± theta_step d.theta and half of that, extrapolated (one-sided
  /// where bounds are near, at half the steps where the two are far apart); step and estimated error come with the
  /// product. Parameters in closed form leave 1e-8, those that the pull-back itself differences 1e-5.
  ///
  /// @throws as GaussNewton; Error{kInvalidArgument} when d.theta leaves the parameters' bounds both ways.
  /// Cost: N JVPs and 3 to 5 N VJPs, up to 4 N more where curvature is weak beside slopes; 5 to 9 N where terms are
  /// differenced, 17 N beside switches; with parameters N Linearize and up to 17 N VJPs. Source:
  /// plugin/rollout/README.md, "Tangent and curvature".
  void Hessian(const RolloutDirection& d, CurvatureProduct* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_CURVATURE_H_
