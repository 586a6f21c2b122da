/* Coded collectives and messages: every call, dtype and codec, bit for bit
 * against a serial model made from the public frame calls. The numbered tests
 * are those of what makes it correct: replicas, order, bias, NaN and Inf,
 * incompressible data, 16-bit types. */
#include <float.h>
#include <lull/codec.h>
#include <math.h>
#include <sys/mman.h>

#include "comm/half.h"
#include "comm/internal.h"
#include "support_mpi.h"

enum { CHUNK = 32768, ROOM = 4 * CHUNK * 8 + 1000 };

static lull_codec_scratch_t *scratch;
static char *in, *out, *want, *frame;
static float *sum;
static uint64_t seed;
static size_t frame_room;

static const lull_comm_t *now;

static size_t chunk_of(lull_dtype_t dtype) {
    return lull__choose(now, dtype, UINT64_MAX).step;
}

/* What a receiver makes of these values. */
static void through(const lull_codec_t *codec, void *values, size_t n) {
    lull_buffer_t to = {.data = frame, .capacity = frame_room};
    CHECK_OK(lull_frame_encode(codec, values, n, 0, &to, scratch));
    CHECK_OK(lull_frame_decode(frame, to.bytes, 0, values,
                               n * lull__size_of(codec->dtype), scratch));
}

static double scale_of(lull_dtype_t dtype, lull_op_t op) {
    double power = 2;
    while (power < 2 * test_size)
        power *= 2;
    return op == LULL_AVG && dtype != LULL_F16 ? power : 1;
}

/* Chunk [at, at + n) of the reduction, owned by `owner`. */
static void model_chunk(const lull_codec_t *codec, lull_op_t op, int owner,
                        size_t at, size_t n, char *to) {
    lull_dtype_t dtype = codec->dtype;
    static double acc[CHUNK];
    static char values[CHUNK * 8];
    double power = scale_of(dtype, op);
    for (size_t i = 0; i < n; i++)
        acc[i] = -0.0;
    for (int r = 0; r < test_size; r++) {
        test_fill_at(values, at, n, dtype, r, seed);
        for (size_t i = 0; power != 1 && i < n; i++)
            test_put(values, i, dtype, test_get(values, i, dtype) / power);
        if (r != owner)
            through(codec, values, n);
        for (size_t i = 0; i < n; i++) {
            double x = acc[i] + test_get(values, i, dtype);
            acc[i] = dtype == LULL_F64
                         ? x
                         : (double)((float)acc[i] +
                                    (float)test_get(values, i, dtype));
        }
    }
    for (size_t i = 0; i < n; i++) {
        double by = test_size / power;
        double x = op != LULL_AVG      ? acc[i]
                   : dtype == LULL_F64 ? acc[i] / by
                                       : (double)((float)acc[i] / (float)by);
        test_put(to, i, dtype, x);
    }
}

static void model_allreduce(const lull_codec_t *codec, lull_op_t op,
                            size_t count) {
    size_t ranks = (size_t)test_size, size = lull__size_of(codec->dtype);
    size_t share = ((count + ranks - 1) / ranks + 31) / 32 * 32;
    size_t step = chunk_of(codec->dtype);
    for (int owner = 0; owner < test_size; owner++) {
        size_t at = (size_t)owner * share, end = at + share;
        for (end = end < count ? end : count; at < end; at += step) {
            size_t n = end - at < step ? end - at : step;
            model_chunk(codec, op, owner, at, n, want + at * size);
            through(codec, want + at * size, n);
        }
    }
}

static void same_bits(const char *what, const lull_codec_t *codec, size_t count,
                      const void *got, const void *expected) {
    char spec[LULL_CODEC_SPEC_MAX];
    size_t size = lull__size_of(codec->dtype);
    for (size_t i = 0; i < count * size; i++)
        if (((const char *)got)[i] != ((const char *)expected)[i]) {
            CHECK_OK(lull_codec_format(codec, spec, sizeof spec));
            test_fail(__FILE__, __LINE__,
                      "%s of %zu %s by %s: value %zu: %g, expected %g", what,
                      count, lull_dtype_name(codec->dtype), spec, i / size,
                      test_get(got, i / size, codec->dtype),
                      test_get(expected, i / size, codec->dtype));
        }
}

