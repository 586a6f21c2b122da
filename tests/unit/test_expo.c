/* expo: exactness, size against the entropy, every variant, bad streams. */
#include <lull/codec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/codec_impl.h"
#include "codec_check.h"
#include "support.h"
#include "test.h"

static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16};
#define MOST 66000

static lull_codec_t expo(lull_dtype_t dtype) {
    lull_codec_t codec;
    assert_ok(lull_codec_parse("expo", dtype, &codec));
    return codec;
}

static void lengths(void **state) {
    (void)state;
    static uint64_t values[MOST];
    static const size_t around[] = {1023, 1024, 1025,  4095,  4097, 8191,
                                    8192, 8193, 32767, 32769, 65537};
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = expo(dtypes[t]);
        codec_check_fill(FILL_NORMAL, dtypes[t], values, MOST, &random);
        for (size_t n = 0; n <= 70; n++)
            codec_check_lossless(&codec, values, n);
        for (unsigned i = 0; i < sizeof around / sizeof around[0]; i++)
            codec_check_lossless(&codec, values, around[i]);
    }
}

static void kinds(void **state) {
    (void)state;
    static uint64_t values[10000];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++)
        for (codec_fill_t kind = 0; kind < FILL_COUNT; kind++) {
            lull_codec_t codec = expo(dtypes[t]);
            codec_check_fill(kind, dtypes[t], values, 10000, &random);
            for (size_t n = 100; n <= 10000; n *= 10)
                codec_check_lossless(&codec, values, n);
        }
}

/* Any symbols with any frequencies: few, many, skewed, with late surprises
 * that no sample saw. */
static void odd_distributions(void **state) {
    (void)state;
    enum { N = 9000 };
    static uint16_t values[N];
    uint64_t random = test_seed();
    for (unsigned round = 0; round < 60; round++) {
        unsigned symbols = 1 + (unsigned)(test_random(&random) % 256);
        unsigned skew = (unsigned)(test_random(&random) % 12);
        for (unsigned i = 0; i < N; i++) {
            uint64_t r = test_random(&random);
            unsigned level = (unsigned)__builtin_ctzll(r | 1ull << 40);
            unsigned s = skew > 8 ? (unsigned)(r >> 44) % symbols
                                  : level * (skew + 1) % symbols;
            values[i] = (uint16_t)((s * 37 & 255) << 7);
            if (round % 3 == 0)
                values[i] |= (uint16_t)(r >> 48 & 0x807f);
        }
        if (round % 4 == 0)
            values[100 + round] = 0x7f80; /* in no sample */
        lull_codec_t codec = expo(LULL_BF16);
        codec_check_lossless(&codec, values, 1 + test_random(&random) % N);
        codec_check_lossless(&codec, values, N);
    }
}

typedef struct block {
    lull_codec_t codec;
    uint16_t values[8192];
    size_t n, bytes;
    uint8_t stream[3 * 8192]; /* the portable encoder's */
    lull_codec_scratch_t *scratch;
} block_t;

static void try_block(const char *isa, void *ctx) {
    block_t *b = ctx;
    static uint8_t stream[3 * 8192];
    static uint16_t back[8192];
    bool first = strcmp(isa, "portable") == 0;
    lull_buffer_t out = {.data = first ? b->stream : stream,
                         .capacity = sizeof stream};
    assert_ok(lull_codec_encode(&b->codec, b->values, b->n, &out, b->scratch));
    if (first)
        b->bytes = out.bytes;
    assert_int_equal(out.bytes, b->bytes);
    assert_memory_equal(out.data, b->stream, b->bytes);
    assert_ok(lull_codec_decode(&b->codec, b->stream, b->bytes, back, b->n,
                                b->scratch));
    assert_memory_equal(back, b->values, 2 * b->n);
}

