/* Directories of tiers for tests, and engines over them. */
#ifndef TEST_TIERS_ROOM_H
#define TEST_TIERS_ROOM_H

#include <lull/ckpt.h>

/* `tiers_base` is there, the tiers in it are not yet. */
extern char tiers_base[256], tiers_fast[300], tiers_slow[300],
    tiers_slower[300];

/* Set-up and tear-down of a test. The latter makes the system's calls the
 * default ones again. */
int tiers_room_make(void **state);
int tiers_room_drop(void **state);
/* As after tiers_room_make. */
void tiers_room_empty(void);

typedef struct tiers_setting {
    lull_ckpt_tier_t tiers[2];
    size_t count;
    uint32_t world, keep_last; /* world 0: 1 */
    const char *codec;
    const char *run_id;
} tiers_setting_t;

lull_ckpt_tier_t tiers_at(const char *dir);
/* The first directory is tiers_fast. */
lull_ckpt_options_t tiers_options(const tiers_setting_t *setting,
                                  uint32_t rank);
void tiers_open(const tiers_setting_t *setting, lull_ckpt_t **ranks);
void tiers_close(const tiers_setting_t *setting, lull_ckpt_t **ranks);

bool tiers_has(const char *dir, uint64_t step);
/* Flips a bit in a file of a checkpoint. */
void tiers_flip(const char *dir, uint64_t step, const char *name,
                size_t from_end);

/* Saves step 1, drained, and step 2 when the slow tier is gone. */
void tiers_lose_slow(lull_ckpt_t *ckpt);

/* Storage calls whose every new directory in tiers_slow fails, or not. */
void tiers_refuse_slow(bool on);

#endif
