/* The staging ring: traces, back-pressure, cancelling; devices; arenas. */
#include <lull/device.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/thread.h"
#include "ckpt/ring.h"
#include "support.h"
#include "test.h"

#define MIB ((uint64_t)1 << 20)

static lull__ring_t *make(uint64_t budget) {
    lull__ring_t *ring = NULL;
    assert_ok(lull__ring_create(lull__device_host(), budget, &ring));
    return ring;
}

static void sizes_follow_the_budget(void **state) {
    (void)state;
    lull__ring_t *ring = make(MIB);
    assert_int_equal(lull__ring_slots(ring), 1);
    assert_int_equal(lull__ring_bytes(ring), MIB);
    lull__ring_destroy(ring);
    ring = make(20 * MIB + 17);
    assert_int_equal(lull__ring_slot_bytes(ring), 2 * MIB);
    assert_int_equal(lull__ring_slots(ring), 10);
    lull__ring_destroy(ring);
    ring = make(64 * MIB);
    assert_int_equal(lull__ring_slot_bytes(ring), 8 * MIB);
    lull__ring_destroy(ring);
    assert_fails(lull__ring_create(lull__device_host(), MIB - 1, &ring),
                 LULL_ERR_INVALID, "buffer_bytes");
    lull__ring_destroy(NULL);
}

/* Allocations of `n` slots; the oldest is freed first, or any one. */
typedef struct grant {
    uint32_t slots[128], count;
} grant_t;

static bool taken[128];

static bool grant(lull__ring_t *ring, grant_t *out, uint32_t n) {
    for (out->count = 0; out->count < n; out->count++) {
        uint32_t *slot = &out->slots[out->count];
        if (!lull__ring_try_take(ring, slot))
            break;
        assert_false(taken[*slot]);
        taken[*slot] = true;
        memset(lull__ring_data(ring, *slot), (int)*slot, 16);
    }
    return out->count == n;
}

static void give_back(lull__ring_t *ring, grant_t *held) {
    while (held->count > 0) {
        uint32_t slot = held->slots[--held->count];
        const unsigned char *data = lull__ring_data(ring, slot);
        assert_int_equal(data[0], slot);
        assert_int_equal(data[15], slot);
        taken[slot] = false;
        lull__ring_give(ring, slot);
    }
}

/* 60, 30, free, 50, free, 40, free, 45, 15 of 100: a ring that keeps one head
 * and one tail hands out bytes twice here. */
static void the_trace_that_breaks_others(void **state) {
    (void)state;
    lull__ring_t *ring = make(10 * MIB);
    assert_int_equal(lull__ring_slots(ring), 10);
    grant_t a = {0}, b = {0};
    assert_true(grant(ring, &a, 6));
    assert_true(grant(ring, &b, 3));
    give_back(ring, &a);
    assert_true(grant(ring, &a, 5));
    give_back(ring, &b);
    assert_true(grant(ring, &b, 4));
    give_back(ring, &a);
    assert_true(grant(ring, &a, 4));
    grant_t c = {0};
    assert_true(grant(ring, &c, 2));
    grant_t none = {0};
    assert_false(grant(ring, &none, 1));
    give_back(ring, &c);
    give_back(ring, &b);
    give_back(ring, &a);
    assert_int_equal(lull__ring_peak(ring), 10 * MIB);
    lull__ring_destroy(ring);
}

static void random_traces_never_overlap(void **state) {
    (void)state;
    uint64_t random = test_seed();
    lull__ring_t *ring = make(60 * MIB);
    grant_t held[16] = {0};
    for (int i = 0; i < 20000; i++) {
        grant_t *one = &held[test_random(&random) % 16];
        if (one->count > 0)
            give_back(ring, one);
        else
            (void)grant(ring, one, (uint32_t)(test_random(&random) % 6));
    }
    for (int i = 0; i < 16; i++)
        give_back(ring, &held[i]);
    assert_true(grant(ring, &held[0], lull__ring_slots(ring)));
    give_back(ring, &held[0]);
    lull__ring_destroy(ring);
}

static double nap_s = 0.01;

static void *give_later(void *arg) {
    lull__sleep(nap_s);
    lull__ring_give(arg, 0);
    return NULL;
}

static void *cancel_later(void *arg) {
    lull__sleep(nap_s);
    lull__ring_cancel(arg);
    return NULL;
}

static void a_full_ring_waits_and_counts(void **state) {
    (void)state;
    lull__ring_t *ring = make(MIB);
    uint32_t slot;
    double waited = 0;
    assert_true(lull__ring_take(ring, &slot, &waited));
    assert_true(waited == 0);
    pthread_t thread;
    /* On a busy machine it may be given back before it is asked for. */
    for (; waited == 0; nap_s *= 2) {
        assert_ok(lull__thread_start(&thread, "t", NULL, give_later, ring));
        assert_true(lull__ring_take(ring, &slot, &waited));
        pthread_join(thread, NULL);
    }
    assert_ok(lull__thread_start(&thread, "t", NULL, cancel_later, ring));
    assert_false(lull__ring_take(ring, &slot, &waited));
    pthread_join(thread, NULL);
    lull__ring_destroy(ring);
}

static void devices_open_by_name(void **state) {
    (void)state;
    lull_device_t *device;
    assert_ok(lull_device_open("host", &device));
    assert_string_equal(lull_device_name(device), "host");
    lull_device_destroy(device);
    lull_device_destroy(NULL);
    assert_fails(lull_device_open("abacus", &device), LULL_ERR_NOT_FOUND,
                 "abacus");
    assert_fails(lull_device_open("host:1", &device), LULL_ERR_NOT_FOUND, "1");
    assert_fails(lull_device_open(NULL, &device), LULL_ERR_INVALID, "name");
}

static void arenas_align_and_grow(void **state) {
    (void)state;
    lull__arena_t arena = {0};
    for (size_t n = 0; n < 3000; n++) {
        char *data = lull__arena_alloc(&arena, n * 37);
        assert_int_equal((uintptr_t)data % 16, 0);
        memset(data, 1, n * 37);
    }
    assert_string_equal(lull__arena_text(&arena, "text"), "text");
    assert_null(lull__arena_alloc(&arena, SIZE_MAX));
    lull__arena_free(&arena);
    lull__arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_budget),
        cmocka_unit_test(the_trace_that_breaks_others),
        cmocka_unit_test(random_traces_never_overlap),
        cmocka_unit_test(a_full_ring_waits_and_counts),
        cmocka_unit_test(devices_open_by_name),
        cmocka_unit_test(arenas_align_and_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
