/* Power loss after every storage call of a save by two ranks, and of the
 * cleaning up by the run after one that died at any of them, with what was not
 * synced dropped, kept or mixed: after the restart the previous checkpoint or
 * the new one loads, verified, never a mixture. */
#include <string.h>

#include "ckpt.h"
#include "power_room.h"
#include "powerio.h"
#include "support.h"
#include "test.h"

#define ROWS 600

static void fill(uint32_t *rows, uint64_t version) {
    test_fill(rows, ROWS * sizeof *rows, version);
}

static void save_both(lull_ckpt_t **ranks, uint64_t step, uint64_t version) {
    static uint32_t rows[ROWS];
    fill(rows, version);
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_tensor_t tensor =
            test_tensor("rows", LULL_F32, ROWS / 2, rows + r * (ROWS / 2));
        tensor.global_shape[0] = ROWS;
        tensor.offset[0] = r * (ROWS / 2);
        lull_ckpt_state_t host = {"version", &version, sizeof version, false};
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = step;
        save.tensors = &tensor;
        save.tensor_count = 1;
        save.states = &host;
        save.state_count = 1;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
}

/* The version that a checkpoint holds, all of it. */
static uint64_t version_of(lull_ckpt_id_t id) {
    static uint32_t expected[ROWS], back[ROWS];
    lull_ckpt_info_t *info;
    uint64_t version = 0;
    size_t n;
    assert_ok(lull_ckpt_info_open(power_image, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_ok(
        lull_ckpt_info_state(info, "version", 0, &version, sizeof version, &n));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "rows";
    slice.dtype = LULL_F32;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = ROWS;
    slice.data = back;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, &slice, 1, &load));
    fill(expected, version);
    assert_memory_equal(back, expected, sizeof back);
    lull_ckpt_info_destroy(info);
    return version;
}

static uint64_t newest(void) {
    lull_ckpt_id_t id;
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    assert_ok(lull_ckpt_find(power_image, &find, &id));
    return version_of(id);
}

/* Nothing under a good name is bad. */
static void all_listed_are_whole(void) {
    lull_ckpt_entry_t *entries;
    size_t count;
    assert_ok(lull_ckpt_list(power_image, &entries, &count));
    for (size_t i = 0; i < count; i++) {
        if (entries[i].state != LULL_OK)
            fail_msg("%s: %s", entries[i].name, entries[i].why);
        (void)version_of(entries[i].id);
    }
    lull_ckpt_entries_free(entries);
}

