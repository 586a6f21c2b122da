/* Things that several tests need. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t test_seed(void) {
    const char *given = getenv("LULL_TEST_SEED");
    uint64_t seed = given
                        ? strtoull(given, NULL, 0)
                        : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("LULL_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

uint64_t test_random(uint64_t *state) {
    /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
