/* The table of options and the metrics file, without MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "metrics.h"
#include "options.h"
#include "test.h"

static lull_status_t parse(options_t *out, const char *word,
                           const char *value) {
    char *words[] = {"lull-train", (char *)word, (char *)value, NULL};
    train_error_clear();
    return options_parse(value != NULL ? 3 : 2, words, out);
}

static void defaults_and_values(void **state) {
    (void)state;
    options_t options;
    char *none[] = {"lull-train", NULL};
    assert_ok(options_parse(1, none, &options));
    assert_int_equal(options.config.layers, 4);
    assert_int_equal(options.given, 0);
    assert_ok(parse(&options, "--ckpt-buffer", "3M"));
    assert_int_equal(options.config.ckpt_buffer, 3 << 20);
    assert_ok(parse(&options, "--lr=1e-2", NULL));
    assert_true(options.config.lr == 0.01);
    assert_ok(parse(&options, "--seed", "18446744073709551615"));
    assert_true(options.config.seed == UINT64_MAX);
    assert_ok(parse(&options, "--ckpt-mode", "sync"));
    assert_int_equal(options.config.ckpt_mode, LULL_CKPT_SYNC);
}

static void bad_values_are_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"--layers", "0"},
        {"--layers", "1.5"},
        {"--layers", ""},
        {"--lr", "inf"},
        {"--lr", "1e-3x"},
        {"--seed", "-1"},
        {"--ckpt-buffer", "1KB"},
        {"--ckpt-buffer", "-64M"},
        {"--ckpt-buffer", "99999999999G"},
        {"--zero", "2"},
        {"--data", ""},
        {"--top-k", "257"},
        {"--steps", "9007199254740993"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        options_t options;
        assert_int_equal(parse(&options, bad[i][0], bad[i][1]),
                         LULL_ERR_INVALID);
        if (strstr(train_error(), bad[i][0]) == NULL)
            fail_msg("'%s' does not name %s", train_error(), bad[i][0]);
    }
}

/* What a checkpoint keeps of an option gives the same option again. */
static void rows_go_there_and_back(void **state) {
    (void)state;
    char *words[] = {"lull-train",
                     "--lr",
                     "0.00314159265358979",
                     "--ckpt-buffer",
                     "5G",
                     "--comm",
                     "dp=zfp:8",
                     "--steps",
                     "123456789012",
                     "--seed",
                     "12345678901234567890"};
    options_t first, second;
    option_row_t a, b;
    assert_ok(options_parse(11, words, &first));
    assert_ok(options_parse(1, words, &second));
    for (size_t i = 0; options_row(&first, i, &a); ++i) {
        if (a.value[0] == '\0')
            continue;
        assert_ok(options_adopt(&second, i, a.value));
        assert_true(options_row(&second, i, &b));
        assert_string_equal(a.value, b.value);
    }
    assert_true(first.config.lr == second.config.lr);
    assert_true(first.config.seed == second.config.seed);
    options_release(&second);
}

static void passes_are_chosen(void **state) {
    (void)state;
    static const struct {
        int world, tp, pp, batch, micro;
    } cases[] = {{1, 1, 1, 16, 16},
                 {8, 2, 2, 16, 2},
                 {2, 1, 2, 6, 2},
                 {2, 1, 2, 7, 7},
                 {4, 1, 1, 16, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char *none[] = {"lull-train", NULL};
        options_t options;
        assert_ok(options_parse(1, none, &options));
        options.config.tp = cases[i].tp;
        options.config.pp = cases[i].pp;
        options.config.global_batch = cases[i].batch;
        assert_ok(options_check(&options, cases[i].world));
        assert_int_equal(options.config.dp,
                         cases[i].world / cases[i].tp / cases[i].pp);
        assert_int_equal(options.config.micro_batch, cases[i].micro);
    }
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect(const char *path, const char *text) {
    char read[512] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(read, 1, sizeof read - 1, file);
    fclose(file);
    assert_int_equal(length, strlen(text));
    assert_string_equal(read, text);
}

/* Lost steps and a torn line go, older ones and foreign text stay. */
static void metrics_go_on_behind_a_step(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"step\":1,\"a\":1}\n{\"step\":2}\n{\"step\":3,\"a\":1}\n",
         "{\"step\":1,\"a\":1}\n{\"step\":2}\n"},
        {"{\"step\":1,\"a\":1}\n{\"step\":2,\"a", "{\"step\":1,\"a\":1}\n"},
        {"a diary\nof mine\n", "a diary\nof mine\n"},
        {"no end of line", "no end of line"},
        {"", ""},
    };
    char path[] = "/tmp/lull-metrics-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        metrics_t *metrics;
        put(path, cases[i][0]);
        assert_ok(metrics_open(path, 2, &metrics));
        metrics_close(metrics);
        expect(path, cases[i][1]);
    }
    metrics_t *metrics;
    put(path, cases[0][0]);
    assert_ok(metrics_open(path, 0, &metrics));
    metrics_close(metrics);
    expect(path, "");
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_values),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(rows_go_there_and_back),
        cmocka_unit_test(passes_are_chosen),
        cmocka_unit_test(metrics_go_on_behind_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
