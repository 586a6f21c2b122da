/* ZFP against libzfp 1.0.0, byte for byte, and every variant against the
 * portable one. */
#include <lull/codec.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zfp.h>

#include "codec/zfp_impl.h"
#include "codec_check.h"
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

enum {
    GAUSSIAN,
    RAMP,
    BITS,
    SUBNORMAL,
    SMALL, /* where scales overflow, and doubles have fewer planes */
    ZEROS,
    SPARSE,
    CONSTANT,
    GRADIENTS,
    KINDS
};

/* Of a real training: tests/golden/gradients. */
static const float *gradients;
static size_t gradient_count;

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

/* Exponents from those of subnormal numbers to where all is as usual. */
static uint64_t small_bits(lull_dtype_t dtype, size_t i) {
    unsigned mantissa = dtype == LULL_F32 ? 23 : 52;
    uint64_t bits = test_random(&seed);
    uint64_t sign = 1ull << (dtype == LULL_F32 ? 31 : 63);
    uint64_t exponent = i / 4 * 7 % 80;
    if (i % 4 != 0)
        exponent = bits % 2 ? test_random(&seed) % (exponent + 1) : 0;
    uint64_t keep = sign | ((1ull << mantissa) - 1);
    return (bits & keep) | exponent << mantissa;
}

static void fill(int kind, lull_dtype_t dtype, uint8_t *to, size_t count) {
    double scale = ldexp(1, (int)(test_random(&seed) % 40) - 30);
    size_t from = test_random(&seed) % gradient_count;
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
        case GRADIENTS:
            v = gradients[(from + i) % gradient_count];
            break;
        case BITS:
            bits = finite_bits(dtype);
            break;
        case SUBNORMAL:
            bits = test_random(&seed);
            bits &= dtype == LULL_F32 ? 0x80ffffff : 0x801fffffffffffff;
            break;
        case SMALL:
            bits = small_bits(dtype, i);
            break;
        case ZEROS:
            bits = test_random(&seed) << 63;
            bits |= bits >> 32;
            break;
        }
        float f = (float)v;
        if (kind == BITS || kind == SUBNORMAL || kind == SMALL || kind == ZEROS)
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

static void all_rates(const char *isa, void *ctx) {
    (void)isa, (void)ctx;
    for (int kind = 0; kind < KINDS; kind++) {
        for (unsigned q = 9; q <= 128; q++)
            against_libzfp(codec_of(LULL_F32, q), kind, 1500 + q % 7);
        for (unsigned q = 12; q <= 256; q++)
            against_libzfp(codec_of(LULL_F64, q), kind, 500 + q % 7);
    }
}

static void all_lengths(const char *isa, void *ctx) {
    (void)isa, (void)ctx;
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
            against_libzfp(f32, i % 2 ? GAUSSIAN : GRADIENTS, big[i]);
        against_libzfp(f64, BITS, big[r % 6]);
    }
}

static void rates_as_libzfp(void **state) {
    (void)state;
    codec_check_isas(all_rates, NULL);
}

static void lengths_as_libzfp(void **state) {
    (void)state;
    codec_check_isas(all_lengths, NULL);
}

/* ---- The definition, a bit at a time ----------------------------------- */

typedef struct ref {
    const uint8_t *src;
    size_t bit;
    unsigned left;
} ref_t;

static unsigned ref_bit(ref_t *r) {
    unsigned bit = r->src[r->bit / 8] >> r->bit % 8 & 1;
    r->bit++;
    r->left--;
    return bit;
}

/* One plane, as decode_ints of zfp does it; returns coefficients known. */
static unsigned ref_plane(ref_t *r, unsigned *n, unsigned *nibble) {
    unsigned m = *n < r->left ? *n : r->left;
    *nibble = 0;
    for (unsigned i = 0; i < m; i++)
        *nibble |= ref_bit(r) << i;
    while (*n < 4 && r->left > 0) {
        if (!ref_bit(r))
            return 4;
        while (*n < 3 && r->left > 0 && !ref_bit(r))
            ++*n;
        *nibble |= 1u << *n;
        m = ++*n;
    }
    return m;
}

