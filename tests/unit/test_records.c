/* ckpt: votes and manifests, written, parsed, damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest.h"
#include "ckpt/vote.h"
#include "support.h"
#include "test.h"

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
     .global = (uint64_t[]){1024, 1024, 0, 0, 512, 1024},
     .begin = 0,
     .end = 2097152,
     .replica = 1,
     .replicas = 2},
    {.name = "w",
     .stored = "w#1",
     .dtype = LULL_F32,
     .ndim = 2,
     .global = (uint64_t[]){1024, 1024, 512, 0, 257, 1024},
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
     .global = (uint64_t[]){7},
     .whole = true,
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
        assert_int_equal(vote.shards[i].whole, shards[i].whole);
        assert_int_equal(vote.shards[i].ndim, shards[i].ndim);
        assert_memory_equal(vote.shards[i].global, shards[i].global,
                            (i < 2 ? 6 : 1) * sizeof(uint64_t));
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

/* Millions of rows are in memory at once. */
static void rows_are_small(void **state) {
    (void)state;
    enum { ROWS = 1000 };
    lull__vote_writer_t writer;
    lull__memory_t text = {0};
    lull__out_t *out;
    lull__vote_t vote;
    lull__vote_file_t file = {.name = "rank-00002.safetensors",
                              .bytes = 4096 + ROWS,
                              .header_bytes = 4096,
                              .hashes = some_hashes,
                              .hash_count = 1};
    assert_ok(lull__out_create(lull__out_to_memory, &text, &out));
    lull__vote_begin(&writer, out, &head);
    lull__vote_file(&writer, &file);
    for (uint64_t i = 0; i < ROWS; i++) {
        char name[16];
        uint64_t global[] = {7 + i % 2, 1, 3, 0, 1, 1};
        lull__shard_t row = {name,  name,      global,          i,
                             i + 1, .ndim = 2, .dtype = LULL_U8};
        snprintf(name, sizeof name, "w%d", (int)i);
        lull__vote_shard(&writer, &row);
    }
    lull__vote_end(&writer, &(lull__vote_times_t){0}, 1);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    assert_ok(lull__vote_parse(text.data, text.bytes, "v", &vote));
    assert_true(sizeof *vote.shards <= 80);
    assert_ptr_not_equal(vote.shards[0].global, vote.shards[1].global);
    for (uint64_t i = 0; i < ROWS; i++) {
        lull__box_t box;
        lull__shard_box(&vote.shards[i], &box);
        assert_int_equal(vote.shards[i].global[0], 7 + i % 2);
        assert_int_equal(box.offset[0], 3);
        assert_int_equal(box.shape[0], 1);
        assert_ptr_equal(vote.shards[i].global, vote.shards[i % 2].global);
    }
    lull__vote_free(&vote);
    free(text.data);
}

/* Shapes that differ, in more kinds than are looked for, and of all ranks. */
static void lists_are_what_was_kept(void **state) {
    (void)state;
    enum { LISTS = 500 };
    lull__lists_t lists = {0};
    lull__arena_t arena = {0};
    const uint64_t *kept[LISTS];
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < LISTS; i++) {
            uint64_t values[] = {i / 9, 0, i, 1, 1, 1, 1, 1};
            kept[i] = lull__lists_keep(&lists, &arena, values, i % 9);
            assert_non_null(kept[i]);
        }
    for (uint32_t i = 0; i < LISTS; i++) {
        uint64_t values[] = {i / 9, 0, i, 1, 1, 1, 1, 1};
        assert_memory_equal(kept[i], values, (i % 9) * sizeof *values);
    }
    lull__arena_free(&arena);
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

static lull__memory_t print(const lull__manifest_t *manifest) {
    lull__memory_t memory = {0};
    lull__out_t *out;
    assert_ok(lull__out_create(lull__out_to_memory, &memory, &out));
    lull__manifest_write(manifest, out);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    return memory;
}

static void manifest_of_places(void **state) {
    (void)state;
    lull__manifest_vote_t votes[] = {
        {.bytes = 100, .hash = 5, .ranks = 1, .place = 1},
        {.bytes = 200, .hash = 6, .ranks = 1},
        {.bytes = 300, .hash = 7, .ranks = 1, .place = 1}};
    const char *names[] = {"a:/d", "b:/\"d"};
    lull__manifest_t manifest = {.seq = 1,
                                 .world = 3,
                                 .run_id = "run",
                                 .votes = votes,
                                 .places = names,
                                 .place_count = 2,
                                 .here = 1},
                     back;
    lull__memory_t text = print(&manifest);
    assert_ok(lull__manifest_parse(text.data, text.bytes, "m", &back));
    assert_int_equal(back.place_count, 2);
    assert_int_equal(back.here, 1);
    assert_string_equal(back.places[1], "b:/\"d");
    assert_int_equal(back.votes[0].place, 1);
    assert_int_equal(back.votes[1].place, 0);
    lull__manifest_free(&back);
    free(text.data);
    /* A place that there is not; one alone is none. */
    for (unsigned bad = 0; bad < 3; bad++) {
        manifest.here = bad == 0 ? 2 : 1;
        votes[2].place = bad == 1 ? 2 : 1;
        manifest.place_count = bad == 2 ? 1 : 2;
        text = print(&manifest);
        assert_fails(lull__manifest_parse(text.data, text.bytes, "m", &back),
                     LULL_ERR_CORRUPT, "place");
        free(text.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vote_there_and_back),
        cmocka_unit_test(rows_are_small),
        cmocka_unit_test(lists_are_what_was_kept),
        cmocka_unit_test(vote_without_anything),
        cmocka_unit_test(vote_peek),
        cmocka_unit_test(vote_that_lies),
        cmocka_unit_test(manifest_there_and_back),
        cmocka_unit_test(manifest_each_byte),
        cmocka_unit_test(manifest_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
