/* The table of codecs, specs, casts: against plain definitions, and every
 * variant against the portable one. */
#include <lull/codec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocations.h"
#include "base/cpu.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"
#include "codec_check.h"
#include "support.h"
#include "test.h"

static void specs(void **state) {
    (void)state;
    lull_codec_t codec;
    char text[LULL_CODEC_SPEC_MAX];
    assert_ok(lull_codec_parse("bf16", LULL_F32, &codec));
    assert_ok(lull_codec_format(&codec, text, sizeof text));
    assert_string_equal(text, "bf16");
    assert_true(lull_codec_is_lossy(&codec));
    assert_fails(lull_codec_format(&codec, text, 4), LULL_ERR_CAPACITY, "bf16");
    assert_fails(lull_codec_parse("nosuch", LULL_F32, &codec),
                 LULL_ERR_NOT_FOUND, "nosuch");
    assert_fails(lull_codec_parse("", LULL_F32, &codec), LULL_ERR_NOT_FOUND,
                 "''");
    assert_fails(lull_codec_parse("bf16:3", LULL_F32, &codec), LULL_ERR_INVALID,
                 "no parameter");
    assert_fails(lull_codec_parse("bf16", LULL_F16, &codec),
                 LULL_ERR_UNSUPPORTED, "F16");
    assert_fails(lull_codec_parse("raw", (lull_dtype_t)77, &codec),
                 LULL_ERR_UNSUPPORTED, "raw");
}

/* Every row parses by its usage's name, and formats back. */
static void table(void **state) {
    (void)state;
    lull_codec_info_t info;
    unsigned rows = 0;
    for (; lull_codec_at(rows, &info) == LULL_OK; rows++) {
        assert_non_null(lull__codec_row(info.id));
        assert_memory_equal(info.usage, info.name, strlen(info.name));
        assert_true(strlen(info.help) > 0);
    }
    assert_true(rows >= 3);
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* All 65536 halves: the definition, by arithmetic in double. */
static void halves_exact(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t in = (uint16_t)half, back;
        float wide;
        lull__convert_portable.f16_to_f32(&in, &wide, 1);
        unsigned exponent = half >> 10 & 31, mantissa = half & 1023;
        if (exponent == 31 && mantissa) {
            assert_true(isnan(wide));
        } else {
            double value = exponent == 31 ? (double)INFINITY
                           : exponent
                               ? ldexp(1024 + mantissa, (int)exponent - 25)
                               : ldexp(mantissa, -24);
            assert_true(wide == (half >> 15 ? -value : value));
            assert_int_equal(signbit(wide) != 0, half >> 15);
            lull__convert_portable.f32_to_f16(&wide, &back, 1);
            assert_int_equal(back, half);
        }
    }
}

/* Rounding between two neighbours of a 16-bit type, both sides and the tie. */
static void rounds_to_even(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        uint16_t two[2] = {(uint16_t)half, (uint16_t)(half + 1)}, got;
        float wide[2];
        lull__convert_portable.f16_to_f32(two, wide, 2);
        if (half == 0x7bff)
            wide[1] = 65536;
        float middle = (wide[0] + wide[1]) / 2;
        lull__convert_portable.f32_to_f16(&middle, &got, 1);
        assert_int_equal(got, half + (half & 1));
        float below = nextafterf(middle, 0);
        bool inf = lull__convert_portable.f32_to_f16(&below, &got, 1);
        assert_int_equal(got, half);
        assert_false(inf);
        float above = nextafterf(middle, INFINITY);
        inf = lull__convert_portable.f32_to_f16(&above, &got, 1);
        assert_int_equal(got, half + 1);
        assert_int_equal(inf, half == 0x7bff);
    }
    for (uint32_t half = 0; half < 0x7f80; half++) {
        uint32_t bits[3] = {half << 16 | 0x7fff, half << 16 | 0x8000,
                            half << 16 | 0x8001};
        uint16_t got[3];
        lull__convert_portable.f32_to_bf16(bits, got, 3);
        assert_int_equal(got[0], half);
        assert_int_equal(got[1], half + (half & 1));
        assert_int_equal(got[2], half + 1);
    }
}

#define N 20000
static uint32_t wide_in[N + 1];
static uint16_t half_in[N + 1];

static void fill(uint64_t seed) {
    for (int i = 0; i <= N; i++) {
        uint64_t r = test_random(&seed);
        /* A third of them near the range of halves. */
        wide_in[i] = r % 3 ? (uint32_t)(r >> 32)
                           : (uint32_t)((r >> 32 & 0x8fffffff) + 0x38000000);
        half_in[i] = (uint16_t)(r >> 16);
    }
}

