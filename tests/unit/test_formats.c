/* ckpt: JSON, names, boxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/box.h"
#include "ckpt/json.h"
#include "ckpt/names.h"
#include "ckpt/naming.h"
#include "support.h"
#include "test.h"

/* ---- JSON ---- */

static lull_status_t skip_all(const char *text) {
    lull__json_t json;
    char *copy = strdup(text);
    lull__json_begin(&json, copy, strlen(text));
    lull__json_skip(&json);
    lull_status_t status = lull__json_done(&json, "text");
    free(copy);
    return status;
}

static void json_accepts_and_refuses(void **state) {
    (void)state;
    static const char *const good[] = {
        "{}", " [ ] ", "{\"a\":[1,-2.5e+3,true,false,null,\"x\"]}",
        "[[[]],{\"\":{}}]", "\"\\u00e9\\ud83d\\ude00\\n\""};
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{\"a\" 1}",
                                      "[01]",
                                      "[1.]",
                                      "[1e]",
                                      "[.5]",
                                      "[+1]",
                                      "tru",
                                      "[1 2]",
                                      "{a:1}",
                                      "\"\\x\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\u0000\"",
                                      "\"a\nb\"",
                                      "\"\xff\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "{} {}",
                                      "[}",
                                      "\"abc"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_ok(skip_all(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (skip_all(bad[i]) != LULL_ERR_CORRUPT)
            fail_msg("accepted: %s", bad[i]);
    char deep[200];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_fails(skip_all(deep), LULL_ERR_CORRUPT, "deep");
}

static void json_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } rows[] = {{"0", true, 0},
                {"18446744073709551615", true, UINT64_MAX},
                {"18446744073709551616", false, 0},
                {"99999999999999999999", false, 0},
                {"-1", false, 0},
                {"1.0", false, 0},
                {"1e2", false, 0},
                {"00", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        lull__json_t json;
        uint64_t value = 7;
        snprintf(text, sizeof text, "%s", rows[i].text);
        lull__json_begin(&json, text, strlen(text));
        assert_int_equal(lull__json_u64(&json, &value), rows[i].ok);
        assert_true(value == (rows[i].ok ? rows[i].value : 7));
    }
}

static void json_strings_are_decoded(void **state) {
    (void)state;
    char text[] = "\"a\\\"\\\\\\/\\u00e9\\uD83D\\uDE00\\t\"";
    lull__json_t json;
    lull__text_t out;
    lull__json_begin(&json, text, strlen(text));
    assert_true(lull__json_string(&json, &out));
    assert_string_equal(out.data, "a\"\\/\xc3\xa9\xf0\x9f\x98\x80\t");
    assert_int_equal(out.bytes, strlen(out.data));
}

/* ---- Names ---- */

/* Strings are looked at in words: each byte, at each place of them, behind
 * others of the same kind or not. */
static void json_each_byte_at_each_place(void **state) {
    (void)state;
    enum { LENGTH = 20 };
    for (unsigned c = 1; c < 256; c++)
        for (size_t at = 0; at < LENGTH; at++) {
            char text[LENGTH + 3] = "", plain[LENGTH + 1] = "";
            lull__json_t json;
            lull__text_t out;
            memset(plain, c % 2 ? 'a' : 0x7f, LENGTH);
            plain[at] = (char)c;
            text[0] = text[LENGTH + 1] = '"';
            memcpy(text + 1, plain, LENGTH);
            lull__json_begin(&json, text, LENGTH + 2);
            bool ok = lull__json_string(&json, &out);
            bool is_plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            assert_int_equal(ok, is_plain || c == '"');
            assert_int_equal(lull__utf8_valid(plain, LENGTH), c < 0x80);
            if (ok)
                assert_int_equal(out.bytes, is_plain ? LENGTH : at);
            if (ok)
                assert_memory_equal(out.data, plain, out.bytes);
        }
    assert_false(lull__utf8_valid("aaaaaaa\0aaaaaaaa", 16));
}

static void names_of_tensors(void **state) {
    (void)state;
    char *name = malloc(LULL__NAME_MAX + 2);
    memset(name, 'n', LULL__NAME_MAX + 1);
    name[LULL__NAME_MAX + 1] = '\0';
    assert_fails(lull__name_check(name), LULL_ERR_INVALID, "longer");
    name[LULL__NAME_MAX] = '\0';
    assert_ok(lull__name_check(name));
    free(name);
    static const char *const good[] = {
        "a", "..", "../../etc/passwd", "a|b", "12", "\xc3\xa9", "w#1", "a b\n"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_ok(lull__name_check(good[i]));
    assert_fails(lull__name_check(""), LULL_ERR_INVALID, "empty");
    assert_fails(lull__name_check("\xff"), LULL_ERR_INVALID, "UTF-8");
    assert_fails(lull__name_check("__metadata__"), LULL_ERR_INVALID,
                 "__metadata__");
    assert_fails(lull__name_check("lull.state/x"), LULL_ERR_INVALID,
                 "lull.state/");
    assert_ok(lull__name_stored("w", 0, &name));
    assert_string_equal(name, "w");
    free(name);
    assert_ok(lull__name_stored("w", 12, &name));
    assert_string_equal(name, "w#12");
    free(name);
}

static void names_index(void **state) {
    (void)state;
    enum { N = 100000 }; /* in large pages at the end */
    static char texts[N][8];
    static uint32_t map[N];
    lull__names_t names = {0};
    size_t old;
    assert_int_equal(lull__names_find(&names, "x"), SIZE_MAX);
    lull__names_expect(&names, "x");
    lull__names_renumber(&names, NULL);
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "t%zu", i);
        map[i] = (uint32_t)(N - i);
        assert_ok(lull__names_add(&names, texts[i], i, &old));
        assert_int_equal(old, SIZE_MAX);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(lull__names_find(&names, texts[i]), i);
    assert_ok(lull__names_add(&names, "t77", 1, &old));
    assert_int_equal(old, 77);
    assert_int_equal(lull__names_find(&names, "t77"), 77);
    lull__names_expect(&names, "t78");
    assert_int_equal(lull__names_find(&names, "t"), SIZE_MAX);
    lull__names_renumber(&names, map);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(lull__names_find(&names, texts[i]), N - i);
    assert_fails(lull__names_add(&names, "t", LULL__NAMES_MAX, NULL),
                 LULL_ERR_NO_MEMORY, "more than");
    lull__names_free(&names);
}

static void names_index_with_room(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 10, 11, 1000, 87381, 87382};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        lull__names_t names = {0};
        assert_ok(lull__names_reserve(&names, counts[i]));
        const void *slots = names.slots;
        assert_non_null(slots);
        char(*texts)[24] = malloc((counts[i] + 1) * sizeof *texts);
        for (size_t n = 0; n < counts[i]; n++) {
            snprintf(texts[n], sizeof texts[n], "%zu", n);
            assert_ok(lull__names_add(&names, texts[n], n, NULL));
        }
        assert_ptr_equal(names.slots, slots); /* it did not grow */
        assert_ok(lull__names_reserve(&names, counts[i] / 2));
        assert_ptr_equal(names.slots, slots);
        assert_int_equal(names.count, counts[i]);
        lull__names_free(&names);
        free(texts);
    }
}

