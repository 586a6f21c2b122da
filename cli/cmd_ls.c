/* lull ls: the checkpoints of a directory. */
#include <inttypes.h>
#include <sys/stat.h>

#include "cli.h"

static bool json;

static void print_json(const lull_ckpt_entry_t *e, bool first) {
    printf("%s{\"name\":", first ? "\n" : ",\n");
    cli_json_string(stdout, e->name);
    printf(",\"seq\":%" PRIu64 ",\"step\":%" PRIu64 ",\"parent\":%" PRIu64
           ",\"world\":%u,\"files\":%u,\"bytes\":%" PRIu64 ",\"time\":%" PRId64
           ",\"state\":",
           e->id.seq, e->id.step, e->parent_seq, e->world, e->files, e->bytes,
           e->time);
    cli_json_string(stdout, lull_status_name(e->state));
    if (e->state != LULL_OK) {
        cli_json_key(stdout, false, "why");
        cli_json_string(stdout, e->why);
    }
    putchar('}');
}

static void print_row(const lull_ckpt_entry_t *e) {
    if (e->state != LULL_OK) {
        char seq[24] = "?";
        if (e->id.seq != 0)
            snprintf(seq, sizeof seq, "%" PRIu64, e->id.seq);
        printf("%5s %10" PRIu64 "  damaged: %s\n", seq, e->id.step, e->why);
        return;
    }
    printf("%5" PRIu64 " %10" PRIu64 " %6" PRIu64 " %6u %6u %10s  %s\n",
           e->id.seq, e->id.step, e->parent_seq, e->world, e->files,
           cli_bytes(e->bytes), cli_time(e->time));
}

/* A list of nothing would leave one to guess. */
static int say_none(const char *dir) {
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    if (stat(path, &st) == 0) {
        cli_say("%s: it is one checkpoint: `lull show` shows it", dir);
        return CLI_FAILED;
    }
    cli_say("%s: no checkpoint in it", dir);
    return CLI_OK;
}

static int run(int count, char **args) {
    lull_ckpt_entry_t *entries;
    size_t n;
    (void)count;
    lull_status_t status = lull_ckpt_list(args[0], &entries, &n);
    if (status != LULL_OK)
        return cli_fail(status);
    if (json)
        putchar('[');
    else if (n > 0)
        printf("%5s %10s %6s %6s %6s %10s  %s\n", "seq", "step", "parent",
               "ranks", "files", "size", "committed (UTC)");
    for (size_t i = 0; i < n; i++) {
        if (json)
            print_json(&entries[i], i == 0);
        else
            print_row(&entries[i]);
    }
    if (json)
        puts("]");
    lull_ckpt_entries_free(entries);
    return n == 0 ? say_none(args[0]) : CLI_OK;
}

static const option_t options[] = {
    {"--json", OPTION_FLAG, &json, NULL, "an array of objects"},
    {0},
};

const command_t command_ls = {
    .name = "ls",
    .arguments = "DIR",
    .summary = "List the committed checkpoints of a directory, oldest first",
    .help =
        "seq orders commits, step is a label: after resuming from an older\n"
        "step, the newest checkpoint is the one with the highest seq. Each\n"
        "is checked as far as that is cheap (manifest, votes, sizes,\n"
        "headers); what fails is listed as damaged, with the reason.\n"
        "`lull verify` reads every byte.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
