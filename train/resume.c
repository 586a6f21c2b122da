/* Finding, agreeing on and loading a checkpoint. */
#include "resume.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "identity.h"

static void skip(resume_t *resume, uint64_t step, const char *why) {
    if (resume->skipped_count < SKIPPED_MOST) {
        skipped_t *skipped = &resume->skipped[resume->skipped_count];
        skipped->step = step;
        snprintf(skipped->why, sizeof skipped->why, "%s", why);
    }
    ++resume->skipped_count;
}

static void tell_skipped(resume_t *resume, const lull_comm_t *other) {
    for (; resume->told < resume->skipped_count; ++resume->told) {
        if (resume->told < SKIPPED_MOST && lull_comm_rank(other) == 0)
            train_say("lull-train: passing over checkpoint step %" PRIu64
                      " in %s: %s",
                      resume->skipped[resume->told].step,
                      resume->dirs.count > 1 ? "one tier"
                                             : resume->dirs.dirs[0],
                      resume->skipped[resume->told].why);
    }
}

/* What rank 0 tells the others of its search: plain bytes. */
typedef struct found {
    lull_ckpt_id_t id;
    int32_t status;
    int32_t index;
    int32_t skipped_count;
    skipped_t skipped[SKIPPED_MOST];
} found_t;

static void on_skip(void *ctx, lull_ckpt_id_t id, const char *why) {
    skip(ctx, id.step, why);
}

/* `copies`: of what could not be opened, which has before_seq, first another
 * copy, or what else has that number; else all are below it. Of disks of nodes
 * each rank has tried all copies. */
static void search(resume_t *resume, uint64_t before_seq, bool copies,
                   found_t *found) {
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    options.before_seq = before_seq;
    if (copies && before_seq > 0) {
        options.from_tier =
            resume->local ? resume->dirs.count : resume->index + 1;
        options.before_origin = resume->id.origin;
    }
    options.on_skip = on_skip;
    options.ctx = resume;
    size_t index = 0;
    lull_status_t status = lull_ckpt_find_in(
        resume->dirs.dirs, resume->dirs.count, &options, &found->id, &index);
    found->index = (int32_t)index;
    char what[512];
    snprintf(what, sizeof what, "--resume %s", resume->dirs.dirs[0]);
    train_wrap(status, what);
    found->status = (int32_t)status;
    found->skipped_count = resume->skipped_count;
    memcpy(found->skipped, resume->skipped, sizeof found->skipped);
}

static bool is_known(const resume_t *resume, const skipped_t *skipped) {
    for (int i = 0; i < resume->skipped_count && i < SKIPPED_MOST; ++i) {
        if (resume->skipped[i].step == skipped->step &&
            strcmp(resume->skipped[i].why, skipped->why) == 0)
            return true;
    }
    return false;
}

/* What each rank passed over since there were `before`, for all to know, by
 * rank; what ranks of one directory say is said once. */
static lull_status_t share_skipped(resume_t *resume, int before,
                                   lull_comm_t *other, found_t *found) {
    static skipped_t own[SKIPPED_MOST], heard[SKIPPED_MOST];
    int32_t rank = lull_comm_rank(other), next = -1;
    int32_t count = resume->skipped_count < SKIPPED_MOST ? resume->skipped_count
                                                         : SKIPPED_MOST;
    int32_t mine = count > before ? count - before : 0;
    for (int i = 0; i < mine; ++i)
        own[i] = resume->skipped[before + i];
    resume->skipped_count = before;
    lull_status_t status = LULL_OK;
    for (int32_t last = -1; status == LULL_OK && next != INT32_MAX;) {
        next = mine > 0 && rank > last ? rank : INT32_MAX;
        status =
            lull_allreduce(LULL_IN_PLACE, &next, 1, LULL_I32, LULL_MIN, other);
        if (status != LULL_OK || next == INT32_MAX)
            break;
        last = next;
        int32_t n = mine;
        memcpy(heard, own, sizeof heard);
        status = lull_bcast(&n, sizeof n, LULL_U8, next, other);
        if (status == LULL_OK)
            status = lull_bcast(heard, sizeof heard, LULL_U8, next, other);
        for (int i = 0; status == LULL_OK && i < n && i < SKIPPED_MOST; ++i)
            if (!is_known(resume, &heard[i]))
                skip(resume, heard[i].step, heard[i].why);
    }
    found->skipped_count = resume->skipped_count;
    memcpy(found->skipped, resume->skipped, sizeof found->skipped);
    return status;
}

/* On disks of nodes each rank looks, and all take the newest that all have.
 * *found is the same on all ranks but for what was skipped. */
