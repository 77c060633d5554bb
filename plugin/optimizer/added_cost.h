// What is added to a problem's cost for a while, on the way to a better motion.
#ifndef COSTATE_OPTIMIZER_ADDED_COST_H_
#define COSTATE_OPTIMIZER_ADDED_COST_H_

#include <costate/cost.h>
#include <costate/model.h>
#include <costate/solve.h>

#include <mutex>
#include <vector>

#include "core/posture.h"
#include "derivative/spatial.h"

namespace costate {

/// The problem's own cost and more, of x and u alone, which is no sum of squares within its residuals. Records are
/// those of the own one, and terms unless it says otherwise.
class AddedCost : public Cost {
 public:
  /// @param own  must outlive it.
  explicit AddedCost(const Cost& own) : own_(own) {}

  bool NeedsSensors() const override { return own_.NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { own_.MarkSensors(read); }
  double LowerBound(int t) const override { return own_.LowerBound(t); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return own_.Terms(trajectory); }
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override {
    return own_.TermsWithoutSlope(knot);
  }
  void Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const override {
    record->cost = TotalCost(own_, trajectory, dt);
  }

 protected:
  const Cost& own() const { return own_; }

 private:
  const Cost& own_;
};

/// ½ w ‖r‖² with dr = J dq, by Gauss–Newton.
void AddSquare(double w, const Vec3& r, const JacobianRows& J, CostExpansion* out);

/// mjData of a problem's model and context, which several threads take for a while.
class DataPool {
 public:
  /// @param problem  must outlive it.
  explicit DataPool(const Problem& problem) : problem_(problem) {}

  class Lease {
   public:
    explicit Lease(DataPool* pool) : pool_(*pool), data_(pool_.Take()) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    mjData* get() const { return data_.get(); }

   private:
    DataPool& pool_;
    DataPtr data_;
  };

 private:
  DataPtr Take();

  const Problem& problem_;
  std::mutex mutex_;  // of free_
  std::vector<DataPtr> free_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_ADDED_COST_H_
