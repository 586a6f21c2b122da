/* The frame around an encoded array: header, table of units, units, checksum.
 * The bytes are described in docs/formats/frame.md. */
#include <string.h>

#include "base/checksum.h"
#include "codec_impl.h"

#define MAGIC 0x464c554cu /* "LULF" */
#define VERSION 1
#define HEADER LULL_FRAME_HEADER_BYTES
#define TRAILER 8             /* the checksum */
#define ENTRY 4               /* of the table of units */
#define ENTRY_RAW 0x80000000u /* this unit is raw */
#define ENTRY_BYTES 0x7fffffffu
#define KNOWN_FLAGS (LULL_FRAME_CHECKSUM | LULL_FRAME_ESCAPES)

/* Bytes of `count` values; checked before to be whole and not to overflow. */
static size_t raw_bytes(lull_dtype_t dtype, uint64_t count) {
    return (size_t)(count * lull_dtype_bits(dtype) / 8);
}

static uint64_t units_of(uint64_t count) {
    return (count + LULL_UNIT - 1) / LULL_UNIT;
}

static size_t unit_count(uint64_t count, uint64_t unit) {
    uint64_t left = count - unit * LULL_UNIT;
    return left < LULL_UNIT ? (size_t)left : LULL_UNIT;
}

static lull_status_t check_count(lull_dtype_t dtype, uint64_t count) {
    uint64_t bytes;
    if (count > LULL__COUNT_MAX)
        return lull__fail(LULL_ERR_INVALID, "frame: count %llu is over 2^48",
                          (unsigned long long)count);
    return lull_dtype_bytes(dtype, count, &bytes);
}

lull_status_t lull_frame_bound(const lull_codec_t *codec, size_t count,
                               size_t *bytes) {
    lull_status_t status = lull__codec_check(codec);
    if (status == LULL_OK)
        status = check_count(codec->dtype, count);
    if (status != LULL_OK)
        return status;
    const lull__codec_row_t *row = lull__codec_row(codec->id);
    size_t raw = raw_bytes(codec->dtype, count);
    /* Units end up at most raw, but while one is encoded it may be longer. */
    size_t one = count < LULL_UNIT ? count : LULL_UNIT;
    size_t coded = row->bound(codec, one);
    size_t one_raw = raw_bytes(codec->dtype, one);
    *bytes = HEADER + ENTRY * units_of(count) + raw + TRAILER +
             (coded > one_raw ? coded - one_raw : 0);
    return LULL_OK;
}

/* ---- Encoding ---------------------------------------------------------- */

typedef struct writer {
    const lull_codec_t *codec;
    const lull__codec_row_t *row;
    lull_codec_scratch_t *scratch;
    uint8_t *data;
    size_t at, end; /* next byte; one past the last that units may use */
    bool escapes;
} writer_t;

static lull_status_t no_room(size_t needed, size_t capacity) {
    return lull__fail(LULL_ERR_CAPACITY,
                      "frame: at least %zu bytes do not fit in %zu", needed,
                      capacity);
}

/* One unit to w->at; the entry for the table in *entry. */
static lull_status_t encode_unit(writer_t *w, const uint8_t *src, size_t n,
                                 uint32_t *entry) {
    size_t raw = raw_bytes(w->codec->dtype, n);
    if (w->row->id != LULL__ID_RAW) {
        lull__out_t out = {.data = w->data + w->at, .capacity = w->end - w->at};
        lull_status_t status =
            w->row->encode(w->codec, src, n, &out, w->scratch);
        if (status == LULL_OK && !out.unfit && out.bytes < raw) {
            w->at += out.bytes;
            *entry = (uint32_t)out.bytes;
            return LULL_OK;
        }
        if (status != LULL_OK && status != LULL_ERR_CAPACITY)
            return status;
        w->escapes = true;
    }
    if (w->end - w->at < raw)
        return no_room(w->at + raw, w->end);
    memcpy(w->data + w->at, src, raw);
    w->at += raw;
    *entry = (uint32_t)raw | ENTRY_RAW;
    return LULL_OK;
}

