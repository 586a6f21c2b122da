/* MPC's kernels: what a variant for an instruction set gives. A chunk is 1024
 * words of 16, 32 or 64 bits; docs/formats/mpc.md has the pipeline. */
#ifndef LULL__MPC_H
#define LULL__MPC_H

#include <stddef.h>
#include <stdint.h>

#define LULL__MPC_CHUNK 1024
#define LULL__MPC_SLACK 64 /* bytes past a chunk's words, see below */

/* Every pointer may have any alignment. */
typedef struct lull__mpc_kernel {
    /* Encodes 1024 words at `values` into a bitmap of 1024 bits and the
     * non-zero words; returns how many. May write up to 1024 words and
     * LULL__MPC_SLACK bytes at `words` whatever it returns. */
    size_t (*encode)(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                     uint8_t *words);
    /* The inverse. May read 1024 words and LULL__MPC_SLACK bytes at `words`
     * whatever the bitmap says. */
    void (*decode)(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                   uint8_t *values);
} lull__mpc_kernel_t;

/* Kernels for words of 2, 4 and 8 bytes: [0], [1], [2]. */
extern const lull__mpc_kernel_t lull__mpc_portable[3], lull__mpc_avx2[3],
    lull__mpc_avx512[3];

/* The portable kernels, for variants that have none of their own. */
size_t lull__mpc_encode16(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                          uint8_t *words);
size_t lull__mpc_encode32(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                          uint8_t *words);
size_t lull__mpc_encode64(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                          uint8_t *words);
void lull__mpc_decode16(const uint8_t *bitmap, const uint8_t *words,
                        unsigned dim, uint8_t *values);
void lull__mpc_decode32(const uint8_t *bitmap, const uint8_t *words,
                        unsigned dim, uint8_t *values);
void lull__mpc_decode64(const uint8_t *bitmap, const uint8_t *words,
                        unsigned dim, uint8_t *values);

#endif
