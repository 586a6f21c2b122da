/* Saving a run: the engine, its requests, and their records. */
#include "saver.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agree.h"
#include "identity.h"
#include "tiers.h"

enum { PENDING_MOST = 8 };

typedef struct pending {
    lull_ckpt_request_t *request;
    size_t record;
    double begin, blocked;
    bool taken; /* the snapshot */
} pending_t;

struct saver {
    lull_ckpt_t *ckpt;
    lull_peers_t *peers; /* --ckpt-local; outlives the engine */
    bool first;          /* rank 0: it tells of drains */
    saver_subject_t subject;
    lull_ckpt_tensor_t *tensors;
    size_t tensor_count;
    identity_t identity;
    pending_t pending[PENDING_MOST];
    size_t pending_count;
    save_record_t *records;
    size_t record_count, record_capacity;
    double blocked; /* since last asked */
    bool ever_committed;
    int64_t failed_step, told_step; /* the newest of each */
    char why[WHY_MAX];
};

/* ---- Opening ----------------------------------------------------------- */

/* The same on all ranks, new at each launch. */
static lull_status_t make_run_id(lull_comm_t *other, char *id) {
    memset(id, 0, LULL_RUN_ID_MAX);
    if (lull_comm_rank(other) == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(id, LULL_RUN_ID_MAX, "%llx-%lx-%x",
                 (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec,
                 (unsigned)getpid());
    }
    return train_wrap(lull_bcast(id, LULL_RUN_ID_MAX, LULL_U8, 0, other),
                      "run id");
}

static lull_status_t open_engine(const config_t *config, lull_comm_t *other,
                                 const char *run_id, saver_t *saver) {
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    options.dir = config->ckpt_dir;
    options.rank = (uint32_t)lull_comm_rank(other);
    options.world = (uint32_t)lull_comm_size(other);
    options.run_id = run_id;
    options.mode = config->ckpt_mode;
    options.buffer_bytes = config->ckpt_buffer;
    options.codec = config->ckpt_codec;
    options.encode_threads = (uint32_t)config->ckpt_encode_threads;
    options.commit_timeout_s = config->commit_timeout;
    options.keep_last = (uint32_t)config->keep_last;
    options.keep_every = (uint64_t)config->keep_every;
    tier_dirs_t *dirs = calloc(1, sizeof *dirs);
    if (dirs == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--ckpt-dir: out of memory");
    tier_dirs_fill(config, dirs);
    lull_ckpt_tier_t tiers[LULL_CKPT_TIERS_MAX];
    for (int i = 0; i < config->ckpt_tiers.count; ++i)
        tiers[i] = dirs->specs[i].tier;
    options.tiers = tiers;
    options.tier_count = (size_t)config->ckpt_tiers.count;
    if (saver->peers != NULL) {
        options.agree = lull_peers_agree;
        options.agree_ctx = saver->peers;
    }
    char what[512];
    snprintf(what, sizeof what, "--ckpt-dir %s", config->ckpt_dir);
    lull_status_t status = lull_ckpt_open(&options, &saver->ckpt);
    free(dirs);
    return train_wrap(status, what);
}

lull_status_t saver_open(const options_t *options, lull_comm_t *other,
                         saver_t **out) {
    const config_t *config = &options->config;
    char run_id[LULL_RUN_ID_MAX];
    bool sayer;
    *out = NULL;
    if (config->ckpt_dir == NULL)
        return LULL_OK;
    saver_t *saver = calloc(1, sizeof *saver);
    lull_status_t status = make_run_id(other, run_id);
    if (saver != NULL) {
        saver->record_capacity = 64;
        saver->records = calloc(saver->record_capacity, sizeof *saver->records);
    }
    if (saver == NULL || saver->records == NULL)
        status = train_fail(LULL_ERR_NO_MEMORY, "--ckpt-dir: out of memory");
    if (config->ckpt_local && agree_quiet(other, status, &sayer))
        status = train_wrap(lull_peers_create(MPI_COMM_WORLD, &saver->peers),
                            "--ckpt-local");
    /* By files, rank 0 opens first; by messages all do at once. */
    bool first = lull_comm_rank(other) == 0;
    if (saver != NULL)
        saver->first = first;
    if (status == LULL_OK && first && !config->ckpt_local)
        status = open_engine(config, other, run_id, saver);
    if (!agree_quiet(other, status, &sayer)) {
        if (status == LULL_OK)
            status = train_fail(LULL_ERR_PEER, "another rank failed");
    } else if (saver->ckpt == NULL)
        status = open_engine(config, other, run_id, saver);
    if (status != LULL_OK) {
        saver_destroy(saver);
        return status;
    }
    *out = saver;
    return LULL_OK;
}

static void describe(const shard_t *shard, lull_ckpt_tensor_t *out) {
    *out = (lull_ckpt_tensor_t)LULL_CKPT_TENSOR_INIT;
    out->name = shard->name;
    out->dtype = LULL_F32;
    out->ndim = shard->ndim;
    for (uint32_t i = 0; i < shard->ndim; ++i) {
        out->global_shape[i] = shard->global_shape[i];
        out->offset[i] = shard->offset[i];
        out->shape[i] = shard->shape[i];
    }
    out->data = shard->data;
    out->replica = shard->replica;
    out->replicas = shard->replicas;
}

lull_status_t saver_attach(saver_t *saver, const saver_subject_t *subject) {
    if (saver == NULL)
        return LULL_OK;
    saver->subject = *subject;
    const shard_t *shards =
        model_shards(subject->model, SHARDS_STATE, &saver->tensor_count);
    saver->tensors = calloc(saver->tensor_count + 1, sizeof *saver->tensors);
    if (saver->tensors == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "checkpoint: out of memory");
    for (size_t i = 0; i < saver->tensor_count; ++i)
        describe(&shards[i], &saver->tensors[i]);
    return identity_make(subject->asked, subject->groups, subject->data,
                         &saver->identity);
}

/* ---- Records ----------------------------------------------------------- */

/* A place for one more record; where memory ends, the last one's: a save that
 * one rank left out would hold all others. */
static save_record_t *next_record(saver_t *saver) {
    if (saver->record_count == saver->record_capacity) {
        size_t wanted = 2 * saver->record_capacity;
        save_record_t *grown =
            realloc(saver->records, wanted * sizeof *saver->records);
        if (grown == NULL)
            return &saver->records[saver->record_count - 1];
        saver->records = grown;
        saver->record_capacity = wanted;
    }
    return &saver->records[saver->record_count++];
}

static const char *failure_text(lull_status_t status) {
    const char *why = lull_last_error();
    return *why != '\0' ? why : lull_status_text(status);
}

static void note_failure(saver_t *saver, save_record_t *record,
                         const char *why) {
    record->failed = true;
    if (record->step < saver->failed_step)
        return;
    saver->failed_step = record->step;
    snprintf(saver->why, sizeof saver->why, "%s", why);
}

static void add_span(const saver_t *saver, const char *lane, int64_t step,
                     const double *ends) {
    span_t span = {.begin = ends[0], .end = ends[1]};
    if (ends[0] <= 0 || ends[1] <= ends[0])
        return;
    snprintf(span.lane, sizeof span.lane, "%s", lane);
    snprintf(span.name, sizeof span.name, "step %lld", (long long)step);
    trace_add(saver->subject.trace, &span);
}

static void trace_save(const saver_t *saver, const lull_ckpt_progress_t *at,
                       int64_t step) {
    add_span(saver, "staging", step,
             (double[]){at->copy_begin_s, at->snapshot_s});
    add_span(saver, "flushing", step,
             (double[]){at->copy_begin_s, at->durable_s});
    add_span(saver, "commit", step, (double[]){at->durable_s, at->committed_s});
}

static double since(double time, double begin) {
    return time > begin ? time - begin : 0;
}

/* Takes a request that has ended out of the pending ones. */
static void settle(saver_t *saver, size_t index,
                   const lull_ckpt_progress_t *at) {
    pending_t *pending = &saver->pending[index];
    save_record_t *record = &saver->records[pending->record];
    record->blocked = pending->blocked;
    record->bytes = (double)at->bytes;
    record->snapshot = since(at->snapshot_s, pending->begin);
    record->durable = since(at->durable_s, pending->begin);
    record->committed = since(at->committed_s, pending->begin);
    /* A wait fetches the sentence of a failure. */
    lull_status_t status =
        lull_ckpt_wait_committed(saver->ckpt, pending->request, 0);
    if (status != LULL_OK)
        note_failure(saver, record, failure_text(status));
    else
        saver->ever_committed = true;
    trace_save(saver, at, record->step);
    lull_ckpt_request_destroy(pending->request);
    memmove(pending, pending + 1,
            (saver->pending_count - index - 1) * sizeof *pending);
    --saver->pending_count;
}

void saver_poll(saver_t *saver) {
    if (saver == NULL)
        return;
    for (size_t i = 0; i < saver->pending_count;) {
        lull_ckpt_progress_t at = {.size = sizeof at};
        lull_status_t status =
            lull_ckpt_test(saver->ckpt, saver->pending[i].request, &at);
        bool ended = status == LULL_OK && (at.stage == LULL_CKPT_COMMITTED ||
                                           at.stage == LULL_CKPT_FAILED);
        /* A failed one has its sentence when the ranks have decided. */
        if (ended &&
            lull_ckpt_wait_committed(saver->ckpt, saver->pending[i].request,
                                     0) != LULL_ERR_TIMEOUT)
            settle(saver, i, &at);
        else
            ++i;
    }
}

/* ---- The loop's calls -------------------------------------------------- */

/* Waits for the oldest request where all places are taken. */
static void make_room(saver_t *saver) {
    while (saver->pending_count == PENDING_MOST) {
        lull_ckpt_wait_committed(saver->ckpt, saver->pending[0].request,
                                 LULL_FOREVER);
        saver_poll(saver);
    }
}

static lull_status_t begin_save(saver_t *saver, const run_state_t *state,
                                lull_ckpt_request_t **request) {
#define LITTLE(field) const uint64_t field = htole64((uint64_t)state->field);
#define ROW(field) {#field, &field, sizeof field, false},
    RUN_STATE_TABLE(LITTLE)
    const lull_ckpt_state_t states[] = {RUN_STATE_TABLE(ROW)};
#undef LITTLE
#undef ROW
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = (uint64_t)state->step;
    save.tensors = saver->tensors;
    save.tensor_count = saver->tensor_count;
    save.states = states;
    save.state_count = sizeof states / sizeof states[0];
    save.meta = saver->identity.meta;
    save.meta_count = saver->identity.count;
    save.parent_seq = saver->subject.parent_seq;
    return lull_ckpt_save(saver->ckpt, &save, request);
}

void saver_save(saver_t *saver, const run_state_t *state) {
    if (saver == NULL)
        return;
    double begin = train_now();
    make_room(saver);
    save_record_t *record = next_record(saver);
    *record = (save_record_t){.step = state->step};
    pending_t *pending = &saver->pending[saver->pending_count];
    *pending = (pending_t){.record = (size_t)(record - saver->records),
                           .begin = begin};
    lull_status_t status = begin_save(saver, state, &pending->request);
    double end = train_now();
    add_span(saver, "blocked", state->step, (double[]){begin, end});
    record->blocked = pending->blocked = end - begin;
    saver->blocked += pending->blocked;
    if (status == LULL_OK) {
        ++saver->pending_count;
        return;
    }
    note_failure(saver, record, failure_text(status));
    lull_ckpt_request_destroy(pending->request);
}

void saver_before_update(saver_t *saver) {
    if (saver == NULL)
        return;
    for (size_t i = 0; i < saver->pending_count; ++i) {
        pending_t *pending = &saver->pending[i];
        if (pending->taken)
            continue;
        double begin = train_now();
        /* A failed save holds nothing back: saver_poll tells of it. */
        lull_ckpt_wait_snapshot(saver->ckpt, pending->request, LULL_FOREVER);
        double end = train_now(), held = end - begin;
        add_span(saver, "blocked", saver->records[pending->record].step,
                 (double[]){begin, end});
        pending->taken = true;
        pending->blocked += held;
        saver->blocked += held;
    }
}

double saver_blocked(saver_t *saver) {
    double blocked = saver != NULL ? saver->blocked : 0;
    if (saver != NULL)
        saver->blocked = 0;
    return blocked;
}

/* ---- What became of it ------------------------------------------------- */

int64_t saver_failure(const saver_t *saver) {
    if (saver == NULL || saver->failed_step <= saver->told_step)
        return 0;
    return saver->failed_step;
}

void saver_tell(saver_t *saver, lull_comm_t *other, int64_t step) {
    bool sayer, mine = saver_failure(saver) == step;
    agree_quiet(other, mine ? LULL_ERR_IO : LULL_OK, &sayer);
    if (sayer)
        train_say("lull-train: checkpoint step %lld failed: %s",
                  (long long)step, saver->why);
    if (saver != NULL && step > saver->told_step)
        saver->told_step = step;
}

bool saver_ever_committed(const saver_t *saver) {
    return saver != NULL && saver->ever_committed;
}

bool saver_last_failed(const saver_t *saver) {
    return saver != NULL && saver->record_count > 0 &&
           saver->records[saver->record_count - 1].failed;
}

const save_record_t *saver_records(const saver_t *saver, size_t *count) {
    *count = saver != NULL ? saver->record_count : 0;
    return saver != NULL ? saver->records : NULL;
}

/* Closing waits for drains, which may take long. */
static void tell_drains(const saver_t *saver) {
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    if (saver->first && lull_ckpt_stats(saver->ckpt, &stats) == LULL_OK &&
        stats.drain_pending > 0)
        train_say("note: waiting until %llu checkpoint%s drained to slower "
                  "tiers",
                  (unsigned long long)stats.drain_pending,
                  stats.drain_pending == 1 ? " is" : "s are");
}

void saver_finish(saver_t *saver) {
    if (saver == NULL)
        return;
    while (saver->pending_count > 0) {
        lull_ckpt_wait_committed(saver->ckpt, saver->pending[0].request,
                                 LULL_FOREVER);
        lull_ckpt_progress_t at = {.size = sizeof at};
        lull_ckpt_test(saver->ckpt, saver->pending[0].request, &at);
        settle(saver, 0, &at);
    }
    tell_drains(saver);
    lull_status_t status = lull_ckpt_close(saver->ckpt);
    if (status != LULL_OK && saver->record_count > 0 &&
        !saver->records[saver->record_count - 1].failed)
        note_failure(saver, &saver->records[saver->record_count - 1],
                     failure_text(status));
}

void saver_destroy(saver_t *saver) {
    if (saver == NULL)
        return;
    for (size_t i = 0; i < saver->pending_count; ++i)
        lull_ckpt_request_destroy(saver->pending[i].request);
    lull_ckpt_destroy(saver->ckpt);
    lull_peers_destroy(saver->peers);
    identity_free(&saver->identity);
    free(saver->tensors);
    free(saver->records);
    free(saver);
}
