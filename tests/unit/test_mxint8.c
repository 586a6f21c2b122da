/* mxint8: error bounds, rounding, scales, what does not fit, every variant. */
#include <lull/codec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/codec_impl.h"
#include "codec_check.h"
#include "support.h"
#include "test.h"

static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16};

static lull_codec_t mxint8(lull_dtype_t dtype) {
    lull_codec_t codec;
    assert_ok(lull_codec_parse("mxint8", dtype, &codec));
    return codec;
}

static double get(lull_dtype_t dtype, const void *values, size_t i) {
    const uint8_t *at =
        (const uint8_t *)values + i * (lull_dtype_bits(dtype) / 8);
    float single;
    double wide;
    if (dtype == LULL_F64) {
        memcpy(&wide, at, 8);
        return wide;
    }
    if (dtype == LULL_F16)
        lull__f16_to_f32(at, &single, 1);
    else if (dtype == LULL_BF16)
        lull__bf16_to_f32(at, &single, 1);
    else
        memcpy(&single, at, 4);
    return single;
}

/* |error| is at most half a step, a step where 127.5 steps and more saturate
 * at 127; or half the smallest number of f16. */
static void check_bound(lull_dtype_t dtype, const void *values,
                        const void *back, size_t count) {
    for (size_t b = 0; b < count; b += 32) {
        double most = 0;
        size_t end = b + 32 < count ? b + 32 : count;
        for (size_t i = b; i < end; i++)
            most = fmax(most, fabs(get(dtype, values, i)));
        double step = most > 0 ? ldexp(1, ilogb(most) - 6) : 0;
        step = fmax(step, 0x1p-133);
        double f16 = dtype == LULL_F16 ? 0x1p-25 : 0;
        for (size_t i = b; i < end; i++) {
            double x = get(dtype, values, i), y = get(dtype, back, i);
            double allowed = fabs(x) >= 127.5 * step ? step : step / 2;
            if (!(fabs(x - y) <= allowed + f16))
                fail_msg("%s: %zu of %zu: %a came back as %a, step %a",
                         lull_dtype_name(dtype), i, count, x, y, step);
        }
    }
}

static void check_kind(lull_dtype_t dtype, codec_fill_t kind, size_t count,
                       uint64_t *random) {
    lull_codec_t codec = mxint8(dtype);
    codec.flags = LULL_CODEC_FORCE;
    void *values = malloc(count * 8 + 1), *back = malloc(count * 8 + 1);
    codec_check_fill(kind, dtype, values, count, random);
    assert_int_equal(codec_check(&codec, values, count, back),
                     count + (count + 31) / 32);
    check_bound(dtype, values, back, count);
    codec.flags |= LULL_CODEC_STOCHASTIC;
    codec_check(&codec, values, count, NULL);
    free(values);
    free(back);
}

static void lengths(void **state) {
    (void)state;
    static const size_t around[] = {1023, 1024, 1025, 32767, 32801, 65537};
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        for (size_t n = 0; n <= 70; n++)
            check_kind(dtypes[t], FILL_NORMAL, n, &random);
        for (unsigned i = 0; i < 6; i++)
            check_kind(dtypes[t], FILL_NORMAL, around[i], &random);
    }
}

static void kinds(void **state) {
    (void)state;
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++)
        for (codec_fill_t kind = 0; kind < FILL_COUNT; kind++)
            if (kind != FILL_BITS && kind != FILL_SPECIAL)
                check_kind(dtypes[t], kind, 2100, &random);
}

/* Finite random bits: every exponent, subnormals, the largest. */
static void finite_bits(void **state) {
    (void)state;
    static float values[8192], back[8192];
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 8192; i++) {
        uint32_t bits = (uint32_t)test_random(&random);
        uint32_t exponent = i / 32; /* 0 to 254, a block each, and 0 */
        bits = (bits & 0x807fffff) | (exponent % 255) << 23;
        memcpy(values + i, &bits, 4);
    }
    lull_codec_t codec = mxint8(LULL_F32);
    codec.flags = LULL_CODEC_FORCE;
    codec_check(&codec, values, 8192, back);
    check_bound(LULL_F32, values, back, 8192);
}

/* The same for doubles: blocks under, within and at the end of what scales
 * hold, with any smaller number beside the largest. */
