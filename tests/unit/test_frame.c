/* The frame: every codec, dtype and variant round trip; escapes; every wrong
 * header, prefix and capacity. */
#include <lull/codec.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "codec/codec_impl.h"
#include "codec_check.h"
#include "support.h"
#include "test.h"

#define MOST 100000
static uint64_t seed;
static lull_codec_scratch_t *scratch;

/* An example of every codec, by its name; without one the test fails. */
static const char *const examples[] = {
    "raw",      "bf16",   "f16", "zfp:8", "zfp:16", "zfp:2.25",
    "zfp:12.5", "zfp:32", "mpc", "mpc:3", "expo",   "mxint8",
};
#define EXAMPLES (sizeof examples / sizeof examples[0])
static const lull_dtype_t floats[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16};

static size_t size_of(lull_dtype_t dtype) {
    return lull_dtype_bits(dtype) / 8;
}

static double get(lull_dtype_t dtype, const void *array, size_t i) {
    const uint8_t *at = (const uint8_t *)array + i * size_of(dtype);
    float f;
    double d;
    if (dtype == LULL_F64) {
        memcpy(&d, at, 8);
        return d;
    }
    if (dtype == LULL_F32)
        memcpy(&f, at, 4);
    else if (dtype == LULL_F16)
        lull__f16_to_f32(at, &f, 1);
    else
        lull__bf16_to_f32(at, &f, 1);
    return f;
}

static void put(lull_dtype_t dtype, void *array, size_t i, double v) {
    uint8_t *at = (uint8_t *)array + i * size_of(dtype);
    float f = (float)v;
    if (dtype == LULL_F64)
        memcpy(at, &v, 8);
    else if (dtype == LULL_F32)
        memcpy(at, &f, 4);
    else if (dtype == LULL_F16)
        lull__f32_to_f16(&f, at, 1);
    else
        lull__f32_to_bf16(&f, at, 1);
}

static void gaussian(lull_dtype_t dtype, void *array, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double v = -6;
        for (int k = 0; k < 12; k++)
            v += (double)(test_random(&seed) >> 11) * 0x1p-53;
        put(dtype, array, i, v * 0.01);
    }
}

/* Ends in an unmapped page's place: asan sees what goes past it. */
static uint8_t *odd_alloc(size_t bytes, uint8_t **base) {
    *base = malloc(bytes + 1);
    assert_non_null(*base);
    return *base + 1;
}

static void roundtrip(const lull_codec_t *codec, const void *values,
                      size_t count, unsigned flags, void *back) {
    size_t bound, bytes = count * size_of(codec->dtype);
    uint8_t *base;
    assert_ok(lull_frame_bound(codec, count, &bound));
    uint8_t *frame = odd_alloc(bound, &base);
    lull_buffer_t out = {.data = frame, .capacity = bound};
    assert_ok(lull_frame_encode(codec, values, count, flags, &out, scratch));
    assert_true(out.bytes <= bytes + 44 + 4 * (count / LULL_UNIT));
    lull_frame_info_t info;
    assert_ok(lull_frame_peek(frame, LULL_FRAME_HEADER_BYTES, &info));
    assert_int_equal(info.count, count);
    assert_int_equal(info.bytes, out.bytes);
    assert_int_equal(info.codec.id, codec->id);
    assert_int_equal(info.codec.dtype, codec->dtype);
    assert_int_equal(info.codec.param, codec->param);
    assert_int_equal(info.flags & LULL_FRAME_CHECKSUM, flags);
    assert_ok(lull_frame_decode(frame, out.bytes, 0, back, bytes, scratch));
    /* The sum is what was decoded, added. */
    bool wide = codec->dtype == LULL_F64;
    uint8_t *sum_base, *sum = odd_alloc(count * (wide ? 8 : 4), &sum_base);
    for (size_t i = 0; i < count; i++)
        put(wide ? LULL_F64 : LULL_F32, sum, i, (double)(i % 3));
    assert_ok(lull_frame_decode_add(frame, out.bytes, LULL_FRAME_TRUST, sum,
                                    count * (wide ? 8 : 4), scratch));
    for (size_t i = 0; i < count; i++) {
        double v = get(codec->dtype, back, i), got, want = (double)(i % 3);
        got = get(wide ? LULL_F64 : LULL_F32, sum, i);
        want = wide ? want + v : (double)((float)want + (float)v);
        assert_true(got == want || (isnan(got) && isnan(want)));
    }
    free(sum_base);
    free(base);
}

