/* lull show: one checkpoint, in detail. */
#include <inttypes.h>

#include "cli.h"

static bool json;
static uint64_t step = LULL_LATEST;

/* ---- For people ---- */

/* The line for checkpoints that are compressed. */
static void show_saved(const lull_ckpt_info_t *info) {
    lull_ckpt_tensor_info_t t;
    uint64_t bytes = 0, stored = 0;
    for (size_t i = 0; lull_ckpt_info_tensor_at(info, i, &t); i++) {
        bytes += t.alias_of == NULL ? t.bytes : 0;
        stored += t.stored_bytes;
    }
    if (bytes == stored)
        return;
    printf("tensors of %s, ", cli_bytes(bytes));
    printf("stored in %s: %.1f %% saved\n", cli_bytes(stored),
           100 * (1 - (double)stored / (double)bytes));
}

static void show_head(const lull_ckpt_info_t *info) {
    lull_ckpt_entry_t e;
    lull_ckpt_meta_t meta;
    lull_ckpt_info_entry(info, &e);
    printf("%s: seq %" PRIu64 ", step %" PRIu64, e.name, e.id.seq, e.id.step);
    if (e.parent_seq != 0)
        printf(", resumed from seq %" PRIu64, e.parent_seq);
    printf("\ncommitted %s UTC by %u rank%s: %u files, %s\n", cli_time(e.time),
           e.world, e.world == 1 ? "" : "s", e.files, cli_bytes(e.bytes));
    show_saved(info);
    for (size_t i = 0; lull_ckpt_info_meta_at(info, i, &meta); i++) {
        fputs(i == 0 ? "\nmetadata\n  " : "  ", stdout);
        cli_print_name(stdout, meta.key);
        fputs(" = ", stdout);
        cli_print_name(stdout, meta.value);
        putchar('\n');
    }
}

static void show_ranks(const lull_ckpt_info_t *info) {
    lull_ckpt_rank_info_t rank;
    for (size_t i = 0; lull_ckpt_info_rank_at(info, i, &rank); i++) {
        if (i == 0)
            printf("\n%5s %10s %7s %10s %10s %10s %10s\n", "rank", "bytes",
                   "shards", "queued s", "copy s", "flush s", "fsync s");
        printf("%5zu %10s %7" PRIu64 " %10.3f %10.3f %10.3f %10.3f\n", i,
               cli_bytes(rank.bytes), rank.shards, rank.queued_s, rank.copy_s,
               rank.flush_s, rank.fsync_s);
    }
}

/* Files of other nodes' directories. */
static void show_elsewhere(const lull_ckpt_info_t *info) {
    lull_ckpt_file_info_t f;
    bool first = true;
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &f); i++) {
        if (f.elsewhere == NULL)
            continue;
        printf("%s%s in ", first ? "\nelsewhere\n  " : "  ", f.name);
        cli_print_name(stdout, f.elsewhere);
        printf(": %s\n", cli_bytes(f.bytes));
        first = false;
    }
}

static void show_tensors(const lull_ckpt_info_t *info) {
    lull_ckpt_tensor_info_t t;
    for (size_t i = 0; lull_ckpt_info_tensor_at(info, i, &t); i++) {
        if (i == 0)
            printf("\n%-6s %-16s %10s %10s %-8s %6s  %s\n", "dtype", "shape",
                   "size", "stored", "codec", "shards", "tensor");
        printf("%-6s %-16s %10s %10s %-8s %6zu  ", lull_dtype_name(t.dtype),
               cli_shape(t.ndim, t.shape), cli_bytes(t.bytes),
               cli_bytes(t.stored_bytes), t.codec, t.shards);
        cli_print_name(stdout, t.name);
        if (t.alias_of != NULL) {
            fputs(" = ", stdout);
            cli_print_name(stdout, t.alias_of);
        }
        putchar('\n');
    }
}

static void show_states(const lull_ckpt_info_t *info) {
    lull_ckpt_state_info_t s;
    for (size_t i = 0; lull_ckpt_info_state_at(info, i, &s); i++) {
        if (i == 0)
            puts("\nhost state");
        fputs("  ", stdout);
        cli_print_name(stdout, s.name);
        if (s.per_rank)
            printf(" of rank %u", s.rank);
        printf(": %" PRIu64 " bytes\n", s.bytes);
    }
}

/* ---- For programs ---- */

static void json_head(const lull_ckpt_info_t *info) {
    lull_ckpt_entry_t e;
    lull_ckpt_meta_t meta;
    lull_ckpt_info_entry(info, &e);
    fputs("{\"name\":", stdout);
    cli_json_string(stdout, e.name);
    printf(",\"seq\":%" PRIu64 ",\"step\":%" PRIu64 ",\"parent\":%" PRIu64
           ",\"world\":%u,\"files\":%u,\"bytes\":%" PRIu64 ",\"time\":%" PRId64
           ",\n\"meta\":{",
           e.id.seq, e.id.step, e.parent_seq, e.world, e.files, e.bytes,
           e.time);
    for (size_t i = 0; lull_ckpt_info_meta_at(info, i, &meta); i++) {
        cli_json_key(stdout, i == 0, meta.key);
        cli_json_string(stdout, meta.value);
    }
    putchar('}');
}