/* Rounding as ZFP_ROUND_LAST: inv_round of zfp's template/decode.c. */
static void ref_block(lull_dtype_t dtype, ref_t *r, double out[4], bool round) {
    unsigned planes = dtype == LULL_F32 ? 32 : 64, n = 0, known = 4, k = 0;
    unsigned exponent_bits = dtype == LULL_F32 ? 8 : 11;
    int bias = dtype == LULL_F32 ? 127 : 1023, emax = -bias;
    uint64_t u[4] = {0}, mask = 0xaaaaaaaaaaaaaaaa >> (64 - planes);
    mask = dtype == LULL_F32 ? 0xaaaaaaaa : mask;
    for (int i = 0; i < 4; i++)
        out[i] = 0;
    if (!ref_bit(r))
        return;
    for (unsigned i = 0; i < exponent_bits; i++)
        emax += (int)(ref_bit(r) << i);
    unsigned most = planes;
    if (dtype == LULL_F64 && emax + 1078 < 64) /* precision() */
        most = (unsigned)(emax + 1078);
    for (; r->left > 0 && (known = 0, k++ < most);) {
        unsigned nibble;
        known = ref_plane(r, &n, &nibble);
        for (int i = 0; i < 4; i++)
            u[i] |= (uint64_t)(nibble >> i & 1) << (planes - k);
    }
    int64_t q[4];
    for (unsigned i = 0; i < 4; i++) {
        if (round && k < planes - 1)
            u[i] += (i < known ? mask >> 2 : mask >> 1) >> k;
        u[i] = (u[i] ^ mask) - mask;
        q[i] = dtype == LULL_F32 ? (int32_t)u[i] : (int64_t)u[i];
    }
#define WRAP(v) (dtype == LULL_F32 ? (int64_t)(int32_t)(v) : (v))
#define PLUS(a, b) WRAP((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define LESS(a, b) WRAP((int64_t)((uint64_t)(a) - (uint64_t)(b)))
    int64_t x = q[0], y = q[1], z = q[2], w = q[3];
    y = PLUS(y, w >> 1), w = LESS(w, y >> 1);
    y = PLUS(y, w), w = LESS(PLUS(w, w), y);
    z = PLUS(z, x), x = LESS(PLUS(x, x), z);
    y = PLUS(y, z), z = LESS(PLUS(z, z), y);
    w = PLUS(w, x), x = LESS(PLUS(x, x), w);
    q[0] = x, q[1] = y, q[2] = z, q[3] = w;
    for (int i = 0; i < 4; i++)
        out[i] = dtype == LULL_F32
                     ? (double)(ldexpf(1, emax - 30) * (float)q[i])
                     : ldexp(1, emax - 62) * (double)q[i];
}

static void ref_decode(lull_codec_t codec, const uint8_t *src, uint8_t *to,
                       size_t count) {
    bool round = !(codec.flags & LULL_CODEC_ZFP_TRUNCATE);
    for (size_t block = 0; block < (count + 3) / 4; block++) {
        ref_t r = {src, block * codec.param, codec.param};
        double out[4];
        ref_block(codec.dtype, &r, out, round);
        for (size_t i = 4 * block; i < 4 * block + 4 && i < count; i++) {
            float f = (float)out[i % 4];
            if (codec.dtype == LULL_F32)
                memcpy(to + 4 * i, &f, 4);
            else
                memcpy(to + 8 * i, &out[i % 4], 8);
        }
    }
}

static double value_at(lull_dtype_t dtype, const uint8_t *from, size_t i) {
    float f;
    double d;
    memcpy(&f, from + 4 * i, 4);
    memcpy(&d, from + (dtype == LULL_F32 ? 0 : 8 * i), 8);
    return dtype == LULL_F32 ? (double)f : d;
}

/* The stream in `ours` decodes as the definition says, and sums too. */
static void check_stream(lull_codec_t codec, size_t count) {
    size_t size = lull_dtype_bits(codec.dtype) / 8, n;
    assert_ok(lull_codec_bound(&codec, count, &n));
    for (unsigned flags = 0; flags < 2; flags++) {
        codec.flags = (uint16_t)flags;
        memset(expected, 0, count * size);
        memset(decoded, 0, count * size);
        ref_decode(codec, ours, expected, count);
        assert_ok(lull_codec_decode(&codec, ours, n, decoded, count, scratch));
        same_bytes(decoded, expected, count * size, codec, (int)flags, count);
        assert_ok(
            lull_codec_decode_add(&codec, ours, n, decoded, count, scratch));
        for (size_t i = 0; i < count; i++) {
            double f = value_at(codec.dtype, decoded, i);
            double g = value_at(codec.dtype, expected, i);
            if (f != (codec.dtype == LULL_F32 ? (double)(float)(g + g) : g + g))
                fail_msg("%s param %u: sum at %zu is %g, not twice %g",
                         lull_dtype_name(codec.dtype), codec.param, i, f, g);
        }
    }
}

static void set_bit(size_t bit) {
    ours[bit / 8] |= (uint8_t)(1 << bit % 8);
}

