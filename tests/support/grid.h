/* Random boxes of a random tensor: saved by any number of ranks, loaded in
 * other boxes, bit for bit. */
#ifndef TEST_GRID_H
#define TEST_GRID_H

#include <lull/ckpt.h>

#define GRID_DIMS 3
typedef struct grid {
    uint64_t shape[GRID_DIMS];
    uint64_t cuts[GRID_DIMS][8]; /* begins, and the end behind them */
    uint32_t parts[GRID_DIMS];
} grid_t;

/* A random shape, cut at random in two ways. Returns its elements, to be
 * freed. */
uint16_t *grid_random(grid_t *grid, grid_t *other, uint64_t *random);
/* Saves step 1 on `world` ranks and waits until it is committed. */
void grid_save(const grid_t *grid, const uint16_t *whole, lull_ckpt_t **ranks,
               uint32_t world);
/* Verifies the newest of a directory and loads each box of it. */
void grid_load(const grid_t *grid, const uint16_t *whole, const char *dir);

#endif
