/* The codec `raw`: values as they are. */
#include <string.h>

#include "codec_impl.h"

static size_t bytes_of(const lull_codec_t *codec, size_t count) {
    return (count * lull_dtype_bits(codec->dtype) + 7) / 8;
}

static lull_status_t raw_encode(const lull_codec_t *codec, const void *src,
                                size_t count, lull__out_t *out,
                                lull_codec_scratch_t *scratch) {
    (void)scratch;
    size_t bytes = bytes_of(codec, count);
    if (bytes > out->capacity)
        return lull__fail(LULL_ERR_CAPACITY,
                          "codec raw: %zu bytes do not fit in %zu", bytes,
                          out->capacity);
    if (bytes > 0)
        memcpy(out->data, src, bytes);
    out->bytes = bytes;
    return LULL_OK;
}

static lull_status_t sized(const lull_codec_t *codec, size_t bytes,
                           size_t count) {
    size_t expected = bytes_of(codec, count);
    if (bytes == expected)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT,
                      "codec raw: %zu values of %s are %zu bytes, the stream "
                      "has %zu",
                      count, lull_dtype_name(codec->dtype), expected, bytes);
}

static lull_status_t raw_decode(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *dst, size_t count,
                                lull_codec_scratch_t *scratch) {
    (void)scratch;
    lull_status_t status = sized(codec, bytes, count);
    if (status == LULL_OK && bytes > 0)
        memcpy(dst, src, bytes);
    return status;
}

static lull_status_t raw_decode_add(const lull_codec_t *codec,
                                    const uint8_t *src, size_t bytes, void *sum,
                                    size_t count,
                                    lull_codec_scratch_t *scratch) {
    (void)scratch;
    lull_status_t status = sized(codec, bytes, count);
    if (status == LULL_OK)
        lull__add(codec->dtype, src, sum, count);
    return status;
}

const lull__codec_row_t lull__codec_raw = {
    .id = LULL__ID_RAW,
    .name = "raw",
    .usage = "raw",
    .help = "values as they are",
    .lossy = false,
    .dtypes = 0x7ffffe, /* all 22 */
    .bound = bytes_of,
    .encode = raw_encode,
    .decode = raw_decode,
    .decode_add = raw_decode_add,
};