/* Any bytes, few blocks of zeros. */
static void any_stream(lull_codec_t codec, size_t count, unsigned density) {
    for (size_t i = 0; i < count * codec.param / 32 + 1; i++) {
        ours[i] = (uint8_t)test_random(&seed);
        for (unsigned d = 0; d < density; d++)
            ours[i] &= (uint8_t)test_random(&seed);
    }
    for (size_t b = 0; b < (count + 3) / 4; b++)
        set_bit(b * codec.param);
    check_stream(codec, count);
}

/* Doubles so small that libzfp has fewer planes for some: their first bits are
 * about where those end. */
static void few_planes(unsigned quarters) {
    lull_codec_t codec = codec_of(LULL_F64, quarters);
    size_t count = 300;
    unsigned exponent = 4 + quarters % 8; /* the same for all of a group */
    memset(ours, 0, count * quarters / 32 + 1);
    for (size_t b = 0; b < count / 4; b++) {
        size_t bit = b * quarters;
        set_bit(bit);
        for (unsigned i = 0; i < 4; i++)
            if (exponent >> i & 1)
                set_bit(bit + 1 + i);
        for (unsigned i = 0; i < 3; i++)
            set_bit(bit + 12 + 53 + test_random(&seed) % 24);
    }
    check_stream(codec, count);
}

static void any_streams(const char *isa, void *ctx) {
    (void)isa, (void)ctx;
    for (unsigned q = 9; q <= 128; q++)
        for (unsigned density = 0; density < 4; density++)
            any_stream(codec_of(LULL_F32, q), 300, density);
    for (unsigned q = 12; q <= 256; q++)
        for (unsigned density = 0; density < 4; density++)
            any_stream(codec_of(LULL_F64, q), 300, density);
    for (unsigned q = 90; q <= 256; q++)
        few_planes(q);
}

static void streams_as_defined(void **state) {
    (void)state;
    codec_check_isas(any_streams, NULL);
}

/* The tables hold what the definition gives. */
static void tables_as_defined(void **state) {
    (void)state;
    for (unsigned n = 0; n <= 4; n++)
        for (unsigned i = 1; i < 256; i++) {
            unsigned left = 31 - (unsigned)__builtin_clz(i), nibble, after = n;
            uint8_t bits = (uint8_t)(i ^ 1u << left);
            ref_t r = {&bits, 0, left};
            unsigned known = ref_plane(&r, &after, &nibble);
            unsigned entry = lull__zfp_decode[n][i];
            assert_int_equal(entry & 15, nibble);
            assert_int_equal(entry >> 4 & 15, left - r.left);
            assert_int_equal(entry >> 8 & 15, after);
            assert_int_equal(entry >> 12, known);
            if (left == 7) { /* whole: the encoder's inverse */
                unsigned code = lull__zfp_encode[n][nibble];
                unsigned length = code >> 8 & 15;
                assert_int_equal(length, left - r.left);
                assert_int_equal(code & 0xff, bits & ((1u << length) - 1));
                assert_int_equal(code >> 12, after);
            }
        }
}

/* Those of several planes, from those of one. */
static void wide_tables_as_defined(void **state) {
    (void)state;
    for (unsigned n = 0; n < 4; n++)
        for (unsigned i = 0; i < 256; i++) {
            unsigned one = lull__zfp_encode[n][i & 15];
            unsigned two = lull__zfp_encode[one >> 12][i >> 4];
            unsigned length = one >> 8 & 15, after = two >> 12;
            uint32_t code = (one & 255) | (two & 255) << length;
            length += two >> 8 & 15;
            after = after < 3 ? after : 3;
            assert_int_equal(lull__zfp_pairs[n][i],
                             length | after << 8 | code << 16);
            unsigned bits = n ? i : 2 * i + 1, left = n ? 8 : 9, planes = 0;
            uint32_t nibbles = 0;
            for (after = n, length = 0; after < 3 && planes < 4; planes++) {
                unsigned have = left - length < 7 ? left - length : 7;
                uint32_t entry =
                    lull__zfp_decode[after][1u << have | (bits >> length &
                                                          ((1u << have) - 1))];
                one = lull__zfp_encode[after][entry & 15];
                if ((one >> 8 & 15) > have) /* it goes on */
                    break;
                nibbles |= (entry & 15) << 4 * planes;
                length += entry >> 4 & 7;
                after = one >> 12;
            }
            after = after < 3 ? after : 3;
            assert_int_equal(lull__zfp_planes[n][i], length | after << 8 |
                                                         planes << 12 |
                                                         nibbles << 16);
        }
}

