/* ckpt: the byte formats: JSON, names, boxes, safetensors headers, votes and
 * manifests, written and parsed back, and what must be refused. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ckpt/box.h"
#include "ckpt/json.h"
#include "ckpt/manifest.h"
#include "ckpt/names.h"
#include "ckpt/naming.h"
#include "ckpt/safetensors.h"
#include "ckpt/vote.h"
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
    enum { N = 20000 };
    static char texts[N][8];
    lull__names_t names = {0};
    size_t old;
    assert_int_equal(lull__names_find(&names, "x"), SIZE_MAX);
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "t%zu", i);
        assert_ok(lull__names_add(&names, texts[i], i, &old));
        assert_int_equal(old, SIZE_MAX);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(lull__names_find(&names, texts[i]), i);
    assert_ok(lull__names_add(&names, "t77", 1, &old));
    assert_int_equal(old, 77);
    assert_int_equal(lull__names_find(&names, "t77"), 77);
    assert_int_equal(lull__names_find(&names, "t"), SIZE_MAX);
    lull__names_free(&names);
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

/* ---- Votes ---- */

static const uint64_t some_hashes[] = {UINT64_MAX, 0, 0x123456789abcdefu};
static const uint64_t some_frames[] = {500, 1};

static const lull__vote_head_t head = {
    .run_id = "run-1", .save = 4, .step = 100, .world = 3, .rank = 2};

static const lull__shard_t shards[] = {
    {.name = "w",
     .stored = "w",
     .dtype = LULL_F32,
     .ndim = 2,
     .global = {1024, 1024},
     .box = {{0, 0}, {512, 1024}},
     .begin = 0,
     .end = 2097152,
     .replica = 1,
     .replicas = 2},
    {.name = "w",
     .stored = "w#1",
     .dtype = LULL_F32,
     .ndim = 2,
     .global = {1024, 1024},
     .box = {{512, 0}, {257, 1024}},
     .begin = 2097152,
     .end = 2097653,
     .codec = "zfp:8",
     .frames = some_frames,
     .frame_count = 2},
    {.name = "rng",
     .stored = "lull.state/rng",
     .kind = LULL__SHARD_STATE_RANK,
     .dtype = LULL_U8,
     .ndim = 1,
     .global = {7},
     .box = {{0}, {7}},
     .begin = 2097653,
     .end = 2097660},
};

static lull__memory_t vote_text(void) {
    lull__vote_writer_t writer;
    lull__memory_t memory = {0};
    lull__out_t *out;
    lull__vote_file_t file = {.name = "rank-00002.safetensors",
                              .bytes = 4096 + 2097660,
                              .header_bytes = 4096,
                              .header_hash = 5,
                              .hashes = some_hashes,
                              .hash_count = 3};
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    lull__vote_begin(&writer, out, &head);
    lull__vote_file(&writer, &file);
    for (int i = 0; i < 3; i++)
        lull__vote_shard(&writer, &shards[i]);
    lull__vote_alias(&writer, "tied", "w");
    lull__vote_end(&writer, &(lull__vote_times_t){1.5, 0, 2, 1e-6}, 1);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    return memory;
}

static void vote_there_and_back(void **state) {
    (void)state;
    lull__memory_t text = vote_text();
    lull__vote_t vote;
    assert_ok(lull__vote_parse(text.data, text.bytes, "v", &vote));
    assert_string_equal(vote.head.run_id, "run-1");
    assert_int_equal(vote.head.save, 4);
    assert_int_equal(vote.head.step, 100);
    assert_int_equal(vote.head.world, 3);
    assert_int_equal(vote.head.rank, 2);
    assert_int_equal(vote.file_count, 1);
    assert_memory_equal(vote.files[0].hashes, some_hashes, sizeof some_hashes);
    assert_int_equal(vote.shard_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(vote.shards[i].name, shards[i].name);
        assert_string_equal(vote.shards[i].stored, shards[i].stored);
        assert_int_equal(vote.shards[i].kind, shards[i].kind);
        assert_int_equal(vote.shards[i].dtype, shards[i].dtype);
        assert_memory_equal(&vote.shards[i].box, &shards[i].box,
                            sizeof shards[i].box);
        assert_int_equal(vote.shards[i].end, shards[i].end);
        assert_int_equal(vote.shards[i].replicas, shards[i].replicas);
    }
    assert_string_equal(vote.shards[1].codec, "zfp:8");
    assert_memory_equal(vote.shards[1].frames, some_frames, sizeof some_frames);
    assert_string_equal(vote.aliases[0].key, "tied");
    assert_string_equal(vote.aliases[0].value, "w");
    assert_true(vote.times->queued_s == 1.5);
    assert_true(vote.times->fsync_s > 0.9e-6);
    lull__vote_free(&vote);
    free(text.data);
}