/* Tables of all widths: each symbol is so much rarer than the one before it. */
static void widths_of_levels(void **state) {
    (void)state;
    static block_t b;
    uint64_t random = test_seed();
    b.codec = expo(LULL_BF16);
    assert_ok(lull_codec_scratch_create(&b.scratch));
    for (unsigned round = 0; round < 600; round++) {
        uint32_t limit[40];
        double weight = 1, sum = 0;
        unsigned symbols = 2 + (unsigned)(test_random(&random) % 38);
        for (unsigned i = 0; i < symbols; i++) {
            sum += weight;
            limit[i] = (uint32_t)(sum * 0x1p20);
            weight *= 0.3 + 0.7e-3 * (double)(test_random(&random) % 1000);
        }
        b.n = round % 2 ? 8192 : 200 + test_random(&random) % 7993;
        for (size_t i = 0; i < b.n; i++) {
            uint64_t r = test_random(&random);
            unsigned s = 0;
            while (s + 1 < symbols &&
                   (r & 0xffffffff) % limit[symbols - 1] >= limit[s])
                s++;
            s = s * 7 % 40 + (round % 3 == 0 ? 0 : 90);
            b.values[i] = (uint16_t)(s << 7 | (r >> 40 & 0x807f));
        }
        codec_check_isas(try_block, &b);
    }
    lull_codec_scratch_destroy(b.scratch);
}

static void far_exponents(void **state) {
    (void)state;
    static double values[5000];
    uint64_t random = test_seed();
    lull_codec_t codec = expo(LULL_F64);
    codec_check_fill(FILL_NORMAL, LULL_F64, values, 5000, &random);
    for (unsigned i = 7; i < 5000; i += 411)
        values[i] = i % 2 ? 1e300 : 1e-300;
    values[3] = 0.0;
    values[4] = -0.0;
    values[5] = INFINITY;
    values[6] = 0x1p-1074;
    codec_check_lossless(&codec, values, 5000);
    for (unsigned i = 0; i < 5000; i++)
        values[i] = ldexp(1.25, (int)(test_random(&random) % 2040) - 1020);
    codec_check_lossless(&codec, values, 5000);
}

/* Bits a value of the exponents' entropy and all else. */
static double entropy_bits(const void *values, lull_dtype_t dtype, size_t n) {
    size_t counts[2048] = {0};
    unsigned bits = lull_dtype_bits(dtype);
    unsigned mantissa = dtype == LULL_F64   ? 52
                        : dtype == LULL_F32 ? 23
                        : dtype == LULL_F16 ? 10
                                            : 7;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = 0;
        memcpy(&x, (const char *)values + i * bits / 8, bits / 8);
        counts[x >> mantissa & ((1u << (bits - 1 - mantissa)) - 1)]++;
    }
    double sum = mantissa + 1;
    for (unsigned e = 0; e < 2048; e++)
        if (counts[e] != 0)
            sum -= (double)counts[e] / (double)n *
                   log2((double)counts[e] / (double)n);
    return sum;
}

/* So many blocks that no sample's chance decides. */
static void ratio_is_within_one_percent_of_entropy(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    double *values = malloc(N * sizeof *values);
    uint8_t *stream = malloc(N * 9);
    uint64_t random = test_seed();
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = expo(dtypes[t]);
        codec_check_fill(FILL_NORMAL, dtypes[t], values, N, &random);
        lull_buffer_t out = {.data = stream, .capacity = N * 9};
        assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
        double bits = 8.0 * (double)out.bytes / N;
        double bound = entropy_bits(values, dtypes[t], N);
        print_message("%s: %.3f bits a value, bound %.3f\n",
                      lull_dtype_name(dtypes[t]), bits, bound);
        assert_true(bits <= bound / 0.99);
    }
    lull_codec_scratch_destroy(scratch);
    free(stream);
    free(values);
}

/* Blocks of three kinds in turn, so that the table of one serves no other: they
 * take no more than blocks that follow their like, but for a few. */