/* ---- The zfp program --------------------------------------------------- */

static void write_file(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static size_t read_file(const char *path, void *data, size_t most) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(data, 1, most, f);
    fclose(f);
    return n;
}

typedef struct program {
    char path[3][64]; /* values, their stream, and what comes back */
} program_t;

static void run_zfp(const char *line, ...) {
    char text[512];
    va_list list;
    va_start(list, line);
    vsnprintf(text, sizeof text, line, list);
    va_end(list);
    assert_int_equal(system(text), 0);
}

/* What the program wrote, read by lull, and the other way round. */
static void program_file(const program_t *p, lull_codec_t codec) {
    size_t count = 10007, size = lull_dtype_bits(codec.dtype) / 8;
    const char *type = size == 4 ? "-f" : "-d";
    double rate = codec.param / 4.0;
    fill(GAUSSIAN, codec.dtype, values, count);
    write_file(p->path[0], values, size * count);
    run_zfp("zfp -q -i %s %s -1 %zu -r %.2f -z %s", p->path[0], type, count,
            rate, p->path[1]);
    size_t n = read_file(p->path[1], theirs, sizeof theirs);
    run_zfp("zfp -q -z %s %s -1 %zu -r %.2f -o %s", p->path[1], type, count,
            rate, p->path[2]);
    assert_int_equal(read_file(p->path[2], expected, sizeof expected),
                     size * count);
    codec.flags = LULL_CODEC_ZFP_TRUNCATE;
    assert_ok(lull_codec_decode(&codec, theirs, n, decoded, count, scratch));
    same_bytes(decoded, expected, size * count, codec, 1, count);
    codec.flags = LULL_CODEC_FORCE;
    lull_buffer_t out = {.data = ours, .capacity = sizeof ours};
    assert_ok(lull_codec_encode(&codec, values, count, &out, scratch));
    write_file(p->path[1], ours, out.bytes);
    run_zfp("zfp -q -z %s %s -1 %zu -r %.2f -o %s", p->path[1], type, count,
            rate, p->path[2]);
    assert_int_equal(read_file(p->path[2], expected, sizeof expected),
                     size * count);
    same_bytes(decoded, expected, size * count, codec, 2, count);
    assert_int_equal(n, out.bytes);
    same_bytes(ours, theirs, n, codec, 0, count);
}

static void all_program_files(const char *isa, void *ctx) {
    static const unsigned quarters[] = {12, 32, 33, 50, 64, 128};
    (void)isa;
    for (int r = 0; r < 6; r++) {
        program_file(ctx, codec_of(LULL_F32, quarters[r]));
        program_file(ctx, codec_of(LULL_F64, quarters[r]));
    }
    program_file(ctx, codec_of(LULL_F32, 9));
    program_file(ctx, codec_of(LULL_F64, 256));
}

static void program_files(void **state) {
    (void)state;
    if (access("/usr/bin/zfp", X_OK)) {
        printf("skipped: no zfp program\n");
        return;
    }
    char dir[] = "/tmp/lull_zfp_XXXXXX";
    program_t p;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 3; i++)
        snprintf(p.path[i], sizeof p.path[i], "%s/%d", dir, i);
    codec_check_isas(all_program_files, &p);
    for (int i = 0; i < 3; i++)
        unlink(p.path[i]);
    rmdir(dir);
}

/* ---- Edges ------------------------------------------------------------- */

static void specs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *back;
        lull_dtype_t dtype;
    } good[] = {{"zfp:8", "zfp:8", LULL_F32},
                {"zfp:2.25", "zfp:2.25", LULL_F32},
                {"zfp:6.375", "zfp:6.5", LULL_F32},
                {"zfp:32.0", "zfp:32", LULL_F32},
                {"zfp:3", "zfp:3", LULL_F64},
                {"zfp:64", "zfp:64", LULL_F64},
                {"zfp:16", "zfp:16", LULL_BF16},
                {"zfp:08.750", "zfp:8.75", LULL_F16}};
    static const struct {
        const char *spec;
        lull_dtype_t dtype;
    } bad[] = {{"zfp", LULL_F32},           {"zfp:", LULL_F32},
               {"zfp:x", LULL_F32},         {"zfp:8x", LULL_F32},
               {"zfp:-8", LULL_F32},        {"zfp:2", LULL_F32},
               {"zfp:33", LULL_F32},        {"zfp:2.5", LULL_F64},
               {"zfp:65", LULL_F64},        {"zfp:17", LULL_BF16},
               {"zfp:8.1234", LULL_F32},    {"zfp:99999", LULL_F32},
               {"zfp:.5", LULL_F32},        {"zfp:8:8", LULL_F32},
               {"zfp:4294967304", LULL_F32}};
    lull_codec_t codec;
    char text[LULL_CODEC_SPEC_MAX];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(lull_codec_parse(good[i].spec, good[i].dtype, &codec));
        assert_ok(lull_codec_format(&codec, text, sizeof text));
        assert_string_equal(text, good[i].back);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(lull_codec_parse(bad[i].spec, bad[i].dtype, &codec),
                     LULL_ERR_INVALID, "rate");
    assert_fails(lull_codec_parse("zfp:8", LULL_I32, &codec),
                 LULL_ERR_UNSUPPORTED, "I32");
}

