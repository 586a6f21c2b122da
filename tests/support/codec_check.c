/* What every codec has to stand, whatever it codes. */
#include "codec_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/codec_impl.h"
#include "support.h"
#include "test.h"

#define CANARY 32 /* bytes on both sides of every output */

/* An output of exactly `bytes` bytes at an odd address if asked. */
typedef struct guarded {
    uint8_t *block, *data;
    size_t bytes;
} guarded_t;

static guarded_t guard(size_t bytes, unsigned offset) {
    guarded_t g = {.bytes = bytes};
    g.block = malloc(bytes + 2 * CANARY + offset);
    assert_non_null(g.block);
    g.data = g.block + CANARY + offset;
    memset(g.block, 0xa5, bytes + 2 * CANARY + offset);
    return g;
}

static void release(guarded_t *g) {
    for (const uint8_t *p = g->block; p < g->data; p++)
        assert_int_equal(*p, 0xa5);
    for (unsigned i = 0; i < CANARY; i++)
        assert_int_equal(g->data[g->bytes + i], 0xa5);
    free(g->block);
}

void codec_check_isas(void (*fn)(const char *isa, void *ctx), void *ctx) {
    static const char *const isas[] = {"portable", "avx2", "avx512"};
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(lull_setting_set("isa", isas[i]));
        if (strcmp(lull_codec_isa(), isas[i]) == 0)
            fn(isas[i], ctx);
    }
    assert_ok(lull_setting_set("isa", "auto"));
}

typedef struct job {
    const lull_codec_t *codec;
    const void *values;
    size_t count, bytes; /* of the values */
    uint8_t *stream;     /* the portable encoder's */
    size_t stream_bytes;
    uint8_t *decoded; /* by the portable decoder */
    lull_codec_scratch_t *scratch;
    bool past; /* write past the caches, as otherwise only large arrays are */
} job_t;

/* The input at an odd address, in a block that ends where it ends. */
static uint8_t *copy_at(const void *from, size_t bytes, unsigned offset) {
    uint8_t *block = malloc(bytes + offset + (bytes + offset == 0));
    assert_non_null(block);
    if (bytes != 0)
        memcpy(block + offset, from, bytes);
    return block;
}

static void check_encode(job_t *job, unsigned offset) {
    size_t bound;
    assert_ok(lull_codec_bound(job->codec, job->count, &bound));
    uint8_t *values = copy_at(job->values, job->bytes, offset);
    guarded_t g = guard(bound, offset);
    lull_buffer_t out = {.data = g.data, .capacity = bound};
    lull_codec_scratch_seed(job->scratch, 1);
    job->scratch->past = job->past;
    assert_ok(lull_codec_encode(job->codec, values + offset, job->count, &out,
                                job->scratch));
    assert_false(job->scratch->past);
    assert_true(out.bytes <= bound);
    if (job->stream == NULL) {
        job->stream = copy_at(g.data, out.bytes, 0);
        job->stream_bytes = out.bytes;
    }
    assert_int_equal(out.bytes, job->stream_bytes);
    assert_memory_equal(g.data, job->stream, out.bytes);
    release(&g);
    for (size_t less = 0; less < 2 && less <= job->stream_bytes; less++) {
        g = guard(job->stream_bytes - less, offset);
        out = (lull_buffer_t){.data = g.data, .capacity = g.bytes};
        lull_codec_scratch_seed(job->scratch, 1);
        job->scratch->past = job->past;
        lull_status_t status = lull_codec_encode(
            job->codec, values + offset, job->count, &out, job->scratch);
        assert_int_equal(status, less ? LULL_ERR_CAPACITY : LULL_OK);
        if (less == 0)
            assert_memory_equal(g.data, job->stream, g.bytes);
        release(&g);
    }
    free(values);
}

