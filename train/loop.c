/* The loop over steps: train, save, validate, tell. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "run.h"
#include "signals.h"

enum { SKIPS_MOST = 10 };

/* ---- Hooks of a step --------------------------------------------------- */

/* The first trouble is the one that is told. */
static void keep_trouble(run_t *run, lull_status_t status) {
    if (run->trouble == LULL_OK)
        run->trouble = status;
}

static bool dumps_now(const run_t *run) {
    int64_t step = run->options.config.dump_step;
    return run->state.step == (step > 0 ? step - 1 : run->first);
}

static lull_status_t on_gradients(void *ctx, model_t *model) {
    run_t *run = ctx;
    const char *path = run->options.config.dump_grads;
    if (path == NULL || !dumps_now(run))
        return LULL_OK;
    keep_trouble(run,
                 dump_tensors(model, &run->groups, SHARDS_GRADIENTS, path));
    return LULL_OK; /* all ranks agree on it after the step */
}

/* A dump that failed is told after the step, as that of the gradients. */
static lull_status_t on_traffic(void *ctx, const float *values, size_t count) {
    run_t *run = ctx;
    if (run->trouble == LULL_OK)
        keep_trouble(run,
                     dump_activations_add(run->activations, values, count));
    return LULL_OK;
}

static void open_activations(run_t *run) {
    const config_t *config = &run->options.config;
    if (config->dump_activations != NULL && dumps_now(run))
        keep_trouble(run, dump_activations_open(config, &run->activations));
}

static void close_activations(run_t *run) {
    if (run->activations != NULL && run->trouble == LULL_OK)
        keep_trouble(run, dump_activations_close(run->activations));
    dump_activations_destroy(run->activations);
    run->activations = NULL;
}

static lull_status_t on_update(void *ctx) {
    run_t *run = ctx;
    saver_before_update(run->saver);
    return LULL_OK;
}

static void on_begin(void *ctx, const char *lane, const char *name) {
    trace_begin(((run_t *)ctx)->trace, lane, name);
}

static void on_end(void *ctx, const char *lane) {
    trace_end(((run_t *)ctx)->trace, lane);
}

static hooks_t make_hooks(run_t *run) {
    hooks_t hooks = {.ctx = run, .before_update = on_update};
    if (run->options.config.dump_grads != NULL)
        hooks.gradients = on_gradients;
    if (run->activations != NULL)
        hooks.traffic = on_traffic;
    if (run->trace != NULL) {
        hooks.span_begin = on_begin;
        hooks.span_end = on_end;
    }
    return hooks;
}

/* ---- What the ranks agree on after a step ------------------------------ */

/* A failure inside a step may be one rank's alone while the others wait for
 * it in MPI: there is nothing left to agree with. */
