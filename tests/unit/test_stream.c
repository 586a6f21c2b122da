/* Copies past the cache are copies: every size and alignment, and not a byte
 * more. */
#include "base/stream.h"

#include <stdint.h>
#include <string.h>

#include "support.h"
#include "test.h"

static void copies_exactly(void **state) {
    (void)state;
    enum { MOST = 4096, ROOM = MOST + 128 };
    static _Alignas(64) unsigned char from[ROOM], to[ROOM], want[ROOM];
    uint64_t seed = test_seed();
    for (int round = 0; round < 2000; round++) {
        size_t bytes = test_random(&seed) % (MOST + 1);
        size_t a = test_random(&seed) % 64, b = test_random(&seed) % 64;
        if (round % 2 == 0)
            b = b / 16 * 16;
        for (size_t i = 0; i < ROOM; i++) {
            from[i] = (unsigned char)test_random(&seed);
            to[i] = want[i] = (unsigned char)~from[i];
        }
        memcpy(want + b, from + a, bytes);
        lull__stream_copy(to + b, from + a, bytes);
        lull__stream_fence();
        assert_memory_equal(to, want, ROOM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_exactly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