static lull_status_t search_all(resume_t *resume, uint64_t before_seq,
                                lull_comm_t *other, found_t *found) {
    /* The lowest seq found, minus the highest, minus what was skipped. */
    int64_t ends[3];
    bool any = false, copies = true;
    int before = resume->skipped_count;
    for (;; copies = false) {
        search(resume, before_seq, copies, found);
        int64_t seq = found->status == LULL_OK ? (int64_t)found->id.seq : 0;
        lull_status_t failed = found->status == LULL_ERR_NOT_FOUND
                                   ? LULL_OK
                                   : (lull_status_t)found->status;
        char why[WHY_MAX];
        if (!agree_share(other, failed, why)) {
            found->status =
                train_fail(failed != LULL_OK ? failed : LULL_ERR_IO, "%s", why);
            return LULL_OK;
        }
        ends[0] = seq;
        ends[1] = -seq;
        ends[2] = -(int64_t)found->skipped_count;
        lull_status_t status =
            lull_allreduce(LULL_IN_PLACE, ends, 3, LULL_I64, LULL_MIN, other);
        if (status != LULL_OK)
            return train_wrap(status, "--resume");
        any = any || ends[1] != 0 || ends[2] != 0;
        if (ends[0] == 0 || ends[0] == -ends[1])
            break;
        before_seq = (uint64_t)ends[0] + 1;
    }
    lull_status_t shared = share_skipped(resume, before, other, found);
    if (shared != LULL_OK)
        return train_wrap(shared, "--resume");
    /* Only where no rank has anything may a run begin anew. */
    if (ends[0] == 0)
        found->status = train_fail(any ? LULL_ERR_MISMATCH : LULL_ERR_NOT_FOUND,
                                   "--resume %s: no checkpoint that the "
                                   "directories of all ranks have",
                                   resume->dir);
    return LULL_OK;
}

/* Rank 0 looks, all learn. A failure is every rank's, the sentence rank 0's. */
static lull_status_t find_one(resume_t *resume, uint64_t before_seq,
                              lull_comm_t *other) {
    static found_t found;
    lull_status_t status = LULL_OK;
    memset(&found, 0, sizeof found);
    if (resume->local)
        status = search_all(resume, before_seq, other, &found);
    else if (lull_comm_rank(other) == 0)
        search(resume, before_seq, true, &found);
    if (status == LULL_OK)
        status = lull_bcast(&found, sizeof found, LULL_U8, 0, other);
    if (status != LULL_OK)
        return train_wrap(status, "--resume");
    resume->skipped_count = found.skipped_count;
    memcpy(resume->skipped, found.skipped, sizeof found.skipped);
    if (found.status == LULL_OK) {
        resume->id = found.id;
        resume->index = resume->local ? 0 : (size_t)found.index;
        resume->dir = resume->dirs.dirs[resume->index];
    }
    return (lull_status_t)found.status;
}

static void drop(resume_t *resume) {
    lull_ckpt_info_destroy(resume->info);
    resume->info = NULL;
}

/* Opens the copy in directory `index`. */
static lull_status_t open_copy(resume_t *resume, size_t index) {
    drop(resume);
    resume->index = index;
    resume->dir = resume->dirs.dirs[index];
    snprintf(resume->where, sizeof resume->where,
             "checkpoint step %" PRIu64 " in %s", resume->id.step, resume->dir);
    lull_status_t status =
        lull_ckpt_info_open(resume->dir, resume->id, &resume->info);
    if (status != LULL_OK)
        resume->info = NULL;
    return status;
}

/* A rank whose node has no good copy of its own takes one that is common. The
 * sentence is that of the first try, of which `status` came. */
static lull_status_t open_another(resume_t *resume, lull_status_t status) {
    char why[WHY_MAX];
    snprintf(why, sizeof why, "%s", lull_last_error());
    for (size_t i = resume->index + 1;
         resume->local && status != LULL_OK && i < resume->dirs.count; ++i) {
        if (open_copy(resume, i) == LULL_OK)
            return LULL_OK;
    }
    return status != LULL_OK ? train_fail(status, "%s", why) : LULL_OK;
}

/* Opens one checkpoint on every rank; false: a rank could not. */
static bool open_one(resume_t *resume, lull_comm_t *other) {
    char why[WHY_MAX];
    lull_status_t status =
        open_another(resume, open_copy(resume, resume->index));
    bool agreed = agree_share(other, status, why);
    if (!agreed)
        skip(resume, resume->id.step, why);
    return agreed;
}

/* The newest below before_seq (0: any) that all ranks can open. */
static lull_status_t next_one(resume_t *resume, uint64_t before_seq,
                              lull_comm_t *other) {
    for (;;) {
        drop(resume);
        train_error_clear();
        lull_status_t status = find_one(resume, before_seq, other);
        if (status != LULL_OK && resume->skipped_count > 0)
            return train_fail(status,
                              "--resume %s: no checkpoint there can be "
                              "loaded: step %" PRIu64 ": %s",
                              resume->dir, resume->skipped[0].step,
                              resume->skipped[0].why);
        if (status != LULL_OK || open_one(resume, other))
            return status;
        before_seq = resume->id.seq;
    }
}

