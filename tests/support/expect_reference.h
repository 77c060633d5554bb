// A derivative against the reference, block by block.
#ifndef COSTATE_TESTS_SUPPORT_EXPECT_REFERENCE_H_
#define COSTATE_TESTS_SUPPORT_EXPECT_REFERENCE_H_

#include <costate/derivative_check.h>
#include <gtest/gtest.h>

namespace costate::support {

/// No entry is wrong at 1e-7 of its block's largest (costate/derivative_check.h).
inline void ExpectReference(const mjModel* model, const mjData* data, const StepDerivative& value) {
  for (const BlockComparison& block : Compare(model, value, Reference(model, data), {.tolerance = 1e-7}).blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << ": "
                              << block.worst.value << ", not " << block.worst.reference << " +- "
                              << block.worst.error_bar;
  }
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_EXPECT_REFERENCE_H_
