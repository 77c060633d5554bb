// How often this thread has allocated, in every library of the process: malloc itself counts. Include it in one file of
// a test program.
#ifndef COSTATE_TESTS_SUPPORT_COUNT_ALLOCATIONS_H_
#define COSTATE_TESTS_SUPPORT_COUNT_ALLOCATIONS_H_

#include <cstddef>

namespace costate::support {
thread_local long allocations = 0;
}

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t n, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void* malloc(std::size_t size) { return ++costate::support::allocations, __libc_malloc(size); }
void* calloc(std::size_t n, std::size_t size) { return ++costate::support::allocations, __libc_calloc(n, size); }
void* realloc(void* memory, std::size_t size) { return ++costate::support::allocations, __libc_realloc(memory, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return ++costate::support::allocations, __libc_memalign(alignment, size);
}
}

#endif  // COSTATE_TESTS_SUPPORT_COUNT_ALLOCATIONS_H_
