/* lull-train: a language model, trained in parallel over MPI. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "run.h"
#include "signals.h"

/* ---- Beginning --------------------------------------------------------- */

/* With the ranks' agreement: usage errors, exit 2. */
static bool take_options(run_t *run, int argc, char **argv) {
    lull_status_t status = options_parse(argc, argv, &run->options);
    if (status == LULL_OK)
        status = options_check_company(&run->options);
    if (status == LULL_OK && run->options.config.resume == NULL) {
        options_t trial = run->options;
        status = options_check(&trial, lull_comm_size(run->other));
    }
    return agree_ok(run->other, status);
}

static bool check_layout(run_t *run) {
    run->asked = run->options;
    return agree_ok(run->other,
                    options_check(&run->options, lull_comm_size(run->other)));
}

/* The text, and whether it is the one that was learnt before. */
static bool open_data(run_t *run) {
    lull_status_t status = data_open(&run->options.config, &run->data);
    if (status == LULL_OK && run->resume.info != NULL)
        status = identity_check_data(run->resume.info, run->resume.where,
                                     &run->options);
    return agree_ok(run->other, status);
}

/* What was measured is the run's policy from now on, and its checkpoints'. */
static void keep_policy(run_t *run) {
    config_t *config = &run->options.config;
    if (strncmp(config->comm, "auto", 4) != 0 &&
        strstr(config->comm, "=auto") == NULL)
        return;
    snprintf(config->comm_asked, sizeof config->comm_asked, "%s", config->comm);
    run->asked.config = *config;
    run->asked.config.comm = config->comm = run->groups.policy;
}

static bool make_model(run_t *run) {
    const config_t *config = &run->options.config;
    lull_status_t status = groups_create(config, &run->groups);
    run->grouped = status == LULL_OK;
    if (!agree_ok(run->other, status))
        return false;
    keep_policy(run);
    status = model_create(config, &run->groups, run->data, &run->model);
    return agree_ok(run->other, status);
}

static bool fill_model(run_t *run) {
    const config_t *config = &run->options.config;
    lull_status_t status = LULL_OK;
    if (run->resume.info != NULL)
        status = resume_load(&run->resume, &run->asked, run->other, run->model,
                             &run->state);
    else if (config->init != NULL)
        status = init_weights_from(run->model, config->init);
    else
        model_init_weights(run->model);
    /* An open checkpoint is one that retention must not delete. */
    resume_close(&run->resume);
    if (!agree_ok(run->other, status))
        return false;
    run->first = run->state.step;
    run->last = config->stop_at > 0 ? config->stop_at : config->steps;
    if (config->dump_step > 0 && config->dump_step <= run->first)
        status =
            train_fail(LULL_ERR_INVALID,
                       "--dump-step %lld: step %lld is done already: "
                       "give a later one",
                       (long long)config->dump_step, (long long)run->first);
    if (!agree_ok(run->other, status))
        return false;
    if (config->dump_init == NULL)
        return true;
    status = dump_tensors(run->model, &run->groups, SHARDS_WEIGHTS,
                          config->dump_init);
    return agree_ok(run->other, status);
}

static bool open_outputs(run_t *run) {
    const config_t *config = &run->options.config;
    bool teller = run->groups.rank == 0;
    lull_status_t status = LULL_OK;
    if (config->metrics != NULL && teller)
        status = metrics_open(config->metrics, run->first, &run->metrics);
    if (status == LULL_OK && config->dump_batches != NULL && teller)
        status = dump_batches(config, run->data, run->first, run->last);
    if (!agree_ok(run->other, status))
        return false;
    if (config->trace != NULL)
        status = trace_open(config->trace, run->other, &run->trace);
    if (!agree_ok(run->other, status))
        return false;
    status = comm_watch_start(&run->watch, &run->groups, run->other);
    if (!agree_ok(run->other, status))
        return false;
    const saver_subject_t subject = {
        .model = run->model,
        .asked = &run->asked,
        .groups = &run->groups,
        .data = run->data,
        .parent_seq = run->resume.id.seq,
        .trace = run->trace,
    };
    return agree_ok(run->other, saver_attach(run->saver, &subject));
}

/* Who forgot --resume should know before the first save. */
static void tell_older(const config_t *config) {
    static tier_dirs_t tiers;
    tier_dirs_fill(config, &tiers);
    for (size_t i = 0; i < tiers.count; ++i) {
        lull_ckpt_entry_t *entries;
        size_t count;
        if (lull_ckpt_list(tiers.dirs[i], &entries, &count) != LULL_OK)
            continue;
        if (count > 0)
            train_say("note: %s has checkpoints up to step %llu: this run "
                      "begins anew; --resume auto would go on from there",
                      tiers.dirs[i],
                      (unsigned long long)entries[count - 1].id.step);
        lull_ckpt_entries_free(entries);
        if (count > 0)
            return;
    }
}

static void tell_beginning(const run_t *run) {
    const config_t *config = &run->options.config;
    if (run->groups.rank != 0)
        return;
    train_say("lull-train %s: %.2f million weights, %d layers of %d, %d rank%s"
              " (DP %d, TP %d, PP %d%s), %d sequences of %d bytes a step, "
              "comm %s%s%s",
              lull_version(), 1e-6 * (double)model_parameters(run->model),
              config->layers, config->hidden, run->groups.world,
              run->groups.world == 1 ? "" : "s", config->dp, config->tp,
              config->pp, config->zero ? ", sharded optimizer" : "",
              config->global_batch, config->seq, config->comm_asked,
              config->comm_asked[0] != '\0' ? ", measured: " : "",
              config->comm);
    if (run->resume.dir != NULL)
        train_say("resumed from %s", run->resume.where);
    else if (config->ckpt_dir != NULL)
        tell_older(config);
    if (run->first >= run->last)
        train_say("nothing left to train: %lld steps are done, the end is %lld",
                  (long long)run->first, (long long)run->last);
}

