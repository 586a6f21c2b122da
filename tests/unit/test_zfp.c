/* ZFP against libzfp 1.0.0, byte for byte, and every variant against the
 * portable one. */
#include <lull/codec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zfp.h>

#include "codec/zfp_impl.h"
#include "support.h"
#include "test.h"

#define MOST 70000 /* values of a test */
static uint64_t seed;
static lull_codec_scratch_t *scratch;
static _Alignas(64) uint8_t values[8 * MOST + 64], decoded[8 * MOST + 64],
    expected[8 * MOST + 64], ours[8 * MOST + 512], theirs[8 * MOST + 512];

static lull_codec_t codec_of(lull_dtype_t dtype, unsigned quarters) {
    char spec[LULL_CODEC_SPEC_MAX];
    lull_codec_t codec;
    snprintf(spec, sizeof spec, "zfp:%u.%02u", quarters / 4, quarters % 4 * 25);
    assert_ok(lull_codec_parse(spec, dtype, &codec));
    assert_int_equal(codec.param, quarters);
    codec.flags = LULL_CODEC_FORCE;
    return codec;
}

/* ---- Data -------------------------------------------------------------- */

enum { GAUSSIAN, RAMP, BITS, SUBNORMAL, ZEROS, SPARSE, CONSTANT, KINDS };

static double gaussian(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(test_random(&seed) >> 11) * 0x1p-53;
    return sum;
}

static uint64_t finite_bits(lull_dtype_t dtype) {
    for (;;) {
        uint64_t bits = test_random(&seed);
        if (dtype == LULL_F32 && (bits & 0x7f800000) != 0x7f800000)
            return bits;
        if (dtype == LULL_F64 && (~bits & 0x7ffull << 52) != 0)
            return bits;
    }
}

static void fill(int kind, lull_dtype_t dtype, uint8_t *to, size_t count) {
    double scale = ldexp(1, (int)(test_random(&seed) % 40) - 30);
    for (size_t i = 0; i < count; i++) {
        double v = 0;
        uint64_t bits = 0;
        switch (kind) {
        case GAUSSIAN:
            v = gaussian() * scale;
            break;
        case RAMP:
            v = sin((double)i / 100) * scale;
            break;
        case SPARSE:
            v = test_random(&seed) % 5 ? 0 : gaussian() * scale;
            break;
        case CONSTANT:
            v = scale;
            break;
        case BITS:
            bits = finite_bits(dtype);
            break;
        case SUBNORMAL:
            bits = test_random(&seed);
            bits &= dtype == LULL_F32 ? 0x80ffffff : 0x801fffffffffffff;
            break;
        case ZEROS:
            bits = test_random(&seed) << 63;
            bits |= bits >> 32;
            break;
        }
        float f = (float)v;
        if (kind == BITS || kind == SUBNORMAL || kind == ZEROS)
            memcpy(to + i * (dtype == LULL_F32 ? 4 : 8), &bits,
                   dtype == LULL_F32 ? 4 : 8);
        else if (dtype == LULL_F32)
            memcpy(to + 4 * i, &f, 4);
        else
            memcpy(to + 8 * i, &v, 8);
    }
}

/* ---- libzfp ------------------------------------------------------------ */

static size_t zfp_run(lull_codec_t codec, void *array, size_t count,
                      void *bytes, bool encode) {
    zfp_type type = codec.dtype == LULL_F32 ? zfp_type_float : zfp_type_double;
    zfp_field *field = zfp_field_1d(array, type, count);
    zfp_stream *zfp = zfp_stream_open(NULL);
    zfp_stream_set_rate(zfp, codec.param / 4.0, type, 1, zfp_false);
    bitstream *stream = stream_open(bytes, sizeof theirs);
    zfp_stream_set_bit_stream(zfp, stream);
    size_t n = encode ? zfp_compress(zfp, field) : zfp_decompress(zfp, field);
    zfp_field_free(field);
    zfp_stream_close(zfp);
    stream_close(stream);
    assert_true(n > 0);
    return n;
}

static void same_bytes(const void *a, const void *b, size_t n,
                       lull_codec_t codec, int kind, size_t count) {
    if (memcmp(a, b, n) == 0)
        return;
    size_t at = 0;
    while (((const uint8_t *)a)[at] == ((const uint8_t *)b)[at])
        at++;
    fail_msg("%s param %u kind %d count %zu isa %s: byte %zu of %zu differs",
             lull_dtype_name(codec.dtype), codec.param, kind, count,
             lull_codec_isa(), at, n);
}

static void against_libzfp(lull_codec_t codec, int kind, size_t count) {
    size_t size = codec.dtype == LULL_F32 ? 4 : 8;
    fill(kind, codec.dtype, values, count);
    lull_buffer_t out = {.data = ours, .capacity = sizeof ours};
    assert_ok(lull_codec_encode(&codec, values, count, &out, scratch));
    if (count == 0)
        return;
    size_t n = zfp_run(codec, values, count, theirs, true);
    assert_int_equal(out.bytes, n);
    same_bytes(ours, theirs, n, codec, kind, count);
    memset(expected, 0xee, sizeof expected);
    memset(decoded, 0xee, sizeof decoded);
    zfp_run(codec, expected, count, theirs, false);
    codec.flags = LULL_CODEC_ZFP_TRUNCATE;
    assert_ok(lull_codec_decode(&codec, ours, n, decoded, count, scratch));
    same_bytes(decoded, expected, count * size + 64, codec, kind, count);
}

static void each_isa(void (*body)(void)) {
    static const char *const names[] = {"portable", "avx2", "avx512"};
    for (int isa = 0; isa <= (int)lull__isa_best(); isa++) {
        assert_ok(lull_setting_set("isa", names[isa]));
        body();
    }
    assert_ok(lull_setting_set("isa", "auto"));
}

static void all_rates(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        for (unsigned q = 9; q <= 128; q++)
            against_libzfp(codec_of(LULL_F32, q), kind, 1500 + q % 7);
        for (unsigned q = 12; q <= 256; q++)
            against_libzfp(codec_of(LULL_F64, q), kind, 500 + q % 7);
    }
}

static void all_lengths(void) {
    static const unsigned rates[] = {9, 17, 32, 33, 64, 96, 127, 128};
    static const size_t big[] = {1023, 1024, 1025, 65535, 65536, 65537};
    for (int r = 0; r < 8; r++) {
        lull_codec_t f32 = codec_of(LULL_F32, rates[r]);
        lull_codec_t f64 = codec_of(LULL_F64, rates[r] + 3);
        for (size_t n = 0; n <= 140; n++) {
            against_libzfp(f32, r % 2 ? BITS : GAUSSIAN, n);
            against_libzfp(f64, r % 2 ? GAUSSIAN : BITS, n);
        }
        for (int i = 0; i < 6; i++)
            against_libzfp(f32, GAUSSIAN, big[i]);
        against_libzfp(f64, BITS, big[r % 6]);
    }
}

static void rates_as_libzfp(void **state) {
    (void)state;
    each_isa(all_rates);
}

static void lengths_as_libzfp(void **state) {
    (void)state;
    each_isa(all_lengths);
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
        cmocka_unit_test(rates_as_libzfp),
        cmocka_unit_test(lengths_as_libzfp),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
