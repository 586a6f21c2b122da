/* Power loss, or a kill, after every storage call of a run with two tiers:
 * after the restart the newest over both is what was committed, what was
 * drained is in the slow tier whatever became of the fast one, nothing under a
 * good name is bad, and the next run takes the drains up. And after every call
 * of that. */
#include <string.h>

#include "ckpt.h"
#include "power_room.h"
#include "powerio.h"
#include "support.h"
#include "test.h"
#include "tiers.h"

static int set_up(void **state) {
    test_tiers_rows = 2000;
    return power_room_make(state);
}

typedef struct places {
    char fast[320], slow[320];
} places_t;

static places_t places_in(const char *root) {
    places_t places;
    snprintf(places.fast, sizeof places.fast, "%s/fast", root);
    snprintf(places.slow, sizeof places.slow, "%s/slow", root);
    return places;
}

typedef struct scenario {
    const char *name;
    uint64_t steps[3]; /* saved one after the other; version i + 1 */
    size_t count;
    uint32_t keep_fast, keep_slow, files;
    bool exchange;
} scenario_t;

static void open_both(const scenario_t *scenario, const places_t *places,
                      const char *run_id, uint32_t world, lull_ckpt_t **ranks) {
    lull_ckpt_tier_t tier = LULL_CKPT_TIER_INIT;
    tier.dir = places->slow;
    tier.keep_last = scenario->keep_slow;
    tier.files = scenario->files;
    for (uint32_t r = 0; r < world; r++) {
        lull_ckpt_options_t options = test_options(places->fast, r, world);
        options.run_id = run_id;
        options.keep_last = scenario->keep_fast;
        options.tiers = &tier;
        options.tier_count = 1;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

static void close_both(lull_ckpt_t **ranks, uint32_t world) {
    for (uint32_t r = 0; r < world; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

/* What a restart does: looks, opens, drains. Gives the newest version; that of
 * the slow tier alone in *slow. */
static uint64_t restart(const scenario_t *scenario, uint64_t *slow) {
    places_t places = places_in(power_image);
    lull_ckpt_t *ckpt;
    uint64_t before = test_tiers_newest_of(places.fast, places.slow);
    if (scenario->exchange) {
        test_tiers_all_whole(places.fast);
        test_tiers_all_whole(places.slow);
    }
    *slow = test_tiers_newest(places.slow);
    open_both(scenario, &places, "next", 1, &ckpt);
    close_both(&ckpt, 1);
    test_tiers_all_whole(places.fast);
    test_tiers_all_whole(places.slow);
    assert_int_equal(test_tiers_newest(places.fast), before);
    assert_int_equal(test_tiers_newest(places.slow), before);
    assert_int_equal(test_count(places.fast, "."), 1);
    assert_int_equal(test_count(places.slow, "."), 1);
    return before;
}

/* How many of `marks` were passed. */
static uint64_t passed(const size_t *marks, size_t count, size_t calls) {
    uint64_t n = 0;
    while (n < count && calls >= marks[n])
        n++;
    return n;
}

/* Counts of calls: when rank 0 said of each save that it is committed, and
 * when each was known to be drained. */
typedef struct marks {
    size_t told[3], drained[3];
} marks_t;

static powerio_t *run(const scenario_t *scenario, marks_t *marks) {
    size_t verdicts = 0;
    powerio_t *power = powerio_create(power_live, scenario->exchange);
    places_t places = places_in(power_live);
    lull_ckpt_t *ranks[2];
    lull__io_set_default(powerio_io(power));
    open_both(scenario, &places, "first", 2, ranks);
    for (size_t i = 0; i < scenario->count; i++) {
        test_tiers_save(ranks, 2, scenario->steps[i], i + 1);
        assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
        marks->drained[i] = powerio_count(power);
    }
    close_both(ranks, 2);
    lull__io_set_default(power_unsynced());
    size_t count = powerio_count(power);
    for (size_t i = 0; i < count; i++)
        if (strstr(powerio_describe(power, i), "rename tmp-verdict") != NULL) {
            assert_true(verdicts < scenario->count);
            marks->told[verdicts++] = i + 1;
        }
    assert_int_equal(verdicts, scenario->count);
    printf("%s: %zu calls\n", scenario->name, count);
    return power;
}

/* The newest over both tiers, and that of the slow one. */
typedef struct newest {
    uint64_t version, slow;
} newest_t;

/* After a loss of power `calls` calls into the first run. */
static void check(powerio_t *power, const scenario_t *scenario,
                  const marks_t *marks, size_t calls, newest_t newest) {
    uint64_t least = passed(marks->told, scenario->count, calls);
    uint64_t drained = passed(marks->drained, scenario->count, calls);
    if (newest.version < least || newest.version > least + 1 ||
        newest.slow < drained)
        fail_msg("after call %zu (%s): version %d, slow %d; %d committed, %d "
                 "drained",
                 calls, powerio_describe(power, calls - 1), (int)newest.version,
                 (int)newest.slow, (int)least, (int)drained);
}

static void lose_power_everywhere(const scenario_t *scenario) {
    marks_t marks;
    powerio_t *power = run(scenario, &marks);
    uint64_t seed = test_seed();
    for (size_t calls = marks.told[0]; calls <= powerio_count(power); calls++)
        for (int loss = POWER_DROP; loss <= POWER_MIX; loss++) {
            newest_t newest;
            powerio_rebuild(power, calls, (power_loss_t)loss,
                            test_random(&seed), power_image);
            newest.version = restart(scenario, &newest.slow);
            check(power, scenario, &marks, calls, newest);
            test_dir_drop(power_image);
        }
    powerio_destroy(power);
}

/* The run dies after a call, every third one; the next takes its drains up,
 * and power is lost after any call of that. */
static void lose_power_in_recovery(const scenario_t *scenario) {
    marks_t marks;
    size_t images = 0;
    powerio_t *power = run(scenario, &marks);
    places_t places = places_in(power_image);
    uint64_t seed = test_seed();
    for (size_t calls = marks.told[0]; calls <= powerio_count(power);
         calls += 3) {
        lull_ckpt_t *ckpt;
        powerio_t *next = powerio_resume(power, calls, power_image);
        lull__io_set_default(powerio_io(next));
        open_both(scenario, &places, "next", 1, &ckpt);
        close_both(&ckpt, 1);
        lull__io_set_default(power_unsynced());
        test_dir_drop(power_image);
        for (size_t at = calls + 1; at <= powerio_count(next); at++, images++) {
            power_loss_t loss = at % 2 ? POWER_DROP : POWER_MIX;
            powerio_rebuild(next, at, loss, test_random(&seed), power_image);
            newest_t newest = {test_tiers_newest_of(places.fast, places.slow),
                               test_tiers_newest(places.slow)};
            check(power, scenario, &marks, calls, newest);
            test_dir_drop(power_image);
        }
        powerio_destroy(next);
    }
    printf("%zu losses of power\n", images);
    powerio_destroy(power);
}

static void drains_and_retention(void **state) {
    (void)state;
    lose_power_everywhere(
        &(scenario_t){"drains and retention", {1, 2}, 2, 1, 1, 0, true});
}

static void merging_drains(void **state) {
    (void)state;
    lose_power_everywhere(
        &(scenario_t){"merging drains", {1, 2}, 2, 0, 0, 1, true});
}

static const scenario_t without_exchange = {
    "the same step without exchange", {1, 1}, 2, 0, 0, 1, false};

static void the_same_step_without_exchange(void **state) {
    (void)state;
    lose_power_everywhere(&without_exchange);
}

static void while_the_next_run_drains(void **state) {
    (void)state;
    lose_power_in_recovery(
        &(scenario_t){"drains and retention", {1, 2}, 2, 1, 1, 0, true});
}

static void while_it_drains_over_the_same_step(void **state) {
    (void)state;
    lose_power_in_recovery(&without_exchange);
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up, power_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(drains_and_retention),
        TEST(merging_drains),
        TEST(the_same_step_without_exchange),
        TEST(while_the_next_run_drains),
        TEST(while_it_drains_over_the_same_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
