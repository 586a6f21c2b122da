/* Power loss after every storage call of a save by two ranks, with what was
 * not synced dropped, kept or mixed: after the restart the previous checkpoint
 * or the new one loads, verified, never a mixture. */
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
            test_tensor("rows", LULL_U32, ROWS / 2, rows + r * (ROWS / 2));
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
    slice.dtype = LULL_U32;
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

/* What a restart does: looks, opens, saves on. */
static uint64_t restart(bool look_before_open) {
    uint64_t before = 0, step = 77, after;
    if (look_before_open) {
        before = newest();
        all_listed_are_whole();
    }
    lull_ckpt_t *ranks[2];
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(power_image, r, 2);
        options.run_id = "next";
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
    after = newest();
    if (look_before_open)
        assert_int_equal(after, before);
    all_listed_are_whole();
    assert_int_equal(test_count(power_image, "."), 1);
    save_both(ranks, step, 1000);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
    assert_int_equal(newest(), 1000);
    return after;
}

typedef struct scenario {
    const char *name;
    uint64_t steps[4]; /* saved one after the other; version i + 1 */
    size_t count;
    uint32_t keep_last;
    bool exchange;
} scenario_t;

static void lose_power_everywhere(const scenario_t *scenario) {
    size_t committed[4];
    powerio_t *power = powerio_create(power_live, scenario->exchange);
    lull_ckpt_t *ranks[2];
    lull__io_set_default(powerio_io(power));
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(power_live, r, 2);
        options.keep_last = scenario->keep_last;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
    for (size_t i = 0; i < scenario->count; i++) {
        save_both(ranks, scenario->steps[i], i + 1);
        committed[i] = powerio_count(power);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
    lull__io_set_default(power_unsynced());
    uint64_t seed = test_seed();
    size_t count = powerio_count(power);
    printf("%s: %zu calls\n", scenario->name, count);
    for (size_t calls = committed[0]; calls <= count; calls++)
        for (int loss = POWER_DROP; loss <= POWER_MIX + 2; loss++) {
            size_t least = 1;
            while (least < scenario->count && calls >= committed[least])
                least++;
            power_loss_t how =
                loss > POWER_MIX ? POWER_MIX : (power_loss_t)loss;
            powerio_rebuild(power, calls, how, test_random(&seed), power_image);
            uint64_t version = restart(scenario->exchange);
            if (version < least || version > least + 1)
                fail_msg("after call %zu (%s), loss %d: version %d, %zu "
                         "was committed",
                         calls, powerio_describe(power, calls - 1), loss,
                         (int)version, least);
            test_dir_drop(power_image);
        }
    powerio_destroy(power);
}

static void a_newer_step(void **state) {
    (void)state;
    lose_power_everywhere(&(scenario_t){"a newer step", {1, 2, 3}, 3, 0, true});
}

static void the_same_step(void **state) {
    (void)state;
    lose_power_everywhere(
        &(scenario_t){"the same step", {1, 1, 1}, 3, 0, true});
}

static void the_same_step_without_exchange(void **state) {
    (void)state;
    lose_power_everywhere(&(scenario_t){
        "the same step without exchange", {1, 1, 1}, 3, 0, false});
}

static void retention(void **state) {
    (void)state;
    lose_power_everywhere(&(scenario_t){"retention", {3, 2, 1}, 3, 1, true});
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, power_room_make, power_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(a_newer_step),
        TEST(the_same_step),
        TEST(the_same_step_without_exchange),
        TEST(retention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
