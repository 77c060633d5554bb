// Averaged gradients: what a loss or a step does on average under noise on controls and state, and the slope of that
// average.
#ifndef COSTATE_BUNDLE_H_
#define COSTATE_BUNDLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <costate/adjoint.h>

namespace costate {

struct BundleOptions {
  int pairs = 32;          ///< samples come in pairs at +w and −w: at least 2 pairs
  std::uint64_t seed = 1;  ///< equal seeds give equal results, bit for bit, whatever the number of threads
  VectorXd state;          ///< standard deviation by the tangent of x (ndx), one value a rotation; empty: no noise
  VectorXd control;        ///< standard deviation by control, in its unit (nu), each knot drawn alone; empty: no noise
};

/// One estimate of a slope of the average.
struct BundleSlope {
  VectorXd x0;                 ///< by the tangent of the initial state (ndx)
  MatrixXd U;                  ///< by the controls (nu × N)
  double deviation = 0;        ///< standard error of the whole vector: √(trace of the covariance of the mean)
  double noisy_deviation = 0;  ///< of its entries that have noise, in which the orders can be compared
};

/// Estimates of ∇F_σ, F_σ(z) = E_w F(z ⊕ w), w normal with standard deviations σ.
///
/// Entries without noise (σ = 0) have no zeroth-order estimate: there it is 0, and `combined` has the first order's.
struct BundleGradient {
  double loss = 0;            ///< F_σ
  double loss_deviation = 0;  ///< its standard error
  BundleSlope first;          ///< mean of the gradients: least scatter on smooth losses, wrong where the loss jumps
  BundleSlope zeroth;         ///< from values alone: right across jumps, scatter grows with the number of inputs
  BundleSlope combined;       ///< weight · first + (1 − weight) · zeroth
  double weight = 1;          ///< in [0, 1], of the least sum of variance and squared bias
  double bias = 0;  ///< of first, in the norm: its distance from zeroth; 0 where two standard errors explain it
  int failed = 0;   ///< pairs left out because a rollout or derivative failed; `failure` says of the first one why
  std::string failure;
  Coverage coverage;  ///< of the sample with the worst level
};

/// The same of one control interval: A and B of f_σ(x, u) = E_w f(x ⊕ w_x, u + w_u).
struct BundleMatrices {
  MatrixXd A, B;         ///< ndx × ndx, ndx × nu
  double deviation = 0;  ///< standard error, Frobenius
};
struct BundleDerivative {
  VectorXd mean;                           ///< E[f(x ⊕ w) ⊖ f(x)] (ndx)
  BundleMatrices first, zeroth, combined;  ///< as in BundleGradient
  double weight = 1, bias = 0;
  int failed = 0;
  std::string failure;
  Coverage coverage;
};

/// First- and zeroth-order bundles over workers, each with its own mjData.
///
/// Source: plugin/rollout/README.md, "Averaged gradients"; Suh, Simchowitz, Zhang & Tedrake 2022 (ICML).
class Bundle {
 public:
  /// Arguments and errors as Adjoint's.
  Bundle(const mjModel* model, ConstVectorRef context, int substeps = 1, int threads = 0);
  ~Bundle();

  /// @param adjoint  of each sample; forces and parameters are not averaged and must be off.
  /// @throws Error{kDimensionMismatch, kInvalidArgument, kUnsupported}: also for noise that is negative, not finite,
  ///         nowhere positive or different within one rotation (the error names the entry), if fewer than two pairs
  ///         succeed, and for forces, parameters or feedback in `adjoint`.
  /// Cost: 2 pairs gradients; keeps pairs × (ndx + nu N) numbers twice.
  void Gradient(ConstVectorRef x0, ConstMatrixRef U, const Loss& loss, const BundleOptions& options,
                const AdjointOptions& adjoint, BundleGradient* out);

  /// A and B about (x, u) in the constructor's context.
  /// @throws as Gradient.  Cost: 2 pairs linearizations; keeps pairs × ndx (ndx + nu) numbers twice.
  void Linearize(ConstVectorRef x, ConstVectorRef u, const BundleOptions& options, BundleDerivative* out,
                 Level level = Level::kBest);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_BUNDLE_H_
