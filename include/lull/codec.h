/* Codecs for arrays of numbers: one table, each named by a string that users
 * write in policies, and the frame, a self-describing envelope around what a
 * codec wrote.
 *
 *     raw          as it is, any dtype
 *     bf16, f16    casts of f32 and f64, rounded to nearest even
 *     zfp:RATE     lossy, RATE bits a value in quarters, 2.25 to 32 (f64: 3
 *                  to 64; f16, bf16: to 16); the streams are libzfp's
 *     mpc[:DIM]    lossless, DIM 1 to 32, default 1; the streams are MPC 1.2's
 *     expo         lossless, codes exponents by their entropy
 *     mxint8       lossy, blocks of 32 with one scale (OCP Microscaling)
 *
 * Simple use, safe on every input:
 *
 *     lull_codec_parse("zfp:8", LULL_F32, &codec);
 *     lull_codec_scratch_create(&scratch);
 *     lull_frame_bound(&codec, count, &bound);
 *     lull_buffer_t out = {.data = malloc(bound), .capacity = bound};
 *     lull_frame_encode(&codec, values, count, flags, &out, scratch);
 *     lull_frame_decode(out.data, out.bytes, 0, values, bytes, scratch);
 *
 * A codec value is small and plain; copy it freely. Encoding and decoding
 * allocate nothing: a scratch object, one a thread, holds what they need.
 * Arrays and streams need no alignment and must not overlap. All functions
 * here are thread-safe as long as a scratch is used by one thread at a time.
 * All but the parsers may be called with a count of 0. */
#ifndef LULL_CODEC_H
#define LULL_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A codec with its parameter, for one dtype. Fill it with lull_codec_parse();
 * afterwards only flags may be changed. */
typedef struct lull_codec {
    uint16_t id;    /* row of the table, pinned for ever: stands in frames */
    uint16_t flags; /* LULL_CODEC_*; 0 is best for most */
    uint32_t param; /* zfp: rate in quarter bits; mpc: dim; else 0 */
    lull_dtype_t dtype;
} lull_codec_t;

/* Flags. They choose between ways to encode or decode; a stream does not tell
 * which was chosen, and any decoder reads it. */
typedef enum lull_codec_flags {
    /* zfp decodes as libzfp does by default: what was not coded is zero. It
     * is biased; without this flag the decoder rounds as a libzfp built with
     * ZFP_ROUND_LAST does. */
    LULL_CODEC_ZFP_TRUNCATE = 1,
    /* mxint8 encodes with stochastic instead of nearest-even rounding. */
    LULL_CODEC_STOCHASTIC = 2,
    /* lull_codec_encode() writes values that the codec cannot bring back
     * (but NaN and Inf) instead of failing, as the zfp program does. */
    LULL_CODEC_FORCE = 4
} lull_codec_flags_t;

/* Longest text of lull_codec_format() with its NUL. */
#define LULL_CODEC_SPEC_MAX 32

/* Parses a spec such as "zfp:8" for arrays of `dtype`. LULL_ERR_NOT_FOUND: no
 * such codec; LULL_ERR_INVALID: parameter malformed or out of range, named;
 * LULL_ERR_UNSUPPORTED: the codec does not know the dtype. */
LULL_API lull_status_t lull_codec_parse(const char *spec, lull_dtype_t dtype,
                                        lull_codec_t *out);

/* Writes the spec of a codec ("zfp:6.5") to `text`, LULL_CODEC_SPEC_MAX bytes
 * always suffice. LULL_ERR_CAPACITY; LULL_ERR_INVALID: not a codec. */
LULL_API lull_status_t lull_codec_format(const lull_codec_t *codec, char *text,
                                         size_t size);

/* What a row of the table says; static strings. */
typedef struct lull_codec_info {
    uint16_t id;
    const char *name;  /* "zfp" */
    const char *usage; /* "zfp:RATE" */
    const char *help;  /* one line */
    bool lossy;
} lull_codec_info_t;

/* Row `index` of the table, from 0; LULL_ERR_NOT_FOUND past the last. */
LULL_API lull_status_t lull_codec_at(unsigned index, lull_codec_info_t *out);

/* Does decode give other bits than were encoded? True for what is no codec. A
 * cast to the array's own dtype is not lossy. */
LULL_API bool lull_codec_is_lossy(const lull_codec_t *codec);

/* The instruction set that the codecs use: "portable", "avx2" or "avx512": the
 * best this machine has, or a lesser one by the setting `isa`, which may be
 * changed between calls (not beside them). Every one gives the same bits. */
LULL_API const char *lull_codec_isa(void);

/* Working memory of one thread, under 64 KiB. LULL_ERR_NO_MEMORY. */
typedef struct lull_codec_scratch lull_codec_scratch_t;
LULL_API lull_status_t lull_codec_scratch_create(lull_codec_scratch_t **out);
LULL_API void lull_codec_scratch_destroy(lull_codec_scratch_t *scratch);

/* Seeds the random numbers of LULL_CODEC_STOCHASTIC; 0 at creation. */
LULL_API void lull_codec_scratch_seed(lull_codec_scratch_t *scratch,
                                      uint64_t seed);

/* Where an encoder writes. */
typedef struct lull_buffer {
    void *data;
    size_t capacity; /* bytes at data */
    size_t bytes;    /* set on success: how many were written */
} lull_buffer_t;

/* ---- Frames ------------------------------------------------------------ */

