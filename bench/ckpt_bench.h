/* What the parts of bench_ckpt share. */
#ifndef BENCH_CKPT_H
#define BENCH_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SERIES_MOST 64
#define DEPTH 4 /* writes in flight, ours and fio's */

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
    const char *goal;
} row_t;

/* Prints a row beside its yardstick; where figures_json is set, an object of
 * its array, too. The ratio is the median of pairs. */
extern FILE *figures_json;
void emit(const char *name, const row_t *row);
void emit_less(const char *name, row_t row); /* less is better */
void emit_more(const char *name, row_t row);

/* ---- ckpt_peers.c ---- */

/* Ends the program, with the library's last sentence. */
void fail(const char *what);
/* Seconds of a monotonic clock. */
double now(void);

/* A new folder below `under`, which is removed at exit with all in it. */
void folder_make(const char *under);
/* Removes what is in it. */
void folder_empty(void);
void path_of(char out[4096], const char *name);
/* What is read next of a file comes from the disk. */
void forget(const char *path);

/* A warm process that does torch.save and fsync when told. False: no torch. */
bool torch_begin(const char *script, size_t bytes);
/* Seconds of one save; 0: no torch. */
double torch_save(void);
void torch_end(void);

/* GB/s of one pass over a file of `bytes` by fio, the fsync at its end
 * included; 0: no fio. */
double fio_write(size_t bytes);
double fio_read(size_t bytes);

#endif
