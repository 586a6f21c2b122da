/* The table of codecs, their specs, scratch, and bare streams. */
#include <lull/codec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec_impl.h"

/* In the order that people see. A new codec is a line here, an id and a row
 * in its own file. */
static const lull__codec_row_t *const table[] = {
    &lull__codec_raw, &lull__codec_bf16, &lull__codec_f16,    &lull__codec_zfp,
    &lull__codec_mpc, &lull__codec_expo, &lull__codec_mxint8,
};
#define ROWS (sizeof table / sizeof table[0])

const lull__codec_row_t *lull__codec_row(uint16_t id) {
    for (unsigned i = 0; i < ROWS; i++)
        if (table[i]->id == id)
            return table[i];
    return NULL;
}

static const char *dtype_name(lull_dtype_t dtype) {
    const char *name = lull_dtype_name(dtype);
    return name ? name : "that dtype";
}

lull_status_t lull__codec_check(const lull_codec_t *codec) {
    const lull__codec_row_t *row = lull__codec_row(codec->id);
    if (row == NULL)
        return lull__fail(LULL_ERR_NOT_FOUND, "codec: no codec has id %u",
                          codec->id);
    if (codec->dtype < 0 || codec->dtype >= 32 ||
        (row->dtypes & LULL__BIT(codec->dtype)) == 0)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "codec %s: cannot code arrays of %s", row->name,
                          dtype_name(codec->dtype));
    if (row->check != NULL)
        return row->check(codec);
    if (codec->param != 0)
        return lull__fail(LULL_ERR_INVALID,
                          "codec %s: has no parameter, but it is %u", row->name,
                          codec->param);
    return LULL_OK;
}

static const lull__codec_row_t *row_named(const char *name, size_t length) {
    for (unsigned i = 0; i < ROWS; i++)
        if (strlen(table[i]->name) == length &&
            memcmp(table[i]->name, name, length) == 0)
            return table[i];
    return NULL;
}

lull_status_t lull_codec_parse(const char *spec, lull_dtype_t dtype,
                               lull_codec_t *out) {
    if (spec == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_codec_parse: %s is NULL",
                          spec ? "out" : "spec");
    size_t length = strcspn(spec, ":");
    const lull__codec_row_t *row = row_named(spec, length);
    if (row == NULL)
        return lull__fail(LULL_ERR_NOT_FOUND, "no codec is named '%.40s'",
                          spec);
    lull_codec_t codec = {.id = row->id, .dtype = dtype};
    const char *text = spec[length] == ':' ? spec + length + 1 : NULL;
    if (row->parse != NULL) {
        lull_status_t status = row->parse(text, &codec.param);
        if (status != LULL_OK)
            return status;
    } else if (text != NULL) {
        return lull__fail(LULL_ERR_INVALID,
                          "codec '%.40s': %s has no parameter", spec,
                          row->name);
    }
    lull_status_t status = lull__codec_check(&codec);
    if (status == LULL_OK)
        *out = codec;
    return status;
}

lull_status_t lull_codec_format(const lull_codec_t *codec, char *text,
                                size_t size) {
    lull_status_t status = lull__codec_check(codec);
    if (status != LULL_OK)
        return status;
    const lull__codec_row_t *row = lull__codec_row(codec->id);
    char param[LULL_CODEC_SPEC_MAX / 2] = "";
    if (row->format != NULL)
        row->format(codec->param, param, sizeof param);
    if (strlen(row->name) + strlen(param) >= size)
        return lull__fail(LULL_ERR_CAPACITY,
                          "lull_codec_format: %s%s does not fit in %zu bytes",
                          row->name, param, size);
    snprintf(text, size, "%s%s", row->name, param);
    return LULL_OK;
}

lull_status_t lull_codec_at(unsigned index, lull_codec_info_t *out) {
    if (index >= ROWS)
        return lull__fail(LULL_ERR_NOT_FOUND, "there are %zu codecs", ROWS);
    const lull__codec_row_t *row = table[index];
    *out = (lull_codec_info_t){.id = row->id,
                               .name = row->name,
                               .usage = row->usage,
                               .help = row->help,
                               .lossy = row->lossy};
    return LULL_OK;
}

