/* XXH3-64, whole and streaming, and its 16 hex digits. Source: xxHash
 * (https://github.com/Cyan4973/xxHash), seed 0. */
#ifndef LULL__CHECKSUM_H
#define LULL__CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define LULL__HASH_HEX 17 /* 16 digits and NUL */

typedef struct lull__hash {
    _Alignas(64) unsigned char state[640];
} lull__hash_t;

void lull__hash_begin(lull__hash_t *hash);
void lull__hash_update(lull__hash_t *hash, const void *data, size_t bytes);
uint64_t lull__hash_end(const lull__hash_t *hash);

/* In one go; the same value. */
LULL_PRIVATE uint64_t lull__hash_of(const void *data, size_t bytes);

/* 16 lower-case hex digits, most significant first. */
void lull__hash_format(uint64_t value, char out[LULL__HASH_HEX]);
/* Takes exactly what format writes: 16 lower-case digits and NUL. */
bool lull__hash_parse(const char *text, uint64_t *value);

#endif