static double error(lull_dtype_t dtype, const void *a, const void *b,
                    size_t count) {
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double x = get(dtype, a, i), d = x - get(dtype, b, i);
        error += d * d;
        size += x * x;
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

/* Relative L2 that each may have on Gaussian noise. */
static double bound_of(const lull_codec_t *codec) {
    char spec[LULL_CODEC_SPEC_MAX];
    if (!lull_codec_is_lossy(codec))
        return 0;
    assert_ok(lull_codec_format(codec, spec, sizeof spec));
    if (strncmp(spec, "zfp:", 4) == 0)
        return 16 * exp2(3 - atof(spec + 4)) +
               (codec->dtype == LULL_BF16  ? 0x1p-8
                : codec->dtype == LULL_F16 ? 0x1p-10
                                           : 1e-7);
    /* A block of 32 may have one value beside which the others are small: each
     * may be off by 1/128 of it. */
    if (strcmp(spec, "mxint8") == 0)
        return sqrt(32) / 128 + 0x1p-8;
    return 0.02;
}

static void lengths(const lull_codec_t *codec) {
    static const size_t counts[] = {0,    1,    2,     3,     4,     5,    31,
                                    32,   33,   63,    64,    65,    127,  1023,
                                    1024, 1025, 32767, 32768, 32769, 70001};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t count = counts[c], bytes = count * size_of(codec->dtype);
        uint8_t *values_base, *back_base;
        uint8_t *values = odd_alloc(bytes, &values_base);
        uint8_t *back = odd_alloc(bytes, &back_base);
        gaussian(codec->dtype, values, count);
        roundtrip(codec, values, count, c % 2, back);
        double got = error(codec->dtype, values, back, count);
        double most = bound_of(codec);
        if (count > 31 ? got > most : most == 0 && got != 0)
            fail_msg("codec %u param %u %s isa %s count %zu: error %g > %g",
                     codec->id, codec->param, lull_dtype_name(codec->dtype),
                     lull_codec_isa(), count, got, most);
        free(values_base);
        free(back_base);
    }
}

typedef struct body {
    void (*call)(const lull_codec_t *codec);
} body_t;

static void each_example(const char *isa, void *ctx) {
    const body_t *body = ctx;
    (void)isa;
    for (size_t e = 0; e < EXAMPLES; e++)
        for (int d = 0; d < 4; d++) {
            lull_codec_t codec;
            if (lull_codec_parse(examples[e], floats[d], &codec) == LULL_OK)
                body->call(&codec);
        }
}

static void each_codec(void (*call)(const lull_codec_t *codec)) {
    body_t body = {call};
    codec_check_isas(each_example, &body);
}

static void every_codec_comes_back(void **state) {
    (void)state;
    each_codec(lengths);
}

/* Every row of the table has an example above. */
static void examples_are_complete(void **state) {
    (void)state;
    lull_codec_info_t info;
    for (unsigned i = 0; lull_codec_at(i, &info) == LULL_OK; i++) {
        bool found = false;
        for (size_t e = 0; e < EXAMPLES; e++)
            found |= strncmp(examples[e], info.name, strlen(info.name)) == 0;
        if (!found)
            fail_msg("no example of codec %s", info.name);
    }
}

/* ---- Escapes ----------------------------------------------------------- */

/* One value of every kind that a codec may not know, in a unit of its own:
 * it comes out as it went in, and the other units stay coded. */