static void blocks_that_differ(void **state) {
    (void)state;
    enum { BLOCK = 8192, BLOCKS = 96, N = BLOCK * BLOCKS, KINDS = 3 };
    uint16_t *values = malloc(N * sizeof *values);
    uint8_t *stream = malloc(N * 3), *back = malloc(N * 2);
    size_t bytes[2];
    lull_codec_scratch_t *scratch;
    lull_codec_t codec = expo(LULL_BF16);
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned mixed = 0; mixed < 2; mixed++) {
        uint64_t random = 7;
        for (size_t i = 0; i < N; i++) {
            size_t block = i / BLOCK;
            size_t kind = mixed ? block % KINDS : block / (BLOCKS / KINDS);
            uint64_t bits = test_random(&random);
            unsigned exponent = (unsigned)__builtin_ctzll(bits | 1 << 12);
            values[i] = (uint16_t)((60 + 40 * kind + exponent) << 7 |
                                   (bits >> 32 & 0x807f));
        }
        lull_buffer_t out = {.data = stream, .capacity = N * 3};
        assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
        assert_ok(
            lull_codec_decode(&codec, stream, out.bytes, back, N, scratch));
        assert_memory_equal(back, values, N * 2);
        bytes[mixed] = out.bytes;
    }
    print_message("%zu bytes, mixed %zu\n", bytes[0], bytes[1]);
    assert_true(bytes[1] < bytes[0] + bytes[0] / 16);
    lull_codec_scratch_destroy(scratch);
    free(back);
    free(stream);
    free(values);
}

static size_t size_of(lull_dtype_t dtype, codec_fill_t kind, size_t n) {
    uint64_t random = 1;
    void *values = malloc(n * 8), *stream = malloc(n * 9 + 64);
    lull_codec_t codec = expo(dtype);
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    codec_check_fill(kind, dtype, values, n, &random);
    lull_buffer_t out = {.data = stream, .capacity = n * 9 + 64};
    assert_ok(lull_codec_encode(&codec, values, n, &out, scratch));
    lull_codec_scratch_destroy(scratch);
    free(values);
    free(stream);
    return out.bytes;
}

static void sizes(void **state) {
    (void)state;
    enum { N = 32768 };
    for (unsigned t = 0; t < 4; t++) {
        size_t raw = N * (lull_dtype_bits(dtypes[t]) / 8);
        /* Zeros: next to nothing. Powers of two: exponents only. */
        assert_in_range(size_of(dtypes[t], FILL_ZERO, N), 16, 120);
        assert_in_range(size_of(dtypes[t], FILL_POWERS, N), N / 2,
                        N * 5 / 8 + N / 8 + 600);
        /* Half zeros: half of the mantissas are gone. */
        assert_true(size_of(dtypes[t], FILL_SPARSE, N) < raw * 66 / 100);
        /* A third in long runs of zeros. */
        assert_true(size_of(dtypes[t], FILL_RUNS, N) < raw * 72 / 100);
        /* Incompressible: a header and a byte a block. */
        size_t bits = size_of(dtypes[t], FILL_BITS, N);
        assert_true(bits <= raw + 16 + 8);
    }
}

static void mutated_streams(void **state) {
    (void)state;
    static double values[3000];
    uint64_t random = test_seed();
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = expo(dtypes[t]);
        for (codec_fill_t kind = 0; kind < FILL_COUNT; kind++) {
            codec_check_fill(kind, dtypes[t], values, 3000, &random);
            codec_check_mutations(&codec, values, 3000, &random);
            codec_check_mutations(&codec, values, 100, &random);
        }
    }
}

