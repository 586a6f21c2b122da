/* Speed, ratio and error of every codec on one core, beside memcpy, libzfp
 * and zstd in the same run. Called by bench/run.sh codec:
 *
 *     bench_codec [--json FILE] [--quick] [--mib N] [--only SPEC]
 *                 [--goals] [NAME=FILE.safetensors ...]
 *
 * --goals: only the codecs that have goals, and of files only, if any. What is
 * made up like gradients is left out where there are files.
 * Without files the data is synthetic and called so. Times are CPU time of
 * the thread; every round runs all contenders once, medians are over rounds. */
#include <lull/lull.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef BENCH_HUFF0
#include "huff0.h"
#endif
#ifdef BENCH_ZFP
#include <zfp.h>
#endif
#ifdef BENCH_ZSTD
#include <zstd.h>
#endif

#define ROUNDS_MOST 21
enum { PORTABLE, AVX2, AVX512, ISAS };
static const char *const isa_names[ISAS] = {"portable", "avx2", "avx512"};

typedef struct series {
    double seconds[ROUNDS_MOST];
    int n;
} series_t;

/* One array to be coded. */
typedef struct array {
    const char *name;
    lull_dtype_t dtype;
    size_t count, bytes;
    uint8_t *values;
} array_t;

/* Goals as ratios to the baseline: [isa][encode, decode]; 0: none. */
static const struct contender {
    const char *spec;
    lull_dtype_t dtype;
    bool against_memcpy; /* the goal is; else against the baseline */
    double goal[ISAS][2];
} contenders[] = {
    {"zfp:4", LULL_F32, false, {{0}}},
    {"zfp:8", LULL_F32, false, {{3, 3}, {10, 4}, {20, 20}}},
    {"zfp:16", LULL_F32, false, {{3, 3}, {10, 4}, {20, 20}}},
    {"zfp:24", LULL_F32, false, {{3, 3}, {10, 4}, {20, 20}}},
    {"mpc", LULL_F32, true, {{0, 0}, {.4, .4}, {.8, .7}}},
    {"expo", LULL_F32, true, {{0}}},
    {"mxint8", LULL_F32, true, {{0, 0}, {1, 1}, {1.2, 1.2}}},
    {"bf16", LULL_F32, true, {{0}}},
    {"f16", LULL_F32, true, {{0}}},
    {"zfp:8", LULL_F64, false, {{0}}},
    {"zfp:16", LULL_F64, false, {{0}}},
    {"zfp:32", LULL_F64, false, {{0}}},
    {"mpc", LULL_F64, true, {{0}}},
    {"expo", LULL_F64, true, {{0}}},
    {"mxint8", LULL_F64, true, {{0}}},
    {"zfp:8", LULL_BF16, true, {{0}}},
    {"mpc", LULL_BF16, true, {{0}}},
    {"expo", LULL_BF16, true, {{0, 0}, {0, 0}, {.45, .5}}},
    {"mxint8", LULL_BF16, true, {{0}}},
};
#define CONTENDERS (sizeof contenders / sizeof contenders[0])

static struct {
    bool quick, goals;
    size_t mib;
    int rounds;
    const char *only;
    FILE *json;
    bool any_json;
    uint8_t *stream, *back;
    size_t stream_bytes;
    lull_codec_scratch_t *scratch;
} run = {.mib = 64, .rounds = 5};

