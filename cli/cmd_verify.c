/* lull verify: every byte against its hash. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"

static bool json, all;
static uint64_t step = LULL_LATEST;
static bool first_row;

static void report(const char *name, lull_ckpt_id_t id, uint64_t bytes,
                   lull_status_t status) {
    const char *why = lull_last_error();
    if (!json) {
        if (status == LULL_OK)
            printf("%s: ok, %s\n", name, cli_bytes(bytes));
        else
            cli_say("%s", why);
        return;
    }
    fputs(first_row ? "\n{\"name\":" : ",\n{\"name\":", stdout);
    first_row = false;
    cli_json_string(stdout, name);
    printf(",\"seq\":%" PRIu64 ",\"step\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"state\":\"%s\"",
           id.seq, id.step, bytes, lull_status_name(status));
    if (status != LULL_OK) {
        cli_json_key(stdout, false, "why");
        cli_json_string(stdout, why);
    }
    putchar('}');
}

static lull_status_t verify(const char *dir, const lull_ckpt_entry_t *e) {
    lull_ckpt_info_t *info;
    progress_t progress;
    lull_status_t status = lull_ckpt_info_open(dir, e->id, &info);
    if (status == LULL_OK) {
        cli_progress_begin(&progress, e->name);
        status = lull_ckpt_verify(info, cli_progress, &progress);
        cli_progress_end(&progress);
        lull_ckpt_info_destroy(info);
    }
    report(e->name, e->id, e->bytes, status);
    return status;
}

/* Corruption outweighs other failures. */
static int worse(int code, lull_status_t status) {
    if (status == LULL_ERR_CORRUPT)
        return CLI_CORRUPT;
    return status != LULL_OK && code == CLI_OK ? CLI_FAILED : code;
}

static int verify_all(const char *dir) {
    lull_ckpt_entry_t *entries;
    size_t n;
    int code = CLI_OK;
    lull_status_t status = lull_ckpt_list(dir, &entries, &n);
    if (status != LULL_OK)
        return cli_fail(status);
    if (n == 0)
        cli_say("%s: no checkpoint in it", dir);
    for (size_t i = 0; i < n; i++)
        code = worse(code, verify(dir, &entries[i]));
    lull_ckpt_entries_free(entries);
    return n == 0 ? CLI_FAILED : code;
}

static int verify_one(const char *path) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_entry_t entry;
    char *dir;
    int code = cli_resolve(path, step, &dir, &id);
    if (code != CLI_OK)
        return cli_skipped > 0 ? CLI_CORRUPT : code;
    lull_status_t status = lull_ckpt_info_open(dir, id, &info);
    if (status != LULL_OK) {
        code = cli_fail(status);
    } else {
        lull_ckpt_info_entry(info, &entry);
        lull_ckpt_info_destroy(info);
        code = worse(CLI_OK, verify(dir, &entry));
    }
    free(dir);
    /* A newest one that was passed over is damage, whatever this one is. */
    return cli_skipped > 0 ? CLI_CORRUPT : code;
}

static int run(int count, char **args) {
    (void)count;
    if (all && step != LULL_LATEST)
        return cli_usage(&command_verify,
                         "--all and --step exclude each other");
    first_row = true;
    if (json)
        putchar('[');
    int code = all ? verify_all(args[0]) : verify_one(args[0]);
    if (json)
        puts("]");
    return code;
}

static const option_t options[] = {
    {"--step", OPTION_NUMBER, &step, "N", "this step instead of the newest"},
    {"--all", OPTION_FLAG, &all, NULL, "every checkpoint of the directory"},
    {"--json", OPTION_FLAG, &json, NULL, "an array of objects"},
    {0},
};

const command_t command_verify = {
    .name = "verify",
    .arguments = "DIR[/STEP]",
    .summary = "Read every byte of a checkpoint and check every hash",
    .help =
        "Exit status 3 when something is damaged; the file, the tensor and\n"
        "the block are named.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
