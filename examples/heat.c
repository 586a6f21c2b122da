/* The heat equation on a plate whose rows are spread over MPI ranks. Every
 * EVERY steps a checkpoint is queued, and copied while the next step computes.
 * Started again, on any number of ranks, it goes on from the newest one and
 * ends with the same bits as a run that was never stopped.
 *
 *     mpirun -np 2 ./heat DIR STEPS EVERY */
#include <lull/lull.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 512 }; /* cells of a side */

static int rank, ranks;
static size_t first, rows; /* this rank's: first ... first + rows - 1 */
static double *now, *next; /* [rows + 2][N]: a neighbour's row on each side */

static void check(lull_status_t status) {
    if (status != LULL_OK) {
        fprintf(stderr, "heat: %s\n", lull_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void begin(void) { /* cold, but for a hot spot */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    first = (size_t)N * rank / ranks;
    rows = (size_t)N * (rank + 1) / ranks - first;
    if ((now = calloc(2 * (rows + 2) * N, sizeof *now)) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    next = now + (rows + 2) * N;
    for (size_t k = 0; k < rows * N; k++)
        now[N + k] = first * N + k < N * N / 3 && k % N > N / 2 ? 100 : 0;
}

/* Reads this rank's rows of the newest checkpoint; its step, 0: none. */
static unsigned long resume(const char *dir) {
    lull_ckpt_id_t id = {0};
    /* One rank decides, all open the same one. */
    lull_status_t found = rank == 0 ? lull_ckpt_find(dir, NULL, &id) : LULL_OK;
    check(found == LULL_ERR_NOT_FOUND ? LULL_OK : found);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (id.seq == 0)
        return 0;
    lull_ckpt_info_t *info;
    check(lull_ckpt_info_open(dir, id, &info));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "plate", slice.dtype = LULL_F64, slice.ndim = 2;
    slice.global_shape[0] = slice.global_shape[1] = slice.shape[1] = N;
    slice.offset[0] = first, slice.shape[0] = rows, slice.data = now + N;
    check(lull_ckpt_load(info, &slice, 1, NULL));
    lull_ckpt_info_destroy(info);
    return id.step;
}

static void save(lull_ckpt_t *ckpt, unsigned long step) {
    lull_ckpt_tensor_t tensor = LULL_CKPT_TENSOR_INIT;
    tensor.name = "plate", tensor.dtype = LULL_F64, tensor.ndim = 2;
    tensor.global_shape[0] = tensor.global_shape[1] = tensor.shape[1] = N;
    tensor.offset[0] = first, tensor.shape[0] = rows, tensor.data = now + N;
    lull_ckpt_save_t request = LULL_CKPT_SAVE_INIT;
    request.step = step, request.tensors = &tensor, request.tensor_count = 1;
    check(lull_ckpt_save(ckpt, &request, NULL)); /* returns at once */
}

static void advance(void) { /* from `now` to `next`, then they change roles */
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    double *last = now + rows * N, *kept = now;
    MPI_Sendrecv(now + N, N, MPI_DOUBLE, up, 0, last + N, N, MPI_DOUBLE, down,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, N, MPI_DOUBLE, down, 1, now, N, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j + 1 < N; j++) {
            const double *c = now + i * N + j;
            next[i * N + j] = *c + 0.2 * (c[-N] + c[N] + c[-1] + c[1] - 4 * *c);
        }
    now = next, next = kept;
}

static unsigned long fingerprint(void) { /* of every bit, whoever has it */
    unsigned long sum = 0, all = 0, bits;
    for (size_t k = 0; k < rows * N; k++) {
        memcpy(&bits, now + N + k, sizeof bits);
        sum += bits * (2 * (first * N + k) + 1);
    }
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 4)
        return MPI_Abort(MPI_COMM_WORLD, 2);
    begin();
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    options.dir = argv[1], options.rank = rank, options.world = ranks;
    lull_ckpt_t *ckpt;
    check(lull_ckpt_open(&options, &ckpt));
    unsigned long step = resume(argv[1]);
    unsigned long steps = strtoul(argv[2], NULL, 10), every = atol(argv[3]);
    if (rank == 0)
        printf("from step %lu on %d ranks\n", step, ranks);
    while (step < steps) {
        advance(); /* does not write what was saved, the next one would: */
        check(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
        if (++step % every == 0)
            save(ckpt, step);
    }
    check(lull_ckpt_close(ckpt)); /* waits for the last one */
    lull_ckpt_destroy(ckpt);
    unsigned long bits = fingerprint();
    if (rank == 0)
        printf("step %lu: %016lx\n", step, bits);
    return MPI_Finalize();
}