static void fail(const char *what) {
    fprintf(stderr, "bench_codec: %s: %s\n", what, lull_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a - *(const double *)b;
    return x < 0 ? -1 : x > 0;
}

/* Seconds at rank 0 (least), 1 (median), 2 (most). */
static double at(const series_t *s, int rank) {
    series_t sorted = *s;
    qsort(sorted.seconds, (size_t)s->n, sizeof(double), by_size);
    return sorted.seconds[rank == 0 ? 0 : rank == 1 ? s->n / 2 : s->n - 1];
}

static void add(series_t *s, double seconds) {
    s->seconds[s->n++] = seconds;
}

/* ---- Output ------------------------------------------------------------ */

typedef struct metric {
    const char *name, *unit;
    double value, least, most;
    int n;
    const char *baseline;
    double baseline_value, ratio;
} metric_t;

static void emit(const char *name, const metric_t *m) {
    if (run.json == NULL)
        return;
    fprintf(run.json, "%s\n{\"bench\":\"codec\",\"case\":\"%s\",",
            run.any_json ? "," : "", name);
    fprintf(run.json, "\"metric\":\"%s\",\"unit\":\"%s\",", m->name, m->unit);
    fprintf(run.json, "\"value\":%.6g,\"min\":%.6g,\"max\":%.6g,\"n\":%d,",
            m->value, m->least, m->most, m->n);
    if (m->baseline != NULL)
        fprintf(run.json,
                "\"baseline\":\"%s\",\"baseline_value\":%.6g,\"ratio\":%.6g}",
                m->baseline, m->baseline_value, m->ratio);
    else
        fprintf(run.json,
                "\"baseline\":null,\"baseline_value\":null,\"ratio\":null}");
    run.any_json = true;
}

static void emit_speed(const char *name, const char *metric, size_t bytes,
                       const series_t *ours, const char *baseline,
                       const series_t *theirs) {
    double gb = 1e-9 * (double)bytes;
    metric_t m = {.name = metric, .unit = "GB/s", .n = ours->n};
    m.value = gb / at(ours, 1);
    m.least = gb / at(ours, 2);
    m.most = gb / at(ours, 0);
    if (theirs->n > 0) {
        m.baseline = baseline;
        m.baseline_value = gb / at(theirs, 1);
        m.ratio = at(theirs, 1) / at(ours, 1);
    }
    emit(name, &m);
}

static void emit_value(const char *name, const char *metric, double value,
                       const char *baseline, double baseline_value) {
    double ratio = baseline != NULL ? value / baseline_value : 0;
    metric_t m = {metric, "1",      value,          value, value,
                  1,      baseline, baseline_value, ratio};
    emit(name, &m);
}

/* ---- Yardsticks -------------------------------------------------------- */

typedef struct yardstick {
    const char *name;
    series_t encode, decode;
} yardstick_t;

static void run_memcpy(const array_t *a, yardstick_t *y) {
    double begin = now();
    memcpy(run.back, a->values, a->bytes);
    add(&y->encode, now() - begin);
    y->decode = y->encode;
}

#ifdef BENCH_ZFP
static void run_libzfp(const array_t *a, const char *spec, yardstick_t *y) {
    zfp_type type = a->dtype == LULL_F64 ? zfp_type_double : zfp_type_float;
    zfp_field *field = zfp_field_1d(a->values, type, a->count);
    zfp_stream *zfp = zfp_stream_open(NULL);
    zfp_stream_set_rate(zfp, atof(spec + 4), type, 1, zfp_false);
    bitstream *bits = stream_open(run.stream, run.stream_bytes);
    zfp_stream_set_bit_stream(zfp, bits);
    zfp_stream_rewind(zfp);
    double begin = now();
    zfp_compress(zfp, field);
    add(&y->encode, now() - begin);
    zfp_stream_rewind(zfp);
    zfp_field_set_pointer(field, run.back);
    begin = now();
    zfp_decompress(zfp, field);
    add(&y->decode, now() - begin);
    zfp_field_free(field);
    zfp_stream_close(zfp);
    stream_close(bits);
}
#endif

#ifdef BENCH_ZSTD
static void run_zstd(const array_t *a, yardstick_t *y) {
    double begin = now();
    size_t n =
        ZSTD_compress(run.stream, run.stream_bytes, a->values, a->bytes, 1);
    add(&y->encode, now() - begin);
    begin = now();
    ZSTD_decompress(run.back, a->bytes, run.stream, n);
    add(&y->decode, now() - begin);
}
#endif

/* expo's other one: Huff0 with the split and the joining that it needs. */
static void run_huff0(const array_t *a, const char *spec, yardstick_t *y) {
    (void)a, (void)spec, (void)y;
#ifdef BENCH_HUFF0
    if (strcmp(spec, "expo") != 0 || a->dtype != LULL_BF16)
        return;
    y->name = "Huff0 of zstd 1.5.4, split and joined in C";
    double begin = now();
    size_t bytes = huff0_encode(a->values, a->count, run.stream);
    add(&y->encode, now() - begin);
    memset(run.back, 0, 64);
    begin = now();
    size_t read = huff0_decode(run.stream, run.back, a->count);
    add(&y->decode, now() - begin);
    if (bytes == 0 || read != bytes || memcmp(run.back, a->values, a->bytes)) {
        fprintf(stderr, "bench_codec: Huff0 failed\n");
        exit(1);
    }
#endif
}

/* libzfp for zfp, zstd level 1 for what is lossless, memcpy for the rest. */
static void run_yardstick(const array_t *a, const lull_codec_t *codec,
                          const char *spec, yardstick_t *y) {
    (void)spec;
#ifdef BENCH_ZFP
    if (strncmp(spec, "zfp:", 4) == 0 &&
        (a->dtype == LULL_F32 || a->dtype == LULL_F64)) {
        y->name = "libzfp 1.0.0";
        run_libzfp(a, spec, y);
        return;
    }
#endif
#ifdef BENCH_ZSTD
    if (!lull_codec_is_lossy(codec)) {
        y->name = "zstd level 1";
        run_zstd(a, y);
        return;
    }
#endif
    (void)codec;
    y->name = "memcpy";
    run_memcpy(a, y);
}

/* ---- One codec --------------------------------------------------------- */

static double value_of(const array_t *a, const uint8_t *values, size_t i) {
    float f = 0;
    double d;
    uint32_t bits = 0;
    switch (a->dtype) {
    case LULL_F64:
        memcpy(&d, values + 8 * i, 8);
        return d;
    case LULL_BF16:
        memcpy((uint8_t *)&bits + 2, values + 2 * i, 2);
        memcpy(&f, &bits, 4);
        return f;
    default:
        memcpy(&f, values + 4 * i, 4);
        return f;
    }
}

static double relative_l2(const array_t *a) {
    double error = 0, size = 0;
    for (size_t i = 0; i < a->count; i++) {
        double x = value_of(a, a->values, i);
        double d = value_of(a, run.back, i) - x;
        error += d * d;
        size += x * x;
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

/* Ratio if sign and mantissa cost what they are and exponents their entropy:
 * no order-0 coder of exponents goes past it. */
static double entropy_bound(const array_t *a) {
    static uint64_t seen[2048];
    unsigned bits = lull_dtype_bits(a->dtype);
    unsigned exponent = a->dtype == LULL_F64 ? 11 : 8;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < a->count; i++) {
        uint64_t v = 0;
        memcpy(&v, a->values + i * bits / 8, bits / 8);
        seen[v >> (bits - 1 - exponent) & ((1u << exponent) - 1)]++;
    }
    double entropy = 0, count = (double)a->count;
    for (unsigned e = 0; e < 1u << exponent; e++)
        if (seen[e] > 0)
            entropy -= (double)seen[e] / count * log2((double)seen[e] / count);
    return bits / (bits - exponent + entropy);
}

typedef struct result {
    series_t encode, decode;
    size_t bytes;
    double error;
} result_t;

static void run_codec(const array_t *a, const lull_codec_t *codec,
                      result_t *r) {
    lull_buffer_t out = {.data = run.stream, .capacity = run.stream_bytes};
    double begin = now();
    if (lull_frame_encode(codec, a->values, a->count, 0, &out, run.scratch))
        fail("encode");
    add(&r->encode, now() - begin);
    begin = now();
    if (lull_frame_decode(out.data, out.bytes, 0, run.back, a->bytes,
                          run.scratch))
        fail("decode");
    add(&r->decode, now() - begin);
    r->bytes = out.bytes;
}

static const char *verdict(double goal, double got) {
    return goal == 0 ? "" : got >= goal ? " ok" : " MISSED";
}

/* What each array is measured beside. */
enum { BASE, COPY, HUFF0, YARDSTICKS };

static void report(const struct contender *c, const array_t *a,
                   const result_t *r, const yardstick_t all[YARDSTICKS],
                   int isa) {
    const yardstick_t *y = &all[BASE], *copy = &all[COPY], *h = &all[HUFF0];
    char name[128], dtype[16];
    snprintf(dtype, sizeof dtype, "%s", lull_dtype_name(a->dtype));
    for (char *p = dtype; *p; p++)
        *p = (char)(*p | (*p >= 'A' && *p <= 'Z' ? 32 : 0));
    snprintf(name, sizeof name, "%s/%s/%s/%s", c->spec, a->name, dtype,
             isa_names[isa]);
    emit_speed(name, "encode_GBps", a->bytes, &r->encode, y->name, &y->encode);
    emit_speed(name, "decode_GBps", a->bytes, &r->decode, y->name, &y->decode);
    double to_copy[2] = {at(&copy->encode, 1) / at(&r->encode, 1),
                         at(&copy->encode, 1) / at(&r->decode, 1)};
    double to_base[2] = {at(&y->encode, 1) / at(&r->encode, 1),
                         at(&y->decode, 1) / at(&r->decode, 1)};
    emit_value(name, "encode_memcpy", to_copy[0], "memcpy", 1);
    emit_value(name, "decode_memcpy", to_copy[1], "memcpy", 1);
    if (h->name != NULL) {
        emit_speed(name, "encode_huff0", a->bytes, &r->encode, h->name,
                   &h->encode);
        emit_speed(name, "decode_huff0", a->bytes, &r->decode, h->name,
                   &h->decode);
    }
    double ratio = (double)a->bytes / (double)r->bytes;
    bool expo = strcmp(c->spec, "expo") == 0;
    emit_value(name, "size_ratio", ratio, expo ? "entropy bound" : NULL,
               expo ? entropy_bound(a) : 1);
    emit_value(name, "rel_l2", r->error, NULL, 1);
    const double *goal = c->goal[isa];
    const double *got = c->against_memcpy ? to_copy : to_base;
    double gb = 1e-9 * (double)a->bytes;
    printf("%-36s %7.2f %7.2f  %6.2f %6.2f  %7.1f %7.1f  %7.3f %9.2e", name,
           gb / at(&r->encode, 1), gb / at(&r->decode, 1), to_copy[0],
           to_copy[1], to_base[0], to_base[1], ratio, r->error);
    /* Goals are for what training sends. */
    bool counts = strcmp(a->name, "smooth") && strcmp(a->name, "zeros");
    if (counts && (goal[0] > 0 || goal[1] > 0))
        printf("  >=%g%s >=%g%s", goal[0], verdict(goal[0], got[0]), goal[1],
               verdict(goal[1], got[1]));
    if (expo && counts)
        printf("  %.3f of the entropy bound", ratio / entropy_bound(a));
    if (h->name != NULL)
        printf("  %.1f %.1f times Huff0", at(&h->encode, 1) / at(&r->encode, 1),
               at(&h->decode, 1) / at(&r->decode, 1));
    printf("\n");
}

static bool select_isa(int isa) {
    if (lull_setting_set("isa", isa_names[isa]) != LULL_OK)
        fail("isa");
    return strcmp(lull_codec_isa(), isa_names[isa]) == 0;
}

static void measure(const struct contender *c, const array_t *a) {
    lull_codec_t codec;
    if (lull_codec_parse(c->spec, a->dtype, &codec) != LULL_OK) {
        fprintf(stderr, "bench_codec: %s left out: %s\n", c->spec,
                lull_last_error());
        return;
    }
    static result_t results[ISAS];
    memset(results, 0, sizeof results);
    yardstick_t all[YARDSTICKS] = {{0}};
    for (int round = 0; round <= run.rounds; round++) {
        if (round == 1) { /* the first is a warm-up */
            for (int isa = 0; isa < ISAS; isa++)
                results[isa].encode.n = results[isa].decode.n = 0;
            for (int k = 0; k < YARDSTICKS; k++)
                all[k].encode.n = all[k].decode.n = 0;
        }
        run_memcpy(a, &all[COPY]);
        run_yardstick(a, &codec, c->spec, &all[BASE]);
        run_huff0(a, c->spec, &all[HUFF0]);
        for (int isa = 0; isa < ISAS; isa++)
            if (select_isa(isa)) {
                run_codec(a, &codec, &results[isa]);
                if (round == 0)
                    results[isa].error = relative_l2(a);
            }
    }
    for (int isa = 0; isa < ISAS; isa++)
        if (results[isa].encode.n > 0)
            report(c, a, &results[isa], all, isa);
}

/* ---- Data -------------------------------------------------------------- */

static double smooth(size_t i) {
    return sin((double)i / 500) * 0.1;
}

/* Gradient-like: Gaussian within a row of 512, rows of differing size. */
static void synthetic(const char *name, float *to, size_t count) {
    uint64_t state = 1;
    double scale = 1;
    for (size_t i = 0; i < count; i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 11) * 0x1p-53;
        }
        if (i % 512 == 0)
            scale = exp2(-12 + 2 * sum);
        to[i] = strcmp(name, "zeros") == 0    ? 0
                : strcmp(name, "smooth") == 0 ? (float)smooth(i)
                                              : (float)(sum * scale);
    }
}

