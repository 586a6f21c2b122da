/* The codec `zfp:RATE`: fixed-rate ZFP in one dimension. Splits arrays into
 * groups for the kernels; ends of arrays and 16-bit values go through a small
 * buffer. */
#include <stdio.h>
#include <string.h>

#include "zfp_impl.h"

#define GROUP LULL__ZFP_GROUP
#define SLACK LULL__ZFP_SLACK
#define BLOCKS (GROUP / 4) /* in a group */
#define TILE 2048          /* values converted from 16 bits at a time */

/* ---- The row ----------------------------------------------------------- */

/* "8", "6.5", "6.375": bits of a block, floor(4 RATE + 0.5) as libzfp. */
static lull_status_t zfp_parse(const char *text, uint32_t *param) {
    uint64_t thousandths = 0;
    unsigned digits = 0;
    const char *p = text ? text : "";
    for (; *p >= '0' && *p <= '9' && digits < 4; p++, digits++)
        thousandths = thousandths * 10 + (uint64_t)(*p - '0');
    unsigned decimals = 0;
    if (digits > 0 && *p == '.')
        for (p++; *p >= '0' && *p <= '9' && decimals < 3; p++, decimals++)
            thousandths = thousandths * 10 + (uint64_t)(*p - '0');
    if (digits == 0 || *p != '\0')
        return lull__fail(LULL_ERR_INVALID,
                          "codec zfp: rate '%.40s' is not a number of bits "
                          "such as 8 or 6.5",
                          text ? text : "");
    for (; decimals < 3; decimals++)
        thousandths *= 10;
    *param = (uint32_t)((4 * thousandths + 500) / 1000);
    return LULL_OK;
}

/* Bits of a block: the header at least, raw at most. */
static lull_status_t zfp_check(const lull_codec_t *codec) {
    uint32_t least = codec->dtype == LULL_F64 ? 12 : 9;
    uint32_t most = 4 * lull_dtype_bits(codec->dtype);
    if (codec->param >= least && codec->param <= most)
        return LULL_OK;
    return lull__fail(LULL_ERR_INVALID,
                      "codec zfp: rate %.7g is not in %.7g to %.7g for %s",
                      codec->param / 4.0, least / 4.0, most / 4.0,
                      lull_dtype_name(codec->dtype));
}

static void zfp_format(uint32_t param, char *text, size_t size) {
    static const char *const fraction[] = {"", ".25", ".5", ".75"};
    snprintf(text, size, ":%u%s", param / 4, fraction[param % 4]);
}

static size_t zfp_bound(const lull_codec_t *codec, size_t count) {
    size_t blocks = (count + 3) / 4;
    return blocks / 8 * codec->param + (blocks % 8 * codec->param + 7) / 8;
}

/* Kernels by instruction set. */
typedef struct kernels {
    lull__zfp_encode_fn *encode;
    lull__zfp_decode_fn *decode;
} kernels_t;