static void give_up(lull_status_t status) {
    const char *why = train_error();
    int rank;
    /* A failure that all ranks share is told once: the first to abort ends the
     * others before it is their turn, above all who only heard of it. */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    usleep(250000U * (unsigned)(rank < 8 ? rank : 8));
    if (status == LULL_ERR_PEER)
        sleep(2);
    train_say("lull-train: a step failed: %s",
              *why != '\0' ? why : lull_status_text(status));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

typedef struct flags {
    int64_t signal, failed_step, committed, trouble;
} flags_t;

/* One message a step: on few cores each costs a turn of every rank. */
static void exchange(run_t *run, flags_t *flags) {
    flags->signal = signals_caught();
    flags->failed_step = saver_failure(run->saver);
    flags->committed = saver_ever_committed(run->saver);
    flags->trouble = run->trouble != LULL_OK;
    trace_begin(run->trace, "other", "flags");
    lull_status_t status =
        lull_allreduce(LULL_IN_PLACE, flags, sizeof *flags / sizeof(int64_t),
                       LULL_I64, LULL_MAX, run->other);
    trace_end(run->trace, "other");
    if (status != LULL_OK)
        give_up(train_wrap(status, "the ranks cannot agree"));
}

/* A later failure is told and training goes on, the last good checkpoint
 * stays. When nothing was ever saved, going on would be for nothing. */
static bool saves_fine(run_t *run, const flags_t *flags) {
    if (flags->failed_step == 0)
        return true;
    saver_tell(run->saver, run->other, flags->failed_step);
    return flags->committed != 0;
}

/* ---- A step ------------------------------------------------------------ */

static void count_skip(run_state_t *state, const step_result_t *result) {
    state->skipped += result->skipped;
    state->skipped_in_row = result->skipped ? state->skipped_in_row + 1 : 0;
}

static bool validation_due(const run_t *run) {
    int64_t every = run->options.config.val_every, step = run->state.step;
    if (run->signal != 0)
        return false;
    return step == run->last || (every > 0 && step % every == 0);
}

static bool save_due(const run_t *run) {
    int64_t every = run->options.config.ckpt_every, step = run->state.step;
    return step == run->last || run->signal != 0 ||
           (every > 0 && step % every == 0);
}

static void validate(run_t *run, step_line_t *line) {
    trace_begin(run->trace, "validation", "validation");
    lull_status_t status = model_validate(run->model, &line->val_loss);
    trace_end(run->trace, "validation");
    if (status != LULL_OK)
        give_up(status);
    line->validated = true;
}

/* Training and the save that follows the update: what a step costs. */
static bool advance(run_t *run, const hooks_t *hooks, step_line_t *line) {
    double begin = train_now();
    flags_t flags;
    lull_status_t status =
        train_step(run->model, run->state.step, hooks, &line->result);
    if (status != LULL_OK)
        give_up(status);
    close_activations(run);
    ++run->state.step;
    run->state.updates = model_updates(run->model);
    count_skip(&run->state, &line->result);
    saver_poll(run->saver);
    exchange(run, &flags);
    run->signal = (int)flags.signal;
    if (flags.trouble != 0)
        return agree_ok(run->other, run->trouble);
    if (!saves_fine(run, &flags))
        return false;
    if (save_due(run))
        saver_save(run->saver, &run->state);
    line->seconds = train_now() - begin;
    return true;
}

static void tell(run_t *run, step_line_t *line) {
    const config_t *config = &run->options.config;
    line->step = run->state.step;
    line->blocked = saver_blocked(run->saver);
    line->bytes_learnt = (double)config->global_batch * config->seq;
    line->flops = model_step_flops(run->model);
    trace_begin(run->trace, "other", "metrics");
    lull_status_t status = step_line_sum(&run->watch, run->other, line);
    trace_end(run->trace, "other");
    if (status != LULL_OK)
        give_up(status);
    if (run->groups.rank != 0)
        return;
    report_step(&run->report, line);
    status = metrics_write(run->metrics, line);
    if (status != LULL_OK)
        run->trouble = status;
}

static bool norms_fine(run_t *run, const step_line_t *line) {
    if (line->result.skipped && run->groups.rank == 0)
        train_say("lull-train: step %lld: the gradient norm is not finite: "
                  "nothing updated",
                  (long long)line->step);
    if (run->state.skipped_in_row < SKIPS_MOST)
        return true;
    if (run->groups.rank == 0)
        train_say("lull-train: stopped: the gradient norm was not finite in "
                  "%d steps in a row: resume from an older checkpoint, or "
                  "give a smaller --lr",
                  SKIPS_MOST);
    return false;
}

bool run_loop(run_t *run) {
    while (run->state.step < run->last && run->signal == 0) {
        step_line_t line = {0};
        open_activations(run);
        hooks_t hooks = make_hooks(run);
        if (!advance(run, &hooks, &line))
            return false;
        if (validation_due(run))
            validate(run, &line);
        tell(run, &line);
        if (!norms_fine(run, &line))
            return false;
    }
    return agree_ok(run->other, run->trouble);
}