/* All F32 tensors of a file, one after the other, as often as they fit. */
static void from_file(const char *path, float *to, size_t count) {
    lull_safetensors_t *file;
    lull_safetensors_tensor_t t;
    if (lull_safetensors_open(path, &file) != LULL_OK)
        fail(path);
    size_t have = 0;
    for (size_t i = 0; lull_safetensors_at(file, i, &t) && have < count; i++) {
        if (t.dtype != LULL_F32)
            continue;
        size_t n = t.bytes / 4 < count - have ? t.bytes / 4 : count - have;
        if (lull_safetensors_read(file, t.name, 0, 4 * n, to + have))
            fail(path);
        have += n;
    }
    lull_safetensors_destroy(file);
    if (have == 0) {
        fprintf(stderr, "bench_codec: %s: no F32 tensor\n", path);
        exit(1);
    }
    for (size_t i = have; i < count; i++)
        to[i] = to[i - have];
}

static bool chosen(const struct contender *c) {
    bool aim = false;
    for (int isa = 0; isa < ISAS; isa++)
        aim |= c->goal[isa][0] > 0;
    return (run.only == NULL || strcmp(run.only, c->spec) == 0) &&
           (!run.goals || aim);
}

/* As they were had they been computed in doubles: what floats lack of the
 * mantissa is noise, where it is not known. */
