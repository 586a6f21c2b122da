/* A checkpoint written in one go. */
#include "ckpt_writer.h"

#include <fcntl.h>
#include <ftw.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/manifest.h"
#include "ckpt/names.h"
#include "ckpt/naming.h"
#include "ckpt/safetensors.h"
#include "test.h"

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw) {
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

char *test_dir(const char *name) {
    char *path;
    const char *top = getenv("TMPDIR");
    if (asprintf(&path, "%s/lull-%s-XXXXXX", top ? top : "/tmp", name) < 0 ||
        mkdtemp(path) == NULL)
        fail_msg("no directory for %s", name);
    return path;
}

void test_dir_remove(char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

char *test_file_read(const char *dir, const char *name, size_t *bytes) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s does not open", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = calloc(*bytes + 1, 1);
    if (fread(data, 1, *bytes, file) != *bytes)
        fail_msg("%s does not read", path);
    fclose(file);
    return data;
}

void test_file_write(const char *dir, const char *name, const void *data,
                     size_t bytes) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes ||
        fclose(file) != 0)
        fail_msg("%s does not write", path);
}

lull__box_t test_whole(uint32_t ndim, const uint64_t *shape) {
    lull__box_t box = {0};
    memcpy(box.shape, shape, ndim * sizeof *shape);
    return box;
}

/* What one rank writes. */
typedef struct rank_writer {
    const test_ckpt_t *ckpt;
    uint32_t rank;
    lull__shard_t *shards;
    size_t count;
    lull__lists_t lists;
    lull__arena_t arena;
    lull__memory_t data;
    uint64_t *hashes;
    lull__vote_file_t file;
    lull__entry_name_t name;
} rank_writer_t;

static char *stored_name(const rank_writer_t *writer, const test_shard_t *s) {
    char *stored;
    uint32_t k = 0;
    if (s->kind != LULL__SHARD_TENSOR) {
        if (asprintf(&stored, LULL__STATE_PREFIX "%s", s->name) < 0)
            fail_msg("no memory");
        return stored;
    }
    for (size_t i = 0; i < writer->count; i++)
        k += strcmp(writer->shards[i].name, s->name) == 0 &&
             writer->shards[i].kind == LULL__SHARD_TENSOR;
    assert_ok(lull__name_stored(s->name, k, &stored));
    return stored;
}

/* Frames of 1 MiB of raw data, as an engine makes them. */
void test_encode(const test_shard_t *shard, uint64_t raw, lull__memory_t *to,
                 uint64_t **frames, uint64_t *frame_count) {
    lull_codec_t codec;
    lull_codec_scratch_t *scratch;
    unsigned width = lull_dtype_bits(shard->dtype) / 8;
    assert_ok(lull_codec_parse(shard->codec, shard->dtype, &codec));
    assert_ok(lull_codec_scratch_create(&scratch));
    *frame_count = (raw + LULL__FRAME_BYTES - 1) / LULL__FRAME_BYTES;
    *frames = calloc(*frame_count + 1, sizeof **frames);
    for (uint64_t i = 0; i < *frame_count; i++) {
        uint64_t n = raw - i * LULL__FRAME_BYTES;
        n = n < LULL__FRAME_BYTES ? n : LULL__FRAME_BYTES;
        lull_buffer_t out = {0};
        assert_ok(lull_frame_bound(&codec, n / width, &out.capacity));
        out.data = malloc(out.capacity);
        assert_ok(lull_frame_encode(
            &codec, (const char *)shard->data + i * LULL__FRAME_BYTES,
            n / width, 0, &out, scratch));
        assert_ok(lull__out_to_memory(to, out.data, out.bytes));
        (*frames)[i] = out.bytes;
        free(out.data);
    }
    lull_codec_scratch_destroy(scratch);
}

void (*test_ckpt_encode)(const test_shard_t *shard, uint64_t raw,
                         lull__memory_t *to, uint64_t **frames,
                         uint64_t *frame_count) = test_encode;