static void odd_values(const lull_codec_t *codec) {
    static const double odd[] = {NAN,   INFINITY, -INFINITY, 3.4e38, -3.4e38,
                                 1e-30, 1e-44,    1e-320,    1e308,  65504};
    size_t count = 3 * LULL_UNIT, bytes = count * size_of(codec->dtype);
    uint8_t *values = malloc(bytes), *back = malloc(bytes);
    gaussian(codec->dtype, values, count);
    for (size_t o = 0; o < sizeof odd / sizeof odd[0]; o++) {
        size_t at = LULL_UNIT + 1000;
        for (size_t i = at - at % 32; i < at - at % 32 + 64; i++)
            put(codec->dtype, values, i, 0);
        put(codec->dtype, values, at, odd[o]);
        double in = get(codec->dtype, values, at);
        roundtrip(codec, values, count, 0, back);
        double out = get(codec->dtype, back, at);
        if (isnan(in)       ? !isnan(out)
            : !isfinite(in) ? in != out
                            : !isfinite(out))
            fail_msg("codec %u %s: %g went in, %g came out", codec->id,
                     lull_dtype_name(codec->dtype), in, out);
        /* Its own block may have its scale. */
        for (size_t i = at - at % 32; i < at - at % 32 + 64; i++) {
            put(codec->dtype, values, i, 0);
            put(codec->dtype, back, i, 0);
        }
        double rest = error(codec->dtype, values, back, count);
        assert_true(rest <= bound_of(codec));
    }
    free(values);
    free(back);
}

static void odd_values_survive(void **state) {
    (void)state;
    each_codec(odd_values);
}

/* At every place of a short array, among ordinary values: whatever lane, block
 * or tail of a variant it falls into. */
static void not_finite_anywhere(const lull_codec_t *codec) {
    enum { COUNT = 197 };
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    uint8_t values[COUNT * 8], back[COUNT * 8], in[COUNT * 8];
    size_t bytes = COUNT * size_of(codec->dtype);
    gaussian(codec->dtype, values, COUNT);
    for (size_t at = 0; at < COUNT; at++) {
        memcpy(in, values, bytes);
        put(codec->dtype, in, at, odd[at % 3]);
        roundtrip(codec, in, COUNT, 0, back);
        double out = get(codec->dtype, back, at);
        if (at % 3 == 0 ? !isnan(out) : out != odd[at % 3])
            fail_msg("codec %u %s %s: %g at %zu came out as %g", codec->id,
                     lull_dtype_name(codec->dtype), lull_codec_isa(),
                     odd[at % 3], at, out);
        put(codec->dtype, in, at, 0);
        put(codec->dtype, back, at, 0);
        assert_true(error(codec->dtype, in, back, COUNT) <= bound_of(codec));
    }
}

static void not_finite_comes_out_where_it_went_in(void **state) {
    (void)state;
    each_codec(not_finite_anywhere);
}

static size_t coded_bytes(const char *spec, const float *values, size_t count,
                          unsigned *flags) {
    lull_codec_t codec;
    size_t bound;
    assert_ok(lull_codec_parse(spec, LULL_F32, &codec));
    assert_ok(lull_frame_bound(&codec, count, &bound));
    lull_buffer_t out = {.data = malloc(bound), .capacity = bound};
    assert_ok(lull_frame_encode(&codec, values, count, 0, &out, scratch));
    lull_frame_info_t info;
    assert_ok(lull_frame_peek(out.data, out.bytes, &info));
    *flags = info.flags;
    free(out.data);
    return out.bytes;
}

/* One NaN turns one unit raw, not the array. */
static void one_unit_escapes(void **state) {
    (void)state;
    size_t count = 3 * LULL_UNIT;
    float *values = malloc(4 * count);
    unsigned flags;
    gaussian(LULL_F32, values, count);
    assert_int_equal(coded_bytes("zfp:8", values, count, &flags),
                     32 + 12 + 3 * LULL_UNIT);
    assert_int_equal(flags, 0);
    values[LULL_UNIT] = NAN;
    assert_int_equal(coded_bytes("zfp:8", values, count, &flags),
                     32 + 12 + 6 * LULL_UNIT);
    assert_int_equal(flags, LULL_FRAME_ESCAPES);
    /* Just in and just out of what zfp can scale. */
    static const struct {
        float v;
        bool escapes;
    } edges[] = {
        {0x1p-98f, false}, {0x1.fffffep-99f, true}, {0x1.fffffep125f, false},
        {0x1p126f, true},  {-0x1p126f, true},       {-0x1p-98f, false},
        {0, false},        {-0.0f, false}};
    for (int e = 0; e < 8; e++) {
        memset(values, 0, 4 * count);
        values[77] = edges[e].v;
        coded_bytes("zfp:8", values, count, &flags);
        assert_int_equal(flags, edges[e].escapes ? LULL_FRAME_ESCAPES : 0);
    }
    free(values);
}

