/* The codec of the policy for each dtype and size of message. */
#include <lull/codec.h>
#include <string.h>

#include "engine.h"

const lull_dtype_t lull__dtypes[LULL__DTYPES] = {
    LULL_F32, LULL_F64, LULL_F16, LULL_BF16, LULL_I32, LULL_I64, LULL_U8};

static unsigned row_of(lull_dtype_t dtype) {
    unsigned i = 0;
    while (i + 1 < LULL__DTYPES && lull__dtypes[i] != dtype)
        i++;
    return i;
}

/* The rate of zfp:RATE, which may be one of f64 alone; 0: another codec. */
static double rate_of(const char *spec) {
    lull_codec_t codec;
    if (strncmp(spec, "zfp:", 4) != 0 ||
        (lull_codec_parse(spec, LULL_F32, &codec) != LULL_OK &&
         lull_codec_parse(spec, LULL_F64, &codec) != LULL_OK))
        return 0;
    return codec.param / 4.0;
}

/* Bits of a coded value, about; of a lossless codec at worst. */
static double bits_of(const char *spec, lull_dtype_t dtype) {
    double raw = lull_dtype_bits(dtype), bits = raw, rate = rate_of(spec);
    if (rate > 0)
        bits = rate;
    else if (strcmp(spec, "mxint8") == 0)
        bits = 9;
    else if (strcmp(spec, "bf16") == 0)
        bits = 16;
    return bits < raw ? bits : raw;
}

/* Values of a chunk. */
static size_t step_of(const char *spec, lull_dtype_t dtype) {
    size_t size = lull__size_of(dtype);
    size_t n = size > 4 ? LULL__CHUNK_BYTES / size : LULL__CHUNK;
    while ((double)n * bits_of(spec, dtype) / 8 > LULL__MESSAGE_BYTES)
        n /= 2;
    return n;
}

lull__coding_t lull__coding_raw(lull_dtype_t dtype) {
    lull__coding_t coding = {.step = step_of("raw", dtype)};
    coding.carries = lull_codec_parse("raw", dtype, &coding.codec) == LULL_OK;
    return coding;
}

/* A rate at or above the type's bits means raw. */
static bool is_whole(const char *spec, lull_dtype_t dtype) {
    return lull__is_float(dtype) && rate_of(spec) >= lull_dtype_bits(dtype);
}

/* A codec that does not carry the dtype leaves it to MPI; none but float32
 * has to be carried. */
static lull_status_t coding_of(const char *spec, lull_dtype_t dtype,
                               lull__coding_t *out) {
    *out = (lull__coding_t){.none = strcmp(spec, "none") == 0};
    if (out->none)
        return LULL_OK;
    if (is_whole(spec, dtype)) {
        *out = lull__coding_raw(dtype);
        return LULL_OK;
    }
    lull_status_t status = lull_codec_parse(spec, dtype, &out->codec);
    out->carries = status == LULL_OK;
    out->lossy = out->carries && lull_codec_is_lossy(&out->codec);
    out->step = step_of(out->carries ? spec : "raw", dtype);
    return dtype == LULL_F32 ? status : LULL_OK;
}

lull_status_t lull__choices_fill(lull_comm_t *comm) {
    const lull__rules_t *rules = &comm->policy.rules[comm->role];
    memset(comm->choices, 0, sizeof comm->choices);
    for (unsigned i = 0; i < LULL__DTYPES && !rules->automatic; i++) {
        lull__choices_t *to = &comm->choices[i];
        for (unsigned k = 0; k < rules->count; k++) {
            const lull__rule_t *rule = &rules->rule[k];
            if (!rule->any && rule->dtype != lull__dtypes[i])
                continue;
            lull_status_t status =
                coding_of(rule->spec, lull__dtypes[i], &to->coding[to->count]);
            if (status != LULL_OK)
                return status;
            to->bytes[to->count++] = rule->bytes;
        }
    }
    return LULL_OK;
}

lull__coding_t lull__choose(const lull_comm_t *comm, lull_dtype_t dtype,
                            uint64_t bytes) {
    const lull__choices_t *choices = &comm->choices[row_of(dtype)];
    for (unsigned i = choices->count; i-- > 0;)
        if (bytes >= choices->bytes[i])
            return choices->coding[i];
    return (lull__coding_t){.none = true};
}