static void one_allreduce(lull_comm_t *comm, const lull_codec_t *codec,
                          size_t count, int mode) {
    lull_op_t op = mode & 4 ? LULL_AVG : LULL_SUM;
    lull_request_t *request = NULL;
    size_t bytes = count * lull__size_of(codec->dtype);
    test_fill(in, count, codec->dtype, test_rank, seed, false);
    model_allreduce(codec, op, count);
    memset(out, 0x5a, bytes + 1);
    if (mode & 1)
        memcpy(out, in, bytes);
    const void *from = mode & 1 ? LULL_IN_PLACE : in;
    if (mode & 2)
        CHECK_OK(lull_iallreduce(from, out, count, codec->dtype, op, comm,
                                 &request));
    else
        CHECK_OK(lull_allreduce(from, out, count, codec->dtype, op, comm));
    CHECK_OK(lull_wait(&request));
    same_bits("allreduce", codec, count, out, want);
    CHECK(out[bytes] == 0x5a);
}

static void one_reduce_scatter(lull_comm_t *comm, const lull_codec_t *codec,
                               size_t count, int mode) {
    lull_op_t op = mode & 4 ? LULL_AVG : LULL_SUM;
    size_t size = lull__size_of(codec->dtype), step = chunk_of(codec->dtype);
    size_t all = count * (size_t)test_size;
    test_fill(in, all, codec->dtype, test_rank, seed, false);
    for (size_t at = 0; at < count; at += step)
        model_chunk(codec, op, test_rank, (size_t)test_rank * count + at,
                    count - at < step ? count - at : step, want + at * size);
    if (mode & 1)
        memcpy(out, in, all * size);
    else
        memset(out, 0x5a, all * size);
    CHECK_OK(lull_reduce_scatter_block(mode & 1 ? LULL_IN_PLACE : in, out,
                                       count, codec->dtype, op, comm));
    same_bits("reduce_scatter_block", codec, count, out, want);
}

static void one_allgather(lull_comm_t *comm, const lull_codec_t *codec,
                          size_t count, int mode) {
    size_t bytes = count * lull__size_of(codec->dtype);
    test_fill(in, count, codec->dtype, test_rank, seed, false);
    for (int r = 0; r < test_size; r++)
        test_fill(want + (size_t)r * bytes, count, codec->dtype, r, seed,
                  false);
    memset(out, 0x5a, bytes * (size_t)test_size);
    if (mode & 1)
        memcpy(out + (size_t)test_rank * bytes, in, bytes);
    CHECK_OK(lull_allgather(mode & 1 ? LULL_IN_PLACE : in, out, count,
                            codec->dtype, comm));
    same_bits("allgather", codec, count * (size_t)test_size, out, want);
}

static void one_bcast(lull_comm_t *comm, const lull_codec_t *codec,
                      size_t count, int root) {
    test_fill(want, count, codec->dtype, root, seed, false);
    test_fill(out, count, codec->dtype, test_rank, seed, false);
    CHECK_OK(lull_bcast(out, count, codec->dtype, root, comm));
    same_bits("bcast", codec, count, out, want);
}

static void one_ring(lull_comm_t *comm, const lull_codec_t *codec, size_t count,
                     int mode) {
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    size_t step = chunk_of(codec->dtype), size = lull__size_of(codec->dtype);
    test_fill(in, count, codec->dtype, test_rank, seed, false);
    test_fill(want, count, codec->dtype, before, seed, false);
    for (size_t at = 0; at < count; at += step)
        through(codec, want + at * size, count - at < step ? count - at : step);
    lull_message_t give = {in, count, codec->dtype, next, mode};
    lull_message_t take = {out, count, codec->dtype, before, mode};
    CHECK_OK(lull_sendrecv(&give, &take, comm));
    same_bits("sendrecv", codec, count, out, want);
}

static const lull_dtype_t floats[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16};
static const char *const specs[] = {"raw",    "mpc",  "zfp:8", "zfp:16",
                                    "mxint8", "bf16", "expo"};

static size_t count_of(int i) {
    size_t ranks = (size_t)test_size;
    const size_t counts[] = {0,
                             1,
                             3,
                             5,
                             31,
                             33,
                             1023,
                             1025,
                             4099,
                             70001,
                             5 * CHUNK * ranks / 2 + 77};
    return i < 11 ? counts[i] : SIZE_MAX;
}

/* All modes of the small counts on few ranks, else one of them in turn. */
static bool wanted(int which, int mode, bool big) {
    if (!big && test_size <= 3)
        return true;
    return mode == which % 8 || (mode == 4 && !big);
}

