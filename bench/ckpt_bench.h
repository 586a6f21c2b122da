/* What the parts of bench_ckpt share. */
#ifndef BENCH_CKPT_H
#define BENCH_CKPT_H

#include <lull/lull.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SERIES_MOST 64
#define DEPTH 4 /* writes in flight, ours and fio's */
#define MIB ((size_t)1 << 20)
#define PARTS 16

/* How much of everything; the rows of a table in bench_ckpt.c. */
typedef struct scale {
    const char *option;
    size_t sizes[4];       /* MiB; 0: no more */
    int rounds;            /* of everything at a size */
    int lazies;            /* lazy saves a round */
    int pairs;             /* of writes at the largest size */
    int steps, run_rounds; /* of whole runs */
    int many;              /* tensors in the largest save */
    size_t beside;         /* MiB that are saved beside a computation */
} scale_t;
extern const scale_t *scale;

/* ---- ckpt_figures.c ---- */

typedef struct series {
    double values[SERIES_MOST];
    int n;
} series_t;

/* Past the most it takes, a value is left out. */
void add(series_t *s, double value);
/* The value that `share` of the series lie below; 0 of an empty one. */
double at(const series_t *s, double share);
double mean(const series_t *s);

typedef struct row {
    const char *metric, *unit;
    const series_t *ours;
    const char *baseline; /* NULL: none */
    const series_t *theirs;
    double ratio; /* how many times better we are */
    int n;        /* measurements behind ours; 0: as many as there are */
} row_t;

/* Prints a row beside its yardstick; where figures_json is set, an object of
 * its array, too. The ratio is the median of pairs. */
extern FILE *figures_json;
void emit(const char *name, const row_t *row);
void emit_less(const char *name, row_t row); /* less is better */
void emit_more(const char *name, row_t row);
/* One number of `n` measurements, less is better. */
void emit_one(const char *name, row_t row, double ours, double theirs);

/* ---- ckpt_peers.c ---- */

/* Ends the program, with the library's last sentence. */
void fail(const char *what);
void must(lull_status_t status, const char *what);
/* Seconds of a monotonic clock. */
double now(void);
void nap(double seconds);

/* A new folder below `under`, which is removed at exit with all in it. */
void folder_make(const char *under);
/* Removes what is in it. */
void folder_empty(void);
void path_of(char out[4096], const char *name);
/* What is read next of a file comes from the disk. */
void forget(const char *path);
/* Waits until nothing is being deleted and nothing is left to be written: the
 * next measurement has the disk for itself. */
void settle(void);

/* A warm process that does torch.save and fsync when told. False: no torch. */
bool torch_begin(const char *script, size_t bytes);
/* Seconds of one save; 0: no torch. */
double torch_save(void);
void torch_end(void);

/* GB/s of one pass over a file of `bytes` by fio, the fsync at its end
 * included; 0: no fio. */
double fio_write(size_t bytes);
double fio_read(size_t bytes);

/* ---- ckpt_state.c ---- */

/* The state at hand: PARTS tensors of one array. */
typedef struct state {
    size_t bytes;
    char *data;
    char names[PARTS][32];
    lull_ckpt_tensor_t tensors[PARTS];
} state_t;
extern state_t state;

void make_state(size_t bytes);
/* "64MiB" */
const char *size_name(size_t bytes);

lull_ckpt_t *open_engine(const char *codec, lull_device_t *device);
void close_engine(lull_ckpt_t *ckpt);
void save(lull_ckpt_t *ckpt, lull_stream_t stream,
          const lull_ckpt_tensor_t *tensors, size_t count);
/* One save with `compute` seconds until the update: what it blocks. */
double lazy_save(lull_ckpt_t *ckpt, double compute);
double sync_save(lull_ckpt_t *ckpt);
double eager_save(lull_ckpt_t *ckpt);
/* GB/s of loading the newest checkpoint to `to`, verified. */
double restore(char *to);
/* ... to memory that nobody touched yet. */
double restore_fresh(void);

/* ---- the groups of rows ---- */

/* ckpt_runs.c: whole runs, a checkpoint every step; `drain`: seconds that one
 * takes. */
void measure_runs(bool has_torch, double drain);
/* ckpt_many.c: many tensors, and memory. */
void measure_many(void);
/* ckpt_beside.c: what a save takes from a computation beside it, and what each
 * of its threads takes of the processor. */
void measure_beside(void);

#endif
