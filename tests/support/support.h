/* Things that several tests need. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

/* A seed: LULL_TEST_SEED if set, else a new one; printed, so that a failing
 * run can be made again. */
uint64_t test_seed(void);

/* The next of a stream of random numbers. */
uint64_t test_random(uint64_t *state);

/* Sets a locale whose decimal point is a comma: one of the machine's, else one
 * made here. False: none can be had, and says so. */
bool test_decimal_comma(void);

#endif
