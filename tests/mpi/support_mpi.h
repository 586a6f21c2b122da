/* What the tests of several ranks share: checks that stop the whole program,
 * and a serial model of the reductions. */
#ifndef MPI_SUPPORT_H
#define MPI_SUPPORT_H

#include <lull/comm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

extern int test_rank, test_size;

/* Starts MPI (with threads if `level` is granted) and names the seed, which is
 * the same on all ranks. */
uint64_t test_begin(int *argc, char ***argv);
/* All ranks passed: 0. */
int test_end(void);

/* Stops all ranks. */
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                     \
    do {                                                     \
        if (!(condition))                                    \
            test_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define CHECK_OK(call)                                                 \
    do {                                                               \
        lull_status_t check_ok_ = (call);                              \
        if (check_ok_ != LULL_OK)                                      \
            test_fail(__FILE__, __LINE__, "%s: %s: %s", #call,         \
                      lull_status_name(check_ok_), lull_last_error()); \
    } while (0)
/* The call fails with this status, and its sentence contains `word`. */
#define CHECK_FAILS(call, expected, word)                                     \
    do {                                                                      \
        lull_status_t check_fails_ = (call);                                  \
        if (check_fails_ != (expected) ||                                     \
            strstr(lull_last_error(), (word)) == NULL)                        \
            test_fail(__FILE__, __LINE__, "%s: %s, expected %s (%s): %s",     \
                      #call, lull_status_name(check_fails_),                  \
                      lull_status_name(expected), (word), lull_last_error()); \
    } while (0)

/* Value i of an array of a dtype that calls take. */
double test_get(const void *from, size_t i, lull_dtype_t dtype);
void test_put(void *out, size_t i, lull_dtype_t dtype, double x);

/* Values of rank r of a test: the same wherever they are asked for. Small
 * integers where `exact`, so that sums do not depend on their order. */
void test_fill(void *out, size_t count, lull_dtype_t dtype, int rank,
               uint64_t seed, bool exact);
/* Elements [at, at + count) of those that are not exact. */
void test_fill_at(void *out, size_t at, size_t count, lull_dtype_t dtype,
                  int rank, uint64_t seed);
/* The reduction of all ranks' test_fill(exact) values, serially. */
void test_model(void *out, size_t count, lull_dtype_t dtype, lull_op_t op,
                int ranks, uint64_t seed);

#endif
