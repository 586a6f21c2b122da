/* MPC 1.2 (lossless): headers, bounds and chunks around the kernels, and the
 * codec's row. Formats: docs/formats/mpc.md, docs/formats/mpc16.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/mpc.h"

static const lull__mpc_kernel_t *kernels_in_force(void) {
#ifdef __x86_64__
    static const lull__mpc_kernel_t *const variants[LULL__ISA_COUNT] = {
        lull__mpc_portable, lull__mpc_avx2, lull__mpc_avx512};
    return variants[lull__isa()];
#else
    return lull__mpc_portable;
#endif
}

/* First 32 bits of a stream, without the dimension in the low byte. */
enum {
    MAGIC16 = 0x68706d00,
    MAGIC32 = 0x63706d00,
    MAGIC64 = 0x43504d00,
    VERSION16 = 1
};
#define DIM_MAX 32

/* The shape of a stream: it follows from dtype, dimension and count. */
typedef struct shape {
    const lull__mpc_kernel_t *kernel;
    unsigned dim;
    unsigned word;   /* bytes of a word */
    size_t count;    /* values */
    size_t header;   /* bytes of the header */
    size_t bitmap;   /* bytes of the bitmap */
    size_t trailing; /* bytes of the word that some encoders append */
} shape_t;

static shape_t shape_of(const lull_codec_t *codec, size_t count) {
    unsigned word = lull_dtype_bits(codec->dtype) / 8;
    const lull__mpc_kernel_t *kernels = kernels_in_force();
    size_t groups = count / (8 * word) + (count % (8 * word) != 0);
    return (shape_t){.kernel = &kernels[word == 2 ? 0 : word / 4],
                     .dim = codec->param,
                     .word = word,
                     .count = count,
                     .header = word == 2 ? 16 : 8,
                     .bitmap = groups * word,
                     .trailing = word == 2 ? 0 : word};
}

static size_t bound(const lull_codec_t *codec, size_t count) {
    shape_t shape = shape_of(codec, count);
    return shape.header + shape.bitmap + shape.bitmap * 8 * shape.word;
}

static void write_header(const shape_t *shape, uint8_t *out) {
    uint32_t magic = shape->word == 2   ? MAGIC16
                     : shape->word == 4 ? MAGIC32
                                        : MAGIC64;
    lull__store32(out, magic + shape->dim - 1);
    if (shape->word != 2) {
        lull__store32(out + 4, (uint32_t)shape->count);
        return;
    }
    lull__store32(out + 4, VERSION16);
    lull__store64(out + 8, shape->count);
}

/* Both formats of others hold the count in 32 bits. */
static lull_status_t check_count(const shape_t *shape) {
    if (shape->word != 2 && shape->count > UINT32_MAX)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "mpc: count %zu: the format holds at most 2^32 - 1",
                          shape->count);
    return LULL_OK;
}

static lull_status_t capacity_error(const lull__out_t *out) {
    return lull__fail(LULL_ERR_CAPACITY,
                      "mpc: the stream does not fit in capacity, %zu bytes",
                      out->capacity);
}

/* Without the instruction, which this file may not use, the compiler would
 * call a function for each. */
static size_t ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (size_t)(x * 0x0101010101010101u >> 56);
}

static size_t count_bits(const uint8_t *bits, size_t bytes) {
    size_t count = 0, i = 0;
    for (; i + 8 <= bytes; i += 8)
        count += ones(lull__load64(bits + i));
    for (; i < bytes; i++)
        count += ones(bits[i]);
    return count;
}

/* The first `bytes` bytes of a chunk, and values whose differences are zero
 * after them: that is what the format says of values that are not there. */
static void pad(const shape_t *shape, const uint8_t *values, size_t bytes,
                uint8_t *chunk) {
    size_t end = (size_t)LULL__MPC_CHUNK * shape->word;
    size_t back = (size_t)shape->dim * shape->word;
    memcpy(chunk, values, bytes);
    for (size_t i = bytes; i < end; i++)
        chunk[i] = i < back ? 0 : chunk[i - back];
}

/* One chunk with little room, or of fewer than 1024 values: through scratch.
 * Returns the bytes of its words, or SIZE_MAX where they do not fit. */
