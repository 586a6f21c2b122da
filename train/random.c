/* Counter-based random numbers: rounds of a 64-bit mixer over key and
 * counter (the finaliser of splitmix64, Steele et al., OOPSLA 2014). */
#include "random.h"

#include <math.h>

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t key, uint64_t counter) {
    return mix(mix(counter ^ mix(key)) + key);
}

uint64_t random_key(uint64_t seed, const char *name) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return random_bits(seed, hash);
}

double random_uniform(uint64_t key, uint64_t counter) {
    return (double)(random_bits(key, counter) >> 11) * 0x1p-53;
}

uint64_t random_below(uint64_t key, uint64_t counter, uint64_t limit) {
    return (uint64_t)(((unsigned __int128)random_bits(key, counter) * limit) >>
                      64);
}

double random_normal(uint64_t key, uint64_t counter) {
    /* Box and Muller; 1 - u is never 0. */
    double u = 1.0 - random_uniform(key, 2 * counter);
    double angle = 2.0 * M_PI * random_uniform(key, 2 * counter + 1);
    return sqrt(-2.0 * log(u)) * cos(angle);
}