static void widen(const char *name, const float *values, uint8_t *to,
                  size_t count) {
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        double wide = strcmp(name, "smooth") == 0 ? smooth(i) : values[i];
        uint64_t bits;
        memcpy(&bits, &wide, 8);
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (wide == (double)values[i] && wide != 0)
            bits |= state >> 35;
        memcpy(to + 8 * i, &bits, 8);
    }
}

static void bench_array(const char *name, const float *values, size_t count) {
    uint8_t *cast = malloc(8 * count);
    if (cast == NULL)
        fail("memory");
    for (size_t c = 0; c < CONTENDERS; c++) {
        const struct contender *one = &contenders[c];
        if (!chosen(one))
            continue;
        array_t a = {name, one->dtype, count,
                     count * lull_dtype_bits(one->dtype) / 8, cast};
        if (one->dtype == LULL_F32)
            memcpy(cast, values, a.bytes);
        if (one->dtype == LULL_F64)
            widen(name, values, cast, count);
        lull_codec_t to_bf16;
        lull_buffer_t out = {.data = cast, .capacity = a.bytes};
        if (one->dtype == LULL_BF16 &&
            (lull_codec_parse("bf16", LULL_F32, &to_bf16) ||
             lull_codec_encode(&to_bf16, values, count, &out, run.scratch)))
            fail("bf16");
        measure(one, &a);
    }
    free(cast);
}

