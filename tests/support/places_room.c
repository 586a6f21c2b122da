/* Engines whose ranks write to several places. */
#include "places_room.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "test.h"

agree_room_t places_line;

static uint32_t world_of(const places_setting_t *setting) {
    return setting->world ? setting->world : PLACES_WORLD;
}

const char *places_dir(const places_setting_t *setting, uint32_t rank) {
    static char paths[8][400];
    unsigned place = setting->scattered
                         ? rank % setting->places
                         : rank * setting->places / world_of(setting);
    snprintf(paths[place], sizeof paths[place], "%s/node%u", setting->base,
             place);
    return paths[place];
}

const char *places_tier(const places_setting_t *setting, size_t index) {
    static char paths[2][400];
    snprintf(paths[index], sizeof paths[index], "%s/%s", setting->base,
             setting->tiers[index].dir);
    return paths[index];
}

typedef struct opener {
    lull_ckpt_options_t options;
    lull_ckpt_t *ckpt;
    places_opened_t opened;
} opener_t;

static void *open_one(void *arg) {
    opener_t *opener = arg;
    opener->opened.status = lull_ckpt_open(&opener->options, &opener->ckpt);
    snprintf(opener->opened.why, sizeof opener->opened.why, "%s",
             lull_last_error());
    return NULL;
}

static lull_ckpt_options_t options_of(const places_setting_t *setting,
                                      uint32_t rank,
                                      const lull_ckpt_tier_t *tiers) {
    lull_ckpt_options_t options =
        test_options(places_dir(setting, rank), rank, world_of(setting));
    options.run_id = setting->run_id;
    options.agree = agree_room_call;
    options.agree_ctx = &places_line;
    options.keep_last = setting->keep_last;
    options.codec = setting->codec;
    options.tiers = tiers;
    options.tier_count = rank == setting->tierless ? 0 : setting->count;
    if (setting->timeout_s > 0)
        options.commit_timeout_s = setting->timeout_s;
    return options;
}

void places_try(const places_setting_t *setting, lull_ckpt_t **ranks,
                places_opened_t *opened) {
    opener_t openers[8];
    pthread_t threads[8];
    lull_ckpt_tier_t tiers[2];
    uint32_t world = world_of(setting);
    agree_room_reset(&places_line);
    for (size_t i = 0; i < setting->count; i++) {
        tiers[i] = setting->tiers[i];
        tiers[i].dir = places_tier(setting, i);
    }
    for (uint32_t r = 0; r < world; r++)
        openers[r] = (opener_t){.options = options_of(setting, r, tiers)};
    for (uint32_t r = 0; r < world; r++)
        if (pthread_create(&threads[r], NULL, open_one, &openers[r]) != 0)
            fail_msg("a thread");
    for (uint32_t r = 0; r < world; r++) {
        pthread_join(threads[r], NULL);
        ranks[r] = openers[r].ckpt;
        opened[r] = openers[r].opened;
    }
}

void places_open(const places_setting_t *setting, lull_ckpt_t **ranks) {
    places_opened_t opened[8];
    places_try(setting, ranks, opened);
    for (uint32_t r = 0; r < world_of(setting); r++)
        if (opened[r].status != LULL_OK)
            fail_msg("rank %u: %s", r, opened[r].why);
}

void places_close(const places_setting_t *setting, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < world_of(setting); r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}