/* ---- End --------------------------------------------------------------- */

/* The last saves are waited for; the last one's failure is the run's. */
static bool finish_saves(run_t *run) {
    saver_finish(run->saver);
    int64_t told[2] = {saver_failure(run->saver),
                       saver_last_failed(run->saver)};
    lull_status_t status =
        lull_allreduce(LULL_IN_PLACE, told, 2, LULL_I64, LULL_MAX, run->other);
    if (!agree_ok(run->other, train_wrap(status, "checkpoint")))
        return false;
    if (told[0] > 0)
        saver_tell(run->saver, run->other, told[0]);
    return told[1] == 0;
}

static bool write_sample(run_t *run) {
    const config_t *config = &run->options.config;
    sample_options_t options = {
        .prompt = (const uint8_t *)config->prompt,
        .prompt_bytes = strlen(config->prompt),
        .count = (size_t)config->sample,
        .temperature = config->temperature,
        .top_k = config->top_k,
        .seed = config->seed,
    };
    if (options.count == 0 || run->signal != 0)
        return true;
    if (options.prompt_bytes == 0) {
        options.prompt = (const uint8_t *)"\n";
        options.prompt_bytes = 1;
    }
    uint8_t *text = malloc(options.count);
    lull_status_t status =
        text != NULL ? LULL_OK
                     : train_fail(LULL_ERR_NO_MEMORY, "--sample: no memory");
    bool agreed = agree_ok(run->other, status);
    if (agreed)
        agreed = agree_ok(run->other, model_sample(run->model, &options, text));
    if (agreed && run->groups.rank == 0) {
        fputs(config->prompt, stdout);
        fwrite(text, 1, options.count, stdout);
        putchar('\n');
        if (fflush(stdout) != 0)
            status = train_fail(LULL_ERR_IO, "--sample: write failed");
    }
    free(text);
    return agreed && agree_ok(run->other, status);
}

static void tell_end(const run_t *run) {
    if (run->signal == 0 || run->groups.rank != 0)
        return;
    train_say("stopped by SIG%s after step %lld%s", sigabbrev_np(run->signal),
              (long long)run->state.step,
              run->saver != NULL ? ": its checkpoint is committed"
                                 : "; no --ckpt-dir: nothing was saved");
}

static void close_run(run_t *run) {
    saver_destroy(run->saver);
    comm_watch_stop(&run->watch);
    metrics_close(run->metrics);
    trace_close(run->trace);
    resume_close(&run->resume);
    model_destroy(run->model);
    data_close(run->data);
    if (run->grouped)
        groups_destroy(&run->groups);
    lull_comm_destroy(run->other);
    options_release(&run->options);
}

/* What the library has to say on the way, said once. */
static void on_log(void *ctx, lull_log_level_t level, const char *line) {
    (void)ctx;
    (void)level;
    train_say("lull-train: %s", line);
}

/* ---- All of it --------------------------------------------------------- */

static int train(run_t *run) {
    if (!agree_ok(run->other,
                  saver_open(&run->options, run->other, &run->saver)) ||
        !agree_ok(run->other,
                  resume_find(&run->options, run->other, &run->resume)))
        return EXIT_FAILURE;
    if (!check_layout(run))
        return EXIT_USAGE;
    if (!open_data(run) || !make_model(run) || !fill_model(run) ||
        !open_outputs(run))
        return EXIT_FAILURE;
    tell_beginning(run);
    report_start(&run->report, run->first, run->last);
    bool fine = run_loop(run);
    fine &= finish_saves(run);
    if (!fine)
        return EXIT_FAILURE;
    fine = agree_ok(run->other,
                    report_table(&run->report, run->saver, run->other));
    if (run->trace != NULL)
        fine &= agree_ok(run->other, trace_write(run->trace, run->other));
    if (!fine || !write_sample(run))
        return EXIT_FAILURE;
    tell_end(run);
    return EXIT_SUCCESS;
}

/* A background thread talks over MPI only where ranks agree so. What is wrong
 * with the options is said later, by one rank. */
static int thread_level(int argc, char **argv) {
    options_t early;
    bool local =
        options_parse(argc, argv, &early) == LULL_OK && early.config.ckpt_local;
    options_release(&early);
    train_error_clear();
    return local ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
}

int main(int argc, char **argv) {
    static run_t run;
    if (options_answer(argc, argv))
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    int provided;
    signals_hold();
    if (MPI_Init_thread(&argc, &argv, thread_level(argc, argv), &provided) !=
        MPI_SUCCESS) {
        train_say("lull-train: MPI cannot be initialised");
        return EXIT_FAILURE;
    }
    int code = EXIT_FAILURE;
    lull_status_t status =
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_OTHER, NULL, &run.other);
    if (status != LULL_OK)
        train_say("lull-train: %s", lull_last_error());
    else {
        if (lull_comm_rank(run.other) == 0)
            lull_log_set(on_log, NULL, LULL_LOG_WARN);
        code = take_options(&run, argc, argv) ? train(&run) : EXIT_USAGE;
    }
    close_run(&run);
    MPI_Finalize();
    return code;
}
