/* lull prune: deletes older checkpoints. */
#include "cli.h"

static bool json, undrained;
static uint64_t keep_last, keep_every;

static void on_keep(void *ctx, lull_ckpt_id_t id, const char *why) {
    (void)ctx, (void)id;
    cli_say("stays: %s", why);
}

static int run(int count, char **args) {
    size_t deleted;
    (void)count;
    if (keep_last == 0 || keep_last > UINT32_MAX)
        return cli_usage(&command_prune,
                         "--keep-last K is needed, from 1 to 4294967295");
    lull_ckpt_prune_options_t how = LULL_CKPT_PRUNE_OPTIONS_INIT;
    how.keep_last = (uint32_t)keep_last;
    how.keep_every = keep_every;
    how.undrained = undrained;
    how.on_keep = on_keep;
    lull_status_t status = lull_ckpt_prune(args[0], &how, &deleted);
    if (status != LULL_OK)
        return cli_fail(status);
    if (json)
        printf("{\"deleted\":%zu}\n", deleted);
    else
        printf("%zu deleted\n", deleted);
    return CLI_OK;
}

static const option_t options[] = {
    {"--keep-last", OPTION_NUMBER, &keep_last, "K", "the newest K stay"},
    {"--keep-every", OPTION_NUMBER, &keep_every, "M",
     "and those whose step divides by M"},
    {"--undrained", OPTION_FLAG, &undrained, NULL,
     "also what a slower tier would keep and does not have"},
    {"--json", OPTION_FLAG, &json, NULL, "one object"},
    {0},
};

const command_t command_prune = {
    .name = "prune",
    .arguments = "DIR --keep-last K",
    .summary = "Delete all but the newest checkpoints of a directory",
    .help =
        "The newest by commit, whatever their steps. One that is being read\n"
        "stays, and so does one that a slower tier of the last run would keep\n"
        "and does not have yet. Refused while a run writes into the directory.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