static void all_of(lull_comm_t *comm, const lull_codec_t *codec, int which) {
    size_t count = count_of(which);
    bool big = which > 8;
    size_t block = big ? count / (size_t)test_size : count;
    for (int mode = 0; mode < 8; mode++) {
        if (!wanted(which + (int)codec->dtype, mode, big))
            continue;
        one_allreduce(comm, codec, count, mode);
        if (!(mode & 2))
            one_reduce_scatter(comm, codec, block, mode);
    }
    if (big)
        one_reduce_scatter(comm, codec, block, 5);
    if (!lull_codec_is_lossy(codec)) {
        one_allgather(comm, codec, block, which % 2);
        one_bcast(comm, codec, count, which % 2 ? test_size - 1 : 0);
    }
    one_ring(comm, codec, count, which);
}

/* Points 1, 2, 3 and 8: the same bits on all ranks, those of the serial model
 * (two codings, rank order, decoded without bias), 16-bit types as such. */
static void points_1_2_3_8_as_the_model(const char *spec) {
    char policy[64];
    lull_comm_t *comm;
    lull_codec_t codec;
    snprintf(policy, sizeof policy, "dp=%s;min=0", spec);
    lull_status_t status =
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm);
    if (status == LULL_ERR_UNSUPPORTED) {
        if (test_rank == 0)
            printf("skipped: %s\n", lull_last_error());
        return;
    }
    CHECK_OK(status);
    now = comm;
    for (unsigned d = 0; d < 4; d++) {
        if (lull_codec_parse(spec, floats[d], &codec) != LULL_OK)
            continue;
        for (int which = 0; count_of(which) != SIZE_MAX; which++) {
            if (which > 8 && test_size > 3 && d % 3 != 0)
                continue;
            all_of(comm, &codec, which);
        }
    }
    lull_comm_destroy(comm);
}

/* Lossless sums are also near the true ones. */
static void lossless_bound(void) {
    lull_comm_t *comm;
    size_t n = 3000;
    float *x = (float *)in, *got = (float *)out;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "mpc;min=0", &comm));
    test_fill(x, n, LULL_F32, test_rank, seed, false);
    CHECK_OK(lull_allreduce(x, got, n, LULL_F32, LULL_SUM, comm));
    for (size_t i = 0; i < n; i++) {
        double exact = 0, magnitude = 0;
        for (int r = 0; r < test_size; r++) {
            float value;
            test_fill_at(&value, i, 1, LULL_F32, r, seed);
            exact += (double)value;
            magnitude += fabs((double)value);
        }
        CHECK(fabs((double)got[i] - exact) <=
              (test_size - 1) * 0x1p-24 * magnitude);
    }
    lull_comm_destroy(comm);
}

/* Point 1: 1000 all-reduces of the same data are the same. (1000 at 2 ranks,
 * fewer where ranks share processors.) */
static void point_1_no_drift(void) {
    lull_comm_t *comm;
    size_t n = 5000, bytes = n * 4;
    int times = test_size == 2 ? 1000 : 50;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "zfp:6;min=0", &comm));
    test_fill(in, n, LULL_F32, test_rank, seed, false);
    CHECK_OK(lull_allreduce(in, want, n, LULL_F32, LULL_AVG, comm));
    for (int i = 0; i < times; i++) {
        CHECK_OK(lull_allreduce(in, out, n, LULL_F32, LULL_AVG, comm));
        CHECK(memcmp(out, want, bytes) == 0);
    }
    lull_comm_destroy(comm);
}

/* Point 3: the mean error of many sums is far under the typical one. */
static void point_3_unbiased(void) {
    lull_comm_t *comm;
    size_t n = 65536;
    float *x = (float *)in, *got = (float *)out;
    double mean = 0, square = 0;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "zfp:8;min=0", &comm));
    for (size_t i = 0; i < n; i++) {
        uint64_t state = seed + i * 977 + (uint64_t)test_rank * 7919;
        x[i] = 1 + (float)(test_random(&state) >> 40) * 0x1p-24f;
    }
    CHECK_OK(lull_allreduce(x, got, n, LULL_F32, LULL_SUM, comm));
    double *exact = (double *)want;
    for (size_t i = 0; i < n; i++)
        exact[i] = (double)x[i];
    MPI_Allreduce(MPI_IN_PLACE, exact, (int)n, MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    for (size_t i = 0; i < n; i++) {
        double error = (double)got[i] - exact[i];
        mean += error / (double)n;
        square += error * error / (double)n;
    }
    CHECK(square > 0 && fabs(mean) < 0.1 * sqrt(square));
    lull_comm_destroy(comm);
}

/* Point 4: NaN and Inf of one rank are seen by all, and what shares their
 * chunk is exact; so are tiny values. */