lull_status_t resume_find(options_t *options, lull_comm_t *other,
                          resume_t *out) {
    config_t *config = &options->config;
    *out = (resume_t){0};
    if (config->resume == NULL)
        return LULL_OK;
    bool automatic = strcmp(config->resume, "auto") == 0;
    out->dirs.dirs[0] = config->resume;
    out->dirs.count = 1;
    if (automatic)
        tier_dirs_fill(config, &out->dirs);
    out->dir = out->dirs.dirs[0];
    out->local = config->ckpt_local != 0;
    lull_status_t status = next_one(out, 0, other);
    /* Starts anew only where there is nothing, never over what is there and
     * cannot be read. */
    if (automatic && status == LULL_ERR_NOT_FOUND && out->skipped_count == 0) {
        train_error_clear();
        *out = (resume_t){0};
        return LULL_OK;
    }
    if (status == LULL_OK)
        status = identity_adopt(out->info, out->where, lull_comm_size(other),
                                options);
    return status;
}

static lull_status_t load_tensors(const lull_ckpt_info_t *info,
                                  const model_t *model) {
    size_t count;
    const shard_t *shards = model_shards(model, SHARDS_STATE, &count);
    lull_ckpt_slice_t *slices = calloc(count + 1, sizeof *slices);
    if (slices == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; ++i) {
        lull_ckpt_slice_t *slice = &slices[i];
        *slice = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slice->name = shards[i].name;
        slice->dtype = LULL_F32;
        slice->ndim = shards[i].ndim;
        for (uint32_t k = 0; k < shards[i].ndim; ++k) {
            slice->global_shape[k] = shards[i].global_shape[k];
            slice->offset[k] = shards[i].offset[k];
            slice->shape[k] = shards[i].shape[k];
        }
        slice->data = shards[i].data;
    }
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.known = model_names(model, &options.known_count);
    lull_status_t status = lull_ckpt_load(info, slices, count, &options);
    free(slices);
    if (status != LULL_OK)
        train_fail(status, "%s", lull_last_error());
    return status;
}

static lull_status_t load_number(const lull_ckpt_info_t *info, const char *name,
                                 int64_t *out) {
    uint64_t little = 0;
    size_t bytes = 0;
    lull_status_t status =
        lull_ckpt_info_state(info, name, 0, &little, sizeof little, &bytes);
    if (status != LULL_OK)
        return train_fail(status, "%s", lull_last_error());
    int64_t value = (int64_t)le64toh(little);
    if (bytes != sizeof little || value < 0)
        return train_fail(LULL_ERR_CORRUPT, "lull.state/%s is no count", name);
    *out = value;
    return LULL_OK;
}

static lull_status_t load_state(const resume_t *resume, run_state_t *state) {
    lull_status_t status = LULL_OK;
#define LOAD(field)        \
    if (status == LULL_OK) \
        status = load_number(resume->info, #field, &state->field);
    RUN_STATE_TABLE(LOAD)
#undef LOAD
    if (status == LULL_OK && (uint64_t)state->step != resume->id.step)
        return train_fail(LULL_ERR_CORRUPT,
                          "lull.state/step is %lld, the checkpoint's %" PRIu64,
                          (long long)state->step, resume->id.step);
    return status;
}

/* A copy is verified when it is read: a rank of a node may have to take the
 * common one then. */
static lull_status_t load(resume_t *resume, const lull_comm_t *other,
                          const model_t *model, run_state_t *state) {
    for (;;) {
        char why[WHY_MAX];
        lull_status_t status = load_tensors(resume->info, model);
        if (status == LULL_OK)
            status = load_state(resume, state);
        if (status == LULL_OK)
            return LULL_OK;
        snprintf(why, sizeof why, "%s", train_error());
        size_t from = resume->index + 1;
        while (resume->local && from < resume->dirs.count &&
               open_copy(resume, from) != LULL_OK)
            ++from;
        if (!resume->local || from >= resume->dirs.count)
            return train_fail(status, "%s", why);
        train_error_clear();
        train_say("note: rank %d takes step %" PRIu64 " from %s: %s",
                  lull_comm_rank(other), resume->id.step, resume->dir, why);
    }
}

lull_status_t resume_load(resume_t *resume, const options_t *asked,
                          lull_comm_t *other, model_t *model,
                          run_state_t *state) {
    options_t strict = *asked;
    strict.given = UINT64_MAX; /* the model is made: nothing may change */
    for (;;) {
        char why[WHY_MAX];
        lull_status_t status = load(resume, other, model, state);
        if (agree_share(other, status, why))
            break;
        skip(resume, resume->id.step, why);
        status = next_one(resume, resume->id.seq, other);
        if (status == LULL_OK)
            status = identity_adopt(resume->info, resume->where,
                                    lull_comm_size(other), &strict);
        if (status != LULL_OK)
            return status;
    }
    tell_skipped(resume, other);
    model_set_updates(model, state->updates);
    return LULL_OK;
}

void resume_close(resume_t *resume) {
    drop(resume);
}
