/* The inside of the codec layer: what a codec gives (one row of the table)
 * and what it gets. codec.c and frame.c check arguments; a row's functions
 * may rely on what is said here, but never on the bytes of a stream. */
#ifndef LULL__CODEC_IMPL_H
#define LULL__CODEC_IMPL_H

#include <lull/codec.h>

#include "base/cpu.h"
#include "base/error.h"

/* More values than any array has; sizes in bytes cannot overflow under it. */
#define LULL__COUNT_MAX ((uint64_t)1 << 48)

/* Free for any codec during one call; nothing survives in `bytes`. */
#define LULL__SCRATCH_BYTES (60 * 1024)
struct lull_codec_scratch {
    uint64_t random; /* state of stochastic rounding; survives calls */
    bool past;       /* what this call writes had better pass by the caches */
    size_t follows; /* bytes after the input that the next call will read: worth
                       asking for, never to be relied on */
    _Alignas(64) uint8_t bytes[LULL__SCRATCH_BYTES];
};

/* Arrays from this size on are no longer in a core's caches when someone comes
 * to use them: they are written past them, so that memory is not read before.
 */
#define LULL__PAST_BYTES ((uint64_t)16 << 20)

static inline void lull__past_begin(lull_codec_scratch_t *scratch,
                                    uint64_t bytes) {
    if (bytes >= LULL__PAST_BYTES && scratch != NULL)
        scratch->past = true;
}

/* Such writes are in no order with others until here. */
static inline void lull__past_end(lull_codec_scratch_t *scratch) {
    if (scratch == NULL || !scratch->past)
        return;
    scratch->past = false;
#ifdef __x86_64__
    __builtin_ia32_sfence();
#endif
}

static inline void lull__set_follows(lull_codec_scratch_t *scratch,
                                     size_t bytes) {
    if (scratch != NULL)
        scratch->follows = bytes;
}

/* Where encode writes. In: data, capacity. Out: bytes; unfit. */
typedef struct lull__out {
    uint8_t *data;
    size_t capacity;
    size_t bytes;
    bool unfit; /* these values would not come back as they should: the frame
                   stores them raw. Found while encoding, with no pass of its
                   own; may be set early, with the rest left unwritten */
} lull__out_t;

/* Pinned for ever: they stand in frames. */
enum {
    LULL__ID_RAW = 1,
    LULL__ID_BF16 = 2,
    LULL__ID_F16 = 3,
    LULL__ID_MPC = 4,
    LULL__ID_ZFP = 5,
    LULL__ID_EXPO = 6,
    LULL__ID_MXINT8 = 7
};

#define LULL__BIT(dtype) (1u << (dtype))
#define LULL__FLOATS                                                   \
    (LULL__BIT(LULL_F32) | LULL__BIT(LULL_F64) | LULL__BIT(LULL_F16) | \
     LULL__BIT(LULL_BF16))

typedef struct lull__codec_row {
    uint16_t id;
    const char *name, *usage, *help;
    bool lossy;
    uint32_t dtypes; /* LULL__BIT(dtype) of each that it takes */

    /* The text after ':' (NULL if there is none) to a parameter. NULL: the
     * codec has no parameter. Checks the form only. */
    lull_status_t (*parse)(const char *text, uint32_t *param);
    /* Is the parameter in range for the dtype? NULL: it must be 0. */
    lull_status_t (*check)(const lull_codec_t *codec);
    /* The parameter as text with its ':', "" if it is the default. NULL: no
     * parameter. */
    void (*format)(uint32_t param, char *text, size_t size);

    /* Most bytes that count values (at most LULL__COUNT_MAX) take. */
    size_t (*bound)(const lull_codec_t *codec, size_t count);

    /* count may be 0. src and data have any alignment. LULL_ERR_CAPACITY when
     * the output does not fit in capacity, which may be less than bound: then
     * it must fail only if the stream really is longer. Writes nothing at or
     * past capacity. Other failures are errors of the machine, not of data. */
    lull_status_t (*encode)(const lull_codec_t *codec, const void *src,
                            size_t count, lull__out_t *out,
                            lull_codec_scratch_t *scratch);
    /* src: `bytes` untrusted bytes. LULL_ERR_CORRUPT unless it is a stream of
     * count values. Reads and writes nothing outside. */
    lull_status_t (*decode)(const lull_codec_t *codec, const uint8_t *src,
                            size_t bytes, void *dst, size_t count,
                            lull_codec_scratch_t *scratch);
    /* sum[i] += what decode gives, rounded to the dtype; sum is float, or
     * double for f64, of any alignment. Only for floating dtypes. */
    lull_status_t (*decode_add)(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *sum, size_t count,
                                lull_codec_scratch_t *scratch);
} lull__codec_row_t;

extern const lull__codec_row_t lull__codec_raw, lull__codec_bf16,
    lull__codec_f16, lull__codec_zfp, lull__codec_mpc, lull__codec_expo,
    lull__codec_mxint8;

/* The row of an id; NULL if there is none. */
const lull__codec_row_t *lull__codec_row(uint16_t id);

/* A codec from anywhere: known, takes its dtype, parameter in range. */
lull_status_t lull__codec_check(const lull_codec_t *codec);

/* Conversions of `count` values, any alignment, variants by ISA. To 16 bits:
 * nearest even; NaN stays NaN (quiet). True if a finite value became Inf. */
void lull__f16_to_f32(const void *src, void *dst, size_t count);
void lull__bf16_to_f32(const void *src, void *dst, size_t count);
bool lull__f32_to_f16(const void *src, void *dst, size_t count);
bool lull__f32_to_bf16(const void *src, void *dst, size_t count);

/* sum[i] += src[i] for raw values of a floating dtype; sum is float, or
 * double for f64. */
void lull__add(lull_dtype_t dtype, const void *src, void *sum, size_t count);

/* Unaligned little-endian loads and stores. */
static inline uint16_t lull__load16(const void *p) {
    uint16_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t lull__load32(const void *p) {
    uint32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t lull__load64(const void *p) {
    uint64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static inline void lull__store16(void *p, uint16_t v) {
    __builtin_memcpy(p, &v, sizeof v);
}
static inline void lull__store32(void *p, uint32_t v) {
    __builtin_memcpy(p, &v, sizeof v);
}
static inline void lull__store64(void *p, uint64_t v) {
    __builtin_memcpy(p, &v, sizeof v);
}

#endif
