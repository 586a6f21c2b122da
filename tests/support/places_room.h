/* Engines of one process whose ranks write to several places, with tiers that
 * all see. */
#ifndef TEST_PLACES_ROOM_H
#define TEST_PLACES_ROOM_H

#include <lull/ckpt.h>

#include "agree_room.h"

#define PLACES_WORLD 4

/* Rank r's directory is `base`/nodeN; N is r * places / world, or with
 * `scattered` r % places. Slower tiers are in `base`, too. */
typedef struct places_setting {
    const char *base;
    unsigned places;
    bool scattered;
    uint32_t world; /* 0: PLACES_WORLD */
    const char *run_id;
    lull_ckpt_tier_t tiers[2]; /* dir: of `base` */
    size_t count;
    uint32_t keep_last;
    const char *codec;
    double timeout_s;  /* 0: as test_options */
    uint32_t tierless; /* this rank has none; UINT32_MAX: each has */
} places_setting_t;

#define PLACES_SETTING_INIT(where) \
    { .base = (where), .places = 2, .run_id = "run", .tierless = UINT32_MAX }

extern agree_room_t places_line;

/* BASE/nodeN of a rank, BASE/NAME of a tier. */
const char *places_dir(const places_setting_t *setting, uint32_t rank);
const char *places_tier(const places_setting_t *setting, size_t index);

/* Opens all; status and sentence of each rank in statuses[], whys[]. */
typedef struct places_opened {
    lull_status_t status;
    char why[600];
} places_opened_t;
void places_try(const places_setting_t *setting, lull_ckpt_t **ranks,
                places_opened_t *opened);
void places_open(const places_setting_t *setting, lull_ckpt_t **ranks);
/* From rank 0 on. */
void places_close(const places_setting_t *setting, lull_ckpt_t **ranks);

#endif
