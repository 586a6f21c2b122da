/* mxint8 (lossy): OCP Microscaling blocks of 32 values with one power of two:
 * sizes and blocks around the kernels, and the codec's row. Format:
 * docs/formats/mxint8.md. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/mxint8.h"

/* Values to one call of an encoder: stochastic rounding takes a new key for
 * each, as a counter has 32 bits. */
#define BATCH (1024 * LULL__MX_BLOCK)

static const lull__mx_kernel_t *kernel_of(lull_dtype_t dtype) {
#ifdef __x86_64__
    static const lull__mx_kernel_t *const variants[LULL__ISA_COUNT] = {
        lull__mx_portable, lull__mx_avx2, lull__mx_avx512};
    const lull__mx_kernel_t *kernels = variants[lull__isa()];
#else
    const lull__mx_kernel_t *kernels = lull__mx_portable;
#endif
    return kernels + (dtype == LULL_F32    ? LULL__MX_F32
                      : dtype == LULL_F16  ? LULL__MX_F16
                      : dtype == LULL_BF16 ? LULL__MX_BF16
                                           : LULL__MX_F64);
}

static size_t blocks_of(size_t count) {
    return count / LULL__MX_BLOCK + (count % LULL__MX_BLOCK != 0);
}

static size_t bound(const lull_codec_t *codec, size_t count) {
    (void)codec;
    return blocks_of(count) + count;
}

/* The next key of the scratch's random numbers (splitmix64). */
static uint32_t next_key(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* Can these values not come back? Not finite or beyond the largest scale; or,
 * unless forced, a block whose largest magnitude the least scale does not
 * reach. */
static bool unfit(const lull_codec_t *codec, lull__mx_range_t range) {
    bool f64 = codec->dtype == LULL_F64;
    uint64_t inf = f64 ? (uint64_t)(1023 + 128) << 52 : LULL__MX_INF_F32;
    uint64_t tiny = f64 ? (uint64_t)(1023 - 127) << 52 : LULL__MX_TINY_F32;
    if (range.most >= inf)
        return true;
    return !(codec->flags & LULL_CODEC_FORCE) && range.least1 < tiny - 1;
}

typedef struct encoder {
    const lull_codec_t *codec;
    const lull__mx_kernel_t *kernel;
    uint64_t *random;
} encoder_t;

/* Returns whether the values are unfit. */
static bool encode_blocks(const encoder_t *e, const uint8_t *src, size_t blocks,
                          uint8_t *scales, uint8_t *elements) {
    lull__mx_range_t range =
        e->codec->flags & LULL_CODEC_STOCHASTIC
            ? e->kernel->encode_random(src, blocks, scales, elements,
                                       next_key(e->random))
            : e->kernel->encode(src, blocks, scales, elements);
    return unfit(e->codec, range);
}

static lull_status_t encode(const lull_codec_t *codec, const void *src,
                            size_t count, lull__out_t *out,
                            lull_codec_scratch_t *scratch) {
    size_t size = lull_dtype_bits(codec->dtype) / 8;
    encoder_t e = {codec, kernel_of(codec->dtype), &scratch->random};
    const uint8_t *values = src;
    uint8_t *scales = out->data, *elements = out->data + blocks_of(count);
    if (out->capacity < bound(codec, count))
        return lull__fail(LULL_ERR_CAPACITY,
                          "mxint8: %zu values take %zu bytes, capacity is %zu",
                          count, bound(codec, count), out->capacity);
    while (count >= LULL__MX_BLOCK && !out->unfit) {
        size_t take = count < BATCH ? count - count % LULL__MX_BLOCK : BATCH;
        out->unfit =
            encode_blocks(&e, values, take / LULL__MX_BLOCK, scales, elements);
        scales += take / LULL__MX_BLOCK;
        elements += take;
        values += take * size;
        count -= take;
    }
    if (count != 0 && !out->unfit) { /* a last block of fewer values */
        uint8_t padded[LULL__MX_BLOCK * 8] = {0}, last[LULL__MX_BLOCK];
        memcpy(padded, values, count * size);
        out->unfit = encode_blocks(&e, padded, 1, scales, last);
        memcpy(elements, last, count);
        elements += count;
    }
    out->bytes = (size_t)(elements - out->data);
    return LULL_OK;
}

static lull_status_t check_size(size_t bytes, size_t count) {
    if (bytes != blocks_of(count) + count)
        return lull__fail(LULL_ERR_CORRUPT,
                          "mxint8: %zu bytes, but %zu values take %zu", bytes,
                          count, blocks_of(count) + count);
    return LULL_OK;
}

static lull_status_t decode(const lull_codec_t *codec, const uint8_t *src,
                            size_t bytes, void *dst, size_t count,
                            lull_codec_scratch_t *scratch) {
    (void)scratch;
    lull_status_t status = check_size(bytes, count);
    if (status != LULL_OK)
        return status;
    size_t size = lull_dtype_bits(codec->dtype) / 8;
    const lull__mx_kernel_t *kernel = kernel_of(codec->dtype);
    const uint8_t *elements = src + blocks_of(count);
    size_t blocks = count / LULL__MX_BLOCK, rest = count % LULL__MX_BLOCK;
    size_t whole = blocks * LULL__MX_BLOCK;
    kernel->decode(src, elements, blocks, dst);
    if (rest != 0) {
        uint8_t values[LULL__MX_BLOCK * 8], last[LULL__MX_BLOCK] = {0};
        memcpy(last, elements + whole, rest);
        kernel->decode(src + blocks, last, 1, values);
        memcpy((uint8_t *)dst + whole * size, values, rest * size);
    }
    return LULL_OK;
}

static lull_status_t decode_add(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *sum, size_t count,
                                lull_codec_scratch_t *scratch) {
    (void)scratch;
    lull_status_t status = check_size(bytes, count);
    if (status != LULL_OK)
        return status;
    size_t size = codec->dtype == LULL_F64 ? 8 : 4;
    const lull__mx_kernel_t *kernel = kernel_of(codec->dtype);
    const uint8_t *elements = src + blocks_of(count);
    size_t blocks = count / LULL__MX_BLOCK, rest = count % LULL__MX_BLOCK;
    size_t whole = blocks * LULL__MX_BLOCK;
    kernel->decode_add(src, elements, blocks, sum);
    if (rest != 0) {
        uint8_t values[LULL__MX_BLOCK * 8], last[LULL__MX_BLOCK] = {0};
        memcpy(last, elements + whole, rest);
        kernel->decode(src + blocks, last, 1, values);
        lull__add(codec->dtype, values, (uint8_t *)sum + whole * size, rest);
    }
    return LULL_OK;
}

const lull__codec_row_t lull__codec_mxint8 = {
    .id = LULL__ID_MXINT8,
    .name = "mxint8",
    .usage = "mxint8",
    .help = "lossy; OCP MXINT8, 8.25 bits a value",
    .lossy = true,
    .dtypes = LULL__FLOATS,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .decode_add = decode_add,
};
