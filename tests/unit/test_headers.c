/* ckpt: headers of safetensors files, written, parsed, hostile, large. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/safetensors.h"
#include "support.h"
#include "test.h"

/* ---- safetensors ---- */

static const lull__st_entry_t three[] = {
    {.name = "a\"\\\n/..|\xc3\xa9",
     .dtype = LULL_F32,
     .ndim = 2,
     .shape = {2, 3},
     .begin = 0,
     .end = 24},
    {.name = "empty",
     .dtype = LULL_BF16,
     .ndim = 3,
     .shape = {2, 0, 5},
     .begin = 24,
     .end = 24},
    {.name = "7", .dtype = LULL_U8, .begin = 24, .end = 25},
};

static void write_three(lull__st_writer_t *writer) {
    lull__st_meta(writer, "format", "pt");
    lull__st_meta(writer, "k\"", "v\x01\\");
    lull__st_codec_meta(writer, "zfp:8", &three[0]);
    for (int i = 0; i < 3; i++)
        lull__st_tensor(writer, &three[i]);
}

static void safetensors_there_and_back(void **state) {
    (void)state;
    lull__st_writer_t writer;
    lull__memory_t memory = {0};
    lull__out_t *out;
    uint64_t room, bytes, n;
    lull__st_measure(&writer);
    write_three(&writer);
    assert_ok(lull__st_end(&writer, &room));
    assert_int_equal(room, 4096);
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    lull__st_begin(&writer, out, room);
    write_three(&writer);
    assert_ok(lull__st_end(&writer, NULL));
    assert_ok(lull__out_finish(out, &bytes, NULL));
    assert_int_equal(bytes, room);
    assert_int_equal(memory.bytes, room);
    assert_ok(
        lull__st_length((unsigned char *)memory.data, room + 25, "f", &n));
    assert_int_equal(n, room - 8);
    lull__st_header_t header;
    assert_ok(lull__st_parse(memory.data + 8, n, 25, "f", &header));
    assert_int_equal(header.count, 3);
    for (int i = 0; i < 3; i++) {
        const lull__st_entry_t *entry = &header.entries[i];
        assert_string_equal(entry->name, three[i].name);
        assert_int_equal(entry->dtype, three[i].dtype);
        assert_int_equal(entry->ndim, three[i].ndim);
        assert_memory_equal(entry->shape, three[i].shape, 64);
        assert_int_equal(entry->end, three[i].end);
        assert_int_equal(lull__names_find(&header.index, three[i].name), i);
    }
    assert_int_equal(header.meta_count, 3);
    assert_string_equal(header.meta[1].value, "v\x01\\");
    assert_string_equal(header.meta[2].value, "zfp:8 F32 [2,3]");
    lull__st_free(&header);
    lull__out_destroy(out);
    free(memory.data);
}

static void safetensors_room_too_small(void **state) {
    (void)state;
    lull__st_writer_t writer;
    lull__out_t *out;
    assert_ok(lull__out_create(NULL, NULL, &out));
    lull__st_begin(&writer, out, 64);
    write_three(&writer);
    assert_fails(lull__st_end(&writer, NULL), LULL_ERR_INTERNAL, "64");
    lull__out_destroy(out);
}

static lull_status_t parse_st(const char *text, uint64_t data) {
    lull__st_header_t header;
    char *copy = strdup(text);
    lull_status_t status =
        lull__st_parse(copy, strlen(text), data, "file", &header);
    if (status == LULL_OK)
        lull__st_free(&header);
    free(copy);
    return status;
}

#define T(name, dtype, shape, offsets)                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
    ",\"data_offsets\":" offsets "}"

static void safetensors_good(void **state) {
    (void)state;
    assert_ok(parse_st("{}", 0));
    assert_ok(parse_st("{}    ", 0));
    assert_ok(parse_st("{\"__metadata__\":{}}", 0));
    assert_ok(parse_st(
        "{" T("b", "U8", "[3]", "[1,4]") "," T("a", "BOOL", "[]", "[0,1]") "}",
        4));
    assert_ok(parse_st("{" T("a", "F4", "[6]", "[0,3]") "}", 3));
    assert_ok(parse_st("{" T("a", "F6_E2M3", "[4]", "[0,3]") "}", 3));
    assert_ok(parse_st(
        "{" T("a", "F64", "[0,18446744073709551615]", "[0,0]") "}", 0));
}