#define PORTABLE(dtype) \
    { lull__zfp_encode_##dtype##_portable, lull__zfp_decode_##dtype##_portable }
static const kernels_t f32_kernels[LULL__ISA_COUNT] = {
    [LULL__PORTABLE] = PORTABLE(f32),
#ifdef __x86_64__
    [LULL__AVX2] = {lull__zfp_encode_f32_avx2, lull__zfp_decode_f32_avx2},
    [LULL__AVX512] = {lull__zfp_encode_f32_avx512, lull__zfp_decode_f32_avx512},
#endif
};
static const kernels_t f64_kernels[LULL__ISA_COUNT] = {
    [LULL__PORTABLE] = PORTABLE(f64),
#ifdef __x86_64__
    [LULL__AVX2] = {lull__zfp_encode_f64_avx2, lull__zfp_decode_f64_avx2},
    [LULL__AVX512] = {lull__zfp_encode_f64_avx512, lull__zfp_decode_f64_avx512},
#endif
};

static const kernels_t *kernels(bool wide) {
    return (wide ? f64_kernels : f32_kernels) + lull__isa();
}

/* ---- Encoding ---------------------------------------------------------- */

/* The last values, less than a group or too near the end for the kernel's
 * slack: `count` at most a group. */
static bool encode_end(lull__zfp_encode_fn *encode, const uint8_t *src,
                       size_t count, uint8_t *dst, const lull_codec_t *codec,
                       size_t size) {
    uint8_t values[8 * GROUP] = {0};
    uint8_t bytes[8 * GROUP + SLACK];
    memcpy(values, src, count * size);
    /* Padding as libzfp: b1 = b0; b2 = b1; b3 = b0. */
    uint8_t *block = values + count / 4 * 4 * size;
    switch (count % 4) {
    case 1:
        memcpy(block + size, block, size); /* fall through */
    case 2:
        memcpy(block + 2 * size, block + size, size); /* fall through */
    case 3:
        memcpy(block + 3 * size, block, size);
    }
    bool fit = encode(values, bytes, 1, codec->param);
    memcpy(dst, bytes, zfp_bound(codec, count));
    return fit;
}

/* Values of `size` bytes, f32 or f64; dst holds their bound. */
static bool encode_array(const lull_codec_t *codec, const uint8_t *src,
                         size_t count, uint8_t *dst, size_t size) {
    lull__zfp_encode_fn *encode = kernels(size == 8)->encode;
    size_t group_bytes = BLOCKS / 8 * (size_t)codec->param;
    size_t total = zfp_bound(codec, count);
    size_t groups = total > SLACK ? (total - SLACK) / group_bytes : 0;
    groups = groups < count / GROUP ? groups : count / GROUP;
    bool fit = encode(src, dst, groups, codec->param);
    for (size_t at = groups * GROUP; at < count; at += GROUP) {
        size_t n = count - at < GROUP ? count - at : GROUP;
        fit &= encode_end(encode, src + at * size, n,
                          dst + at / GROUP * group_bytes, codec, size);
    }
    return fit;
}

static void widen(lull_dtype_t dtype, const uint8_t *src, uint8_t *dst,
                  size_t count) {
    if (dtype == LULL_F16)
        lull__f16_to_f32(src, dst, count);
    else
        lull__bf16_to_f32(src, dst, count);
}

static bool encode_16(const lull_codec_t *codec, const uint8_t *src,
                      size_t count, uint8_t *dst, uint8_t *tile) {
    bool fit = true;
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        widen(codec->dtype, src + 2 * at, tile, n);
        fit &= encode_array(codec, tile, n, dst + zfp_bound(codec, at), 4);
    }
    return fit;
}

static bool all_finite(lull_dtype_t dtype, const uint8_t *src, size_t count) {
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        if (dtype == LULL_F32)
            finite &= (~lull__load32(src + 4 * i) & 0x7f800000) != 0;
        else if (dtype == LULL_F64)
            finite &= (~lull__load64(src + 8 * i) & 0x7ffull << 52) != 0;
        else if (dtype == LULL_F16)
            finite &= (~lull__load16(src + 2 * i) & 0x7c00) != 0;
        else
            finite &= (~lull__load16(src + 2 * i) & 0x7f80) != 0;
    }
    return finite;
}

static lull_status_t zfp_encode(const lull_codec_t *codec, const void *src,
                                size_t count, lull__out_t *out,
                                lull_codec_scratch_t *scratch) {
    size_t bytes = zfp_bound(codec, count);
    if (bytes > out->capacity)
        return lull__fail(LULL_ERR_CAPACITY,
                          "codec zfp: %zu bytes do not fit in %zu", bytes,
                          out->capacity);
    bool fit;
    if (lull_dtype_bits(codec->dtype) == 16)
        fit = encode_16(codec, src, count, out->data, scratch->bytes);
    else
        fit = encode_array(codec, src, count, out->data,
                           codec->dtype == LULL_F64 ? 8 : 4);
    if (!fit && codec->flags & LULL_CODEC_FORCE)
        fit = all_finite(codec->dtype, src, count);
    out->unfit = !fit;
    out->bytes = bytes;
    return LULL_OK;
}

/* ---- Decoding ---------------------------------------------------------- */

typedef struct decoder {
    lull__zfp_decode_fn *fn;
    unsigned maxbits, mode;
    size_t size; /* of a value */
} decoder_t;

/* The last values, as encode_end: `bytes` of the stream are left. */
static void decode_end(const decoder_t *d, const uint8_t *src, size_t bytes,
                       uint8_t *dst, size_t count) {
    uint8_t stream[8 * GROUP + SLACK] = {0};
    uint8_t values[8 * GROUP] = {0};
    size_t group_bytes = BLOCKS / 8 * (size_t)d->maxbits;
    memcpy(stream, src, bytes < group_bytes ? bytes : group_bytes);
    if (d->mode & LULL__ZFP_ADD)
        memcpy(values, dst, count * d->size);
    d->fn(stream, values, 1, d->maxbits, d->mode);
    memcpy(dst, values, count * d->size);
}