static void check_decode(job_t *job, unsigned offset) {
    uint8_t *stream = copy_at(job->stream, job->stream_bytes, offset);
    guarded_t g = guard(job->bytes, offset);
    job->scratch->past = job->past;
    assert_ok(lull_codec_decode(job->codec, stream + offset, job->stream_bytes,
                                g.data, job->count, job->scratch));
    if (job->decoded == NULL)
        job->decoded = copy_at(g.data, job->bytes, 0);
    assert_memory_equal(g.data, job->decoded, job->bytes);
    release(&g);
    size_t size = job->codec->dtype == LULL_F64 ? 8 : 4;
    g = guard(job->count * size, offset);
    float *sum = malloc(job->count * size + 1);
    assert_non_null(sum);
    for (size_t i = 0; i < job->count; i++) {
        if (size == 8)
            ((double *)sum)[i] = 0.25 * (double)i;
        else
            sum[i] = 0.25f * (float)i;
    }
    memcpy(g.data, sum, job->count * size);
    lull__add(job->codec->dtype, job->decoded, sum, job->count);
    assert_ok(lull_codec_decode_add(job->codec, stream + offset,
                                    job->stream_bytes, g.data, job->count,
                                    job->scratch));
    assert_memory_equal(g.data, sum, job->count * size);
    release(&g);
    free(sum);
    free(stream);
}

static void check_prefix(job_t *job, size_t bytes) {
    uint8_t *stream = copy_at(job->stream, bytes, 0);
    guarded_t g = guard(job->bytes, 1);
    lull_status_t status = lull_codec_decode(job->codec, stream, bytes, g.data,
                                             job->count, job->scratch);
    if (status == LULL_OK)
        assert_memory_equal(g.data, job->decoded, job->bytes);
    else
        assert_int_equal(status, LULL_ERR_CORRUPT);
    release(&g);
    free(stream);
}

static void check_isa(const char *isa, void *ctx) {
    job_t *job = ctx;
    (void)isa;
    for (unsigned offset = 0; offset < 4; offset += 1 + offset) {
        check_encode(job, offset);
        check_decode(job, offset);
    }
    job->past = true;
    check_encode(job, 0);
    check_decode(job, 0);
    job->past = false;
    /* All prefixes of a short stream; of a long one those near its ends and
     * about 64 between. */
    size_t step = job->stream_bytes < 600 ? 1 : job->stream_bytes / 64;
    for (size_t bytes = 0; bytes < job->stream_bytes; bytes++)
        if (bytes < 64 || job->stream_bytes - bytes < 64 || bytes % step == 0)
            check_prefix(job, bytes);
}

size_t codec_check(const lull_codec_t *codec, const void *values, size_t count,
                   void *decoded) {
    job_t job = {.codec = codec,
                 .values = values,
                 .count = count,
                 .bytes = count * (lull_dtype_bits(codec->dtype) / 8)};
    assert_ok(lull_codec_scratch_create(&job.scratch));
    codec_check_isas(check_isa, &job);
    if (decoded != NULL)
        memcpy(decoded, job.decoded, job.bytes);
    lull_codec_scratch_destroy(job.scratch);
    free(job.stream);
    free(job.decoded);
    return job.stream_bytes;
}

size_t codec_check_lossless(const lull_codec_t *codec, const void *values,
                            size_t count) {
    size_t bytes = count * (lull_dtype_bits(codec->dtype) / 8);
    void *decoded = malloc(bytes + 1);
    assert_non_null(decoded);
    size_t stream_bytes = codec_check(codec, values, count, decoded);
    if (bytes != 0)
        assert_memory_equal(decoded, values, bytes);
    free(decoded);
    return stream_bytes;
}

typedef struct mutation {
    const lull_codec_t *codec;
    const uint8_t *stream;
    size_t bytes, count;
    lull_codec_scratch_t *scratch;
} mutation_t;

static void decode_mutation(const char *isa, void *ctx) {
    mutation_t *m = ctx;
    (void)isa;
    guarded_t g = guard(m->count * (lull_dtype_bits(m->codec->dtype) / 8), 0);
    (void)lull_codec_decode(m->codec, m->stream, m->bytes, g.data, m->count,
                            m->scratch);
    release(&g);
}