static void vote_without_anything(void **state) {
    (void)state;
    lull__vote_writer_t writer;
    lull__memory_t memory = {0};
    lull__out_t *out;
    lull__vote_t vote;
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    lull__vote_begin(&writer, out, &head);
    lull__vote_end(&writer, &(lull__vote_times_t){0}, 1);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    assert_ok(lull__vote_parse(memory.data, memory.bytes, "v", &vote));
    assert_int_equal(vote.file_count + vote.shard_count, 0);
    lull__vote_free(&vote);
    free(memory.data);
}

static void vote_peek(void **state) {
    (void)state;
    lull__memory_t text = vote_text();
    lull__vote_head_t peeked;
    assert_ok(lull__vote_peek(text.data, 120, "v", &peeked));
    assert_string_equal(peeked.run_id, "run-1");
    assert_int_equal(peeked.rank, 2);
    free(text.data);
}

/* One replacement in the text makes it impossible. */
static void vote_that_lies(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"\"rank\":2", "\"rank\":3"},
        {"\"world\":3", "\"world\":0"},
        {"\"version\":1", "\"version\":2"},
        {"lull-vote", "lull-vota"},
        {"run-1", "run/1"},
        {"\"save\":4", "\"sove\":4"},
        {"rank-00002", "rank-00001"},
        {"\"rank-00002.safetensors\"", "\"../rank-00002.safetensors\""},
        {"\"bytes\":2101756", "\"bytes\":2101757"},
        {"\"bytes\":2101756", "\"bytes\":9991757"},
        {"\"header\":4096", "\"header\":4095"},
        {"\"header\":4096", "\"header\":9"},
        {"\"header\":4096", "\"header\":18446744073709551615"},
        {"[\"ffffffffffffffff\",", "["},
        {"\"ffffffffffffffff\"", "\"fffffffffffffff\""},
        {"\"ffffffffffffffff\"", "\"FFFFFFFFFFFFFFFF\""},
        {"[1024,1024]", "[511,1024]"},
        {"[1024,1024]", "[1024,1024,1]"},
        {"[1024,1024]", "[18446744073709551615,1024]"},
        {"[512,1024]", "[513,1024]"},
        {"[512,1024]", "[18446744073709551615,1024]"},
        {"\"offset\":[0,0],", ""},
        {"\"file\":0", "\"file\":1"},
        {"[0,2097152]", "[0,2097151]"},
        {"[0,2097152]", "[1,2097153]"},
        {"[2097152,2097653]", "[2097653,2097152]"},
        {"[500,1]", "[500,2]"},
        {"[500,1]", "[501]"},
        {"[500,1]", "[18446744073709551615,502]"},
        {"\"codec\":\"zfp:8\",", ""},
        {"\"stored\":\"w#1\"", "\"stored\":\"w\""},
        {"\"name\":\"rng\"", "\"name\":\"\""},
        {"rank_state", "rank_statt"},
        {"\"U8\"", "\"U9\""},
        {"\"U8\"", "\"I8\""},
        {"[1,2]", "[2,2]"},
        {"\"of\":\"w\"", "\"of\":\"\""},
        {"\"of\":\"w\"", "\"on\":\"w\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lull__memory_t text = vote_text();
        lull__vote_t vote;
        size_t from = strlen(rows[i].from), to = strlen(rows[i].to);
        char *copy = malloc(text.bytes + to + 1);
        char *found = memmem(text.data, text.bytes, rows[i].from, from);
        assert_non_null(found);
        size_t before = (size_t)(found - text.data);
        memcpy(copy, text.data, before);
        memcpy(copy + before, rows[i].to, to);
        memcpy(copy + before + to, found + from, text.bytes - before - from);
        lull_status_t status =
            lull__vote_parse(copy, text.bytes - from + to, "v", &vote);
        if (status != LULL_ERR_CORRUPT && status != LULL_ERR_VERSION)
            fail_msg("accepted with '%s' for '%s'", rows[i].to, rows[i].from);
        free(copy);
        free(text.data);
    }
}

