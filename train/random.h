/* Random numbers as functions of a key and a counter: any rank can make any
 * of them, in any order. */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stdint.h>

/* 64 random bits. */
uint64_t random_bits(uint64_t key, uint64_t counter);

/* A key for a purpose, by its name, under a seed. */
uint64_t random_key(uint64_t seed, const char *name);

/* In [0, 1). */
double random_uniform(uint64_t key, uint64_t counter);

/* Below `limit`, which is not 0. */
uint64_t random_below(uint64_t key, uint64_t counter, uint64_t limit);

/* Of the standard normal distribution. */
double random_normal(uint64_t key, uint64_t counter);

#endif
