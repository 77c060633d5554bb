// How often this thread has allocated, in every library of the process; allocation_test.cc counts.
#ifndef COSTATE_TESTS_DERIVATIVE_ALLOCATIONS_H_
#define COSTATE_TESTS_DERIVATIVE_ALLOCATIONS_H_

namespace costate {

long Allocations();

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_ALLOCATIONS_H_
