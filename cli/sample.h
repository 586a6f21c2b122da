/* Made-up state, for `lull bench` and the benchmarks of bench/. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include <stdint.h>

/* Fills with numbers as weights are: of a few sizes, their last bits random;
 * the same ones each time. */
void sample_weights(float *values, uint64_t count);

#endif