/* Nothing is written past capacity nor read past the end, whatever the
 * alignment: blocks from malloc of the exact size, for asan. */
static void exact_buffer(lull_codec_t codec, size_t count, size_t off) {
    size_t n, size = count * lull_dtype_bits(codec.dtype) / 8;
    assert_ok(lull_codec_bound(&codec, count, &n));
    uint8_t *in = malloc(size + off), *out = malloc(n + off);
    uint8_t *back = malloc(size + off);
    fill(GAUSSIAN, codec.dtype, in + off, count);
    lull_buffer_t to = {.data = out + off, .capacity = n - 1};
    assert_fails(lull_codec_encode(&codec, in + off, count, &to, scratch),
                 LULL_ERR_CAPACITY, "zfp");
    to.capacity = n;
    assert_ok(lull_codec_encode(&codec, in + off, count, &to, scratch));
    assert_ok(
        lull_codec_decode(&codec, out + off, n, back + off, count, scratch));
    assert_fails(
        lull_codec_decode(&codec, out + off, n - 1, back + off, count, scratch),
        LULL_ERR_CORRUPT, "zfp");
    free(in), free(out), free(back);
}

static void exact_buffers(const char *isa, void *ctx) {
    (void)isa, (void)ctx;
    static const size_t counts[] = {1, 5, 63, 64, 65, 127, 130, 1000};
    for (unsigned q = 9; q <= 256; q += 7)
        for (size_t c = 0; c < 8; c++)
            for (size_t off = 0; off < 4; off++) {
                if (q <= 128)
                    exact_buffer(codec_of(LULL_F32, q), counts[c], off);
                if (q >= 12)
                    exact_buffer(codec_of(LULL_F64, q), counts[c], off);
            }
}

static void exact_buffers_suffice(void **state) {
    (void)state;
    codec_check_isas(exact_buffers, NULL);
}

/* Rounding to the middle of what was cut off has no bias; cutting has. */
static void default_is_unbiased(void **state) {
    (void)state;
    lull_codec_t codec = codec_of(LULL_F32, 32);
    size_t count = 65536;
    float *in = (float *)values, *back = (float *)decoded;
    double bias[2] = {0}, error[2] = {0};
    for (size_t i = 0; i < count; i++)
        in[i] = (float)gaussian();
    lull_buffer_t out = {.data = ours, .capacity = sizeof ours};
    assert_ok(lull_codec_encode(&codec, in, count, &out, scratch));
    for (uint16_t f = 0; f < 2; f++) {
        codec.flags = f;
        assert_ok(
            lull_codec_decode(&codec, ours, out.bytes, back, count, scratch));
        for (size_t i = 0; i < count; i++) {
            bias[f] += (double)back[i] - (double)in[i];
            error[f] += ((double)back[i] - in[i]) * ((double)back[i] - in[i]);
        }
    }
    /* 9 times what it varies by. */
    assert_true(fabs(bias[0]) < 0.33 * fabs(bias[1]));
    assert_true(error[0] < error[1]);
}

static int setup(void **state) {
    (void)state;
    size_t bytes;
    seed = test_seed();
    gradients = (void *)codec_check_golden("gradients/gradients.f32", &bytes);
    gradient_count = bytes / sizeof *gradients;
    assert_ok(lull_codec_scratch_create(&scratch));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    lull_codec_scratch_destroy(scratch);
    free((void *)gradients);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_as_libzfp),
        cmocka_unit_test(lengths_as_libzfp),
        cmocka_unit_test(streams_as_defined),
        cmocka_unit_test(tables_as_defined),
        cmocka_unit_test(wide_tables_as_defined),
        cmocka_unit_test(program_files),
        cmocka_unit_test(specs),
        cmocka_unit_test(exact_buffers_suffice),
        cmocka_unit_test(default_is_unbiased),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
