/* base: memory in large pages. */
#include <stdint.h>

#include "base/pages.h"
#include "test.h"

static void pages_are_zeros_of_ones_own(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, 100000, (size_t)5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = lull__pages_alloc(sizes[i]);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 4096, 0);
        for (size_t at = 0; at < sizes[i]; at++) {
            if (data[at] != 0)
                fail_msg("byte %zu of %zu is %d", at, sizes[i], data[at]);
            data[at] = 1;
        }
        lull__pages_free(data, sizes[i]);
    }
    lull__pages_free(NULL, 4096);
}

static void too_much_is_refused(void **state) {
    (void)state;
    assert_null(lull__pages_alloc(SIZE_MAX));
    assert_null(lull__pages_alloc(SIZE_MAX - ((size_t)2 << 20)));
    assert_null(lull__pages_alloc(SIZE_MAX / 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_zeros_of_ones_own),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
