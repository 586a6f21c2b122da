/* A storage call, or an allocation, of a drain fails: each in turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "ckpt.h"
#include "faultio.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

static faultio_t fault;

#define NO_MEMORY (-1) /* an error of one_fails */

/* The n-th call since open fails. True: one did. */
static bool one_fails(uint64_t n, int error, uint32_t merge) {
    tiers_setting_t plain = {.world = 2},
                    setting = {.tiers = {tiers_at(tiers_slow)},
                               .count = 1,
                               .keep_last = 1,
                               .run_id = "drains"};
    lull_ckpt_t *ranks[2], *ckpt;
    setting.tiers[0].files = merge;
    faultio_arm(&fault, 0, 0);
    tiers_open(&plain, ranks);
    test_tiers_save(ranks, 2, 1, 1);
    tiers_close(&plain, ranks);
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    if (error == NO_MEMORY)
        allocations_arm(n);
    else
        faultio_arm(&fault, n, error);
    lull_status_t status = lull_ckpt_open(&options, &ckpt);
    if (status == LULL_OK) {
        status = lull_ckpt_wait_drained(ckpt, LULL_FOREVER);
        if (status != LULL_OK && error != NO_MEMORY &&
            strstr(lull_last_error(), tiers_base) == NULL)
            fail_msg("call %d: '%s' says no path", (int)n, lull_last_error());
        (void)lull_ckpt_close(ckpt);
        lull_ckpt_destroy(ckpt);
    }
    bool hit =
        error == NO_MEMORY ? allocations_count() >= n : faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    allocations_arm(0);
    assert_int_equal(test_tiers_newest(tiers_fast), 1);
    test_tiers_all_whole(tiers_slow);
    tiers_open(&setting, &ckpt);
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 1);
    assert_int_equal(test_count(tiers_slow, "."), 1);
    assert_int_equal(test_count(tiers_fast, "."), 1);
    tiers_room_empty();
    return hit;
}

static void any_call_of_a_drain_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    faultio_init(&fault);
    lull__io_set_default(&fault.io);
    uint64_t n = 1;
    while (one_fails(n, errors[n % 3], n % 2))
        n++;
    assert_true(n > 60);
}

static void any_allocation_of_a_drain_may_fail(void **state) {
    (void)state;
    faultio_init(&fault);
    uint64_t n = 1;
    while (one_fails(n, NO_MEMORY, n % 2))
        n++;
    assert_true(n > 60);
}

static void short_transfers_and_interrupts(void **state) {
    (void)state;
    faultio_init(&fault);
    fault.ops = FAULT_READ | FAULT_WRITE;
    lull__io_set_default(&fault.io);
    for (uint64_t n = 1; one_fails(n, 0, n % 2); n += 3)
        continue;
    for (uint64_t n = 1; one_fails(n, EINTR, n % 2); n += 3)
        continue;
}

int main(void) {
    /* Many drains: a disk would only add time. */
    ckpt_room_in_memory();
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tiers_room_make, tiers_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(any_call_of_a_drain_may_fail),
        TEST(any_allocation_of_a_drain_may_fail),
        TEST(short_transfers_and_interrupts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
