// A model with one parameter moved a little: what differences by parameters evaluate.
#ifndef COSTATE_PARAMETER_STENCILS_H_
#define COSTATE_PARAMETER_STENCILS_H_

#include <costate/parameter.h>

#include "parameter/field.h"

#include <memory>
#include <utility>
#include <vector>

namespace costate {

/// For each parameter the models of a difference stencil: f'(θ_k) ≈ Σ weight_i f(model_i). README.md, eq. (5).
///
/// They are made once for given values, whatever the states they are then used at: each is kept as what it changes.
/// Five points, inside the bounds; where the model is polynomial in θ_k up to the fourth degree that is exact.
class ParameterStencils {
 public:
  explicit ParameterStencils(const ParameterSet& set);

  /// Takes the values of `set`, which is the one of the constructor or a copy of it.
  void Refresh(const ParameterSet& set);

  int size() const { return set_.size(); }
  const Parameter& parameter(int k) const { return set_[k]; }
  const Field& field(int k) const;
  int element(int k) const;
  int index(int k) const;              ///< within the field
  const VectorXd& block(int k) const;  ///< all numbers of its field

  struct Point {
    double weight = 0;
    double offset = 0;
  };
  /// Other nudges than the usual ones: of a thirtieth, where those leave the smooth piece of the step; of 64 and of
  /// 4096 where rounding hides what they do. Made when first asked for.
  enum Reach { kUsual, kFine, kWide, kWidest, kReaches };
  const std::vector<Point>& Points(int k, Reach reach = kUsual);

  /// The model of one point; valid until the next call. Its automatic reset and sleep are off.
  const mjModel* Model(int k, int point, Reach reach = kUsual);
  const mjModel* Center();

  /// Nudges that halve, for differences that look for switches: inside the bounds and clamps, README.md, section 3.
  struct Ladder {
    double longest = 0;
    int side = 0;  ///< 1 or -1 where there is room to that side alone
  };
  Ladder LadderOf(int k, Reach reach) const;

  /// The model at longest / 2^size to one side (1, -1), as Model; with side 0 the values themselves, with the frames
  /// that the parameter places apart.
  const mjModel* Rung(int k, Reach reach, int size, int side);

 private:
  using Words = std::vector<std::pair<std::size_t, std::uint64_t>>;  // offset in the buffer, eight bytes
  struct Change {
    Words words;
    mjModel scalars;  // shallow: options and flags
  };
  struct Stencil {
    std::vector<Point> points;
    std::vector<Change> changes;
  };
  Stencil Make(int k, double nudge, ParameterSet* moved, const mjModel* base) const;
  Change MakeChange(int k, double value, VectorXd* at, ParameterSet* moved, const mjModel* base) const;
  const Stencil& Get(int k, Reach reach);
  const mjModel* Apply(const Change& change);
  void Undo();
  const mjModel* Shallow(const mjModel& scalars);
  Change Difference(const mjModel* moved, const mjModel* base) const;

  ParameterSet set_;  // our own copy: its model receives the changes and loses them again
  std::uint64_t revision_ = 0;
  bool made_ = false;
  std::vector<Stencil> stencils_[kReaches];
  std::vector<std::vector<std::unique_ptr<Change>>> rungs_[kReaches];  // made when first asked for, by …
  std::unique_ptr<ParameterSet> mover_;                                // … a copy that is kept
  Words undo_;
  mjModel shallow_;
};

}  // namespace costate

#endif  // COSTATE_PARAMETER_STENCILS_H_
