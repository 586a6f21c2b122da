/* What every codec has to stand, whatever it codes. */
#ifndef CODEC_CHECK_H
#define CODEC_CHECK_H

#include <lull/codec.h>

/* Calls fn under every instruction set that this machine has, portable
 * first; the setting is "auto" again afterwards. */
void codec_check_isas(void (*fn)(const char *isa, void *ctx), void *ctx);

/* Under every instruction set: encodes (the same bytes as portable), decodes
 * (the same bits as portable, into `decoded` if it is not NULL), decodes and
 * adds (as adding what decode gives), all of it with misaligned pointers too;
 * with a capacity of one byte less; with canaries around every output; and
 * decodes prefixes of the stream: right or refused. Returns the bytes of the
 * stream. */
size_t codec_check(const lull_codec_t *codec, const void *values, size_t count,
                   void *decoded);

/* As codec_check, and what comes back must be the values, bit for bit. */
size_t codec_check_lossless(const lull_codec_t *codec, const void *values,
                            size_t count);

/* Decodes mutations of the values' stream under every instruction set: any
 * status, but nothing outside the output is touched. */
void codec_check_mutations(const lull_codec_t *codec, const void *values,
                           size_t count, uint64_t *random);

/* A file of tests/golden, into a block of its own for free(). */
uint8_t *codec_check_golden(const char *name, size_t *bytes);

/* Fills with values of a kind, for dtypes F32, F64, F16 and BF16. */
typedef enum codec_fill {
    FILL_ZERO,
    FILL_NORMAL,  /* Gaussian, deviation 1e-3 */
    FILL_BITS,    /* random bit patterns, NaN and Inf among them */
    FILL_RAMP,    /* 0, 1, 2, ... / 8 */
    FILL_SPARSE,  /* half zeros, the rest normal */
    FILL_RUNS,    /* normal with long runs of zeros */
    FILL_SPECIAL, /* zeros of both signs, subnormals, largest, NaN, Inf */
    FILL_WIDE,    /* many orders of magnitude */
    FILL_POWERS,  /* powers of two: mantissas of zero */
    FILL_COUNT
} codec_fill_t;
void codec_check_fill(codec_fill_t kind, lull_dtype_t dtype, void *values,
                      size_t count, uint64_t *random);

#endif