/* Random bits do not grow by more than header and table. */
static void incompressible(const lull_codec_t *codec) {
    size_t count = 2 * LULL_UNIT + 5, bytes = count * size_of(codec->dtype);
    uint8_t *values = malloc(bytes), *back = malloc(bytes);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t bits = test_random(&seed);
        memcpy(values + i, &bits, 8);
    }
    memset(values + bytes / 8 * 8, 0x55, bytes % 8);
    roundtrip(codec, values, count, 1, back);
    if (!lull_codec_is_lossy(codec))
        assert_memory_equal(values, back, bytes);
    free(values);
    free(back);
}

static void incompressible_stays_small(void **state) {
    (void)state;
    each_codec(incompressible);
}

/* ---- Bad input --------------------------------------------------------- */

static uint8_t good[200000];
static size_t good_bytes;
static float good_values[LULL_UNIT + 100], sink[LULL_UNIT + 100];

static void make_good(const char *spec, unsigned flags) {
    lull_codec_t codec;
    gaussian(LULL_F32, good_values, LULL_UNIT + 100);
    lull_buffer_t out = {.data = good, .capacity = sizeof good};
    assert_ok(lull_codec_parse(spec, LULL_F32, &codec));
    assert_ok(lull_frame_encode(&codec, good_values, LULL_UNIT + 100, flags,
                                &out, scratch));
    good_bytes = out.bytes;
}

static lull_status_t decode_good(unsigned flags) {
    return lull_frame_decode(good, good_bytes, flags, sink, sizeof sink,
                             scratch);
}

/* A field is overwritten: the status and the field's name in the sentence. */
static void lying_fields(void **state) {
    (void)state;
    static const struct {
        size_t at, size;
        uint64_t value;
        lull_status_t status;
        const char *word;
    } lies[] = {
        {0, 4, 0x12345678, LULL_ERR_CORRUPT, "magic"},
        {4, 1, 2, LULL_ERR_VERSION, "version 2"},
        {5, 1, 99, LULL_ERR_CORRUPT, "dtype"},
        {5, 1, LULL_U8, LULL_ERR_UNSUPPORTED, "U8"},
        {6, 2, 999, LULL_ERR_NOT_FOUND, "999"},
        {8, 2, 0x80, LULL_ERR_CORRUPT, "flags"},
        {10, 2, 1, LULL_ERR_CORRUPT, "reserved"},
        {12, 4, 3, LULL_ERR_CORRUPT, "parameter"},
        {12, 4, 33, LULL_ERR_CORRUPT, "zfp"},
        {16, 8, UINT64_MAX, LULL_ERR_CORRUPT, "count"},
        {16, 8, (uint64_t)1 << 48, LULL_ERR_CORRUPT, "payload bytes"},
        {16, 8, LULL_UNIT + 101, LULL_ERR_MISMATCH, "count 32869"},
        {16, 8, 0, LULL_ERR_CORRUPT, "payload bytes"},
        {24, 8, UINT64_MAX - 8, LULL_ERR_CORRUPT, "payload bytes"},
        {24, 8, 7, LULL_ERR_CORRUPT, "payload bytes"},
        {24, 8, 100, LULL_ERR_CORRUPT, "payload bytes"},
        {32, 4, 0x7fffffff, LULL_ERR_CORRUPT, "bytes of unit 0"},
        {32, 4, 0x80000010, LULL_ERR_CORRUPT, "bytes of unit 0"},
        {32, 4, LULL_UNIT - 9, LULL_ERR_CORRUPT, "zfp"},
        {36, 4, 99, LULL_ERR_CORRUPT, "zfp"},
        {36, 4, 101, LULL_ERR_CORRUPT, "bytes of unit 1"},
    };
    for (size_t l = 0; l < sizeof lies / sizeof lies[0]; l++) {
        make_good("zfp:8", 0);
        assert_ok(decode_good(0));
        memcpy(good + lies[l].at, &lies[l].value, lies[l].size);
        assert_fails(decode_good(0), lies[l].status, lies[l].word);
        lull_status_t status = lull_frame_decode_add(good, good_bytes, 0, sink,
                                                     sizeof sink, scratch);
        assert_int_equal(status, lies[l].status);
    }
}

