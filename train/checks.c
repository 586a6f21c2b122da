/* What options must be together: divisibility, order, company. */
#include <string.h>
#include <sys/stat.h>

#include "agree.h"
#include "options.h"

#define REFUSE(...) return train_fail(LULL_ERR_INVALID, __VA_ARGS__)

/* Writes the divisors of `of` that also divide `and_of` (0: no more). */
static const char *divisors(int of, int and_of) {
    static char text[128];
    size_t used = 0;
    for (int i = 1; i <= of && used + 24 < sizeof text; ++i) {
        if (of % i == 0 && (and_of == 0 || and_of % i == 0))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                     used > 0 ? ", " : "", i);
    }
    return text;
}

static lull_status_t check_model(const config_t *config) {
    int hidden = config->hidden, heads = config->heads;
    if (hidden % heads != 0)
        REFUSE("--heads %d does not divide --hidden %d: give one of %s", heads,
               hidden, divisors(hidden, 0));
    int rotary = hidden / heads / 4;
    if (rotary < 2 || rotary % 2 != 0)
        REFUSE("--hidden %d over --heads %d gives heads of %d, of which a "
               "quarter rotates in pairs: give heads of 8, 16, 24, 32, ...",
               hidden, heads, hidden / heads);
    return LULL_OK;
}

static lull_status_t check_tp(const config_t *config) {
    int tp = config->tp;
    if (config->heads % tp != 0)
        REFUSE("--tp %d does not divide --heads %d: give one of %s", tp,
               config->heads, divisors(config->heads, VOCABULARY));
    if (config->hidden % tp != 0)
        REFUSE("--tp %d does not divide --hidden %d: give one of %s", tp,
               config->hidden, divisors(config->heads, VOCABULARY));
    if (VOCABULARY % tp != 0)
        REFUSE("--tp %d does not divide the vocabulary of %d bytes: give one "
               "of %s",
               tp, VOCABULARY, divisors(config->heads, VOCABULARY));
    return LULL_OK;
}

static lull_status_t check_layout(config_t *config, int world) {
    int64_t model = (int64_t)config->tp * config->pp;
    lull_status_t status = check_tp(config);
    if (status != LULL_OK)
        return status;
    if (config->pp > config->layers)
        REFUSE("--pp %d is more than --layers %d: give at most %d", config->pp,
               config->layers, config->layers);
    if (world % model != 0)
        REFUSE("--tp %d times --pp %d does not divide the %d rank%s: start a "
               "multiple of %lld",
               config->tp, config->pp, world, world == 1 ? "" : "s",
               (long long)model);
    config->dp = (int)(world / model);
    return LULL_OK;
}

/* Sequences of a pass where none are asked for: all of a rank's, or a part of
 * them that keeps a pipeline full. */
static int choose_micro(const config_t *config) {
    int local = config->global_batch / config->dp;
    int passes = config->pp > 1 ? 2 * config->pp : 1;
    while (passes > 1 && local % passes != 0)
        --passes;
    return local / passes;
}

static lull_status_t check_batch(options_t *options) {
    config_t *config = &options->config;
    int batch = config->global_batch, dp = config->dp;
    if (batch % dp != 0)
        REFUSE("--global-batch %d does not divide by the %d data-parallel "
               "ranks: give a multiple of %d",
               batch, dp, dp);
    if (config->micro_batch == 0)
        config->micro_batch = choose_micro(config);
    else if (batch / dp % config->micro_batch != 0)
        REFUSE("--micro-batch %d does not divide the %d sequences of a rank: "
               "give one of %s",
               config->micro_batch, batch / dp, divisors(batch / dp, 0));
    return LULL_OK;
}

static bool was_given(const options_t *options, const char *name) {
    option_row_t row;
    for (size_t i = 0; options_row(options, i, &row); ++i) {
        if (strcmp(row.name, name) == 0)
            return row.given;
    }
    return false;
}