static void lying_headers(void **state) {
    (void)state;
    uint8_t stream[1024], values[100 * 8];
    uint64_t random = 7;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    for (unsigned t = 0; t < 4; t++) {
        lull_codec_t codec = expo(dtypes[t]);
        codec_check_fill(FILL_NORMAL, dtypes[t], values, 100, &random);
        lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
        assert_ok(lull_codec_encode(&codec, values, 100, &out, scratch));
        static const struct {
            unsigned at;
            lull_status_t status;
            const char *word;
        } lies[] = {
            {0, LULL_ERR_CORRUPT, "magic"}, {4, LULL_ERR_VERSION, "version"},
            {5, LULL_ERR_CORRUPT, "dtype"}, {6, LULL_ERR_CORRUPT, "block"},
            {8, LULL_ERR_CORRUPT, "count"}, {15, LULL_ERR_CORRUPT, "count"},
            {16, LULL_ERR_CORRUPT, "kind"},
        };
        for (unsigned i = 0; i < sizeof lies / sizeof lies[0]; i++) {
            stream[lies[i].at] ^= 0x42;
            assert_fails(lull_codec_decode(&codec, stream, out.bytes, values,
                                           100, scratch),
                         lies[i].status, lies[i].word);
            stream[lies[i].at] ^= 0x42;
        }
        stream[out.bytes] = 0;
        assert_fails(lull_codec_decode(&codec, stream, out.bytes + 1, values,
                                       100, scratch),
                     LULL_ERR_CORRUPT, "follow");
        assert_fails(lull_codec_decode(&codec, stream, out.bytes - 1, values,
                                       100, scratch),
                     LULL_ERR_CORRUPT, "cut off");
        assert_ok(
            lull_codec_decode(&codec, stream, out.bytes, values, 100, scratch));
    }
    lull_codec_scratch_destroy(scratch);
}

/* ---- Streams made by hand ---------------------------------------------- */

/* Of bf16 values whose mantissas and signs are 0: blocks, each of which is what
 * follows `symbols`, up to -1. */
static size_t by_hand(uint8_t *stream, size_t count, const int *symbols) {
    static const uint8_t head[] = {'e', 'x', 'p', 'o', 2, LULL_BF16, 13, 0};
    static const uint8_t block[] = {1, 1, 0, 0}; /* the plane is zero */
    uint8_t *at = stream + 16;
    memcpy(stream, head, sizeof head);
    lull__store64(stream + 8, count);
    while (*symbols >= 0) {
        memcpy(at, block, sizeof block);
        at += sizeof block;
        for (; *symbols >= 0; symbols++)
            *at++ = (uint8_t)*symbols;
        symbols++;
    }
    return (size_t)(at - stream);
}

/* The last table serves for the next block; 9 values more. */
static void try_last_table(const char *isa, void *ctx) {
    enum { BLOCK = 8192, N = BLOCK + 9 };
    static const int symbols[] = {3,   1,   2,   2,   127, 126,
                                  125, 124, 123, 122, /* the table */
                                  1,   0,   1,   0,   -1,  -1};
    static uint8_t stream[4096];
    static uint16_t values[N + 64];
    lull_codec_scratch_t *scratch = ctx;
    lull_codec_t codec = expo(LULL_BF16);
    (void)isa;
    /* All but the last symbol have digit 0; it goes to the end: 1, 3, 1. */
    size_t bytes = by_hand(stream, N, symbols);
    uint8_t *at = stream + bytes;
    memset(at, 0, BLOCK / 8);
    at[BLOCK / 8 - 1] = 0x80;
    at += BLOCK / 8;
    *at++ = 3; /* second level, 2 bits */
    *at++ = 1; /* third, 1 bit */
    static const uint8_t next[] = {
        1, 1, 0, 0, /* a block */
        0,          /* the last table */
        5, 0, 2, 0, /* sizes */
        0x10, 0x0f, /* 9 bits, two bytes apart: 0, 1, 0, 1, 0, 1, 0, 1, 1 */
        /* five digits of 2 bits, two bytes apart: 0, 2, 1, 3, 3 */
        0 | 1 << 2 | 3 << 4, 2 | 3 << 2,
        /* two of 1 bit: 0, 1 */
        2};
    memcpy(at, next, sizeof next);
    at += sizeof next;
    assert_ok(lull_codec_decode(&codec, stream, (size_t)(at - stream), values,
                                N, scratch));
    static const uint8_t expected[] = {127, 126, 127, 124, 127,
                                       125, 127, 123, 122};
    for (unsigned i = 0; i + 1 < BLOCK; i++)
        assert_int_equal(values[i], 127 << 7);
    assert_int_equal(values[BLOCK - 1], 122 << 7);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(values[BLOCK + i], expected[i] << 7);
}

static void last_table(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    codec_check_isas(try_last_table, scratch);
    lull_codec_scratch_destroy(scratch);
}