static void open_both(const char *dir, const char *run_id, uint32_t keep_last,
                      const char *codec, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(dir, r, 2);
        options.run_id = run_id;
        options.keep_last = keep_last;
        options.codec = codec;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

static void close_both(lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

/* What a restart does: looks, opens, saves on. */
static uint64_t restart(bool look_before_open) {
    uint64_t before = 0, step = 77, after;
    if (look_before_open) {
        before = newest();
        all_listed_are_whole();
    }
    lull_ckpt_t *ranks[2];
    open_both(power_image, "next", 0, NULL, ranks);
    after = newest();
    if (look_before_open)
        assert_int_equal(after, before);
    all_listed_are_whole();
    assert_int_equal(test_count(power_image, "."), 1);
    save_both(ranks, step, 1000);
    close_both(ranks);
    assert_int_equal(newest(), 1000);
    return after;
}

#define SAVES 3

typedef struct scenario {
    const char *name;
    uint64_t steps[SAVES]; /* saved one after the other; version i + 1 */
    uint32_t keep_last;
    bool exchange;
    const char *codec;
} scenario_t;

/* Runs it. In told: how many calls there were when rank 0 said of each save
 * that it is committed; from there on it must be there. */
static powerio_t *run(const scenario_t *scenario, size_t told[SAVES]) {
    size_t waited[SAVES], verdicts = 0;
    powerio_t *power = powerio_create(power_live, scenario->exchange);
    lull_ckpt_t *ranks[2];
    lull__io_set_default(powerio_io(power));
    open_both(power_live, "run", scenario->keep_last, scenario->codec, ranks);
    for (size_t i = 0; i < SAVES; i++) {
        save_both(ranks, scenario->steps[i], i + 1);
        waited[i] = powerio_count(power);
    }
    close_both(ranks);
    lull__io_set_default(power_unsynced());
    size_t count = powerio_count(power);
    for (size_t i = 0; i < count; i++)
        if (strstr(powerio_describe(power, i), "rename tmp-verdict") != NULL) {
            assert_true(verdicts < SAVES && i < waited[verdicts]);
            told[verdicts++] = i + 1;
        }
    assert_int_equal(verdicts, SAVES);
    printf("%s: %zu calls\n", scenario->name, count);
    return power;
}

/* The version after a loss of power: told of, or the next one. */
static void check(powerio_t *power, const size_t told[SAVES], size_t calls,
                  int loss, uint64_t version) {
    size_t least = 1;
    while (least < SAVES && calls >= told[least])
        least++;
    if (version < least || version > least + 1)
        fail_msg("after call %zu (%s), loss %d: version %d, %zu was committed",
                 calls, powerio_describe(power, calls - 1), loss, (int)version,
                 least);
}

static void lose_power_everywhere(const scenario_t *scenario) {
    size_t told[SAVES];
    powerio_t *power = run(scenario, told);
    uint64_t seed = test_seed();
    for (size_t calls = told[0]; calls <= powerio_count(power); calls++)
        for (int loss = POWER_DROP; loss <= POWER_MIX + 2; loss++) {
            power_loss_t how =
                loss > POWER_MIX ? POWER_MIX : (power_loss_t)loss;
            powerio_rebuild(power, calls, how, test_random(&seed), power_image);
            check(power, told, calls, loss, restart(scenario->exchange));
            test_dir_drop(power_image);
        }
    powerio_destroy(power);
}

/* The run dies after any call; the next one cleans up, and what the first has
 * not synced is lost with the power after any call of that. */
static void lose_power_in_recovery(const scenario_t *scenario) {
    size_t told[SAVES], images = 0;
    powerio_t *power = run(scenario, told);
    uint64_t seed = test_seed();
    for (size_t calls = told[0]; calls <= powerio_count(power); calls++) {
        lull_ckpt_t *ranks[2];
        powerio_t *next = powerio_resume(power, calls, power_image);
        lull__io_set_default(powerio_io(next));
        open_both(power_image, "next", scenario->keep_last, NULL, ranks);
        close_both(ranks);
        lull__io_set_default(power_unsynced());
        test_dir_drop(power_image);
        for (size_t at = calls + 1; at <= powerio_count(next); at++)
            for (int loss = POWER_DROP; loss <= POWER_MIX; loss += POWER_MIX) {
                powerio_rebuild(next, at, (power_loss_t)loss,
                                test_random(&seed), power_image);
                check(power, told, calls, loss, newest());
                test_dir_drop(power_image);
                images++;
            }
        powerio_destroy(next);
    }
    printf("%zu losses of power\n", images);
    powerio_destroy(power);
}

static const scenario_t newer_step = {"a newer step", {1, 2, 3}, 0, true, NULL};
static const scenario_t coded = {
    "a newer step, coded", {1, 2, 3}, 0, true, "weights=expo"};
static const scenario_t same_step = {"the same step", {1, 1, 1}, 0, true, NULL};
static const scenario_t without_exchange = {
    "the same step without exchange", {1, 1, 1}, 0, false, NULL};
static const scenario_t retaining = {"retention", {3, 2, 1}, 1, true, NULL};

static void a_newer_step(void **state) {
    (void)state;
    lose_power_everywhere(&newer_step);
}

static void a_newer_step_that_is_coded(void **state) {
    (void)state;
    lose_power_everywhere(&coded);
}

static void the_same_step(void **state) {
    (void)state;
    lose_power_everywhere(&same_step);
}

static void the_same_step_without_exchange(void **state) {
    (void)state;
    lose_power_everywhere(&without_exchange);
}

static void retention(void **state) {
    (void)state;
    lose_power_everywhere(&retaining);
}

static void while_the_next_run_cleans_up(void **state) {
    (void)state;
    lose_power_in_recovery(&same_step);
}

static void while_it_puts_an_old_one_back(void **state) {
    (void)state;
    lose_power_in_recovery(&without_exchange);
}

static void while_it_goes_on_deleting(void **state) {
    (void)state;
    lose_power_in_recovery(&retaining);
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, power_room_make, power_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(a_newer_step),
        TEST(a_newer_step_that_is_coded),
        TEST(the_same_step),
        TEST(the_same_step_without_exchange),
        TEST(retention),
        TEST(while_the_next_run_cleans_up),
        TEST(while_it_puts_an_old_one_back),
        TEST(while_it_goes_on_deleting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
