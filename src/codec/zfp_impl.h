/* ZFP in one dimension: what its variants share. The format is that of zfp
 * 1.0.0 (codec version 5): P. Lindstrom, "Fixed-Rate Compressed
 * Floating-Point Arrays", TVCG 2014; docs/formats/zfp.md. */
#ifndef LULL__ZFP_IMPL_H
#define LULL__ZFP_IMPL_H

#include "codec_impl.h"

/* Kernels work on groups of 16 blocks of 4 values: a group begins and ends on
 * a byte whatever the rate. */
#define LULL__ZFP_GROUP 64 /* values */

/* A kernel may read and write up to so many bytes past the stream of its
 * groups (not past the values). */
#define LULL__ZFP_SLACK 128

/* Code of a plane with state n (coefficients known to be significant) and
 * bits `nibble`: code | length << 8 | next n << 12. */
extern const uint16_t lull__zfp_encode[5][16];
/* Plane decoded in state n from the next min(left, 7) of `left` bits: nibble |
 * length << 4 | next n << 8 | coefficients known << 12. */
extern const uint16_t lull__zfp_decode[5][256];

/* Several planes at once, by [min(n, 3)][8 bits]. pairs: of two planes, code
 * length | next n << 8 | code << 16. planes: the whole planes, at most four,
 * in the next 8 bits, n = 0 in a 1 (for the first plane is not empty) and the
 * next 8: code length | next n << 8 | planes << 12 | nibbles << 16. None for
 * n = 3. */
extern const uint32_t lull__zfp_pairs[4][256], lull__zfp_planes[4][256];

/* Bits of the least magnitude, and how many from there up, that a block's
 * maximum may have to come back: below 2^-98 (f64: 2^-962) libzfp's scale
 * overflows; from 2^126 (2^1022) errors of the transform could reach Inf. */
#define LULL__ZFP_F32_LEAST (29u << 23)
#define LULL__ZFP_F32_RANGE ((253u - 29u) << 23)
#define LULL__ZFP_F64_LEAST ((uint64_t)61 << 52)
#define LULL__ZFP_F64_RANGE ((uint64_t)(2045 - 61) << 52)

/* emax + 1023 under which libzfp codes fewer than 64 planes of a block: those
 * above the least double. */
#define LULL__ZFP_F64_FULL 9

/* Tables of the lockstep decoders: zfp_tables.c. */
extern const uint8_t lull__zfp_next_plane[128], lull__zfp_next_length[128],
    lull__zfp_first_plane[64], lull__zfp_first_length[64];

typedef enum lull__zfp_mode {
    LULL__ZFP_TRUNCATE = 1, /* else round as ZFP_ROUND_LAST */
    LULL__ZFP_ADD = 2       /* add to dst instead of setting it */
} lull__zfp_mode_t;

/* maxbits: bits of a block. encode: true if all blocks can come back. */
typedef bool lull__zfp_encode_fn(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits);
typedef void lull__zfp_decode_fn(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits,
                                 unsigned mode);

lull__zfp_encode_fn lull__zfp_encode_f32_portable, lull__zfp_encode_f32_avx2,
    lull__zfp_encode_f32_avx512, lull__zfp_encode_f64_portable,
    lull__zfp_encode_f64_avx2, lull__zfp_encode_f64_avx512;
lull__zfp_decode_fn lull__zfp_decode_f32_portable, lull__zfp_decode_f32_avx2,
    lull__zfp_decode_f32_avx512, lull__zfp_decode_narrow_avx512,
    lull__zfp_decode_narrow_avx2, lull__zfp_decode_f64_portable,
    lull__zfp_decode_f64_avx2, lull__zfp_decode_f64_avx512;

#endif