static size_t encode_tight(const shape_t *shape, const uint8_t *values,
                           size_t values_bytes, uint8_t *bitmap,
                           lull__out_t *out) {
    uint8_t padded[LULL__MPC_CHUNK * 8], bits[LULL__MPC_CHUNK / 8];
    uint8_t words[LULL__MPC_CHUNK * 8 + LULL__MPC_SLACK];
    size_t groups = values_bytes / (8 * shape->word * shape->word);
    if (values_bytes % (8 * shape->word * shape->word) != 0)
        groups++;
    pad(shape, values, values_bytes, padded);
    shape->kernel->encode(padded, shape->dim, bits, words);
    size_t count = count_bits(bits, groups * shape->word);
    if (count * shape->word > out->capacity - out->bytes)
        return SIZE_MAX;
    memcpy(bitmap, bits, groups * shape->word);
    memcpy(out->data + out->bytes, words, count * shape->word);
    return count * shape->word;
}

static lull_status_t encode(const lull_codec_t *codec, const void *src,
                            size_t count, lull__out_t *out,
                            lull_codec_scratch_t *scratch) {
    (void)scratch;
    shape_t shape = shape_of(codec, count);
    lull_status_t status = check_count(&shape);
    if (status != LULL_OK)
        return status;
    if (shape.header + shape.bitmap > out->capacity)
        return capacity_error(out);
    write_header(&shape, out->data);
    const size_t chunk = (size_t)LULL__MPC_CHUNK * shape.word;
    const uint8_t *values = src;
    uint8_t *bitmap = out->data + shape.header;
    out->bytes = shape.header + shape.bitmap;
    for (size_t left = count * shape.word; left != 0;) {
        size_t take = left < chunk ? left : chunk, wrote;
        if (take == chunk &&
            out->capacity - out->bytes >= chunk + LULL__MPC_SLACK)
            wrote = shape.word * shape.kernel->encode(values, shape.dim, bitmap,
                                                      out->data + out->bytes);
        else
            wrote = encode_tight(&shape, values, take, bitmap, out);
        if (wrote == SIZE_MAX)
            return capacity_error(out);
        out->bytes += wrote;
        bitmap += LULL__MPC_CHUNK / 8;
        values += take;
        left -= take;
    }
    return LULL_OK;
}

/* ---- Decoding ---------------------------------------------------------- */

static lull_status_t check_header(const shape_t *shape, const uint8_t *src,
                                  size_t bytes) {
    uint8_t want[16];
    write_header(shape, want);
    if (bytes < shape->header)
        return lull__fail(LULL_ERR_CORRUPT, "mpc: %zu bytes end in the header",
                          bytes);
    uint32_t magic = lull__load32(src);
    if ((magic ^ lull__load32(want)) >> 8 != 0)
        return lull__fail(LULL_ERR_CORRUPT,
                          "mpc: magic 0x%08x is not that of %u-bit words",
                          magic, shape->word * 8);
    if (src[0] != want[0])
        return lull__fail(LULL_ERR_CORRUPT,
                          "mpc: dimension %u in the header, expected %u",
                          src[0] + 1u, shape->dim);
    if (shape->word == 2 && lull__load32(src + 4) != VERSION16)
        return lull__fail(LULL_ERR_VERSION, "mpc: version %u, expected %u",
                          lull__load32(src + 4), VERSION16);
    uint64_t count =
        shape->word == 2 ? lull__load64(src + 8) : lull__load32(src + 4);
    if (count != shape->count)
        return lull__fail(LULL_ERR_CORRUPT,
                          "mpc: count %llu in the header, expected %zu",
                          (unsigned long long)count, shape->count);
    if (bytes - shape->header < shape->bitmap)
        return lull__fail(LULL_ERR_CORRUPT, "mpc: %zu bytes end in the bitmap",
                          bytes);
    return LULL_OK;
}

/* Where decoded values go: into an array, or added to sums. */
typedef struct sink {
    lull_dtype_t dtype;
    uint8_t *values, *sum; /* one of the two */
} sink_t;

static void put_chunk(const shape_t *shape, const uint8_t *bitmap,
                      const uint8_t *words, size_t take, sink_t *sink) {
    uint8_t chunk[LULL__MPC_CHUNK * 8];
    if (sink->values != NULL && take == LULL__MPC_CHUNK) {
        shape->kernel->decode(bitmap, words, shape->dim, sink->values);
        sink->values += take * shape->word;
        return;
    }
    shape->kernel->decode(bitmap, words, shape->dim, chunk);
    if (sink->values != NULL) {
        memcpy(sink->values, chunk, take * shape->word);
        sink->values += take * shape->word;
    } else {
        lull__add(sink->dtype, chunk, sink->sum, take);
        sink->sum += take * (shape->word == 8 ? 8 : 4);
    }
}

/* A chunk near the end of the stream or of the array: from padded copies, as
 * kernels read past what there is. */