static void safetensors_hostile(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t data;
        const char *word;
    } rows[] = {
        {"", 0, "'{'"},
        {" {}", 0, "'{'"},
        {"[]", 0, "'{'"},
        {"{}\n", 0, "space"},
        {"{}x", 0, "space"},
        {"{" T("a", "U8", "[4]", "[0,4]") "}", 5, "5 bytes of data"},
        {"{" T("a", "U8", "[4]", "[0,4]") "}", 3, "3 bytes of data"},
        {"{" T("a", "U8", "[4]", "[1,5]") "}", 5, "hole"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}",
         6, "overlap"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("a", "U8", "[4]", "[4,8]") "}",
         8, "twice"},
        {"{" T("a", "U8", "[4]", "[4,0]") "}", 4, "hole"},
        {"{" T("a", "U8", "[5]", "[0,4]") "}", 4, "shape"},
        {"{" T("a", "F4", "[3]", "[0,1]") "}", 1, "does not fill"},
        {"{" T("a", "F32", "[4294967296,4294967296,4]", "[0,0]") "}", 0,
         "too large"},
        {"{" T("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0,
         "too large"},
        {"{" T("a", "F32", "[-1]", "[0,0]") "}", 0, "whole"},
        {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "whole"},
        {"{" T("a", "F31", "[1]", "[0,4]") "}", 4, "dtype"},
        {"{" T("a", "f32", "[1]", "[0,4]") "}", 4, "dtype"},
        {"{" T("a", "U8", "[4]", "[0,4,4]") "}", 4, "long"},
        {"{" T("a", "U8", "[4]", "[0]") "}", 4, "two"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"shape\":[0],"
         "\"data_offsets\":[0,0]}}",
         0, "twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"x\":1,"
         "\"data_offsets\":[0,0]}}",
         0, "field"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "string"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
        {"{\"__metadata__\":[]}", 0, "object"},
        {"{\"a\\u0000b\":1}", 0, "NUL"},
        {"{" T("\xff", "U8", "[0]", "[0,0]") "}", 0, "UTF-8"},
        {"{\"a\":3}", 0, "object"},
        {"{" T("a", "U8", "[0]", "[0,0]"), 0, "end"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_fails(parse_st(rows[i].text, rows[i].data), LULL_ERR_CORRUPT,
                     rows[i].word);
    assert_fails(
        parse_st("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1),
        LULL_ERR_UNSUPPORTED, "8 dimensions");
}

static void safetensors_lengths(void **state) {
    (void)state;
    static const struct {
        unsigned char first[8];
        uint64_t bytes;
        lull_status_t status;
    } rows[] = {
        {{2, 0, 0, 0, 0, 0, 0, 0}, 10, LULL_OK},
        {{2, 0, 0, 0, 0, 0, 0, 0}, 9, LULL_ERR_CORRUPT},
        {{2, 0, 0, 0, 0, 0, 0, 0}, 7, LULL_ERR_CORRUPT},
        {{1, 0, 0, 0, 0, 0, 0, 0}, 100, LULL_ERR_CORRUPT},
        {{0, 0, 0, 0, 0, 0, 0, 0}, 100, LULL_ERR_CORRUPT},
        {{255, 255, 255, 255, 255, 255, 255, 255}, 100, LULL_ERR_CORRUPT},
        {{0, 0, 0, 0, 0, 0, 0, 128}, UINT64_MAX, LULL_ERR_CORRUPT},
        {{1, 0xe1, 0xf5, 5, 0, 0, 0, 0}, UINT64_MAX, LULL_ERR_CORRUPT},
        {{0, 0xe1, 0xf5, 5, 0, 0, 0, 0}, UINT64_MAX, LULL_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t n;
        assert_int_equal(lull__st_length(rows[i].first, rows[i].bytes, "f", &n),
                         rows[i].status);
    }
}

/* ---- Size ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double parse_many(uint64_t n) {
    lull__st_writer_t writer;
    lull__memory_t memory = {0};
    lull__out_t *out;
    char name[64];
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    /* Room as for measuring would be; here a bound by hand. */
    lull__st_begin(&writer, out, n * 120 + 4096);
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "model.layers.%llu.weight",
                 (unsigned long long)i);
        lull__st_tensor(&writer, &(lull__st_entry_t){.name = name,
                                                     .dtype = LULL_F32,
                                                     .ndim = 1,
                                                     .shape = {1},
                                                     .begin = 4 * i,
                                                     .end = 4 * i + 4});
    }
    assert_ok(lull__st_end(&writer, NULL));
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    lull__st_header_t header;
    double begin = seconds();
    assert_ok(
        lull__st_parse(memory.data + 8, memory.bytes - 8, 4 * n, "f", &header));
    double took = seconds() - begin;
    assert_int_equal(header.count, n);
    lull__st_free(&header);
    free(memory.data);
    return took;
}

static void safetensors_a_million(void **state) {
    (void)state;
    double small = parse_many(125000), large = parse_many(1000000);
    printf("header of 125,000 tensors parsed in %.3f s, of 1,000,000 in "
           "%.3f s\n",
           small, large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_there_and_back),
        cmocka_unit_test(safetensors_room_too_small),
        cmocka_unit_test(safetensors_good),
        cmocka_unit_test(safetensors_hostile),
        cmocka_unit_test(safetensors_lengths),
        cmocka_unit_test(safetensors_a_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