static void prefixes(const lull_codec_t *codec) {
    static float values[300];
    size_t bytes = 300 * size_of(codec->dtype), bound;
    gaussian(codec->dtype == LULL_F64 ? LULL_F16 : codec->dtype, values, 300);
    uint8_t array[2400], back[2400];
    gaussian(codec->dtype, array, 300);
    assert_ok(lull_frame_bound(codec, 300, &bound));
    lull_buffer_t out = {.data = malloc(bound), .capacity = bound};
    assert_ok(lull_frame_encode(codec, array, 300, 0, &out, scratch));
    for (size_t n = 0; n < out.bytes; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* asan sees one byte more */
        memcpy(exact, out.data, n);
        lull_status_t status =
            lull_frame_decode(exact, n, 0, back, bytes, scratch);
        assert_int_equal(status, LULL_ERR_CORRUPT);
        free(exact);
    }
    /* Encoding into less than it takes. */
    for (size_t n = 0; n < out.bytes; n++) {
        uint8_t *exact = malloc(n ? n : 1);
        lull_buffer_t small = {.data = exact, .capacity = n};
        assert_fails(lull_frame_encode(codec, array, 300, 0, &small, scratch),
                     LULL_ERR_CAPACITY, "do not fit");
        free(exact);
    }
    uint8_t *exact = malloc(out.bytes);
    lull_buffer_t just = {.data = exact, .capacity = out.bytes};
    assert_ok(lull_frame_encode(codec, array, 300, 0, &just, scratch));
    assert_memory_equal(exact, out.data, out.bytes);
    free(exact);
    free(out.data);
}

static void every_prefix_fails(void **state) {
    (void)state;
    each_codec(prefixes);
}