/* A table of every field that is wrong. */
static void try_lies(const char *isa, void *ctx) {
    static const struct {
        int symbols[24];
        const char *word;
    } lies[] = {
        {{0, -1, -1}, "a table that was not there"},
        {{17, -1, -1}, "the table's levels"},
        {{2, -1, -1}, "cut off in the table"},
        {{2, 0, 1, 7, -1, -1}, "the width of a level"},
        {{2, 7, 1, 7, -1, -1}, "the width of a level"},
        {{2, 6, 2, 7, -1, -1}, "the table's symbols"},
        {{1, 65, 7, -1, -1}, "the table's symbols"},
        {{1, 3, 7, 8, -1, -1}, "cut off in the table"},
        {{2, 1, 2, 7, 8, 9, 1, -1, -1}, "cut off in the sizes"},
        {{2, 1, 2, 7, 8, 9, 31, 0, -1, -1}, "the size of a level"},
        {{2, 1, 2, 7, 8, 9, 1, 0, 4, 0, 0, -1, -1}, "cut off in the digits"},
        /* One goes on, and sizes say two, or none. */
        {{2, 1, 2, 7, 8, 9, 2, 0, 4, 0, 0, 0, 1, -1, -1}, "size of a level"},
        {{2, 1, 2, 7, 8, 9, 0, 0, 4, 0, 0, 0, -1, -1}, "size of a level"},
        {{1, 0, 1, 2, 3, -1, -1}, "cut off in the digits"},
    };
    static uint8_t stream[128];
    uint16_t values[30];
    lull_codec_scratch_t *scratch = ctx;
    lull_codec_t codec = expo(LULL_BF16);
    (void)isa;
    for (unsigned i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        size_t bytes = by_hand(stream, 30, lies[i].symbols);
        assert_fails(
            lull_codec_decode(&codec, stream, bytes, values, 30, scratch),
            LULL_ERR_CORRUPT, lies[i].word);
    }
}

static void lying_tables(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    codec_check_isas(try_lies, scratch);
    lull_codec_scratch_destroy(scratch);
}

/* One symbol nearly wherever an encoder takes its sample, and as many others
 * elsewhere as asked for, at most 7232. */
static void fill_behind_sample(uint16_t *values, size_t others, unsigned mask) {
    uint64_t random = 5;
    for (size_t i = 0; i < 8192; i++) {
        uint64_t bits = test_random(&random);
        bool other = i % 512 >= 60 && others > 0;
        others -= other;
        values[i] =
            (uint16_t)((other ? bits : (bits & 0x807f) | 120 << 7) & mask);
    }
}

/* Of a stream: whether the first block, or its symbols, are as they are. */
static bool is_left(const uint8_t *stream) {
    return stream[16] == 0 || (stream[20] == 1 && stream[21] == 0);
}

/* The table of a block that in the end is left as it is cannot serve the next
 * one: no decoder sees it. */
static void try_left(unsigned mask, lull_codec_scratch_t *scratch) {
    enum { BLOCK = 8192, N = 2 * BLOCK };
    static uint16_t values[N], back[N];
    static uint8_t stream[N * 3];
    size_t least = 0, most = 7232;
    bool left[2] = {false, false};
    lull_codec_t codec = expo(LULL_BF16);
    fill_behind_sample(values + BLOCK, 0, mask);
    while (least < most) { /* the fewest others for which it is left */
        size_t others = (least + most) / 2;
        lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
        fill_behind_sample(values, others, mask);
        assert_ok(lull_codec_encode(&codec, values, BLOCK, &out, scratch));
        if (is_left(stream))
            most = others;
        else
            least = others + 1;
    }
    assert_in_range(most, 100, 7210);
    for (size_t others = most - 20; others < most + 20; others++) {
        lull_buffer_t out = {.data = stream, .capacity = sizeof stream};
        fill_behind_sample(values, others, mask);
        assert_ok(lull_codec_encode(&codec, values, N, &out, scratch));
        left[is_left(stream)] = true;
        assert_ok(
            lull_codec_decode(&codec, stream, out.bytes, back, N, scratch));
        assert_memory_equal(back, values, sizeof values);
    }
    assert_true(left[0] && left[1]);
}