static void json_ranks(const lull_ckpt_info_t *info) {
    lull_ckpt_rank_info_t r;
    fputs(",\n\"ranks\":[", stdout);
    for (size_t i = 0; lull_ckpt_info_rank_at(info, i, &r); i++)
        printf("%s{\"bytes\":%" PRIu64 ",\"shards\":%" PRIu64
               ",\"queued_s\":%.6f,\"copy_s\":%.6f,\"flush_s\":%.6f,"
               "\"fsync_s\":%.6f}",
               i == 0 ? "\n" : ",\n", r.bytes, r.shards, r.queued_s, r.copy_s,
               r.flush_s, r.fsync_s);
    putchar(']');
}

static void json_elsewhere(const lull_ckpt_info_t *info) {
    lull_ckpt_file_info_t f;
    bool first = true;
    fputs(",\n\"elsewhere\":[", stdout);
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &f); i++) {
        if (f.elsewhere == NULL)
            continue;
        printf("%s{\"file\":\"%s\",\"bytes\":%" PRIu64 ",\"in\":",
               first ? "\n" : ",\n", f.name, f.bytes);
        cli_json_string(stdout, f.elsewhere);
        putchar('}');
        first = false;
    }
    putchar(']');
}

static void json_shards(const lull_ckpt_info_t *info,
                        const lull_ckpt_tensor_info_t *t) {
    lull_ckpt_shard_info_t s;
    fputs(",\"shards\":[", stdout);
    for (size_t i = 0; lull_ckpt_info_shard_at(info, t->name, i, &s); i++) {
        fputs(i == 0 ? "{\"offset\":" : ",{\"offset\":", stdout);
        cli_json_list(stdout, t->ndim, s.offset);
        cli_json_key(stdout, false, "shape");
        cli_json_list(stdout, t->ndim, s.shape);
        printf(",\"rank\":%u,\"file\":\"%s\",\"at\":%" PRIu64
               ",\"stored\":%" PRIu64 "}",
               s.rank, s.file, s.file_offset, s.stored_bytes);
    }
    putchar(']');
}

static void json_tensors(const lull_ckpt_info_t *info) {
    lull_ckpt_tensor_info_t t;
    fputs(",\n\"tensors\":[", stdout);
    for (size_t i = 0; lull_ckpt_info_tensor_at(info, i, &t); i++) {
        fputs(i == 0 ? "\n{\"name\":" : ",\n{\"name\":", stdout);
        cli_json_string(stdout, t.name);
        printf(",\"dtype\":\"%s\",\"shape\":", lull_dtype_name(t.dtype));
        cli_json_list(stdout, t.ndim, t.shape);
        printf(",\"bytes\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"codec\":",
               t.bytes, t.stored_bytes);
        cli_json_string(stdout, t.codec);
        if (t.alias_of != NULL) {
            cli_json_key(stdout, false, "alias_of");
            cli_json_string(stdout, t.alias_of);
        }
        json_shards(info, &t);
        putchar('}');
    }
    putchar(']');
}

static void json_states(const lull_ckpt_info_t *info) {
    lull_ckpt_state_info_t s;
    fputs(",\n\"states\":[", stdout);
    for (size_t i = 0; lull_ckpt_info_state_at(info, i, &s); i++) {
        fputs(i == 0 ? "\n{\"name\":" : ",\n{\"name\":", stdout);
        cli_json_string(stdout, s.name);
        printf(",\"per_rank\":%s,\"rank\":%u,\"bytes\":%" PRIu64 "}",
               s.per_rank ? "true" : "false", s.rank, s.bytes);
    }
    puts("]}");
}

static int run(int count, char **args) {
    lull_ckpt_info_t *info;
    (void)count;
    int code = cli_open(args[0], step, &info);
    if (code != CLI_OK)
        return code;
    static void (*const people[])(const lull_ckpt_info_t *) = {
        show_head, show_ranks, show_elsewhere, show_tensors, show_states};
    static void (*const programs[])(const lull_ckpt_info_t *) = {
        json_head, json_ranks, json_elsewhere, json_tensors, json_states};
    for (int i = 0; i < 5; i++)
        (json ? programs : people)[i](info);
    lull_ckpt_info_destroy(info);
    return CLI_OK;
}

static const option_t options[] = {
    {"--step", OPTION_NUMBER, &step, "N", "this step instead of the newest"},
    {"--json", OPTION_FLAG, &json, NULL, "one object, with every shard"},
    {0},
};

const command_t command_show = {
    .name = "show",
    .arguments = "DIR[/STEP]",
    .summary = "Show a checkpoint: its metadata, ranks, tensors and host state",
    .help =
        "Without a step, the newest whole checkpoint. The times are those of\n"
        "the save: until copying began, until the snapshot was taken, until\n"
        "the last byte was written, and in fsync.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