static void flipped_bits(void **state) {
    (void)state;
    make_good("zfp:8", LULL_FRAME_CHECKSUM);
    assert_ok(decode_good(0));
    for (int i = 0; i < 3000; i++) {
        size_t bit =
            i < 320 ? (size_t)i : test_random(&seed) % (8 * good_bytes);
        good[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(decode_good(0), LULL_OK);
        good[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    good[500] ^= 1;
    assert_fails(decode_good(0), LULL_ERR_CORRUPT, "checksum");
    assert_ok(decode_good(LULL_FRAME_TRUST));
}

static void bad_arguments(void **state) {
    (void)state;
    lull_codec_t codec;
    size_t bound;
    uint8_t bytes[64];
    lull_buffer_t out = {.data = bytes, .capacity = sizeof bytes};
    assert_ok(lull_codec_parse("zfp:8", LULL_F32, &codec));
    assert_fails(lull_frame_bound(&codec, (size_t)1 << 49, &bound),
                 LULL_ERR_INVALID, "2^48");
    assert_fails(lull_frame_encode(&codec, NULL, 5, 0, &out, scratch),
                 LULL_ERR_INVALID, "values");
    assert_fails(lull_frame_encode(&codec, good_values, 5, 64, &out, scratch),
                 LULL_ERR_INVALID, "0x40");
    make_good("raw", 0);
    assert_fails(
        lull_frame_decode(good, good_bytes, 0, sink, sizeof sink - 4, scratch),
        LULL_ERR_MISMATCH, "count 32868 of F32");
    assert_ok(lull_codec_parse("raw", LULL_I32, &codec));
    out = (lull_buffer_t){.data = bytes, .capacity = sizeof bytes};
    assert_ok(lull_frame_encode(&codec, good_values, 4, 0, &out, scratch));
    assert_fails(lull_frame_decode_add(bytes, out.bytes, 0, sink, 16, scratch),
                 LULL_ERR_UNSUPPORTED, "I32");
    lull_frame_info_t info;
    assert_fails(lull_frame_peek(NULL, 64, &info), LULL_ERR_INVALID, "NULL");
    assert_fails(lull_frame_peek(bytes, 64, NULL), LULL_ERR_INVALID, "NULL");
}

/* The same of bare streams. */
static void bad_bare_arguments(void **state) {
    (void)state;
    lull_codec_t codec;
    size_t bound;
    uint8_t bytes[64];
    lull_buffer_t out = {.data = bytes, .capacity = sizeof bytes};
    assert_ok(lull_codec_parse("zfp:8", LULL_F32, &codec));
    assert_fails(lull_codec_bound(&codec, (size_t)1 << 49, &bound),
                 LULL_ERR_INVALID, "too many");
    assert_fails(
        lull_codec_encode(&codec, good_values, (size_t)1 << 49, &out, scratch),
        LULL_ERR_INVALID, "too large");
    assert_fails(lull_codec_encode(&codec, NULL, 5, &out, scratch),
                 LULL_ERR_INVALID, "array");
    assert_fails(lull_codec_encode(&codec, good_values, 5, &out, NULL),
                 LULL_ERR_INVALID, "scratch");
    assert_fails(lull_codec_decode(&codec, NULL, 8, sink, 5, scratch),
                 LULL_ERR_INVALID, "stream");
    assert_fails(lull_codec_decode_add(&codec, bytes, 8, NULL, 5, scratch),
                 LULL_ERR_INVALID, "array");
    codec.id = 999;
    assert_fails(lull_codec_encode(&codec, good_values, 5, &out, scratch),
                 LULL_ERR_NOT_FOUND, "999");
}

/* ---- Golden files ------------------------------------------------------ */

#define GOLDEN_VALUES 300
static const char *const golden[] = {"raw",       "bf16", "zfp_8",
                                     "zfp_13.25", "mpc",  "zfp_8-escaped"};

static void golden_values(float *to, bool nan) {
    for (int i = 0; i < GOLDEN_VALUES; i++)
        to[i] = (float)(i * 37 % 101 - 50) * 0.125f;
    if (nan)
        to[17] = NAN;
}

static size_t read_golden(const char *name, uint8_t *to, size_t most) {
    char path[512];
    snprintf(path, sizeof path, TEST_SOURCES "/golden/frame/%s", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("%s is missing", path);
    size_t n = fread(to, 1, most, f);
    fclose(f);
    return n;
}

/* Frames written by an earlier version are read, and written the same. */
static void golden_frames(void **state) {
    (void)state;
    float values[GOLDEN_VALUES], back[GOLDEN_VALUES];
    uint8_t file[4096], again[4096];
    for (size_t g = 0; g < sizeof golden / sizeof golden[0]; g++) {
        char spec[32], name[64];
        bool escaped = strstr(golden[g], "escaped") != NULL;
        snprintf(spec, sizeof spec, "%.*s", (int)strcspn(golden[g], "-"),
                 golden[g]);
        for (char *p = spec; *p; p++)
            *p = *p == '_' ? ':' : *p;
        lull_codec_t codec;
        assert_ok(lull_codec_parse(spec, LULL_F32, &codec));
        golden_values(values, escaped);
        lull_buffer_t out = {.data = again, .capacity = sizeof again};
        assert_ok(lull_frame_encode(&codec, values, GOLDEN_VALUES,
                                    LULL_FRAME_CHECKSUM, &out, scratch));
        snprintf(name, sizeof name, "good-%s", golden[g]);
        if (getenv("LULL_WRITE_GOLDEN") != NULL) {
            char path[512];
            snprintf(path, sizeof path, TEST_SOURCES "/golden/frame/%s", name);
            FILE *f = fopen(path, "wb");
            assert_non_null(f);
            fwrite(again, 1, out.bytes, f);
            fclose(f);
        }
        size_t n = read_golden(name, file, sizeof file);
        assert_int_equal(n, out.bytes);
        assert_memory_equal(file, again, n);
        assert_ok(lull_frame_decode(file, n, 0, back, sizeof back, scratch));
        if (!lull_codec_is_lossy(&codec) || escaped)
            assert_memory_equal(back, values, sizeof back);
        assert_true(
            error(LULL_F32, values, back, escaped ? 17 : GOLDEN_VALUES) < 0.1);
    }
}

/* Each of these must fail so, for this reason. */
static void golden_must_fail(void **state) {
    (void)state;
    static const struct {
        const char *name, *word;
        lull_status_t status;
    } rows[] = {
        {"bad-magic", "magic", LULL_ERR_CORRUPT},
        {"bad-version", "version", LULL_ERR_VERSION},
        {"bad-checksum", "checksum", LULL_ERR_CORRUPT},
        {"bad-cut", "payload bytes", LULL_ERR_CORRUPT},
        {"bad-long", "payload bytes", LULL_ERR_CORRUPT},
        {"bad-count", "count", LULL_ERR_CORRUPT},
        {"bad-rate", "parameter", LULL_ERR_CORRUPT},
        {"bad-codec", "codec", LULL_ERR_NOT_FOUND},
        {"bad-unit", "unit 0", LULL_ERR_CORRUPT},
    };
    float back[GOLDEN_VALUES];
    uint8_t file[4096];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t n = read_golden(rows[r].name, file, sizeof file);
        /* Other faults than the checksum's must be found without it. */
        unsigned flags =
            strstr(rows[r].name, "checksum") ? 0 : LULL_FRAME_TRUST;
        assert_fails(
            lull_frame_decode(file, n, flags, back, sizeof back, scratch),
            rows[r].status, rows[r].word);
    }
}

/* ---- Threads ----------------------------------------------------------- */

static void *one_thread(void *arg) {
    const float *values = arg;
    lull_codec_scratch_t *own;
    size_t bound;
    bool same = lull_codec_scratch_create(&own) == LULL_OK;
    for (size_t e = 0; e < EXAMPLES && same; e++) {
        lull_codec_t codec;
        if (lull_codec_parse(examples[e], LULL_F32, &codec) != LULL_OK)
            continue;
        same = lull_frame_bound(&codec, 5000, &bound) == LULL_OK;
        uint8_t *frame = malloc(bound);
        float *back = malloc(5000 * 4);
        lull_buffer_t out = {.data = frame, .capacity = bound};
        for (int i = 0; i < 20 && same; i++)
            same = lull_frame_encode(&codec, values, 5000, 1, &out, own) ==
                       LULL_OK &&
                   lull_frame_decode(frame, out.bytes, 0, back, 5000 * 4,
                                     own) == LULL_OK;
        if (!lull_codec_is_lossy(&codec))
            same &= memcmp(back, values, 5000 * 4) == 0;
        free(frame);
        free(back);
    }
    lull_codec_scratch_destroy(own);
    return same ? arg : NULL;
}

/* Each with its own scratch, on the same values; for tsan. */
static void threads(void **state) {
    (void)state;
    pthread_t thread[4];
    gaussian(LULL_F32, good_values, 5000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, one_thread, good_values), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_non_null(result);
    }
}

static int setup(void **state) {
    (void)state;
    seed = test_seed();
    assert_ok(lull_codec_scratch_create(&scratch));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    lull_codec_scratch_destroy(scratch);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_comes_back),
        cmocka_unit_test(examples_are_complete),
        cmocka_unit_test(odd_values_survive),
        cmocka_unit_test(not_finite_comes_out_where_it_went_in),
        cmocka_unit_test(one_unit_escapes),
        cmocka_unit_test(incompressible_stays_small),
        cmocka_unit_test(lying_fields),
        cmocka_unit_test(every_prefix_fails),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(bad_bare_arguments),
        cmocka_unit_test(golden_frames),
        cmocka_unit_test(golden_must_fail),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
