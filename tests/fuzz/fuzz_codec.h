/* What the fuzz targets of the codecs share. An input is: dtype, parameter,
 * count (2 bytes), then the bytes that are decoded as a stream of so many
 * values, and encoded as values. Every variant must agree on all of it. */
#ifndef FUZZ_CODEC_H
#define FUZZ_CODEC_H

#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec_impl.h"

#define FUZZ_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static const char *const fuzz_isas[] = {"portable", "avx2", "avx512"};

typedef struct fuzz_codec {
    lull_codec_t codec;
    size_t count, size; /* values, and the bytes of one */
    const uint8_t *data;
    size_t bytes;
    lull_codec_scratch_t *scratch;
} fuzz_codec_t;

/* A block of exactly this size. */
static inline void *fuzz_block(size_t bytes) {
    void *block = calloc(1, bytes ? bytes : 1);
    FUZZ_CHECK(block != NULL);
    return block;
}

static inline void fuzz_decode(const fuzz_codec_t *in) {
    uint8_t *first = NULL;
    lull_status_t first_status = LULL_OK;
    for (unsigned i = 0; i < 3; i++) {
        FUZZ_CHECK(lull_setting_set("isa", fuzz_isas[i]) == LULL_OK);
        uint8_t *values = fuzz_block(in->count * in->size);
        void *sum = fuzz_block(in->count * 8);
        in->scratch->past = in->count % 2; /* as large arrays are written */
        lull_status_t status = lull_codec_decode(
            &in->codec, in->data, in->bytes, values, in->count, in->scratch);
        FUZZ_CHECK(lull_codec_decode_add(&in->codec, in->data, in->bytes, sum,
                                         in->count, in->scratch) == status);
        free(sum);
        if (first == NULL) {
            first = values;
            first_status = status;
            continue;
        }
        FUZZ_CHECK(status == first_status);
        if (status == LULL_OK)
            FUZZ_CHECK(memcmp(values, first, in->count * in->size) == 0);
        free(values);
    }
    free(first);
}

static inline void fuzz_encode(const fuzz_codec_t *in) {
    size_t count = in->bytes / in->size, bound;
    FUZZ_CHECK(lull_codec_bound(&in->codec, count, &bound) == LULL_OK);
    uint8_t *first = NULL;
    size_t first_bytes = 0;
    for (unsigned i = 0; i < 3; i++) {
        FUZZ_CHECK(lull_setting_set("isa", fuzz_isas[i]) == LULL_OK);
        lull_buffer_t out = {.data = fuzz_block(bound), .capacity = bound};
        lull_codec_scratch_seed(in->scratch, 1);
        lull_status_t status =
            lull_codec_encode(&in->codec, in->data, count, &out, in->scratch);
        if (status != LULL_OK) {
            FUZZ_CHECK(status == LULL_ERR_UNSUPPORTED);
            free(out.data);
            continue;
        }
        uint8_t *back = fuzz_block(count * in->size);
        FUZZ_CHECK(lull_codec_decode(&in->codec, out.data, out.bytes, back,
                                     count, in->scratch) == LULL_OK);
        if (!lull_codec_is_lossy(&in->codec))
            FUZZ_CHECK(memcmp(back, in->data, count * in->size) == 0);
        free(back);
        if (first == NULL) {
            first = out.data;
            first_bytes = out.bytes;
            continue;
        }
        FUZZ_CHECK(out.bytes == first_bytes);
        FUZZ_CHECK(memcmp(out.data, first, first_bytes) == 0);
        free(out.data);
    }
    free(first);
}

/* With a range the parameter is 1 + the input's second byte modulo it. */
static inline int fuzz_codec(const char *spec, unsigned range,
                             const uint8_t *data, size_t bytes) {
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16,
                                          LULL_BF16};
    static lull_codec_scratch_t *scratch;
    char text[32];
    if (bytes < 4)
        return 0;
    if (scratch == NULL)
        FUZZ_CHECK(lull_codec_scratch_create(&scratch) == LULL_OK);
    snprintf(text, sizeof text, "%s", spec);
    if (range != 0)
        snprintf(text, sizeof text, "%s:%u", spec, 1 + data[1] % range);
    fuzz_codec_t in = {.count = data[2] | (size_t)data[3] << 8,
                       .data = data + 4,
                       .bytes = bytes - 4,
                       .scratch = scratch};
    FUZZ_CHECK(lull_codec_parse(text, dtypes[data[0] % 4], &in.codec) ==
               LULL_OK);
    in.size = lull_dtype_bits(in.codec.dtype) / 8;
    fuzz_decode(&in);
    fuzz_encode(&in);
    return 0;
}

#endif