static void usage(void) {
    fprintf(stderr, "usage: bench_codec [--json FILE] [--quick] [--mib N] "
                    "[--only SPEC] [--goals] [NAME=FILE.safetensors ...]\n");
    exit(2);
}

static int parse_options(int argc, char **argv) {
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            run.quick = true;
            run.mib = 4;
            run.rounds = 5;
        } else if (strcmp(argv[i], "--goals") == 0) {
            run.goals = true;
        } else if (i + 1 == argc) {
            usage();
        } else if (strcmp(argv[i], "--json") == 0) {
            run.json = fopen(argv[++i], "w");
            if (run.json == NULL) {
                perror(argv[i]);
                exit(1);
            }
        } else if (strcmp(argv[i], "--mib") == 0) {
            run.mib = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--only") == 0) {
            run.only = argv[++i];
        } else {
            usage();
        }
    }
    if (run.mib == 0 || run.mib > 4096)
        usage();
    return i;
}

int main(int argc, char **argv) {
    int first = parse_options(argc, argv);
    size_t count = run.mib << 18;
    run.stream_bytes = 9 * count + (1 << 20);
    run.stream = malloc(run.stream_bytes);
    run.back = malloc(8 * count);
    float *values = malloc(4 * count);
    if (!run.stream || !run.back || !values ||
        lull_codec_scratch_create(&run.scratch))
        fail("memory");
    memset(run.stream, 1, run.stream_bytes);
    memset(run.back, 1, 8 * count);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (run.json != NULL)
        fprintf(run.json, "[");
    printf("%zu MiB of f32, medians of %d; GB/s of raw bytes\n", run.mib,
           run.rounds);
    printf("%-36s %15s  %13s  %15s  %7s %9s\n", "codec/data/dtype/isa",
           "GB/s enc    dec", "/ memcpy", "/ baseline", "ratio", "rel. L2");
    static const char *const made[] = {"gaussian", "smooth", "zeros"};
    int skipped = first == argc ? 0 : run.goals ? 3 : 1;
    for (int i = skipped; i < 3; i++) {
        synthetic(made[i], values, count);
        bench_array(made[i], values, count);
    }
    for (int i = first; i < argc; i++) {
        char *path = strchr(argv[i], '=');
        if (path == NULL)
            usage();
        *path++ = '\0';
        from_file(path, values, count);
        bench_array(argv[i], values, count);
    }
    if (run.json != NULL) {
        fprintf(run.json, "\n]\n");
        if (fclose(run.json) != 0) {
            perror("bench_codec: json");
            return 1;
        }
    }
    return 0;
}