static lull_status_t encode_units(writer_t *w, const uint8_t *values,
                                  size_t count) {
    lull_status_t status = LULL_OK;
    size_t unit_bytes = raw_bytes(w->codec->dtype, LULL_UNIT);
    lull__past_begin(w->scratch, raw_bytes(w->codec->dtype, count));
    for (uint64_t unit = 0; unit < units_of(count) && status == LULL_OK;
         unit++) {
        uint32_t entry = 0;
        size_t n = unit_count(count, unit);
        lull__set_follows(w->scratch, raw_bytes(w->codec->dtype,
                                                count - unit * LULL_UNIT - n));
        status = encode_unit(w, values + unit * unit_bytes, n, &entry);
        lull__store32(w->data + HEADER + ENTRY * unit, entry);
    }
    lull__set_follows(w->scratch, 0);
    lull__past_end(w->scratch);
    return status;
}

static void put_header(uint8_t *to, const writer_t *w, uint64_t count,
                       unsigned flags) {
    if (w->escapes)
        flags |= LULL_FRAME_ESCAPES;
    lull__store32(to, MAGIC);
    to[4] = VERSION;
    to[5] = (uint8_t)w->codec->dtype;
    lull__store16(to + 6, w->codec->id);
    lull__store16(to + 8, (uint16_t)flags);
    lull__store16(to + 10, 0);
    lull__store32(to + 12, w->codec->param);
    lull__store64(to + 16, count);
    lull__store64(to + 24, w->at - HEADER);
}

static lull_status_t encodable(const lull_codec_t *codec, const void *values,
                               size_t count, unsigned flags,
                               const lull_buffer_t *out) {
    lull_status_t status = lull__codec_check(codec);
    if (status == LULL_OK)
        status = check_count(codec->dtype, count);
    if (status != LULL_OK)
        return status;
    if ((values == NULL && count > 0) || out->data == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_frame_encode: %s is NULL",
                          out->data ? "values" : "out->data");
    if (flags & ~(unsigned)LULL_FRAME_CHECKSUM)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_frame_encode: flags 0x%x are not known", flags);
    return LULL_OK;
}

lull_status_t lull_frame_encode(const lull_codec_t *codec, const void *values,
                                size_t count, unsigned flags,
                                lull_buffer_t *out,
                                lull_codec_scratch_t *scratch) {
    lull_status_t status = encodable(codec, values, count, flags, out);
    if (status != LULL_OK)
        return status;
    /* What cannot come back must be found, whatever the caller asks. */
    lull_codec_t strict = *codec;
    strict.flags &= (uint16_t)~LULL_CODEC_FORCE;
    size_t trailer = flags & LULL_FRAME_CHECKSUM ? TRAILER : 0;
    size_t table = HEADER + ENTRY * units_of(count);
    if (out->capacity < table + trailer)
        return no_room(table + trailer, out->capacity);
    writer_t w = {.codec = &strict,
                  .row = lull__codec_row(codec->id),
                  .scratch = scratch,
                  .data = out->data,
                  .at = table,
                  .end = out->capacity - trailer};
    status = encode_units(&w, values, count);
    if (status != LULL_OK)
        return status;
    put_header(w.data, &w, count, flags);
    if (trailer != 0)
        lull__store64(w.data + w.at, lull__hash_of(w.data, w.at));
    out->bytes = w.at + trailer;
    return LULL_OK;
}

/* ---- Decoding ---------------------------------------------------------- */

static lull_status_t corrupt(const char *field, uint64_t value,
                             const char *why) {
    return lull__fail(LULL_ERR_CORRUPT, "frame: %s %llu: %s", field,
                      (unsigned long long)value, why);
}