static void decode_array(const decoder_t *d, const uint8_t *src, size_t bytes,
                         uint8_t *dst, size_t count) {
    size_t group_bytes = BLOCKS / 8 * (size_t)d->maxbits;
    size_t groups = bytes > SLACK ? (bytes - SLACK) / group_bytes : 0;
    groups = groups < count / GROUP ? groups : count / GROUP;
    d->fn(src, dst, groups, d->maxbits, d->mode);
    for (size_t at = groups * GROUP; at < count; at += GROUP) {
        size_t n = count - at < GROUP ? count - at : GROUP;
        size_t from = at / GROUP * group_bytes;
        decode_end(d, src + from, bytes - from, dst + at * d->size, n);
    }
}

static decoder_t decoder(const lull_codec_t *codec, bool add) {
    bool wide = codec->dtype == LULL_F64;
    return (decoder_t){
        .fn = kernels(wide)->decode,
        .maxbits = codec->param,
        .mode =
            (codec->flags & LULL_CODEC_ZFP_TRUNCATE ? LULL__ZFP_TRUNCATE : 0u) |
            (add ? LULL__ZFP_ADD : 0u),
        .size = wide ? 8 : 4,
    };
}

/* All finite halves are within this; a decoded value past it is nearer to
 * what was encoded when it is cut. */
static void clamp_f16(uint8_t *tile, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v;
        memcpy(&v, tile + 4 * i, 4);
        v = v > 65504 ? 65504 : v;
        v = v < -65504 ? -65504 : v;
        memcpy(tile + 4 * i, &v, 4);
    }
}

/* The tail of a 16-bit tile: set, or added to floats. */
typedef struct half_sink {
    uint8_t *to;
    bool add;
} half_sink_t;

/* Values are rounded to their 16 bits also on the way to a sum. */
static void decode_16(const lull_codec_t *codec, const uint8_t *src,
                      size_t bytes, half_sink_t sink, size_t count,
                      uint8_t *tile) {
    decoder_t d = decoder(codec, false);
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        size_t from = zfp_bound(codec, at);
        decode_array(&d, src + from, bytes - from, tile, n);
        uint8_t *half = sink.add ? tile + 4 * TILE : sink.to + 2 * at;
        if (codec->dtype == LULL_F16) {
            clamp_f16(tile, n);
            lull__f32_to_f16(tile, half, n);
        } else {
            lull__f32_to_bf16(tile, half, n);
        }
        if (sink.add)
            lull__add(codec->dtype, half, sink.to + 4 * at, n);
    }
}

/* libzfp may pad a stream to a whole word of up to 64 bits. */
static lull_status_t sized(const lull_codec_t *codec, size_t bytes,
                           size_t count) {
    size_t expected = zfp_bound(codec, count);
    if (bytes >= expected && bytes - expected < 8)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT,
                      "codec zfp: %zu values at %.7g bits are %zu bytes, the "
                      "stream has %zu",
                      count, codec->param / 4.0, expected, bytes);
}

static lull_status_t zfp_decode(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *dst, size_t count,
                                lull_codec_scratch_t *scratch) {
    lull_status_t status = sized(codec, bytes, count);
    if (status != LULL_OK)
        return status;
    if (lull_dtype_bits(codec->dtype) == 16) {
        half_sink_t sink = {.to = dst};
        decode_16(codec, src, bytes, sink, count, scratch->bytes);
    } else {
        decoder_t d = decoder(codec, false);
        decode_array(&d, src, bytes, dst, count);
    }
    return LULL_OK;
}

static lull_status_t zfp_decode_add(const lull_codec_t *codec,
                                    const uint8_t *src, size_t bytes, void *sum,
                                    size_t count,
                                    lull_codec_scratch_t *scratch) {
    lull_status_t status = sized(codec, bytes, count);
    if (status != LULL_OK)
        return status;
    if (lull_dtype_bits(codec->dtype) == 16) {
        half_sink_t sink = {.to = sum, .add = true};
        decode_16(codec, src, bytes, sink, count, scratch->bytes);
    } else {
        decoder_t d = decoder(codec, true);
        decode_array(&d, src, bytes, sum, count);
    }
    return LULL_OK;
}

_Static_assert(6 * TILE <= LULL__SCRATCH_BYTES, "tiles fit in scratch");

const lull__codec_row_t lull__codec_zfp = {
    .id = LULL__ID_ZFP,
    .name = "zfp",
    .usage = "zfp:RATE",
    .help = "ZFP at RATE bits a value, in quarters",
    .lossy = true,
    .dtypes = LULL__FLOATS,
    .parse = zfp_parse,
    .check = zfp_check,
    .format = zfp_format,
    .bound = zfp_bound,
    .encode = zfp_encode,
    .decode = zfp_decode,
    .decode_add = zfp_decode_add,
};
