/* Writing rank-NNNNN.json, one row at a time. */
#include "vote.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

static void member_u64(lull__out_t *out, const char *head, uint64_t value) {
    lull__out_text(out, head);
    lull__out_u64(out, value);
}

void lull__vote_begin(lull__vote_writer_t *writer, lull__out_t *out,
                      const lull__vote_head_t *head) {
    *writer = (lull__vote_writer_t){
        .out = out, .rank = head->rank, .merged = head->ranks > 1};
    lull__out_text(out, "{\"format\":\"lull-vote\",\"version\":1,\"run\":");
    lull__out_string(out, head->run_id);
    member_u64(out, ",\"save\":", head->save);
    member_u64(out, ",\"step\":", head->step);
    member_u64(out, ",\"world\":", head->world);
    member_u64(out, ",\"rank\":", head->rank);
    if (writer->merged)
        member_u64(out, ",\"ranks\":", head->ranks);
    lull__out_text(out, ",\n\"files\":[");
}

/* Closes sections until `wanted` is open, then begins a row in it. */
static void row(lull__vote_writer_t *writer, unsigned wanted) {
    static const char *const openings[] = {"", "],\n\"shards\":[",
                                           "],\n\"aliases\":["};
    while (writer->section < wanted) {
        lull__out_text(writer->out, openings[++writer->section]);
        writer->rows = 0;
    }
    lull__out_text(writer->out, writer->rows++ == 0 ? "\n" : ",\n");
}

void lull__vote_file(lull__vote_writer_t *writer,
                     const lull__vote_file_t *file) {
    lull__out_t *out = writer->out;
    row(writer, 0);
    lull__out_text(out, "{\"name\":");
    lull__out_string(out, file->name);
    member_u64(out, ",\"bytes\":", file->bytes);
    member_u64(out, ",\"header\":", file->header_bytes);
    lull__out_text(out, ",\"header_hash\":");
    lull__out_hash(out, file->header_hash);
    lull__out_text(out, ",\"blocks\":[");
    for (uint64_t i = 0; i < file->hash_count; i++) {
        if (i > 0)
            lull__out_text(out, ",");
        lull__out_hash(out, file->hashes[i]);
    }
    lull__out_text(out, "]}");
}

static void put_list(lull__out_t *out, const char *head, const uint64_t *values,
                     uint32_t n) {
    lull__out_text(out, head);
    lull__out_list(out, values, n);
}

void lull__vote_shard(lull__vote_writer_t *writer, const lull__shard_t *shard) {
    lull__out_t *out = writer->out;
    row(writer, 1);
    lull__out_text(out, "{\"name\":");
    lull__out_string(out, shard->name);
    if (strcmp(shard->stored, shard->name) != 0) {
        lull__out_text(out, ",\"stored\":");
        lull__out_string(out, shard->stored);
    }
    if (shard->kind != LULL__SHARD_TENSOR) {
        lull__out_text(out, ",\"kind\":");
        lull__out_string(out, lull__shard_kind_name(shard->kind));
    }
    lull__out_text(out, ",\"dtype\":");
    lull__out_string(out, lull_dtype_name(shard->dtype));
    put_list(out, ",\"shape\":", shard->global, shard->ndim);
    if (!shard->whole) {
        put_list(out, ",\"offset\":", shard->global + shard->ndim, shard->ndim);
        put_list(out, ",\"box\":", lull__shard_shape(shard), shard->ndim);
    }
    if (writer->merged && shard->rank != writer->rank)
        member_u64(out, ",\"rank\":", shard->rank);
    member_u64(out, ",\"file\":", shard->file);
    put_list(out, ",\"data\":", (uint64_t[]){shard->begin, shard->end}, 2);
    if (shard->replicas > 1)
        put_list(out,
                 ",\"replica\":", (uint64_t[]){shard->replica, shard->replicas},
                 2);
    if (shard->codec != NULL) {
        lull__out_text(out, ",\"codec\":");
        lull__out_string(out, shard->codec);
        lull__out_text(out, ",\"frames\":");
        lull__out_list(out, shard->frames, shard->frame_count);
    }
    lull__out_text(out, "}");
}

void lull__vote_alias(lull__vote_writer_t *writer, const char *name,
                      const char *of) {
    row(writer, 2);
    lull__out_text(writer->out, "{\"name\":");
    lull__out_string(writer->out, name);
    lull__out_text(writer->out, ",\"of\":");
    lull__out_string(writer->out, of);
    lull__out_text(writer->out, "}");
}

/* Whole microseconds: printing a fraction would depend on the locale. */
static uint64_t microseconds(double s) {
    return s > 0 && s < 1e12 ? (uint64_t)llround(s * 1e6) : 0;
}

static void put_times(lull__out_t *out, const lull__vote_times_t *times) {
    member_u64(out, "{\"queued\":", microseconds(times->queued_s));
    member_u64(out, ",\"copy\":", microseconds(times->copy_s));
    member_u64(out, ",\"flush\":", microseconds(times->flush_s));
    member_u64(out, ",\"fsync\":", microseconds(times->fsync_s));
    lull__out_text(out, "}");
}

void lull__vote_end(lull__vote_writer_t *writer,
                    const lull__vote_times_t *times, uint32_t count) {
    lull__out_t *out = writer->out;
    static const char *const rest[] = {"],\n\"shards\":[],\n\"aliases\":[",
                                       "],\n\"aliases\":[", ""};
    lull__out_text(out, rest[writer->section]);
    lull__out_text(out, writer->merged ? "],\n\"times_us\":[\n"
                                       : "],\n\"times_us\":");
    for (uint32_t i = 0; i < count; i++) {
        lull__out_text(out, i > 0 ? ",\n" : "");
        put_times(out, &times[i]);
    }
    lull__out_text(out, writer->merged ? "]}\n" : "}\n");
}

uint64_t lull__vote_file_digest(const lull__vote_file_t *file) {
    /* Hashing the words in memory order is little-endian on the machines
     * that lull runs on; the format says so. */
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian");
    uint64_t seed = file->header_hash;
    uint64_t blocks =
        XXH3_64bits(file->hashes, file->hash_count * sizeof *file->hashes);
    uint64_t both[2] = {seed, blocks};
    return XXH3_64bits(both, sizeof both);
}