static void point_4_nonfinite_survive(const char *policy, lull_dtype_t dtype) {
    lull_comm_t *comm;
    size_t n = 40000;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    for (size_t i = 0; i < n; i++)
        test_put(in, i, dtype, test_rank == 0 ? (double)(i % 7) : 0);
    if (test_rank == test_size - 1) {
        test_put(in, 5, dtype, INFINITY);
        test_put(in, 6, dtype, -INFINITY);
        test_put(in, 7, dtype, NAN);
    }
    CHECK_OK(lull_allreduce(in, out, n, dtype, LULL_AVG, comm));
    CHECK(test_get(out, 5, dtype) == INFINITY &&
          test_get(out, 6, dtype) == -INFINITY);
    CHECK(isnan(test_get(out, 7, dtype)));
    CHECK_OK(lull_allreduce(in, out, n, dtype, LULL_SUM, comm));
    CHECK(test_get(out, 5, dtype) == INFINITY &&
          isnan(test_get(out, 7, dtype)));
    for (size_t i = 8; i < n / (size_t)test_size && i < 4096; i++)
        CHECK(test_get(out, i, dtype) == (double)(i % 7));
    lull_comm_destroy(comm);
}

static void point_4_tiny_and_huge(void) {
    lull_comm_t *comm;
    size_t n = 33;
    float *x = (float *)in, *got = (float *)out;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "zfp:8;min=0", &comm));
    for (size_t i = 0; i < n; i++)
        x[i] = test_rank == 0 ? 1e-40f * (float)i : -0.0f;
    CHECK_OK(lull_allreduce(x, got, n, LULL_F32, LULL_SUM, comm));
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == 1e-40f * (float)i);
    for (size_t i = 0; i < n; i++)
        x[i] = -0.0f;
    CHECK_OK(lull_allreduce(x, got, n, LULL_F32, LULL_SUM, comm));
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == 0);
    for (size_t i = 0; i < n; i++)
        x[i] = i % 8 < 4 ? FLT_MAX : -FLT_MAX;
    CHECK_OK(lull_allreduce(x, got, n, LULL_F32, LULL_AVG, comm));
    for (size_t i = 0; i < n; i++)
        CHECK(isfinite(got[i]) && fabsf(got[i]) > 0.9f * FLT_MAX);
    lull_comm_destroy(comm);
}

static uint64_t wire_of(const lull_comm_t *comm) {
    lull_comm_stats_t s = {.size = sizeof s};
    CHECK_OK(lull_comm_stats(comm, &s));
    return s.wire_bytes;
}

/* Point 5: random bits cost no more than raw and a header a chunk; what can
 * be shrunk is. */
static void point_5_incompressible(void) {
    lull_comm_t *comm;
    size_t n = 200000;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PP, "mpc;min=0", &comm));
    for (size_t i = 0; i < n; i++) {
        uint64_t state = seed + i;
        ((uint32_t *)in)[i] = (uint32_t)test_random(&state) & 0xbfffffff;
    }
    uint64_t before = wire_of(comm);
    if (test_size > 1) {
        if (test_rank == 0)
            CHECK_OK(lull_send(in, n, LULL_F32, 1, 0, comm));
        if (test_rank == 1)
            CHECK_OK(lull_recv(out, n, LULL_F32, 0, 0, comm));
        if (test_rank == 1)
            CHECK(memcmp(in, out, n * 4) == 0);
        if (test_rank == 0)
            CHECK(wire_of(comm) - before <= 4 * n + 25 * (64 + 32 + 4 + 8));
    }
    lull_comm_destroy(comm);
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "zfp:8", &comm));
    test_fill(in, n, LULL_F32, test_rank, seed, false);
    CHECK_OK(lull_allreduce(in, out, n, LULL_F32, LULL_SUM, comm));
    lull_comm_stats_t s = {.size = sizeof s};
    CHECK_OK(lull_comm_stats(comm, &s));
    if (test_size > 1) {
        CHECK(s.wire_bytes * 3 < s.bytes && s.wire_bytes * 5 > s.bytes);
        CHECK(s.rel_l2 > 0 && s.rel_l2 < 0.2);
    }
    lull_comm_destroy(comm);
}

/* Point 8: averages near the largest value of each type. */
static void point_8_large_averages(const char *policy) {
    lull_comm_t *comm;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    const double largest[] = {FLT_MAX, DBL_MAX, 65504, 0x1.fep127};
    for (unsigned d = 0; d < 4; d++) {
        for (size_t i = 0; i < 40; i++)
            test_put(in, i, floats[d], i % 8 < 4 ? largest[d] : -largest[d]);
        CHECK_OK(lull_allreduce(in, out, 40, floats[d], LULL_AVG, comm));
        for (size_t i = 0; i < 40; i++) {
            double x = test_get(out, i, floats[d]);
            CHECK(isfinite(x) && fabs(x) > largest[d] / 1.1);
        }
    }
    lull_comm_destroy(comm);
}