static void naming_there_and_back(void **state) {
    (void)state;
    lull__entry_name_t name;
    lull__naming_t out;
    lull__naming_step(name, 100);
    assert_string_equal(name, "step-00000100");
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_STEP);
    assert_int_equal(out.step, 100);
    lull__naming_step(name, 12345678901u);
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_STEP);
    lull__naming_partial(name, 200, "run-1_x", 7);
    assert_string_equal(name, ".step-00000200.partial-run-1_x-7");
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_PARTIAL);
    assert_string_equal(out.run_id, "run-1_x");
    assert_int_equal(out.save, 7);
    lull__naming_old(name, 3, "r", 0);
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_OLD);
    lull__naming_trash(name, "r", 0, 3);
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_TRASH);
    lull__naming_data(name, 3, 0);
    assert_string_equal(name, "rank-00003.safetensors");
    lull__naming_data(name, 3, 1);
    assert_string_equal(name, "rank-00003.01.safetensors");
    assert_true(lull__naming_is_data(name, 3));
    assert_false(lull__naming_is_data(name, 4));
    lull__naming_vote(name, 123456);
    assert_int_equal(lull__naming_parse(name, &out), LULL__NAMING_VOTE);
    assert_int_equal(out.rank, 123456);
    static const char *const other[] = {"",
                                        "step-",
                                        "step-100",
                                        "step-00000100x",
                                        "step-000000100",
                                        "step-99999999999999999999999",
                                        ".step-00000001",
                                        "rank-0.json",
                                        "rank-00000.00.safetensors",
                                        "rank-00000.1.safetensors",
                                        "rank-4294967296.json",
                                        ".step-00000001.partial-a b-1",
                                        ".step-00000001.partial-r-01",
                                        "../rank-00000.safetensors",
                                        ".trash-"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (lull__naming_parse(other[i], &out) != LULL__NAMING_OTHER)
            fail_msg("taken for ours: %s", other[i]);
}

