/* What the tests of several ranks share. */
#include "support_mpi.h"

#include <stdarg.h>

#include "comm/half.h"
#include "comm/internal.h"

int test_rank, test_size;

uint64_t test_begin(int *argc, char ***argv) {
    int given;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    uint64_t seed = test_rank == 0 ? test_seed() : 0;
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return seed;
}

int test_end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s:%d: rank %d of %d: ", file, line, test_rank, test_size);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

double test_get(const void *from, size_t i, lull_dtype_t dtype) {
    switch ((int)dtype) {
    case LULL_F32:
        return (double)((const float *)from)[i];
    case LULL_F64:
        return ((const double *)from)[i];
    case LULL_I32:
        return ((const int32_t *)from)[i];
    case LULL_I64:
        return (double)((const int64_t *)from)[i];
    case LULL_U8:
        return ((const uint8_t *)from)[i];
    case LULL_F16:
        return (double)lull__from_f16(((const uint16_t *)from)[i]);
    default:
        return (double)lull__from_bf16(((const uint16_t *)from)[i]);
    }
}

void test_put(void *out, size_t i, lull_dtype_t dtype, double x) {
    switch ((int)dtype) {
    case LULL_F32:
        ((float *)out)[i] = (float)x;
        break;
    case LULL_F64:
        ((double *)out)[i] = x;
        break;
    case LULL_I32:
        ((int32_t *)out)[i] = (int32_t)x;
        break;
    case LULL_I64:
        ((int64_t *)out)[i] = (int64_t)x;
        break;
    case LULL_U8:
        ((uint8_t *)out)[i] = (uint8_t)(int)x;
        break;
    case LULL_F16:
        ((uint16_t *)out)[i] = lull__to_f16((float)x);
        break;
    case LULL_BF16:
        ((uint16_t *)out)[i] = lull__to_bf16((float)x);
        break;
    }
}

static double value(size_t i, lull_dtype_t dtype, int rank, uint64_t seed,
                    bool exact) {
    uint64_t state = seed ^ ((uint64_t)rank << 48) ^ i * 0x9e3779b97f4a7c15u;
    uint64_t bits = test_random(&state);
    if (dtype == LULL_U8)
        return (double)(bits % 16);
    if (exact || !lull__is_float(dtype))
        return (double)(int64_t)(bits % 33) - 16;
    double unit = (double)(int64_t)(bits >> 12) * 0x1p-51 - 1;
    return unit * unit * unit; /* heavy in the small */
}

void test_fill_at(void *out, size_t at, size_t count, lull_dtype_t dtype,
                  int rank, uint64_t seed) {
    for (size_t i = 0; i < count; i++)
        test_put(out, i, dtype, value(at + i, dtype, rank, seed, false));
}

void test_fill(void *out, size_t count, lull_dtype_t dtype, int rank,
               uint64_t seed, bool exact) {
    for (size_t i = 0; i < count; i++)
        test_put(out, i, dtype, value(i, dtype, rank, seed, exact));
}

void test_model(void *out, size_t count, lull_dtype_t dtype, lull_op_t op,
                int ranks, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        double acc = value(i, dtype, 0, seed, true);
        for (int r = 1; r < ranks; r++) {
            double x = value(i, dtype, r, seed, true);
            acc = op == LULL_MIN   ? (x < acc ? x : acc)
                  : op == LULL_MAX ? (x > acc ? x : acc)
                                   : acc + x;
        }
        test_put(out, i, dtype, op == LULL_AVG ? acc / ranks : acc);
    }
}
