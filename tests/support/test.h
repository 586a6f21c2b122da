/* cmocka with the headers that it wants before it, in the order it wants. */
#ifndef TEST_H
#define TEST_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <lull/status.h>

#define assert_ok(call)                                                        \
    do {                                                                       \
        lull_status_t assert_ok_status_ = (call);                              \
        if (assert_ok_status_ != LULL_OK)                                      \
            fail_msg("%s: %s: %s", #call, lull_status_name(assert_ok_status_), \
                     lull_last_error());                                       \
    } while (0)

/* The call fails with this status, and its sentence contains `word`. */
#define assert_fails(call, expected, word)                                   \
    do {                                                                     \
        lull_status_t assert_fails_status_ = (call);                         \
        if (assert_fails_status_ != (expected))                              \
            fail_msg("%s: %s, expected %s: %s", #call,                       \
                     lull_status_name(assert_fails_status_),                 \
                     lull_status_name(expected), lull_last_error());         \
        if (strstr(lull_last_error(), (word)) == NULL)                       \
            fail_msg("%s: '%s' does not say '%s'", #call, lull_last_error(), \
                     (word));                                                \
    } while (0)

#include <string.h>

#endif