static lull_status_t check_schedule(options_t *options) {
    config_t *config = &options->config;
    if (config->stop_at > config->steps)
        REFUSE("--stop-at %lld is past --steps %lld: give at most %lld",
               (long long)config->stop_at, (long long)config->steps,
               (long long)config->steps);
    if (config->warmup > config->steps) {
        if (was_given(options, "warmup"))
            REFUSE("--warmup %lld is more than --steps %lld: give at most %lld",
                   (long long)config->warmup, (long long)config->steps,
                   (long long)config->steps);
        config->warmup = config->steps / 10;
    }
    return LULL_OK;
}

static lull_status_t check_dumps(const config_t *config, int world) {
    int64_t last = config->stop_at > 0 ? config->stop_at : config->steps;
    if (config->dump_step > last)
        REFUSE("--dump-step %lld is past the last step %lld: give at most %lld",
               (long long)config->dump_step, (long long)last, (long long)last);
    if (config->dump_activations != NULL && world > 1)
        REFUSE("--dump-activations %s: %d ranks have parts of them each: start "
               "one rank",
               config->dump_activations, world);
    return LULL_OK;
}

static lull_status_t check_company(const options_t *options) {
    static const char *const of_ckpt[] = {
        "ckpt-every", "ckpt-mode",          "ckpt-buffer",    "ckpt-codec",
        "ckpt-local", "keep-last",          "commit-timeout", "keep-every",
        "ckpt-tier",  "ckpt-encode-threads"};
    const config_t *config = &options->config;
    if (config->data == NULL)
        REFUSE("--data: not given: give the file to learn");
    if (config->resume != NULL && config->init != NULL)
        REFUSE("--init %s: --resume has weights already: give one of the two",
               config->init);
    if (config->dump_step > 0 && config->dump_grads == NULL &&
        config->dump_activations == NULL)
        REFUSE("--dump-step: is about dumps: give --dump-grads or "
               "--dump-activations, too");
    if (config->ckpt_dir != NULL)
        return LULL_OK;
    if (config->resume != NULL && strcmp(config->resume, "auto") == 0)
        REFUSE("--resume auto: looks into --ckpt-dir: give that, too");
    for (size_t i = 0; i < sizeof of_ckpt / sizeof of_ckpt[0]; ++i) {
        if (was_given(options, of_ckpt[i]))
            REFUSE("--%s: is about checkpoints: give --ckpt-dir, too",
                   of_ckpt[i]);
    }
    return LULL_OK;
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return a != NULL && b != NULL && stat(a, &x) == 0 && stat(b, &y) == 0 &&
           S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A file that is read must not be written over. */
static lull_status_t check_outputs(const config_t *config) {
    const char *const inputs[][2] = {{"data", config->data},
                                     {"init", config->init}};
    const char *const outputs[][2] = {
        {"metrics", config->metrics},
        {"trace", config->trace},
        {"dump-init", config->dump_init},
        {"dump-grads", config->dump_grads},
        {"dump-activations", config->dump_activations},
        {"dump-batches", config->dump_batches}};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; ++i)
        for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; ++k)
            if (same_file(outputs[i][1], inputs[k][1]))
                REFUSE("--%s %s: would write over --%s: give another file",
                       outputs[i][0], outputs[i][1], inputs[k][0]);
    return LULL_OK;
}

lull_status_t options_check_company(const options_t *options) {
    lull_status_t status = check_company(options);
    if (status == LULL_OK)
        status = check_outputs(&options->config);
    if (status != LULL_OK)
        return status;
    status = lull_policy_check(options->config.comm);
    return train_wrap(status, "--comm");
}

lull_status_t options_check(options_t *options, int world) {
    lull_status_t status = check_model(&options->config);
    if (status == LULL_OK)
        status = check_layout(&options->config, world);
    if (status == LULL_OK)
        status = check_batch(options);
    if (status == LULL_OK)
        status = check_schedule(options);
    if (status == LULL_OK)
        status = check_dumps(&options->config, world);
    return status;
}
