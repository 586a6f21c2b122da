/* The codecs `bf16` and `f16`: casts of f32 and f64, rounded once to nearest
 * even. On arrays of their own dtype they copy. */
#include <string.h>

#include "codec_impl.h"

#define TILE 2048 /* floats of scratch on the way from or to double */

static size_t cast_bound(const lull_codec_t *codec, size_t count) {
    (void)codec;
    return 2 * count;
}

static bool narrow(const lull_codec_t *codec, const void *src, void *dst,
                   size_t count) {
    return codec->id == LULL__ID_F16 ? lull__f32_to_f16(src, dst, count)
                                     : lull__f32_to_bf16(src, dst, count);
}

static void widen(const lull_codec_t *codec, const void *src, void *dst,
                  size_t count) {
    if (codec->id == LULL__ID_F16)
        lull__f16_to_f32(src, dst, count);
    else
        lull__bf16_to_f32(src, dst, count);
}

/* Rounding to odd first makes the second rounding, to 16 bits, the only one
 * that counts. */
static uint32_t odd_f32(double value) {
    float near = (float)value;
    uint32_t bits = lull__load32(&near);
    if ((double)near == value || value != value)
        return bits;
    double size = value < 0 ? -value : value;
    double near_size = near < 0 ? -(double)near : (double)near;
    return (near_size > size ? bits - 1 : bits) | 1;
}

static bool narrow_f64(const lull_codec_t *codec, const uint8_t *src,
                       uint8_t *dst, size_t count, uint8_t *tile) {
    bool overflow = false;
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        for (size_t i = 0; i < n; i++) {
            double value;
            lull__store64(&value, lull__load64(src + 8 * (at + i)));
            lull__store32(tile + 4 * i, odd_f32(value));
        }
        overflow |= narrow(codec, tile, dst + 2 * at, n);
    }
    return overflow;
}

static lull_status_t cast_encode(const lull_codec_t *codec, const void *src,
                                 size_t count, lull__out_t *out,
                                 lull_codec_scratch_t *scratch) {
    if (2 * count > out->capacity)
        return lull__fail(LULL_ERR_CAPACITY,
                          "codec %s: %zu bytes do not fit in %zu",
                          codec->id == LULL__ID_F16 ? "f16" : "bf16", 2 * count,
                          out->capacity);
    if (codec->dtype == LULL_F32)
        out->unfit = narrow(codec, src, out->data, count);
    else if (codec->dtype == LULL_F64)
        out->unfit = narrow_f64(codec, src, out->data, count, scratch->bytes);
    else if (count > 0)
        memcpy(out->data, src, 2 * count);
    if (codec->flags & LULL_CODEC_FORCE)
        out->unfit = false;
    out->bytes = 2 * count;
    return LULL_OK;
}

static lull_status_t sized(const lull_codec_t *codec, size_t bytes,
                           size_t count) {
    if (bytes == 2 * count)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT,
                      "codec %s: %zu values are %zu bytes, the stream has %zu",
                      codec->id == LULL__ID_F16 ? "f16" : "bf16", count,
                      2 * count, bytes);
}

/* Values of a stream to doubles, set or added. */
static void widen_f64(const lull_codec_t *codec, const uint8_t *src,
                      uint8_t *dst, size_t count, uint8_t *tile) {
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        widen(codec, src + 2 * at, tile, n);
        for (size_t i = 0; i < n; i++) {
            float value;
            lull__store32(&value, lull__load32(tile + 4 * i));
            double wide = value;
            lull__store64(dst + 8 * (at + i), lull__load64(&wide));
        }
    }
}

static lull_status_t cast_decode(const lull_codec_t *codec, const uint8_t *src,
                                 size_t bytes, void *dst, size_t count,
                                 lull_codec_scratch_t *scratch) {
    lull_status_t status = sized(codec, bytes, count);
    if (status != LULL_OK)
        return status;
    if (codec->dtype == LULL_F32)
        widen(codec, src, dst, count);
    else if (codec->dtype == LULL_F64)
        widen_f64(codec, src, dst, count, scratch->bytes);
    else if (count > 0)
        memcpy(dst, src, 2 * count);
    return LULL_OK;
}

static lull_status_t cast_decode_add(const lull_codec_t *codec,
                                     const uint8_t *src, size_t bytes,
                                     void *sum, size_t count,
                                     lull_codec_scratch_t *scratch) {
    lull_status_t status = sized(codec, bytes, count);
    if (status != LULL_OK)
        return status;
    if (codec->dtype != LULL_F64) {
        lull__add(codec->id == LULL__ID_F16 ? LULL_F16 : LULL_BF16, src, sum,
                  count);
        return LULL_OK;
    }
    uint8_t *wide = scratch->bytes + 4 * TILE;
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        widen_f64(codec, src + 2 * at, wide, n, scratch->bytes);
        lull__add(LULL_F64, wide, (uint8_t *)sum + 8 * at, n);
    }
    return LULL_OK;
}

_Static_assert(12 * TILE <= LULL__SCRATCH_BYTES, "tiles fit in scratch");

const lull__codec_row_t lull__codec_bf16 = {
    .id = LULL__ID_BF16,
    .name = "bf16",
    .usage = "bf16",
    .help = "cast to bfloat16: 8 bits of precision, the range of f32",
    .lossy = true,
    .dtypes = LULL__BIT(LULL_F32) | LULL__BIT(LULL_F64) | LULL__BIT(LULL_BF16),
    .bound = cast_bound,
    .encode = cast_encode,
    .decode = cast_decode,
    .decode_add = cast_decode_add,
};

const lull__codec_row_t lull__codec_f16 = {
    .id = LULL__ID_F16,
    .name = "f16",
    .usage = "f16",
    .help = "cast to half: 11 bits of precision, 6e-8 to 65504",
    .lossy = true,
    .dtypes = LULL__BIT(LULL_F32) | LULL__BIT(LULL_F64) | LULL__BIT(LULL_F16),
    .bound = cast_bound,
    .encode = cast_encode,
    .decode = cast_decode,
    .decode_add = cast_decode_add,
};