bool lull_codec_is_lossy(const lull_codec_t *codec) {
    const lull__codec_row_t *row = lull__codec_row(codec->id);
    if (row == NULL)
        return true;
    if ((row->id == LULL__ID_F16 && codec->dtype == LULL_F16) ||
        (row->id == LULL__ID_BF16 && codec->dtype == LULL_BF16))
        return false;
    return row->lossy;
}

const char *lull_codec_isa(void) {
    return lull__isa_name(lull__isa());
}

lull_status_t lull_codec_scratch_create(lull_codec_scratch_t **out) {
    size_t bytes = (sizeof(lull_codec_scratch_t) + 63) / 64 * 64;
    lull_codec_scratch_t *scratch = aligned_alloc(64, bytes);
    if (scratch == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "codec scratch: %zu bytes",
                          bytes);
    memset(scratch, 0, bytes);
    *out = scratch;
    return LULL_OK;
}

void lull_codec_scratch_destroy(lull_codec_scratch_t *scratch) {
    free(scratch);
}

void lull_codec_scratch_seed(lull_codec_scratch_t *scratch, uint64_t seed) {
    scratch->random = seed;
}

lull_status_t lull_codec_bound(const lull_codec_t *codec, size_t count,
                               size_t *bytes) {
    lull_status_t status = lull__codec_check(codec);
    if (status != LULL_OK)
        return status;
    if (count > LULL__COUNT_MAX)
        return lull__fail(LULL_ERR_INVALID, "codec: %zu values are too many",
                          count);
    *bytes = lull__codec_row(codec->id)->bound(codec, count);
    return LULL_OK;
}

/* What is wrong with the arguments of a call on a bare stream. */
static lull_status_t usable(const lull_codec_t *codec, const void *values,
                            const void *stream, size_t count,
                            const lull_codec_scratch_t *scratch) {
    lull_status_t status = lull__codec_check(codec);
    if (status != LULL_OK)
        return status;
    const char *wrong = NULL;
    if (count > LULL__COUNT_MAX)
        wrong = "count is too large";
    else if (values == NULL && count > 0)
        wrong = "the array is NULL";
    else if (stream == NULL)
        wrong = "the stream is NULL";
    else if (scratch == NULL)
        wrong = "scratch is NULL";
    if (wrong != NULL)
        return lull__fail(LULL_ERR_INVALID, "codec: %s", wrong);
    return LULL_OK;
}

lull_status_t lull_codec_encode(const lull_codec_t *codec, const void *values,
                                size_t count, lull_buffer_t *out,
                                lull_codec_scratch_t *scratch) {
    lull_status_t status = usable(codec, values, out->data, count, scratch);
    if (status != LULL_OK)
        return status;
    const lull__codec_row_t *row = lull__codec_row(codec->id);
    lull__out_t to = {.data = out->data, .capacity = out->capacity};
    lull__past_begin(scratch, count * lull_dtype_bits(codec->dtype) / 8);
    status = row->encode(codec, values, count, &to, scratch);
    lull__past_end(scratch);
    if (status != LULL_OK)
        return status;
    if (to.unfit)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "codec %s: the values include some that it cannot "
                          "bring back; use a frame",
                          row->name);
    out->bytes = to.bytes;
    return LULL_OK;
}

lull_status_t lull_codec_decode(const lull_codec_t *codec, const void *stream,
                                size_t bytes, void *values, size_t count,
                                lull_codec_scratch_t *scratch) {
    lull_status_t status = usable(codec, values, stream, count, scratch);
    if (status != LULL_OK)
        return status;
    lull__past_begin(scratch, count * lull_dtype_bits(codec->dtype) / 8);
    status = lull__codec_row(codec->id)->decode(codec, stream, bytes, values,
                                                count, scratch);
    lull__past_end(scratch);
    return status;
}

lull_status_t lull_codec_decode_add(const lull_codec_t *codec,
                                    const void *stream, size_t bytes, void *sum,
                                    size_t count,
                                    lull_codec_scratch_t *scratch) {
    lull_status_t status = usable(codec, sum, stream, count, scratch);
    if (status != LULL_OK)
        return status;
    if ((LULL__FLOATS & LULL__BIT(codec->dtype)) == 0)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "codec: %s is not a floating type; it is not added",
                          dtype_name(codec->dtype));
    return lull__codec_row(codec->id)->decode_add(codec, stream, bytes, sum,
                                                  count, scratch);
}