static void finite_bits_f64(void **state) {
    (void)state;
    static double values[16384], back[16384];
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 16384; i++) {
        uint64_t bits = test_random(&random), keep = ~(0x7ffull << 52);
        uint64_t exponent = 1150 - i / 32 * 5 % 400; /* all from 751 on */
        if (i % 32 != 0)
            exponent -= test_random(&random) % (i % 64 < 32 ? 10 : exponent);
        bits = (bits & keep) | exponent << 52;
        memcpy(values + i, &bits, 8);
    }
    lull_codec_t codec = mxint8(LULL_F64);
    codec.flags = LULL_CODEC_FORCE;
    codec_check(&codec, values, 16384, back);
    check_bound(LULL_F64, values, back, 16384);
    codec.flags |= LULL_CODEC_STOCHASTIC;
    codec_check(&codec, values, 16384, NULL);
}

static size_t encode_one(lull_codec_t codec, const float *values, size_t n,
                         uint8_t *stream) {
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    lull_buffer_t out = {.data = stream, .capacity = 4096};
    assert_ok(lull_codec_encode(&codec, values, n, &out, scratch));
    lull_codec_scratch_destroy(scratch);
    return out.bytes;
}

/* The bytes, from the format's definition. */
static void known_bytes(void **state) {
    (void)state;
    uint8_t stream[4096];
    /* Largest 1.5: scale 2^0, step 1/64; ties to even. */
    const float values[] = {1.5f,       -1.0f, 0.5f / 64,  1.5f / 64, 2.5f / 64,
                            -2.5f / 64, -0.0f, 0.51f / 64, 1e-20f,    -1.5f};
    static const int8_t want[] = {96, -64, 0, 2, 2, -2, 0, 1, 0, -96};
    assert_int_equal(encode_one(mxint8(LULL_F32), values, 10, stream), 11);
    assert_int_equal(stream[0], 127);
    assert_memory_equal(stream + 1, want, 10);
    /* Just under 2: saturates at 127, on both sides. */
    const float high[] = {1.9999999f, -1.9999999f};
    encode_one(mxint8(LULL_F32), high, 2, stream);
    assert_int_equal((int8_t)stream[1], 127);
    assert_int_equal((int8_t)stream[2], -127);
}

/* What does not come back is refused in a bare stream; frames store it raw. */
static void unfit_values(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned t = 0; t < 4; t++)
        for (unsigned i = 0; i < 3; i++)
            for (unsigned force = 0; force <= LULL_CODEC_FORCE;
                 force += LULL_CODEC_FORCE) {
                uint8_t values[100 * 8] = {0}, stream[256];
                unsigned size = lull_dtype_bits(dtypes[t]) / 8;
                float single = (float)bad[i];
                uint8_t *at = values + (size_t)(i * 33 + 1) * size;
                if (dtypes[t] == LULL_F64)
                    memcpy(at, &bad[i], 8);
                else if (dtypes[t] == LULL_F32)
                    memcpy(at, &single, 4);
                else if (dtypes[t] == LULL_F16)
                    lull__f32_to_f16(&single, at, 1);
                else
                    lull__f32_to_bf16(&single, at, 1);
                lull_codec_t codec = mxint8(dtypes[t]);
                codec.flags = (uint16_t)force;
                lull_buffer_t out = {.data = stream, .capacity = 256};
                assert_fails(
                    lull_codec_encode(&codec, values, 100, &out, scratch),
                    LULL_ERR_UNSUPPORTED, "bring back");
            }
    /* A block that the least scale does not reach, unless forced. */
    float tiny[40] = {0}, back[40];
    double far[40] = {0x1p128}, far_tiny[40] = {0x1p-128};
    uint8_t stream[64];
    lull_buffer_t out = {.data = stream, .capacity = 64};
    lull_codec_t codec = mxint8(LULL_F32);
    tiny[35] = 0x1.8p-128f;
    assert_fails(lull_codec_encode(&codec, tiny, 40, &out, scratch),
                 LULL_ERR_UNSUPPORTED, "bring back");
    codec.flags = LULL_CODEC_FORCE;
    assert_ok(lull_codec_encode(&codec, tiny, 40, &out, scratch));
    assert_ok(lull_codec_decode(&codec, stream, out.bytes, back, 40, scratch));
    assert_true(back[35] == tiny[35]);
    codec = mxint8(LULL_F32);
    tiny[35] = 0x1p-127f;
    assert_ok(lull_codec_encode(&codec, tiny, 40, &out, scratch));
    codec = mxint8(LULL_F64);
    assert_fails(lull_codec_encode(&codec, far, 40, &out, scratch),
                 LULL_ERR_UNSUPPORTED, "bring back");
    assert_fails(lull_codec_encode(&codec, far_tiny, 40, &out, scratch),
                 LULL_ERR_UNSUPPORTED, "bring back");
    lull_codec_scratch_destroy(scratch);
}