/* ---- Manifests ---- */

static lull__memory_t manifest_text(void) {
    lull__manifest_file_t files[] = {{"rank-00000.safetensors", 0, 5000, 1},
                                     {"rank-00000.01.safetensors", 0, 50, 2},
                                     {"rank-00001.safetensors", 1, 7, 3}};
    lull__manifest_vote_t votes[] = {{100, 5, 0, 1}, {200, 6, 0, 1}};
    lull_ckpt_meta_t meta[] = {{"model.type", "gpt"}, {"note", "a\"\n"}};
    lull__manifest_t manifest = {.seq = 9,
                                 .parent = 3,
                                 .step = 100,
                                 .save = 4,
                                 .time = 1700000000,
                                 .world = 2,
                                 .run_id = "run-1",
                                 .files = files,
                                 .file_count = 3,
                                 .votes = votes,
                                 .meta = meta,
                                 .meta_count = 2};
    lull__memory_t memory = {0};
    lull__out_t *out;
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    lull__manifest_write(&manifest, out);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    return memory;
}

static void manifest_there_and_back(void **state) {
    (void)state;
    lull__memory_t text = manifest_text();
    lull__manifest_t manifest;
    assert_ok(lull__manifest_parse(text.data, text.bytes, "m", &manifest));
    assert_int_equal(manifest.seq, 9);
    assert_int_equal(manifest.parent, 3);
    assert_int_equal(manifest.step, 100);
    assert_int_equal(manifest.save, 4);
    assert_int_equal(manifest.time, 1700000000);
    assert_int_equal(manifest.world, 2);
    assert_string_equal(manifest.run_id, "run-1");
    assert_int_equal(manifest.file_count, 3);
    assert_string_equal(manifest.files[1].name, "rank-00000.01.safetensors");
    assert_int_equal(manifest.files[2].digest, 3);
    assert_int_equal(manifest.votes[1].bytes, 200);
    assert_string_equal(manifest.meta[1].value, "a\"\n");
    lull__manifest_free(&manifest);
    free(text.data);
}

static void manifest_each_byte(void **state) {
    (void)state;
    lull__memory_t text = manifest_text();
    char *copy = malloc(text.bytes + 1);
    lull__manifest_t manifest;
    for (size_t i = 0; i < text.bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, text.data, text.bytes);
            copy[i] = (char)(copy[i] ^ 1 << bit);
            assert_int_equal(
                lull__manifest_parse(copy, text.bytes, "m", &manifest),
                LULL_ERR_CORRUPT);
        }
    for (size_t n = 0; n < text.bytes; n++) {
        memcpy(copy, text.data, n);
        assert_int_equal(lull__manifest_parse(copy, n, "m", &manifest),
                         LULL_ERR_CORRUPT);
    }
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\n';
    assert_int_equal(lull__manifest_parse(copy, text.bytes + 1, "m", &manifest),
                     LULL_ERR_CORRUPT);
    free(copy);
    free(text.data);
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
        cmocka_unit_test(json_accepts_and_refuses),
        cmocka_unit_test(json_numbers),
        cmocka_unit_test(json_strings_are_decoded),
        cmocka_unit_test(names_of_tensors),
        cmocka_unit_test(names_index),
        cmocka_unit_test(naming_there_and_back),
        cmocka_unit_test(boxes_tile),
        cmocka_unit_test(box_bounds),
        cmocka_unit_test(safetensors_there_and_back),
        cmocka_unit_test(safetensors_room_too_small),
        cmocka_unit_test(safetensors_good),
        cmocka_unit_test(safetensors_hostile),
        cmocka_unit_test(safetensors_lengths),
        cmocka_unit_test(vote_there_and_back),
        cmocka_unit_test(vote_without_anything),
        cmocka_unit_test(vote_peek),
        cmocka_unit_test(vote_that_lies),
        cmocka_unit_test(manifest_there_and_back),
        cmocka_unit_test(manifest_each_byte),
        cmocka_unit_test(safetensors_a_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
