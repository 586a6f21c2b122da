/* Power loss, or a kill, after every storage call of a run whose two places
 * drain to a tier: after the restart what was committed is there, in the places
 * or in the tier, what was drained is in the tier whatever became of the
 * places, nothing under a good name is bad, and the next run takes the drains
 * up. And after every call of that. */
#include <string.h>

#include "ckpt.h"
#include "places_room.h"
#include "power_room.h"
#include "powerio.h"
#include "support.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

#define WORLD 2

static int set_up(void **state) {
    test_tiers_rows = 2000;
    agree_room_init(&places_line);
    return power_room_make(state);
}

static int tear_down(void **state) {
    agree_room_fini(&places_line);
    return power_room_drop(state);
}

typedef struct scenario {
    const char *name;
    uint64_t steps[2]; /* saved one after the other; version i + 1 */
    uint32_t keep;     /* in places and tier */
} scenario_t;

static places_setting_t setting_in(const scenario_t *scenario, const char *root,
                                   const char *run_id) {
    places_setting_t setting = PLACES_SETTING_INIT(root);
    setting.world = WORLD;
    setting.run_id = run_id;
    setting.tiers[0] = tiers_at("slow");
    setting.tiers[0].keep_last = scenario->keep;
    setting.keep_last = scenario->keep;
    setting.count = 1;
    return setting;
}

/* Counts of calls: when each save was known to be committed, and drained. */
typedef struct marks {
    size_t opened, told[2], drained[2];
} marks_t;

static powerio_t *run(const scenario_t *scenario, marks_t *marks) {
    powerio_t *power = powerio_create(power_live, true);
    places_setting_t setting = setting_in(scenario, power_live, "first");
    lull_ckpt_t *ranks[WORLD];
    lull__io_set_default(powerio_io(power));
    places_open(&setting, ranks);
    marks->opened = powerio_count(power);
    for (size_t i = 0; i < 2; i++) {
        test_tiers_save(ranks, WORLD, scenario->steps[i], i + 1);
        marks->told[i] = powerio_count(power);
        assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
        marks->drained[i] = powerio_count(power);
    }
    places_close(&setting, ranks);
    lull__io_set_default(power_unsynced());
    printf("%s: %zu calls\n", scenario->name, powerio_count(power));
    return power;
}

/* How many of two marks were passed. */
static uint64_t passed(const size_t marks[2], size_t calls) {
    return (calls >= marks[0]) + (uint64_t)(calls >= marks[1]);
}

/* The next run: recovers, drains. Then all is in the tier. */
static uint64_t go_on(const places_setting_t *setting) {
    const char *slow = places_tier(setting, 0);
    lull_ckpt_t *ranks[WORLD];
    lull_ckpt_id_t tier;
    lull_ckpt_info_t *info;
    places_open(setting, ranks);
    places_close(setting, ranks);
    uint64_t version = test_tiers_newest(slow);
    test_tiers_all_whole(slow);
    assert_int_equal(test_count(slow, "."), 1);
    for (uint32_t r = 0; version > 0 && r < WORLD; r++) {
        /* One may have a newer one, that never was in both. */
        assert_ok(lull_ckpt_find(slow, NULL, &tier));
        assert_ok(lull_ckpt_info_open(places_dir(setting, r), tier, &info));
        lull_ckpt_info_destroy(info);
        assert_int_equal(test_count(places_dir(setting, r), "."), 1);
    }
    return version;
}

static void check(powerio_t *power, const marks_t *marks, size_t calls,
                  uint64_t version) {
    uint64_t least = passed(marks->told, calls);
    if (version < least || version > least + 1)
        fail_msg("after call %zu (%s): version %d, %d committed", calls,
                 powerio_describe(power, calls - 1), (int)version, (int)least);
}

/* What the tier alone has. */
static void check_tier(powerio_t *power, const marks_t *marks, size_t calls,
                       const places_setting_t *setting) {
    test_tiers_all_whole(places_tier(setting, 0));
    if (test_tiers_newest(places_tier(setting, 0)) <
        passed(marks->drained, calls))
        fail_msg("after call %zu (%s): not in the tier", calls,
                 powerio_describe(power, calls - 1));
}

static void lose_power_everywhere(const scenario_t *scenario) {
    marks_t marks;
    powerio_t *power = run(scenario, &marks);
    places_setting_t setting = setting_in(scenario, power_image, "next");
    uint64_t seed = test_seed();
    for (size_t calls = marks.opened; calls <= powerio_count(power); calls++)
        for (int loss = POWER_DROP; loss <= POWER_MIX; loss++) {
            powerio_rebuild(power, calls, (power_loss_t)loss,
                            test_random(&seed), power_image);
            check_tier(power, &marks, calls, &setting);
            check(power, &marks, calls, go_on(&setting));
            test_dir_drop(power_image);
        }
    powerio_destroy(power);
}

/* The run dies after a call, every seventh one; the next takes its drains up,
 * and power is lost after any call of that. */
static void lose_power_in_recovery(const scenario_t *scenario) {
    marks_t marks;
    size_t images = 0;
    powerio_t *power = run(scenario, &marks);
    places_setting_t setting = setting_in(scenario, power_image, "next");
    places_setting_t after = setting_in(scenario, power_image, "last");
    uint64_t seed = test_seed();
    for (size_t calls = marks.told[0]; calls <= powerio_count(power);
         calls += 7) {
        lull_ckpt_t *ranks[WORLD];
        powerio_t *next = powerio_resume(power, calls, power_image);
        lull__io_set_default(powerio_io(next));
        places_open(&setting, ranks);
        places_close(&setting, ranks);
        lull__io_set_default(power_unsynced());
        test_dir_drop(power_image);
        for (size_t at = calls + 1; at <= powerio_count(next);
             at += 2, images++) {
            powerio_rebuild(next, at, at % 4 < 2 ? POWER_DROP : POWER_MIX,
                            test_random(&seed), power_image);
            check_tier(power, &marks, calls, &setting);
            check(power, &marks, calls, go_on(&after));
            test_dir_drop(power_image);
        }
        powerio_destroy(next);
    }
    printf("%zu losses of power\n", images);
    powerio_destroy(power);
}

static const scenario_t newer = {"drains and retention", {1, 2}, 1},
                        same = {"the same step", {1, 1}, 0};

static void drains_and_retention(void **state) {
    (void)state;
    lose_power_everywhere(&newer);
}

static void the_same_step(void **state) {
    (void)state;
    lose_power_everywhere(&same);
}

static void while_the_next_run_drains(void **state) {
    (void)state;
    lose_power_in_recovery(&newer);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(drains_and_retention),
        TEST(the_same_step),
        TEST(while_the_next_run_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
