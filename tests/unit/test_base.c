/* base: statuses, error sentences, settings, dtypes, log. */
#include <errno.h>
#include <locale.h>
#include <lull/dtype.h>
#include <lull/status.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "support.h"
#include "test.h"

static void status_names_and_texts(void **state) {
    (void)state;
    assert_string_equal(lull_status_name(LULL_OK), "LULL_OK");
    assert_string_equal(lull_status_name(LULL_ERR_IO), "LULL_ERR_IO");
    assert_string_equal(lull_status_name((lull_status_t)-999), "LULL_UNKNOWN");
    assert_int_equal(LULL_ERR_INTERNAL, -24);
}

static void errno_becomes_a_status(void **state) {
    (void)state;
    assert_int_equal(lull__fail_errno(EDQUOT, "%s", "f"), LULL_ERR_NO_SPACE);
    assert_int_equal(lull__fail_errno(EIO, "%s", "f"), LULL_ERR_IO);
    assert_non_null(strstr(lull_last_error(), "f: "));
    assert_int_equal(lull__fail(LULL_ERR_IO, "again %s", lull_last_error()),
                     LULL_ERR_IO);
    assert_non_null(strstr(lull_last_error(), "again f: "));
}

static void dtypes(void **state) {
    (void)state;
    lull_dtype_t dtype;
    uint64_t bytes;
    assert_ok(lull_dtype_parse("bf16", &dtype));
    assert_int_equal(dtype, LULL_BF16);
    assert_fails(lull_dtype_parse("f33", &dtype), LULL_ERR_NOT_FOUND, "f33");
    assert_ok(lull_dtype_bytes(LULL_F4, 2, &bytes));
    assert_int_equal(bytes, 1);
    assert_fails(lull_dtype_bytes(LULL_F4, 3, &bytes), LULL_ERR_INVALID, "F4");
    assert_fails(lull_dtype_bytes(LULL_F64, UINT64_MAX / 2, &bytes),
                 LULL_ERR_INVALID, "overflow");
}

static void settings_come_from_default_environment_program(void **state) {
    (void)state;
    lull_setting_t row;
    unsetenv("LULL_ISA");
    assert_string_equal(lull__setting(LULL__SETTING_ISA), "auto");
    setenv("LULL_ISA", "sse9", 1);
    assert_string_equal(lull__setting(LULL__SETTING_ISA), "auto");
    setenv("LULL_ISA", "avx2", 1);
    assert_ok(lull_setting_at(LULL__SETTING_ISA, &row));
    assert_string_equal(row.value, "avx2");
    assert_string_equal(row.source, "environment");
    assert_fails(lull_setting_set("isa", "mmx"), LULL_ERR_INVALID, "mmx");
    assert_fails(lull_setting_set("isb", "mmx"), LULL_ERR_NOT_FOUND, "isb");
    assert_ok(lull_setting_set("isa", "portable"));
    assert_string_equal(lull__setting(LULL__SETTING_ISA), "portable");
    assert_fails(lull_setting_at(LULL__SETTING_COUNT, &row), LULL_ERR_NOT_FOUND,
                 "settings");
}

static char logged[64];

static void keep(void *ctx, lull_log_level_t level, const char *line) {
    (void)ctx;
    (void)level;
    strncpy(logged, line, sizeof logged - 1);
}

static void log_goes_to_the_callback_up_to_its_level(void **state) {
    (void)state;
    lull__log(LULL_LOG_ERROR, "nobody listens");
    lull_log_set(keep, NULL, LULL_LOG_WARN);
    lull__log(LULL_LOG_INFO, "too quiet");
    assert_string_equal(logged, "");
    lull__log(LULL_LOG_WARN, "number %d", 7);
    assert_string_equal(logged, "number 7");
    lull_log_set(NULL, NULL, LULL_LOG_WARN);
}

/* Specs and sentences have points where the program's numbers have commas. */
static void numbers_under_a_decimal_comma(void **state) {
    (void)state;
    char text[32], *end;
    if (!test_decimal_comma())
        return;
    snprintf(text, sizeof text, "%g", 1.5);
    assert_string_equal(text, "1,5");
    assert_true(lull__decimal_read("7.5,", &end) == 7.5);
    assert_string_equal(end, ",");
    lull__decimal_print(text, sizeof text, "%.2f", 2.25);
    assert_string_equal(text, "2.25");
    (void)lull__fail(LULL_ERR_IO, "%g", 0.5);
    assert_string_equal(lull_last_error(), "0.5");
    snprintf(text, sizeof text, "%g", 1.5);
    assert_string_equal(text, "1,5"); /* the program's is as it was */
    setlocale(LC_NUMERIC, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_and_texts),
        cmocka_unit_test(errno_becomes_a_status),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(settings_come_from_default_environment_program),
        cmocka_unit_test(log_goes_to_the_callback_up_to_its_level),
        cmocka_unit_test(numbers_under_a_decimal_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