/* Do count and payload bytes go together? */
static lull_status_t plausible(const lull_frame_info_t *info,
                               uint64_t payload) {
    lull_dtype_t dtype = info->codec.dtype;
    uint64_t raw, table = ENTRY * units_of(info->count);
    if (info->count > LULL__COUNT_MAX)
        return corrupt("count", info->count, "over 2^48");
    if (lull_dtype_bytes(dtype, info->count, &raw) != LULL_OK)
        return corrupt("count", info->count, "does not fill whole bytes");
    if (payload < table)
        return corrupt("payload bytes", payload,
                       "too few for the table of that count's units");
    if (payload - table > raw)
        return corrupt("payload bytes", payload,
                       "more than that count of values takes raw");
    return LULL_OK;
}

lull_status_t lull_frame_peek(const void *frame, size_t bytes,
                              lull_frame_info_t *out) {
    const uint8_t *from = frame;
    if (frame == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "frame: %s is NULL",
                          frame ? "out" : "frame");
    if (bytes < HEADER)
        return corrupt("size", bytes, "less than a header");
    if (lull__load32(from) != MAGIC)
        return corrupt("magic", lull__load32(from), "this is no frame");
    if (from[4] != VERSION)
        return lull__fail(LULL_ERR_VERSION,
                          "frame: version %u, this library knows %u", from[4],
                          VERSION);
    lull_frame_info_t info = {
        .codec = {.id = lull__load16(from + 6),
                  .param = lull__load32(from + 12),
                  .dtype = (lull_dtype_t)from[5]},
        .flags = lull__load16(from + 8),
        .count = lull__load64(from + 16),
    };
    if (lull_dtype_bits(info.codec.dtype) == 0)
        return corrupt("dtype", from[5], "no such dtype");
    if (info.flags & ~(unsigned)KNOWN_FLAGS)
        return corrupt("flags", info.flags, "unknown flags");
    if (lull__load16(from + 10) != 0)
        return corrupt("reserved field", lull__load16(from + 10), "not 0");
    lull_status_t status = lull__codec_check(&info.codec);
    if (status == LULL_ERR_INVALID)
        return corrupt("parameter", info.codec.param,
                       "out of the codec's range");
    if (status != LULL_OK)
        return status;
    uint64_t payload = lull__load64(from + 24);
    status = plausible(&info, payload);
    if (status != LULL_OK)
        return status;
    info.bytes = HEADER + payload;
    if (info.flags & LULL_FRAME_CHECKSUM)
        info.bytes += TRAILER;
    *out = info;
    return LULL_OK;
}

typedef struct reader {
    lull_codec_t codec;
    const lull__codec_row_t *row;
    lull_codec_scratch_t *scratch;
    const uint8_t *table;
    const uint8_t *at, *end; /* of the units */
    bool add;
    size_t unit_bytes; /* of a whole unit in the output */
} reader_t;

static lull_status_t decode_unit(reader_t *r, uint64_t unit, size_t n,
                                 uint8_t *to) {
    uint32_t entry = lull__load32(r->table + ENTRY * unit);
    size_t bytes = entry & ENTRY_BYTES;
    size_t raw = raw_bytes(r->codec.dtype, n);
    const uint8_t *from = r->at;
    if (bytes > (size_t)(r->end - from))
        return corrupt("bytes of unit", unit, "past the payload's end");
    r->at += bytes;
    if (entry & ENTRY_RAW) {
        if (bytes != raw)
            return corrupt("bytes of unit", unit, "raw, but not of that size");
        if (r->add)
            lull__add(r->codec.dtype, from, to, n);
        else
            memcpy(to, from, raw);
        return LULL_OK;
    }
    if (bytes >= raw)
        return corrupt("bytes of unit", unit, "coded, but not less than raw");
    lull__set_follows(r->scratch, (size_t)(r->end - r->at));
    return (r->add ? r->row->decode_add
                   : r->row->decode)(&r->codec, from, bytes, to, n, r->scratch);
}

static lull_status_t decode_units(reader_t *r, uint64_t count, uint8_t *to) {
    lull_status_t status = LULL_OK;
    for (uint64_t unit = 0; unit < units_of(count) && status == LULL_OK; unit++)
        status = decode_unit(r, unit, unit_count(count, unit),
                             to + unit * r->unit_bytes);
    lull__set_follows(r->scratch, 0);
    if (status != LULL_OK)
        return status;
    if (r->at != r->end)
        return corrupt("payload bytes", (uint64_t)(r->end - r->at),
                       "left over after the last unit");
    return LULL_OK;
}