/* A frame holds one array of at most 2^48 values with its codec, dtype and
 * count: docs/formats/frame.md. Values are coded in units of LULL_UNIT; a unit
 * that the codec cannot represent (NaN, Inf, values that would decode to Inf
 * or lose their size) or cannot shrink is stored raw, so every array can be
 * framed, and comes back exact or within the codec's ordinary loss. */
#define LULL_UNIT 32768            /* values of a unit */
#define LULL_FRAME_HEADER_BYTES 32 /* what lull_frame_peek() needs */

typedef enum lull_frame_flags {
    LULL_FRAME_CHECKSUM = 1, /* encode: add a checksum (XXH3, 64 bits).
                                peek: there is one. */
    LULL_FRAME_ESCAPES = 2,  /* peek: at least one unit is raw although the
                                codec is not */
    LULL_FRAME_TRUST = 4     /* decode: do not verify the checksum */
} lull_frame_flags_t;

/* The most bytes to give an encoder for `count` values: the raw array, a
 * little for each unit and the header. LULL_ERR_INVALID: too many values, or
 * not a codec. */
LULL_API lull_status_t lull_frame_bound(const lull_codec_t *codec, size_t count,
                                        size_t *bytes);

/* Encodes to a frame. `flags`: LULL_FRAME_CHECKSUM or 0. LULL_ERR_CAPACITY:
 * the buffer is too small (never with lull_frame_bound()'s size; a smaller
 * one may do). LULL_ERR_INVALID. */
LULL_API lull_status_t lull_frame_encode(const lull_codec_t *codec,
                                         const void *values, size_t count,
                                         unsigned flags, lull_buffer_t *out,
                                         lull_codec_scratch_t *scratch);

typedef struct lull_frame_info {
    lull_codec_t codec; /* dtype included; codec.flags is 0 */
    unsigned flags;     /* LULL_FRAME_CHECKSUM, LULL_FRAME_ESCAPES */
    uint64_t count;     /* values */
    uint64_t bytes;     /* of the whole frame, header included */
} lull_frame_info_t;

/* Reads and checks a header: `bytes` may be the whole frame or only its first
 * LULL_FRAME_HEADER_BYTES. Allocates nothing; info->count is plausible for
 * info->bytes but it is the caller who knows what to expect. LULL_ERR_CORRUPT:
 * the field is named; LULL_ERR_VERSION: a later version; LULL_ERR_NOT_FOUND:
 * a codec this library does not know; LULL_ERR_UNSUPPORTED. */
LULL_API lull_status_t lull_frame_peek(const void *frame, size_t bytes,
                                       lull_frame_info_t *out);

/* Decodes a frame of exactly `bytes` bytes to an array of exactly
 * `values_bytes` bytes. `flags`: LULL_FRAME_TRUST (skip the checksum) and
 * LULL_FRAME_DECODE(codec flags). LULL_ERR_MISMATCH: the frame's values do not
 * fill the array; LULL_ERR_CORRUPT: checksum, sizes or a stream are wrong,
 * named; else as peek. After a failure the array's content is undefined, but
 * nothing outside it was touched. */
#define LULL_FRAME_DECODE(codec_flags) ((unsigned)(codec_flags) << 16)
LULL_API lull_status_t lull_frame_decode(const void *frame, size_t bytes,
                                         unsigned flags, void *values,
                                         size_t values_bytes,
                                         lull_codec_scratch_t *scratch);

/* Decodes and adds: sum[i] += value i. `sum` is float for f32, f16 and bf16,
 * double for f64; other dtypes: LULL_ERR_UNSUPPORTED. Each value is decoded
 * to its dtype's precision as lull_frame_decode() would. Else as decode. */
LULL_API lull_status_t lull_frame_decode_add(const void *frame, size_t bytes,
                                             unsigned flags, void *sum,
                                             size_t sum_bytes,
                                             lull_codec_scratch_t *scratch);

/* ---- Bare streams ------------------------------------------------------ */

/* The codec's own bytes, as the zfp program or MPC write them: no header of
 * ours, no escape, no checksum. The reader has to know codec and count. */

/* The most bytes that `count` values take. LULL_ERR_INVALID. */
LULL_API lull_status_t lull_codec_bound(const lull_codec_t *codec, size_t count,
                                        size_t *bytes);

/* LULL_ERR_CAPACITY: the buffer is too small (never with lull_codec_bound()'s
 * size). LULL_ERR_UNSUPPORTED: values that the codec cannot represent; use a
 * frame, or LULL_CODEC_FORCE. */
LULL_API lull_status_t lull_codec_encode(const lull_codec_t *codec,
                                         const void *values, size_t count,
                                         lull_buffer_t *out,
                                         lull_codec_scratch_t *scratch);

/* Decodes `count` values of the codec's dtype from a stream of `bytes` bytes.
 * LULL_ERR_CORRUPT: the stream is too short or not one of `count` values.
 * After a failure the array's content is undefined. */
LULL_API lull_status_t lull_codec_decode(const lull_codec_t *codec,
                                         const void *stream, size_t bytes,
                                         void *values, size_t count,
                                         lull_codec_scratch_t *scratch);

/* sum[i] += value i; the type of `sum` is as for lull_frame_decode_add(). */
LULL_API lull_status_t lull_codec_decode_add(const lull_codec_t *codec,
                                             const void *stream, size_t bytes,
                                             void *sum, size_t count,
                                             lull_codec_scratch_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
