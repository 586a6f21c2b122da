/* Made-up state. */
#include "sample.h"

/* Each is a sum of three uniform ones. */
void sample_weights(float *values, uint64_t count) {
    uint64_t x = 88172645463325252U;
    for (uint64_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        values[i] = ((float)(x & 0xfffff) + (float)(x >> 20 & 0xfffff) +
                     (float)(x >> 40 & 0xfffff) - 1572864.0F) *
                    3e-8F;
    }
}
