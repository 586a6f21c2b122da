/* mpc: golden streams both ways, round trips, every variant, bad streams. */
#include <dirent.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/codec_impl.h"
#include "codec_check.h"
#include "support.h"
#include "test.h"

static void try_golden(const char *isa, void *ctx) {
    const char *name = ctx;
    char spec[16], path[300], mpc[310];
    size_t values_bytes, stream_bytes, bound;
    unsigned word = strstr(name, ".f64") ? 8 : 4;
    const char *dim = strstr(name, "-d");
    assert_non_null(dim);
    snprintf(spec, sizeof spec, "mpc:%d", atoi(dim + 2));
    snprintf(path, sizeof path, "mpc/%s", name);
    snprintf(mpc, sizeof mpc, "%s.mpc", path);
    uint8_t *values = codec_check_golden(path, &values_bytes);
    uint8_t *stream = codec_check_golden(mpc, &stream_bytes);
    size_t count = values_bytes / word;
    lull_codec_t codec;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_ok(lull_codec_parse(spec, word == 8 ? LULL_F64 : LULL_F32, &codec));
    assert_ok(lull_codec_bound(&codec, count, &bound));
    lull_buffer_t out = {.data = malloc(bound), .capacity = bound};
    uint8_t *back = malloc(values_bytes + 1);
    assert_ok(lull_codec_encode(&codec, values, count, &out, scratch));
    if (out.bytes != stream_bytes || memcmp(out.data, stream, stream_bytes))
        fail_msg("%s: other bytes under %s", mpc, isa);
    /* Without and with the word that some encoders append. */
    memset(stream + stream_bytes, 0x77, word);
    for (unsigned extra = 0; extra <= word; extra += word) {
        assert_ok(lull_codec_decode(&codec, stream, stream_bytes + extra, back,
                                    count, scratch));
        assert_memory_equal(back, values, values_bytes);
    }
    assert_fails(lull_codec_decode(&codec, stream, stream_bytes + 1, back,
                                   count, scratch),
                 LULL_ERR_CORRUPT, "follow");
    free(back);
    free(out.data);
    free(values);
    free(stream);
    lull_codec_scratch_destroy(scratch);
}

static void golden_streams(void **state) {
    (void)state;
    DIR *dir = opendir(TEST_SOURCES "/golden/mpc");
    assert_non_null(dir);
    unsigned tried = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || (strcmp(entry->d_name + length - 4, ".f32") != 0 &&
                           strcmp(entry->d_name + length - 4, ".f64") != 0))
            continue;
        codec_check_isas(try_golden, entry->d_name);
        tried++;
    }
    closedir(dir);
    assert_int_equal(tried, 59);
}

static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16};

static lull_codec_t mpc(unsigned dim, lull_dtype_t dtype) {
    lull_codec_t codec;
    char spec[16];
    snprintf(spec, sizeof spec, "mpc:%u", dim);
    assert_ok(lull_codec_parse(spec, dtype, &codec));
    assert_int_equal(codec.param, dim);
    return codec;
}

static void lengths(void **state) {
    (void)state;
    static uint64_t values[66000];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        codec_check_fill(FILL_NORMAL, dtypes[t], values, 66000, &random);
        for (size_t n = 0; n <= 70; n++) {
            lull_codec_t codec = mpc(1 + n % 32, dtypes[t]);
            codec_check_lossless(&codec, values, n);
        }
        static const size_t around[] = {1023, 1024, 1025, 2047, 2049, 65537};
        for (unsigned i = 0; i < 6; i++) {
            lull_codec_t codec = mpc(1 + i, dtypes[t]);
            codec_check_lossless(&codec, values, around[i]);
        }
    }
}

static void every_dim_and_kind(void **state) {
    (void)state;
    static uint64_t values[2100];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++)
        for (unsigned dim = 1; dim <= 32; dim++) {
            lull_codec_t codec = mpc(dim, dtypes[t]);
            codec_fill_t kind = (dim + t) % FILL_COUNT;
            codec_check_fill(kind, dtypes[t], values, 2100, &random);
            codec_check_lossless(&codec, values, 2100);
        }
}

static void mutated_streams(void **state) {
    (void)state;
    static uint64_t values[3000];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = mpc(1 + t, dtypes[t]);
        codec_check_fill(FILL_NORMAL, dtypes[t], values, 3000, &random);
        codec_check_mutations(&codec, values, 3000, &random);
        codec_check_mutations(&codec, values, 40, &random);
    }
}

/* Each field of a header, changed, is named. */
static void lying_headers(void **state) {
    (void)state;
    uint8_t stream[4096], values[100 * 4] = {0};
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned t = 0; t < 4; t++) {
        unsigned word = lull_dtype_bits(dtypes[t]) / 8;
        lull_codec_t codec = mpc(3, dtypes[t]);
        lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
        size_t n = sizeof values / word;
        assert_ok(lull_codec_encode(&codec, values, n, &out, scratch));
#define LIE(at, word_)                                                        \
    do {                                                                      \
        stream[at] ^= 1;                                                      \
        assert_fails(                                                         \
            lull_codec_decode(&codec, stream, out.bytes, values, n, scratch), \
            LULL_ERR_CORRUPT, word_);                                         \
        stream[at] ^= 1;                                                      \
    } while (0)
        LIE(0, "dimension");
        LIE(1, "magic");
        LIE(word == 2 ? 8 : 4, "count");
        LIE(word == 2 ? 16 : 8, "cut off");
        assert_fails(lull_codec_decode(&codec, stream, 9, values, n, scratch),
                     LULL_ERR_CORRUPT, word == 2 ? "header" : "bitmap");
        assert_ok(
            lull_codec_decode(&codec, stream, out.bytes, values, n, scratch));
    }
    lull_codec_scratch_destroy(scratch);
}

static void specs(void **state) {
    (void)state;
    lull_codec_t codec;
    char text[LULL_CODEC_SPEC_MAX];
    assert_ok(lull_codec_parse("mpc", LULL_F32, &codec));
    assert_int_equal(codec.param, 1);
    assert_ok(lull_codec_format(&codec, text, sizeof text));
    assert_string_equal(text, "mpc");
    assert_ok(lull_codec_parse("mpc:32", LULL_BF16, &codec));
    assert_ok(lull_codec_format(&codec, text, sizeof text));
    assert_string_equal(text, "mpc:32");
    static const char *const bad[] = {
        "mpc:0",  "mpc:33", "mpc:",   "mpc:x",
        "mpc:-1", "mpc:1x", "mpc: 1", "mpc:99999999999"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(lull_codec_parse(bad[i], LULL_F32, &codec),
                     LULL_ERR_INVALID, "dimension");
    assert_fails(lull_codec_parse("mpc", LULL_I32, &codec),
                 LULL_ERR_UNSUPPORTED, "I32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_streams),     cmocka_unit_test(lengths),
        cmocka_unit_test(every_dim_and_kind), cmocka_unit_test(mutated_streams),
        cmocka_unit_test(lying_headers),      cmocka_unit_test(specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
