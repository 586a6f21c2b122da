/* The n-th allocation of the library fails. For programs whose linker
 * sends every allocator that the library calls here first (see
 * tests/unit/CMakeLists.txt). Counted over all threads, the test's own calls
 * too. */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Counts anew; the n-th from now on, from 1, finds no memory; 0: none. Gives
 * whether the one that was to fail before was reached. */
bool allocations_arm(uint64_t n);

/* So far since then. */
uint64_t allocations_count(void);

/* Bytes that are held now, and the most since the last call of this. */
uint64_t allocations_held(uint64_t *most);

#endif