static void put_tight(const shape_t *shape, const uint8_t *bitmap,
                      const uint8_t *words, size_t words_bytes, size_t take,
                      sink_t *sink) {
    uint8_t bits[LULL__MPC_CHUNK / 8] = {0};
    uint8_t copy[LULL__MPC_CHUNK * 8 + LULL__MPC_SLACK];
    size_t groups = (take + shape->word * 8 - 1) / (shape->word * 8);
    memcpy(bits, bitmap, groups * shape->word);
    memcpy(copy, words, words_bytes);
    memset(copy + words_bytes, 0, sizeof copy - words_bytes);
    put_chunk(shape, bits, copy, take, sink);
}

static lull_status_t decode_to(const shape_t *shape, const uint8_t *src,
                               size_t bytes, sink_t *sink) {
    lull_status_t status = check_count(shape);
    if (status == LULL_OK)
        status = check_header(shape, src, bytes);
    if (status != LULL_OK)
        return status;
    const size_t chunk = (size_t)LULL__MPC_CHUNK * shape->word;
    const uint8_t *bitmap = src + shape->header;
    const uint8_t *words = bitmap + shape->bitmap;
    size_t left = bytes - shape->header - shape->bitmap;
    for (size_t done = 0; done < shape->count; done += LULL__MPC_CHUNK) {
        size_t take = shape->count - done;
        size_t bits = shape->bitmap - done / 8;
        if (take > LULL__MPC_CHUNK)
            take = LULL__MPC_CHUNK;
        if (bits > LULL__MPC_CHUNK / 8)
            bits = LULL__MPC_CHUNK / 8;
        size_t used = count_bits(bitmap + done / 8, bits) * shape->word;
        if (used > left)
            return lull__fail(LULL_ERR_CORRUPT,
                              "mpc: the words of values from %zu on are cut "
                              "off: %zu bytes of at least %zu",
                              done, left, used);
        if (left >= chunk + LULL__MPC_SLACK && take == LULL__MPC_CHUNK)
            put_chunk(shape, bitmap + done / 8, words, take, sink);
        else
            put_tight(shape, bitmap + done / 8, words, used, take, sink);
        words += used;
        left -= used;
    }
    if (left != 0 && left != shape->trailing)
        return lull__fail(LULL_ERR_CORRUPT,
                          "mpc: %zu bytes follow the last word", left);
    return LULL_OK;
}

static lull_status_t decode(const lull_codec_t *codec, const uint8_t *src,
                            size_t bytes, void *dst, size_t count,
                            lull_codec_scratch_t *scratch) {
    (void)scratch;
    shape_t shape = shape_of(codec, count);
    sink_t sink = {.dtype = codec->dtype, .values = dst};
    return decode_to(&shape, src, bytes, &sink);
}

static lull_status_t decode_add(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *sum, size_t count,
                                lull_codec_scratch_t *scratch) {
    (void)scratch;
    shape_t shape = shape_of(codec, count);
    sink_t sink = {.dtype = codec->dtype, .sum = sum};
    return decode_to(&shape, src, bytes, &sink);
}

/* ---- The row ----------------------------------------------------------- */

static lull_status_t parse(const char *text, uint32_t *param) {
    *param = 1;
    if (text == NULL)
        return LULL_OK;
    char *end;
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 9)
        return lull__fail(LULL_ERR_INVALID,
                          "mpc: dimension '%.40s' is no "
                          "whole number",
                          text);
    unsigned long dim = strtoul(text, &end, 10);
    if (*end != '\0')
        return lull__fail(LULL_ERR_INVALID,
                          "mpc: dimension '%.40s' is no "
                          "whole number",
                          text);
    *param = (uint32_t)dim;
    return LULL_OK;
}

static lull_status_t check(const lull_codec_t *codec) {
    if (codec->param < 1 || codec->param > DIM_MAX)
        return lull__fail(LULL_ERR_INVALID, "mpc: dimension %u, not in 1..%u",
                          codec->param, DIM_MAX);
    return LULL_OK;
}

static void format(uint32_t param, char *text, size_t size) {
    if (param == 1)
        snprintf(text, size, "%s", "");
    else
        snprintf(text, size, ":%u", param);
}

const lull__codec_row_t lull__codec_mpc = {
    .id = LULL__ID_MPC,
    .name = "mpc",
    .usage = "mpc[:DIM]",
    .help = "lossless; MPC 1.2, differences DIM values apart (1 to 32)",
    .dtypes = LULL__FLOATS,
    .parse = parse,
    .check = check,
    .format = format,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .decode_add = decode_add,
};