static lull_status_t verify(const uint8_t *frame, size_t bytes) {
    uint64_t stored = lull__load64(frame + bytes - TRAILER);
    uint64_t computed = lull__hash_of(frame, bytes - TRAILER);
    if (stored == computed)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT,
                      "frame: checksum %016llx, the bytes have %016llx",
                      (unsigned long long)stored, (unsigned long long)computed);
}

/* Checks a whole frame but for its units, and readies r. */
static lull_status_t open_frame(const void *frame, size_t bytes, unsigned flags,
                                lull_frame_info_t *info, reader_t *r) {
    lull_status_t status = lull_frame_peek(frame, bytes, info);
    if (status != LULL_OK)
        return status;
    if (info->bytes != bytes)
        return lull__fail(LULL_ERR_CORRUPT,
                          "frame: payload bytes make it %llu bytes long, but "
                          "there are %zu",
                          (unsigned long long)info->bytes, bytes);
    if ((info->flags & LULL_FRAME_CHECKSUM) && !(flags & LULL_FRAME_TRUST)) {
        status = verify(frame, bytes);
        if (status != LULL_OK)
            return status;
    }
    r->codec = info->codec;
    r->codec.flags = (uint16_t)(flags >> 16);
    r->row = lull__codec_row(info->codec.id);
    r->table = (const uint8_t *)frame + HEADER;
    r->at = r->table + ENTRY * units_of(info->count);
    r->end = (const uint8_t *)frame + bytes;
    if (info->flags & LULL_FRAME_CHECKSUM)
        r->end -= TRAILER;
    return LULL_OK;
}

static lull_status_t fits(const lull_frame_info_t *info, size_t needed,
                          const void *array, size_t bytes) {
    if (needed != bytes)
        return lull__fail(LULL_ERR_MISMATCH,
                          "frame: count %llu of %s is %zu bytes, the array has "
                          "%zu",
                          (unsigned long long)info->count,
                          lull_dtype_name(info->codec.dtype), needed, bytes);
    if (array == NULL && bytes > 0)
        return lull__fail(LULL_ERR_INVALID, "frame: the array is NULL");
    return LULL_OK;
}

lull_status_t lull_frame_decode(const void *frame, size_t bytes, unsigned flags,
                                void *values, size_t values_bytes,
                                lull_codec_scratch_t *scratch) {
    lull_frame_info_t info;
    reader_t r = {.scratch = scratch};
    lull_status_t status = open_frame(frame, bytes, flags, &info, &r);
    if (status == LULL_OK)
        status = fits(&info, raw_bytes(info.codec.dtype, info.count), values,
                      values_bytes);
    if (status != LULL_OK)
        return status;
    r.unit_bytes = raw_bytes(info.codec.dtype, LULL_UNIT);
    lull__past_begin(scratch, values_bytes);
    status = decode_units(&r, info.count, values);
    lull__past_end(scratch);
    return status;
}

lull_status_t lull_frame_decode_add(const void *frame, size_t bytes,
                                    unsigned flags, void *sum, size_t sum_bytes,
                                    lull_codec_scratch_t *scratch) {
    lull_frame_info_t info;
    reader_t r = {.scratch = scratch, .add = true};
    lull_status_t status = open_frame(frame, bytes, flags, &info, &r);
    if (status != LULL_OK)
        return status;
    if ((LULL__FLOATS & LULL__BIT(info.codec.dtype)) == 0)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "frame: %s is not a floating type; it is not added",
                          lull_dtype_name(info.codec.dtype));
    size_t size = info.codec.dtype == LULL_F64 ? 8 : 4;
    r.unit_bytes = LULL_UNIT * size;
    status = fits(&info, (size_t)info.count * size, sum, sum_bytes);
    if (status != LULL_OK)
        return status;
    return decode_units(&r, info.count, sum);
}