static void blocks_left_as_they_are(void **state) {
    (void)state;
    lull_codec_scratch_t *scratch;
    assert_ok(lull_codec_scratch_create(&scratch));
    try_left(0xffff, scratch);
    try_left(0x7f80, scratch); /* the symbols only */
    lull_codec_scratch_destroy(scratch);
}

typedef struct large {
    lull_codec_t codec;
    const uint8_t *values;
    size_t bytes;
} large_t;

static void try_large(const char *isa, void *ctx) {
    const large_t *large = ctx;
    size_t count = large->bytes / (lull_dtype_bits(large->codec.dtype) / 8);
    size_t bound;
    lull_codec_scratch_t *scratch;
    if (strcmp(isa, "portable") == 0)
        return; /* it does nothing else */
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_ok(lull_frame_bound(&large->codec, count, &bound));
    lull_buffer_t out = {.data = malloc(bound), .capacity = bound};
    uint8_t *back = malloc(large->bytes + 64);
    assert_non_null(out.data);
    assert_non_null(back);
    assert_ok(lull_frame_encode(&large->codec, large->values, count,
                                LULL_FRAME_CHECKSUM, &out, scratch));
    assert_ok(lull_frame_decode(out.data, out.bytes, 0, back + 6, large->bytes,
                                scratch));
    assert_memory_equal(back + 6, large->values, large->bytes);
    assert_false(scratch->past);
    free(back);
    free(out.data);
    lull_codec_scratch_destroy(scratch);
}

/* So large that they are written past the caches. */
static void large_arrays(void **state) {
    (void)state;
    large_t large = {.bytes = LULL__PAST_BYTES};
    uint64_t random = test_seed(), *values = malloc(large.bytes);
    assert_non_null(values);
    for (size_t i = 0; i < large.bytes / 8; i++) /* near exponents */
        values[i] =
            (test_random(&random) & 0x83ff83ff83ff83ff) | 0x3000300030003000;
    large.values = (const uint8_t *)values;
    for (unsigned t = 0; t < 4; t++) {
        large.codec = expo(dtypes[t]);
        codec_check_isas(try_large, &large);
    }
    free(values);
}

/* Streams of this version decode for ever. */
static void try_golden(const char *isa, void *ctx) {
    static const char *const kinds[] = {"normal", "sparse", "special", "zero",
                                        "powers"};
    static const char *const names[] = {"f32", "f64", "f16", "bf16"};
    lull_codec_scratch_t *scratch = ctx;
    for (unsigned k = 0; k < 5; k++)
        for (unsigned t = 0; t < 4; t++) {
            char name[64], stream_name[80];
            size_t bytes, stream_bytes;
            snprintf(name, sizeof name, "expo/%s.%s", kinds[k], names[t]);
            snprintf(stream_name, sizeof stream_name, "%s.expo", name);
            uint8_t *values = codec_check_golden(name, &bytes);
            uint8_t *stream = codec_check_golden(stream_name, &stream_bytes);
            uint8_t *back = malloc(bytes);
            lull_codec_t codec = expo(dtypes[t]);
            assert_ok(lull_codec_decode(
                &codec, stream, stream_bytes, back,
                bytes / (lull_dtype_bits(dtypes[t]) / 8), scratch));
            if (memcmp(back, values, bytes) != 0)
                fail_msg("%s: other values under %s", name, isa);
            free(back);
            free(stream);
            free(values);
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
        cmocka_unit_test(odd_distributions),
        cmocka_unit_test(widths_of_levels),
        cmocka_unit_test(far_exponents),
        cmocka_unit_test(blocks_that_differ),
        cmocka_unit_test(ratio_is_within_one_percent_of_entropy),
        cmocka_unit_test(sizes),
        cmocka_unit_test(large_arrays),
        cmocka_unit_test(mutated_streams),
        cmocka_unit_test(lying_headers),
        cmocka_unit_test(last_table),
        cmocka_unit_test(lying_tables),
        cmocka_unit_test(blocks_left_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