/* ---- Boxes ---- */

static void boxes_tile(void **state) {
    (void)state;
    bool overlap;
    uint64_t global[2] = {4, 6};
    lull__box_t good[] = {
        {{0, 0}, {4, 3}}, {{2, 3}, {2, 3}}, {{0, 3}, {2, 3}}, {{1, 6}, {2, 0}}};
    assert_true(lull__boxes_tile(2, global, good, 4, &overlap));
    lull__box_t hole[] = {{{0, 0}, {4, 3}}, {{2, 3}, {2, 3}}};
    assert_false(lull__boxes_tile(2, global, hole, 2, &overlap));
    assert_false(overlap);
    lull__box_t twice[] = {
        {{0, 0}, {4, 3}}, {{0, 0}, {4, 2}}, {{0, 4}, {4, 1}}};
    assert_false(lull__boxes_tile(2, global, twice, 3, &overlap));
    assert_true(overlap);
    lull__box_t scalar[2] = {0};
    assert_true(lull__boxes_tile(0, NULL, scalar, 1, &overlap));
    assert_false(lull__boxes_tile(0, NULL, scalar, 2, &overlap));
    assert_false(lull__boxes_tile(0, NULL, scalar, 0, &overlap));
    uint64_t empty[2] = {0, UINT64_MAX};
    assert_true(lull__boxes_tile(2, empty, NULL, 0, &overlap));
}

static void box_bounds(void **state) {
    (void)state;
    uint64_t bytes, global[2] = {UINT64_MAX, 2};
    lull__box_t wraps = {{UINT64_MAX, 0}, {2, 1}};
    assert_false(lull__box_inside(2, global, &wraps));
    assert_fails(lull__shape_bytes(LULL_F32, 2, global, &bytes),
                 LULL_ERR_INVALID, "overflow");
    uint64_t zero[3] = {UINT64_MAX, UINT64_MAX, 0};
    assert_ok(lull__shape_bytes(LULL_F32, 3, zero, &bytes));
    assert_int_equal(bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_accepts_and_refuses),
        cmocka_unit_test(json_numbers),
        cmocka_unit_test(json_strings_are_decoded),
        cmocka_unit_test(json_each_byte_at_each_place),
        cmocka_unit_test(names_of_tensors),
        cmocka_unit_test(names_index),
        cmocka_unit_test(names_index_with_room),
        cmocka_unit_test(naming_there_and_back),
        cmocka_unit_test(boxes_tile),
        cmocka_unit_test(box_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