static void same(const lull__convert_t *variant, size_t at, size_t n) {
    const lull__convert_t *portable = &lull__convert_portable;
    static uint32_t wide[2][N + 1];
    static uint16_t half[2][N + 1];
    memset(wide, 0, sizeof wide);
    const char *in16 = (char *)half_in + at, *in32 = (char *)wide_in + at;
#define TO32(fn)                                 \
    portable->fn(in16, (char *)wide[0] + at, n); \
    variant->fn(in16, (char *)wide[1] + at, n);  \
    assert_memory_equal(wide[0], wide[1], sizeof wide[0])
    TO32(f16_to_f32);
    TO32(bf16_to_f32);
#define TO16(fn)                                                  \
    assert_int_equal(portable->fn(in32, (char *)half[0] + at, n), \
                     variant->fn(in32, (char *)half[1] + at, n)); \
    assert_memory_equal(half[0], half[1], sizeof half[0])
    TO16(f32_to_f16);
    TO16(f32_to_bf16);
    /* Sums of NaNs have some NaN: compare numbers. */
    memset(wide, 0x3f, sizeof wide);
#define ADD(fn, in)                                                        \
    portable->fn(in, (char *)wide[0] + at, n);                             \
    variant->fn(in, (char *)wide[1] + at, n);                              \
    for (size_t i = 0; i < N; i++) {                                       \
        uint32_t a = lull__load32((char *)wide[0] + at + 4 * i);           \
        uint32_t b = lull__load32((char *)wide[1] + at + 4 * i);           \
        assert_true(a == b || (isnan(float_of(a)) && isnan(float_of(b)))); \
    }
    ADD(add_bf16, in16)
    ADD(add_f16, in16)
    ADD(add_f32, in32)
}

static void variants_agree(void **state) {
    (void)state;
    fill(test_seed());
    const lull__convert_t *variants[] = {&lull__convert_portable,
#ifdef __x86_64__
                                         &lull__convert_avx2,
                                         &lull__convert_avx512
#endif
    };
    for (int isa = 0; isa <= (int)lull__isa_best(); isa++) {
        for (size_t n = 0; n < 70; n++)
            same(variants[isa], n % 4, n);
        same(variants[isa], 1, N - 1);
    }
}

/* The cast codecs through the public calls: f32, f64 and their own type. */
static void casts(void **state) {
    (void)state;
    static const char *const specs_of[] = {"bf16", "f16"};
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (int c = 0; c < 2; c++) {
        float in32[5] = {1, -2.5f, 0, 3.14159f, 1e-3f}, back32[5];
        double in64[5] = {1, -2.5, 0, 3.14159, 1e-3}, back64[5];
        double sum64[5] = {1, 1, 1, 1, 1};
        uint8_t bytes[16];
        lull_codec_t codec;
        lull_buffer_t out = {.data = bytes, .capacity = 10};
        assert_ok(lull_codec_parse(specs_of[c], LULL_F32, &codec));
        assert_ok(lull_codec_encode(&codec, in32, 5, &out, scratch));
        assert_int_equal(out.bytes, 10);
        assert_ok(lull_codec_decode(&codec, bytes, 10, back32, 5, scratch));
        assert_fails(lull_codec_decode(&codec, bytes, 9, back32, 5, scratch),
                     LULL_ERR_CORRUPT, "9");
        assert_ok(lull_codec_parse(specs_of[c], LULL_F64, &codec));
        assert_ok(lull_codec_encode(&codec, in64, 5, &out, scratch));
        assert_ok(lull_codec_decode(&codec, bytes, 10, back64, 5, scratch));
        assert_ok(lull_codec_decode_add(&codec, bytes, 10, sum64, 5, scratch));
        for (int i = 0; i < 5; i++) {
            double bound = fabs(in64[i]) * (c ? 0x1p-11 : 0x1p-8);
            assert_true(fabs(back64[i] - in64[i]) <= bound);
            assert_true(fabs(back32[i] - in32[i]) <= bound + 1e-9);
            assert_true(sum64[i] == 1 + back64[i]);
        }
        out.capacity = 9;
        assert_fails(lull_codec_encode(&codec, in64, 5, &out, scratch),
                     LULL_ERR_CAPACITY, specs_of[c]);
        out.capacity = 16;
        in64[1] = 1e300; /* finite, but Inf in 16 bits */
        assert_fails(lull_codec_encode(&codec, in64, 5, &out, scratch),
                     LULL_ERR_UNSUPPORTED, specs_of[c]);
    }
    lull_codec_scratch_destroy(scratch);
}