/* What a user sends is never written to, not even for a while. */
static void read_only_sends(const char *policy) {
    enum { BYTES = 1 << 20 };
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_BF16};
    lull_request_t *requests[2];
    lull_comm_t *comm;
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    char *x = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(x != MAP_FAILED);
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    for (unsigned i = 0; i < 6; i++) {
        lull_dtype_t dtype = dtypes[i % 3];
        lull_op_t op = i / 3 ? LULL_AVG : LULL_SUM;
        size_t n = BYTES / 8, part = n / (size_t)test_size;
        CHECK_OK(lull_allreduce(x, out, n, dtype, op, comm));
        CHECK_OK(lull_reduce_scatter_block(x, out, part, dtype, op, comm));
        CHECK_OK(lull_allgather(x, out, part, dtype, comm));
        CHECK_OK(lull_irecv(out, n, dtype, before, 0, comm, &requests[0]));
        CHECK_OK(lull_isend(x, n, dtype, next, 0, comm, &requests[1]));
        CHECK_OK(lull_waitall(2, requests));
        if (test_rank == 0)
            CHECK_OK(lull_bcast(x, n, dtype, 0, comm));
        else
            CHECK_OK(lull_bcast(out, n, dtype, 0, comm));
    }
    lull_comm_destroy(comm);
    munmap(x, BYTES);
}

/* What is not coded says why. */
static void bypasses(void) {
    lull_comm_t *comm;
    lull_comm_stats_t s = {.size = sizeof s};
    float x[8] = {0}, y[8];
    static int32_t many[8192], sums[8192];
    if (test_size == 1)
        return;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "zfp:8", &comm));
    CHECK(strcmp(lull_comm_policy(comm), "zfp:8") == 0);
    CHECK_OK(lull_allreduce(x, y, 8, LULL_F32, LULL_SUM, comm));
    CHECK_OK(lull_allreduce(many, sums, 8192, LULL_I32, LULL_SUM, comm));
    CHECK_OK(lull_allreduce(many, sums, 8192, LULL_F32, LULL_MAX, comm));
    CHECK_OK(lull_bcast(many, 8192, LULL_F32, 0, comm));
    CHECK_OK(lull_comm_stats(comm, &s));
    CHECK(s.calls == 4 && s.bypasses[LULL_BYPASS_SMALL] == 1);
    CHECK(s.bypasses[LULL_BYPASS_DTYPE] == 1);
    CHECK(s.bypasses[LULL_BYPASS_OP] == 2);
    lull_comm_destroy(comm);
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_OTHER, "zfp:8", &comm));
    CHECK(strcmp(lull_comm_policy(comm), "none") == 0);
    lull_comm_destroy(comm);
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PARAM, "zfp:8", &comm));
    CHECK(strcmp(lull_comm_policy(comm), "raw") == 0);
    lull_comm_destroy(comm);
}

int main(int argc, char **argv) {
    seed = test_begin(&argc, &argv);
    frame_room = CHUNK * 9 + 4096;
    in = calloc(ROOM, 8), out = calloc(ROOM, 8), want = calloc(ROOM, 8);
    frame = malloc(frame_room), sum = malloc(CHUNK * 8);
    CHECK(in && out && want && frame && sum);
    CHECK_OK(lull_codec_scratch_create(&scratch));
    for (unsigned i = 0; i < sizeof specs / sizeof *specs; i++)
        if (test_size > 1 && (argc < 2 || strcmp(argv[1], specs[i]) == 0))
            points_1_2_3_8_as_the_model(specs[i]);
    lossless_bound();
    if (test_size > 1) {
        point_1_no_drift();
        point_3_unbiased();
    }
    for (unsigned d = 0; d < 4; d++) {
        point_4_nonfinite_survive("zfp:8;min=0", floats[d]);
        point_4_nonfinite_survive("mpc;min=0", floats[d]);
    }
    point_4_tiny_and_huge();
    point_5_incompressible();
    point_8_large_averages("raw;min=0");
    point_8_large_averages("mxint8;min=0");
    point_8_large_averages("zfp:16;min=0");
    read_only_sends("none");
    read_only_sends("raw;min=0");
    read_only_sends("zfp:8;min=0");
    read_only_sends("mpc;min=0");
    bypasses();
    lull_codec_scratch_destroy(scratch);
    free(in), free(out), free(want), free(frame), free(sum);
    return test_end();
}