/* A scale of 0xff is NaN for all of its block; other streams' -128 decodes. */
static void foreign_streams(void **state) {
    (void)state;
    uint8_t stream[66];
    float back[64];
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned t = 0; t < 4; t++) {
        uint8_t values[64 * 8];
        lull_codec_t codec = mxint8(dtypes[t]);
        memset(stream, 0x80, sizeof stream);
        stream[0] = 255;
        stream[1] = 127;
        assert_ok(lull_codec_decode(&codec, stream, 66, values, 64, scratch));
        assert_true(isnan(get(dtypes[t], values, 31)));
        assert_true(get(dtypes[t], values, 32) == -2);
    }
    lull_codec_t codec = mxint8(LULL_F32);
    assert_fails(lull_codec_decode(&codec, stream, 65, back, 64, scratch),
                 LULL_ERR_CORRUPT, "65 bytes");
    lull_codec_scratch_destroy(scratch);
}

/* The mean of many roundings is the value; each is one of its neighbours; the
 * same seed gives the same bytes, another gives others. */
static void stochastic_rounding(void **state) {
    (void)state;
    enum { N = 320 };
    static float values[N], back[N];
    double sum = 0;
    uint8_t first[N * 2], stream[N * 2];
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    lull_codec_t codec = mxint8(LULL_F32);
    codec.flags = LULL_CODEC_STOCHASTIC;
    for (unsigned i = 0; i < N; i++)
        values[i] = i % 32 == 0 ? 1.0f : 10.3f / 64;
    lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
    for (unsigned k = 0; k < 1000; k++) {
        lull_codec_scratch_seed(scratch, k);
        assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
        assert_ok(
            lull_codec_decode(&codec, stream, out.bytes, back, N, scratch));
        for (unsigned i = 0; i < N; i++) {
            if (i % 32 == 0)
                assert_true(back[i] == 1.0f);
            else
                assert_true(back[i] == 10.f / 64 || back[i] == 11.f / 64);
            sum += i % 32 == 0 ? 0 : back[i] * 64;
        }
        if (k == 0)
            memcpy(first, stream, out.bytes);
    }
    assert_true(fabs(sum / (1000 * (N - N / 32)) - 10.3) < 0.005);
    assert_memory_not_equal(first, stream, out.bytes);
    lull_codec_scratch_seed(scratch, 0);
    assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
    assert_memory_equal(first, stream, out.bytes);
    assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
    assert_memory_not_equal(first, stream, out.bytes);
    lull_codec_scratch_destroy(scratch);
}

static void mutated_streams(void **state) {
    (void)state;
    static double values[200];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = mxint8(dtypes[t]);
        codec_check_fill(FILL_NORMAL, dtypes[t], values, 200, &random);
        codec_check_mutations(&codec, values, 200, &random);
    }
}

static void try_golden(const char *isa, void *ctx) {
    static const char *const kinds[] = {"normal", "sparse"};
    static const char *const names[] = {"f32", "f64", "f16", "bf16"};
    lull_codec_scratch_t *scratch = ctx;
    for (unsigned k = 0; k < 2; k++)
        for (unsigned t = 0; t < 4; t++) {
            char name[64], path[80];
            size_t bytes, stream_bytes, back_bytes;
            uint8_t stream[4096], values[9000];
            snprintf(name, sizeof name, "mxint8/%s.%s", kinds[k], names[t]);
            uint8_t *from = codec_check_golden(name, &bytes);
            snprintf(path, sizeof path, "%s.mxint8", name);
            uint8_t *want = codec_check_golden(path, &stream_bytes);
            snprintf(path, sizeof path, "%s.back", name);
            uint8_t *back = codec_check_golden(path, &back_bytes);
            lull_codec_t codec = mxint8(dtypes[t]);
            size_t count = bytes / (lull_dtype_bits(dtypes[t]) / 8);
            lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
            assert_ok(lull_codec_encode(&codec, from, count, &out, scratch));
            if (out.bytes != stream_bytes ||
                memcmp(stream, want, stream_bytes) != 0)
                fail_msg("%s: other bytes under %s", name, isa);
            assert_ok(lull_codec_decode(&codec, want, stream_bytes, values,
                                        count, scratch));
            assert_memory_equal(values, back, back_bytes);
            free(back);
            free(want);
            free(from);
        }
}

static void golden_streams(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    codec_check_isas(try_golden, scratch);
    lull_codec_scratch_destroy(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_streams),
        cmocka_unit_test(lengths),
        cmocka_unit_test(kinds),
        cmocka_unit_test(finite_bits),
        cmocka_unit_test(finite_bits_f64),
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(unfit_values),
        cmocka_unit_test(foreign_streams),
        cmocka_unit_test(stochastic_rounding),
        cmocka_unit_test(mutated_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