static void add(rank_writer_t *writer, const test_shard_t *s) {
    uint64_t raw, *frames = NULL, frame_count = 0;
    lull__shard_t shard = {.name = s->name,
                           .stored = stored_name(writer, s),
                           .kind = (uint8_t)s->kind,
                           .dtype = (uint8_t)s->dtype,
                           .ndim = (uint8_t)s->ndim,
                           .codec = s->codec,
                           .begin = writer->data.bytes};
    assert_ok(lull__shard_place(&shard, s->global, &s->box, &writer->lists,
                                &writer->arena));
    assert_ok(lull__shape_bytes(s->dtype, s->ndim, s->box.shape, &raw));
    if (s->codec != NULL)
        test_ckpt_encode(s, raw, &writer->data, &frames, &frame_count);
    else if (raw > 0)
        assert_ok(lull__out_to_memory(&writer->data, s->data, raw));
    shard.frames = frames;
    shard.frame_count = (uint32_t)frame_count;
    shard.end = writer->data.bytes;
    writer->shards[writer->count++] = shard;
}

static void put_header(rank_writer_t *writer, lull__st_writer_t *st) {
    lull__st_meta(st, "format", "pt");
    for (size_t i = 0; i < writer->count; i++) {
        const lull__shard_t *s = &writer->shards[i];
        lull__st_entry_t entry = {
            .name = s->stored, .dtype = s->dtype, .ndim = s->ndim};
        memcpy(entry.shape, lull__shard_shape(s),
               entry.ndim * sizeof *entry.shape);
        if (s->codec != NULL)
            lull__st_codec_meta(st, s->codec, &entry);
    }
    for (size_t i = 0; i < writer->count; i++) {
        const lull__shard_t *s = &writer->shards[i];
        lull__st_entry_t entry = {.name = s->stored,
                                  .dtype = s->dtype,
                                  .ndim = s->ndim,
                                  .begin = s->begin,
                                  .end = s->end};
        memcpy(entry.shape, lull__shard_shape(s),
               entry.ndim * sizeof *entry.shape);
        if (s->codec != NULL) {
            entry.dtype = LULL_U8;
            entry.ndim = 1;
            entry.shape[0] = s->end - s->begin;
        }
        lull__st_tensor(st, &entry);
    }
}

static void write_data(rank_writer_t *writer, const char *dir) {
    lull__st_writer_t st;
    lull__memory_t file = {0};
    lull__out_t *out;
    uint64_t room, n = writer->data.bytes;
    lull__naming_data(writer->name, writer->rank, 0);
    lull__st_measure(&st);
    put_header(writer, &st);
    assert_ok(lull__st_end(&st, &room));
    assert_ok(lull__out_create(lull__out_to_memory, &file, &out));
    lull__st_begin(&st, out, room);
    put_header(writer, &st);
    assert_ok(lull__st_end(&st, NULL));
    assert_ok(lull__out_finish(out, NULL, &writer->file.header_hash));
    lull__out_destroy(out);
    if (n > 0)
        assert_ok(lull__out_to_memory(&file, writer->data.data, n));
    test_file_write(dir, writer->name, file.data, file.bytes);
    free(file.data);

    uint64_t blocks = (n + LULL__BLOCK_BYTES - 1) / LULL__BLOCK_BYTES;
    writer->hashes = calloc(blocks + 1, sizeof *writer->hashes);
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t at = b * LULL__BLOCK_BYTES;
        uint64_t left = n - at;
        writer->hashes[b] =
            XXH3_64bits(writer->data.data + at,
                        left < LULL__BLOCK_BYTES ? left : LULL__BLOCK_BYTES);
    }
    writer->file.name = writer->name;
    writer->file.bytes = room + n;
    writer->file.header_bytes = room;
    writer->file.hashes = writer->hashes;
    writer->file.hash_count = blocks;
}