/* Halfway in 16 bits, and a bit more that float cannot see: up, not to even. */
static void one_rounding(void **state) {
    (void)state;
    double value = 1 + 0x1p-8 + 0x1p-40;
    uint16_t got;
    lull_codec_t codec;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_ok(lull_codec_parse("bf16", LULL_F64, &codec));
    lull_buffer_t out = {.data = &got, .capacity = 2};
    assert_ok(lull_codec_encode(&codec, &value, 1, &out, scratch));
    assert_int_equal(got, 0x3f81);
    value = -(1 + 0x1p-8 - 0x1p-40);
    assert_ok(lull_codec_encode(&codec, &value, 1, &out, scratch));
    assert_int_equal(got, 0xbf80);
    lull_codec_scratch_destroy(scratch);
}

static void isa_follows_setting(void **state) {
    (void)state;
    for (int isa = 0; isa <= (int)lull__isa_best(); isa++) {
        assert_ok(lull_setting_set("isa", lull__isa_name((lull__isa_t)isa)));
        assert_int_equal(lull__isa(), isa);
        assert_string_equal(lull_codec_isa(), lull__isa_name((lull__isa_t)isa));
    }
    assert_ok(lull_setting_set("isa", "avx512"));
    assert_int_equal(lull__isa(), lull__isa_best());
    assert_ok(lull_setting_set("isa", "auto"));
}

/* ---- Allocation -------------------------------------------------------- */

/* No memory is an error, and the handle is as it was. */
static void scratch_without_memory(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch = NULL;
    allocations_arm(1);
    lull_status_t status = lull_codec_scratch_create(&scratch);
    assert_true(allocations_arm(0));
    assert_fails(status, LULL_ERR_NO_MEMORY, "codec scratch");
    assert_null(scratch);
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_non_null(scratch);
    lull_codec_scratch_destroy(scratch);
}

/* One array through a codec, bare and in a frame. */
static void code_once(const lull_codec_t *codec, lull_codec_scratch_t *scratch,
                      const void *values) {
    enum { COUNT = LULL_UNIT + 1000 };
    static uint64_t back[COUNT], stream[COUNT + 1024], sum[COUNT];
    size_t bytes = (size_t)COUNT * lull_dtype_bits(codec->dtype) / 8;
    size_t sums =
        codec->dtype == LULL_F64 ? 8 * (size_t)COUNT : 4 * (size_t)COUNT;
    lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
    memset(sum, 0, sizeof sum);
    assert_ok(lull_codec_encode(codec, values, COUNT, &out, scratch));
    assert_ok(
        lull_codec_decode(codec, stream, out.bytes, back, COUNT, scratch));
    assert_ok(
        lull_codec_decode_add(codec, stream, out.bytes, sum, COUNT, scratch));
    assert_ok(lull_frame_encode(codec, values, COUNT, LULL_FRAME_CHECKSUM, &out,
                                scratch));
    assert_ok(lull_frame_decode(stream, out.bytes, 0, back, bytes, scratch));
    assert_ok(lull_frame_decode_add(stream, out.bytes, LULL_FRAME_TRUST, sum,
                                    sums, scratch));
}

static void code_all(const char *isa, void *ctx) {
    static const char *const examples[] = {"raw",    "bf16",     "f16", "zfp:8",
                                           "zfp:16", "zfp:7.25", "mpc", "mpc:3",
                                           "expo",   "mxint8"};
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16,
                                          LULL_BF16};
    static uint64_t values[LULL_UNIT + 1000];
    uint64_t random = 1;
    for (unsigned t = 0; t < 4; t++) {
        codec_check_fill(FILL_NORMAL, dtypes[t], values, LULL_UNIT + 1000,
                         &random);
        for (unsigned e = 0; e < sizeof examples / sizeof examples[0]; e++) {
            lull_codec_t codec;
            if (lull_codec_parse(examples[e], dtypes[t], &codec) != LULL_OK)
                continue;
            uint64_t before = allocations_count();
            code_once(&codec, ctx, values);
            if (allocations_count() != before)
                fail_msg("%s of %s under %s asked for memory", examples[e],
                         lull_dtype_name(dtypes[t]), isa);
        }
    }
}

/* A thread's working memory, as the header promises. */
_Static_assert(sizeof(lull_codec_scratch_t) < 65536, "64 KiB");

/* After the scratch there is no memory to wait for. */
static void coding_allocates_nothing(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch;
    uint64_t before = allocations_count();
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_true(allocations_count() > before); /* it is seen */
    codec_check_isas(code_all, scratch);
    lull_codec_scratch_destroy(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs),
        cmocka_unit_test(table),
        cmocka_unit_test(halves_exact),
        cmocka_unit_test(rounds_to_even),
        cmocka_unit_test(variants_agree),
        cmocka_unit_test(casts),
        cmocka_unit_test(one_rounding),
        cmocka_unit_test(isa_follows_setting),
        cmocka_unit_test(scratch_without_memory),
        cmocka_unit_test(coding_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