void codec_check_mutations(const lull_codec_t *codec, const void *values,
                           size_t count, uint64_t *random) {
    mutation_t m = {.codec = codec, .count = count};
    size_t bound;
    assert_ok(lull_codec_scratch_create(&m.scratch));
    assert_ok(lull_codec_bound(codec, count, &bound));
    uint8_t *block = malloc(bound);
    assert_non_null(block);
    lull_buffer_t out = {.data = block, .capacity = bound};
    assert_ok(lull_codec_encode(codec, values, count, &out, m.scratch));
    for (unsigned i = 0; i < 200 && out.bytes != 0; i++) {
        uint64_t r = test_random(random);
        size_t bytes = r % 3 == 0 ? (r >> 8) % (out.bytes + 1) : out.bytes;
        uint8_t *stream = copy_at(block, bytes, 0);
        for (unsigned k = 0; k < 1 + (r >> 2) % 4 && bytes != 0; k++) {
            uint64_t q = test_random(random);
            size_t reach = q % 2 ? bytes : bytes < 48 ? bytes : 48;
            stream[(q >> 16) % reach] = (uint8_t)(q >> 8);
        }
        m.stream = stream;
        m.bytes = bytes;
        codec_check_isas(decode_mutation, &m);
        free(stream);
    }
    free(block);
    lull_codec_scratch_destroy(m.scratch);
}

uint8_t *codec_check_golden(const char *name, size_t *bytes) {
    enum { MOST = 1 << 20 };
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s", TEST_SOURCES, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s: cannot be opened", path);
    uint8_t *data = malloc(MOST);
    assert_non_null(data);
    *bytes = fread(data, 1, MOST, file);
    assert_true(*bytes < MOST);
    fclose(file);
    return data;
}

/* ---- Values ------------------------------------------------------------ */

static double normal(uint64_t *random) {
    double u = (double)((test_random(random) >> 11) + 1) * 0x1p-53;
    double v = (double)(test_random(random) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static double special(size_t i, lull_dtype_t dtype) {
    static const double all[] = {0.0,       -0.0,      1.0,      -1.0,
                                 INFINITY,  -INFINITY, NAN,      0x1p-149,
                                 0x1p-1074, -0x1p-24,  0x1p-126, 0x1p-130,
                                 1e-30,     1e30,      65504.0,  -65504.0};
    if (i % 17 == 16)
        return dtype == LULL_F64   ? 1.7976931348623157e308
               : dtype == LULL_F16 ? 65504.0
                                   : 3.4028234e38;
    return all[i % 17];
}

static double value(codec_fill_t kind, lull_dtype_t dtype, size_t i,
                    uint64_t *random) {
    uint64_t r;
    switch (kind) {
    case FILL_NORMAL:
        return 1e-3 * normal(random);
    case FILL_RAMP:
        return (double)i / 8;
    case FILL_SPARSE:
        return test_random(random) % 2 ? 1e-3 * normal(random) : 0.0;
    case FILL_RUNS:
        return i / 700 % 3 == 1 ? 0.0 : normal(random);
    case FILL_SPECIAL:
        return special(i, dtype);
    case FILL_WIDE:
        r = test_random(random) % 200;
        return ldexp(normal(random),
                     dtype == LULL_F16 ? (int)r / 8 - 12 : (int)r - 100);
    case FILL_POWERS:
        r = test_random(random);
        return ldexp(r % 2 ? 1 : -1, (int)(r >> 8 & 15) - 8);
    default:
        return 0.0;
    }
}

void codec_check_fill(codec_fill_t kind, lull_dtype_t dtype, void *values,
                      size_t count, uint64_t *random) {
    unsigned bytes = lull_dtype_bits(dtype) / 8;
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = (uint8_t *)values + i * bytes;
        if (kind == FILL_BITS) {
            uint64_t bits = test_random(random);
            memcpy(at, &bits, bytes);
            continue;
        }
        double wide = value(kind, dtype, i, random);
        float single = (float)wide;
        if (dtype == LULL_F64)
            memcpy(at, &wide, 8);
        else if (dtype == LULL_F32)
            memcpy(at, &single, 4);
        else if (dtype == LULL_F16)
            lull__f32_to_f16(&single, at, 1);
        else
            lull__f32_to_bf16(&single, at, 1);
    }
}