static lull__manifest_vote_t write_vote(rank_writer_t *writer,
                                        const char *dir) {
    lull__vote_head_t head = {.run_id = "test",
                              .save = writer->ckpt->seq,
                              .step = writer->ckpt->step,
                              .world = writer->ckpt->world,
                              .rank = writer->rank};
    lull__vote_times_t times = {0.001, 0.002, 0.003, 0.004};
    lull__manifest_vote_t row = {0};
    lull__vote_writer_t vote;
    lull__memory_t text = {0};
    lull__entry_name_t name;
    lull__out_t *out;
    assert_ok(lull__out_create(lull__out_to_memory, &text, &out));
    lull__vote_begin(&vote, out, &head);
    lull__vote_file(&vote, &writer->file);
    for (size_t i = 0; i < writer->count; i++)
        lull__vote_shard(&vote, &writer->shards[i]);
    for (size_t i = 0; writer->rank == 0 && i < writer->ckpt->alias_count; i++)
        lull__vote_alias(&vote, writer->ckpt->aliases[i].key,
                         writer->ckpt->aliases[i].value);
    lull__vote_end(&vote, &times, 1);
    assert_ok(lull__out_finish(out, &row.bytes, &row.hash));
    lull__out_destroy(out);
    lull__naming_vote(name, writer->rank);
    test_file_write(dir, name, text.data, text.bytes);
    free(text.data);
    return row;
}

static void write_manifest(const test_ckpt_t *ckpt, const char *dir,
                           lull__manifest_t *manifest) {
    lull__memory_t text = {0};
    lull__out_t *out;
    manifest->seq = ckpt->seq;
    manifest->parent = ckpt->parent;
    manifest->step = ckpt->step;
    manifest->save = ckpt->seq;
    manifest->time = 1700000000 + (int64_t)ckpt->seq;
    manifest->world = ckpt->world;
    strcpy(manifest->run_id, "test");
    manifest->meta = (lull_ckpt_meta_t *)ckpt->meta;
    manifest->meta_count = ckpt->meta_count;
    assert_ok(lull__out_create(lull__out_to_memory, &text, &out));
    lull__manifest_write(manifest, out);
    assert_ok(lull__out_finish(out, NULL, NULL));
    lull__out_destroy(out);
    test_file_write(dir, LULL__MANIFEST, text.data, text.bytes);
    free(text.data);
}

static void free_rank(rank_writer_t *writer) {
    for (size_t i = 0; i < writer->count; i++) {
        free((char *)writer->shards[i].stored);
        free((uint64_t *)writer->shards[i].frames);
    }
    free(writer->shards);
    lull__arena_free(&writer->arena);
    free(writer->data.data);
    free(writer->hashes);
}

void test_ckpt_write(const test_ckpt_t *ckpt) {
    lull__entry_name_t name;
    char dir[512];
    rank_writer_t *ranks = calloc(ckpt->world, sizeof *ranks);
    lull__manifest_t manifest = {0};
    manifest.files = calloc(ckpt->world, sizeof *manifest.files);
    manifest.votes = calloc(ckpt->world, sizeof *manifest.votes);
    manifest.file_count = ckpt->world;
    lull__naming_step(name, ckpt->step);
    snprintf(dir, sizeof dir, "%s/%s", ckpt->dir, name);
    assert_int_equal(mkdir(dir, 0777), 0);
    for (uint32_t r = 0; r < ckpt->world; r++) {
        rank_writer_t *writer = &ranks[r];
        *writer = (rank_writer_t){.ckpt = ckpt, .rank = r};
        writer->shards = calloc(ckpt->count + 1, sizeof *writer->shards);
        for (size_t i = 0; i < ckpt->count; i++)
            if (ckpt->shards[i].rank == r)
                add(writer, &ckpt->shards[i]);
        write_data(writer, dir);
        manifest.votes[r] = write_vote(writer, dir);
        manifest.files[r] =
            (lull__manifest_file_t){writer->name, r, writer->file.bytes,
                                    lull__vote_file_digest(&writer->file)};
    }
    write_manifest(ckpt, dir, &manifest);
    for (uint32_t r = 0; r < ckpt->world; r++)
        free_rank(&ranks[r]);
    free(ranks);
    free(manifest.files);
    free(manifest.votes);
}
