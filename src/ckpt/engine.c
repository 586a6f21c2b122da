/* Opening, closing, destroying an engine; the state of its saves. */
#include "engine.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "base/log.h"
#include "encode.h"
#include "note.h"
#include "parts.h"
#include "team.h"

#define NAP_MIN_S 0.0005
#define NAP_MAX_S 0.05

/* ---- saves ---- */

lull_status_t lull__engine_check(const lull_ckpt_t *ckpt, const char *call,
                                 bool or_closed) {
    if (ckpt == NULL)
        return lull__fail(LULL_ERR_INVALID, "%s: the engine is NULL", call);
    if (ckpt->pid != getpid())
        return lull__fail(LULL_ERR_FORKED,
                          "%s: the engine belongs to process %ld, this is a "
                          "forked child",
                          call, (long)ckpt->pid);
    if (ckpt->closed && !or_closed)
        return lull__fail(LULL_ERR_STATE, "%s: the engine is closed", call);
    return LULL_OK;
}

/* With the lock held. Past the room for them failures are still in their
 * requests, and in the count of stats. */
static void note_failure(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    ckpt->stats.failed++;
    if (save->reported || ckpt->failure_count == LULL__FAILURES_MAX)
        return;
    lull__failure_t *failure = &ckpt->failures[ckpt->failure_count++];
    failure->number = save->number;
    failure->status = save->status;
    failure->sentence = save->sentence ? strdup(save->sentence) : NULL;
}

void lull__save_fail(lull_ckpt_request_t *save, lull_status_t status) {
    lull_ckpt_t *ckpt = save->ckpt;
    char *sentence = strdup(lull_last_error());
    pthread_mutex_lock(&ckpt->lock);
    if (save->status == LULL_OK) {
        save->status = status;
        save->sentence = sentence;
        sentence = NULL;
        note_failure(save);
        lull__chunks_drop(save);
        lull__copy_settle(save);
        pthread_cond_broadcast(&ckpt->changed);
    }
    pthread_mutex_unlock(&ckpt->lock);
    free(sentence);
}

void lull__save_amend(lull_ckpt_request_t *save, lull_status_t status) {
    lull_ckpt_t *ckpt = save->ckpt;
    bool amend;
    pthread_mutex_lock(&ckpt->lock);
    amend = save->status == LULL_ERR_DURABILITY_UNKNOWN;
    if (amend) {
        save->status = status;
        free(save->sentence);
        save->sentence = strdup(lull_last_error());
        for (unsigned i = 0; i < ckpt->failure_count; i++)
            if (ckpt->failures[i].number == save->number)
                ckpt->failures[i].status = status;
    }
    pthread_mutex_unlock(&ckpt->lock);
    if (!amend)
        lull__save_fail(save, status);
}

lull_status_t lull__save_status(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    lull_status_t status = save->status;
    bool cancel = ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    if (status == LULL_OK && cancel) {
        status = lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
        lull__save_fail(save, status);
    }
    return status;
}

void lull__save_set(lull_ckpt_request_t *save, size_t flag) {
    pthread_mutex_lock(&save->ckpt->lock);
    *(bool *)((char *)save + flag) = true;
    lull__copy_settle(save);
    pthread_cond_broadcast(&save->ckpt->changed);
    pthread_mutex_unlock(&save->ckpt->lock);
}

void lull__save_free_work(lull_ckpt_request_t *save) {
    for (size_t f = 0; f < save->file_count; f++)
        free(save->files[f].hashes);
    free(save->files);
    free(save->order);
    free(save->items);
    free(save->aliases);
    free(save->meta);
    lull__arena_free(&save->arena);
    lull__arena_free(&save->meta_arena);
    save->files = NULL;
    save->order = NULL;
    save->items = NULL;
    save->aliases = save->meta = NULL;
    save->file_count = save->item_count = 0;
    save->alias_count = save->meta_count = 0;
}

void lull__save_unref(lull_ckpt_request_t *save) {
    if (--save->refs > 0)
        return;
    lull_ckpt_t *ckpt = save->ckpt;
    lull__save_free_work(save);
    free(save->sentence);
    if (ckpt->spare != NULL) {
        free(save);
        return;
    }
    *save = (lull_ckpt_request_t){0};
    ckpt->spare = save;
    pthread_cond_broadcast(&ckpt->changed);
}

lull_ckpt_request_t *
lull__engine_next(lull_ckpt_t *ckpt, size_t begun,
                  bool (*ready)(const lull_ckpt_request_t *save)) {
    lull_ckpt_request_t *save;
    pthread_mutex_lock(&ckpt->lock);
    for (;;) {
        save = ckpt->pending;
        while (save != NULL && *(bool *)((char *)save + begun))
            save = save->next;
        if (save != NULL && ready(save))
            break;
        if (save == NULL && ckpt->stop)
            break;
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    }
    if (save != NULL)
        *(bool *)((char *)save + begun) = true;
    pthread_mutex_unlock(&ckpt->lock);
    return save;
}

bool lull__engine_nap(lull_ckpt_t *ckpt, double since) {
    double now = lull__now(), nap = 0.1 * (now - since);
    nap = nap < NAP_MIN_S ? NAP_MIN_S : nap > NAP_MAX_S ? NAP_MAX_S : nap;
    double until = now + nap;
    pthread_mutex_lock(&ckpt->lock);
    while (!ckpt->cancel &&
           lull__cond_wait_until(&ckpt->changed, &ckpt->lock, until))
        continue;
    bool go_on = !ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    return go_on;
}

lull_status_t lull__engine_there(const lull_ckpt_t *ckpt) {
    lull__io_stat_t st;
    int rc = ckpt->io->ops->stat(ckpt->io, ckpt->dir.fd, LULL__LULL_DIR, &st);
    if (rc != -ENOENT)
        return LULL_OK;
    return lull__fail(LULL_ERR_NOT_FOUND,
                      "%s/" LULL__LULL_DIR
                      ": was deleted while this run writes there",
                      ckpt->dir_path);
}

/* ---- opening ---- */

static lull_status_t bad_option(const char *what) {
    return lull__fail(LULL_ERR_INVALID, "lull_ckpt_open: %s", what);
}

static lull_status_t check_tiers(const lull_ckpt_options_t *options) {
    if (options->tier_count == 0)
        return LULL_OK;
    if (options->tiers == NULL)
        return bad_option("tiers is NULL");
    if (options->tier_count > LULL_CKPT_TIERS_MAX)
        return bad_option("tier_count must be at most 7");
    if (options->tiers[0].size != sizeof(lull_ckpt_tier_t))
        return bad_option("begin tiers with LULL_CKPT_TIER_INIT");
    for (size_t i = 0; i < options->tier_count; i++)
        if (options->tiers[i].dir == NULL || options->tiers[i].dir[0] == '\0')
            return bad_option("dir of a tier is not set");
    return LULL_OK;
}

static lull_status_t check_options(const lull_ckpt_options_t *options) {
    lull__classes_t classes;
    if (options->dir == NULL || options->dir[0] == '\0')
        return bad_option("dir is not set");
    if (options->world == 0 || options->rank >= options->world)
        return bad_option("rank must be below world");
    if (options->run_id != NULL && !lull__run_id_valid(options->run_id))
        return bad_option("run_id must be 1 to 63 of [A-Za-z0-9_-]");
    if (options->mode > LULL_CKPT_SYNC)
        return bad_option("mode is none");
    if (!(options->commit_timeout_s >= 0 && options->commit_timeout_s < 1e9))
        return bad_option("commit_timeout_s must be 0 to 1e9");
    if (options->copy_threads > LULL__COPY_THREADS_MAX)
        return bad_option("copy_threads must be at most 16");
    if (options->encode_threads > LULL__ENCODE_THREADS_MAX)
        return bad_option("encode_threads must be at most 16");
    if (options->flush_threads > 64)
        return bad_option("flush_threads must be at most 64");
    if (options->max_pending > 1000)
        return bad_option("max_pending must be at most 1000");
    if (options->cpu_count > 0 && options->cpus == NULL)
        return bad_option("cpus is NULL");
    if (options->buffer_bytes > 0 && options->buffer_bytes < 1u << 20)
        return bad_option("buffer_bytes must be at least 1 MiB");
    lull_status_t status = check_tiers(options);
    if (status != LULL_OK)
        return status;
    return lull__classes_parse(options->codec, &classes);
}

static void set_defaults(lull_ckpt_options_t *options) {
    if (options->buffer_bytes == 0)
        options->buffer_bytes = (uint64_t)256 << 20;
    if (options->max_pending == 0)
        options->max_pending = 2;
    if (options->world == 1)
        options->agree = NULL;
    if (options->commit_timeout_s == 0)
        options->commit_timeout_s = 600;
    if (options->copy_threads == 0)
        options->copy_threads = 1;
    if (options->encode_threads == 0)
        options->encode_threads = 1;
    if (options->flush_threads == 0)
        options->flush_threads = 2;
}

static lull_status_t copy_options(lull_ckpt_t *ckpt,
                                  const lull_ckpt_options_t *from) {
    /* Older callers know fewer fields; the rest stays 0. */
    memcpy(&ckpt->options, from, from->size);
    lull_status_t status = check_options(&ckpt->options);
    if (status != LULL_OK)
        return status;
    lull_ckpt_options_t *options = &ckpt->options;
    set_defaults(options);
    ckpt->dir_path = strdup(options->dir);
    if (options->cpu_count > 0) {
        size_t bytes = options->cpu_count * sizeof *ckpt->cpus;
        ckpt->cpus = malloc(bytes);
        if (ckpt->cpus != NULL)
            memcpy(ckpt->cpus, options->cpus, bytes);
    }
    ckpt->heard = calloc(options->world, sizeof *ckpt->heard);
    if (ckpt->dir_path == NULL || ckpt->heard == NULL ||
        (options->cpu_count && !ckpt->cpus))
        return lull__fail(LULL_ERR_NO_MEMORY, "opening %s", options->dir);
    if (options->run_id != NULL)
        strcpy(ckpt->run_id, options->run_id);
    options->dir = ckpt->dir_path;
    options->cpus = ckpt->cpus;
    options->run_id = ckpt->run_id;
    ckpt->device = options->device ? options->device : lull__device_host();
    return LULL_OK;
}

lull_status_t lull__engine_dirs(lull_ckpt_t *ckpt) {
    lull_status_t status = LULL_OK;
    if (ckpt->dir.fd < 0)
        status = lull__dir_open(ckpt->io, ckpt->dir_path, &ckpt->dir);
    if (status == LULL_OK && ckpt->lull_dir.fd < 0)
        status = lull__dir_open_at(&ckpt->dir, LULL__LULL_DIR, &ckpt->lull_dir);
    return status;
}

/* Rank 0: creates, locks, cleans, and looks what is there. */
static lull_status_t open_leader(lull_ckpt_t *ckpt) {
    lull_status_t status = lull__dir_create_path(ckpt->io, ckpt->dir_path);
    if (status == LULL_OK)
        status = lull__dir_open(ckpt->io, ckpt->dir_path, &ckpt->dir);
    if (status == LULL_OK)
        status = lull__dir_create(&ckpt->dir, LULL__LULL_DIR, true);
    if (status == LULL_OK)
        status = lull__engine_dirs(ckpt);
    if (status != LULL_OK)
        return status;
    bool join = ckpt->run_id[0] == '\0';
    if (join)
        lull__run_id_make(ckpt->run_id);
    status = lull__lock_take(&ckpt->lull_dir, ckpt->run_id, &ckpt->dir_lock);
    if (status == LULL_OK)
        status = lull__sweep(&ckpt->dir, &ckpt->lull_dir, ckpt->run_id, false);
    if (status == LULL_OK)
        status = lull__history_scan(&ckpt->dir, &ckpt->history);
    if (status == LULL_OK && ckpt->options.tier_count > 0)
        status = lull__tiers_open(ckpt);
    lull__join_t how = {&ckpt->lull_dir, 0, ckpt->options.world,
                        lull__now() + ckpt->options.commit_timeout_s};
    if (status == LULL_OK && join)
        status = lull__join_lead(&how, ckpt->run_id);
    if (status == LULL_OK && ckpt->options.world > 1)
        lull__spares_make(&ckpt->lull_dir, ckpt->run_id);
    return status;
}

/* Others: with a run id there is nothing to wait for; the directory is looked
 * for when it is needed. Without one, rank 0 is waited for. */
static lull_status_t open_follower(lull_ckpt_t *ckpt) {
    lull_status_t status = lull__engine_dirs(ckpt);
    double deadline = lull__now() + ckpt->options.commit_timeout_s;
    if (ckpt->run_id[0] != '\0')
        return status == LULL_ERR_NOT_FOUND ? LULL_OK : status;
    for (bool late = false; status == LULL_ERR_NOT_FOUND;) {
        if (late)
            return lull__fail(LULL_ERR_TIMEOUT, "%s: rank 0 did not create it",
                              ckpt->dir_path);
        lull__sleep(0.002);
        late = lull__now() > deadline; /* before it looks */
        status = lull__engine_dirs(ckpt);
    }
    lull__join_t how = {&ckpt->lull_dir, ckpt->options.rank,
                        ckpt->options.world, deadline};
    if (status == LULL_OK)
        status = lull__join_follow(&how, ckpt->run_id);
    return status;
}

static lull_status_t start_thread(lull_ckpt_t *ckpt, const char *name,
                                  void *(*fn)(void *), void *arg) {
    lull__thread_options_t how = {ckpt->cpus, ckpt->options.cpu_count,
                                  ckpt->options.nice};
    pthread_t *thread = &ckpt->threads[ckpt->thread_count];
    lull_status_t status = lull__thread_start(thread, name, &how, fn, arg);
    ckpt->thread_count += status == LULL_OK;
    return status;
}

static lull_status_t start_copiers(lull_ckpt_t *ckpt) {
    bool async = ckpt->device->exec->async;
    lull_status_t status = LULL_OK;
    while (status == LULL_OK &&
           ckpt->copier_count < ckpt->options.copy_threads) {
        lull__copier_t *copier = &ckpt->copiers[ckpt->copier_count];
        copier->ckpt = ckpt;
        status = ckpt->device->exec->queue_create(ckpt->device, &copier->queue);
        if (status != LULL_OK)
            break;
        ckpt->copier_count++;
        status = start_thread(
            ckpt, "lull-copy",
            async ? lull__copy_async_thread : lull__copy_thread, copier);
        if (status == LULL_OK && async)
            status = start_thread(ckpt, "lull-hash", lull__hash_thread, ckpt);
    }
    return status;
}

static lull_status_t start_encoder(lull_ckpt_t *ckpt) {
    lull__classes_t classes;
    lull_status_t status = lull__classes_parse(ckpt->options.codec, &classes);
    ckpt->options.codec = NULL; /* the caller's */
    if (status == LULL_OK)
        status = lull__encoder_create(ckpt, &classes, &ckpt->encoder);
    if (status == LULL_OK && ckpt->encoder != NULL)
        status = start_thread(ckpt, "lull-encode", lull__encode_thread,
                              ckpt->encoder);
    return status;
}

static lull_status_t start(lull_ckpt_t *ckpt) {
    lull__io_queue_options_t how = {
        .io = ckpt->io,
        .threads = ckpt->options.flush_threads,
        .write_cap = ckpt->options.write_cap,
        .thread = {ckpt->cpus, ckpt->options.cpu_count, ckpt->options.nice}};
    lull_status_t status = lull__ring_create(
        ckpt->device, ckpt->options.buffer_bytes, &ckpt->ring);
    if (status != LULL_OK)
        return status;
    ckpt->chunks = calloc(lull__ring_slots(ckpt->ring), sizeof *ckpt->chunks);
    if (ckpt->chunks == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening %s", ckpt->dir_path);
    how.buffer = lull__ring_data(ckpt->ring, 0);
    how.buffer_bytes = lull__ring_bytes(ckpt->ring);
    status = lull__io_queue_create(&how, &ckpt->queue);
    if (status == LULL_OK)
        status = lull__deleter_create(&ckpt->dir, &how.thread, &ckpt->deleter);
    if (status == LULL_OK)
        status = start_encoder(ckpt);
    if (status == LULL_OK)
        status = start_copiers(ckpt);
    if (status == LULL_OK)
        status = start_thread(ckpt, "lull-open", lull__open_thread, ckpt);
    if (status == LULL_OK)
        status = start_thread(ckpt, "lull-finish", lull__finish_thread, ckpt);
    if (status == LULL_OK)
        status = start_thread(ckpt, "lull-commit", lull__commit_thread, ckpt);
    if (status == LULL_OK && ckpt->tiers != NULL)
        status = start_thread(ckpt, "lull-drain",
                              ckpt->tiers->follows ? lull__part_thread
                                                   : lull__drain_thread,
                              ckpt);
    return status;
}

static lull_ckpt_t *create(void) {
    lull_ckpt_t *ckpt = calloc(1, sizeof *ckpt);
    if (ckpt == NULL)
        return NULL;
    ckpt->spare = calloc(1, sizeof *ckpt->spare);
    if (ckpt->spare == NULL || lull__cond_init(&ckpt->changed) != 0) {
        free(ckpt->spare);
        free(ckpt);
        return NULL;
    }
    pthread_cond_init(&ckpt->landed_changed, NULL);
    ckpt->landed_tail = &ckpt->landed;
    pthread_mutex_init(&ckpt->lock, NULL);
    ckpt->dir = ckpt->lull_dir = (lull__dir_t)LULL__DIR_CLOSED;
    ckpt->io = lull__io_default();
    ckpt->pid = getpid();
    ckpt->pending_tail = &ckpt->pending;
    return ckpt;
}

/* The others, the directory, and what is in it. */
static lull_status_t join(lull_ckpt_t *ckpt) {
    ckpt->leads = ckpt->options.rank == 0;
    if (ckpt->options.agree != NULL)
        return lull__agree_open(ckpt);
    return ckpt->leads ? open_leader(ckpt) : open_follower(ckpt);
}

lull_status_t lull_ckpt_open(const lull_ckpt_options_t *options,
                             lull_ckpt_t **out) {
    if (options == NULL || out == NULL ||
        options->size < offsetof(lull_ckpt_options_t, agree) ||
        options->size > sizeof *options)
        return bad_option("begin with LULL_CKPT_OPTIONS_INIT");
    lull_ckpt_t *ckpt = create();
    if (ckpt == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "lull_ckpt_open");
    lull_status_t status = copy_options(ckpt, options);
    if (status == LULL_OK)
        status = join(ckpt);
    if (status == LULL_OK && ckpt->options.tier_count > 0 &&
        ckpt->options.rank > 0 && ckpt->options.agree == NULL)
        status = lull__tiers_probe(ckpt);
    ckpt->options.tiers = NULL; /* the caller's */
    if (status == LULL_OK)
        status = start(ckpt);
    if (status != LULL_OK) {
        char sentence[LULL__SENTENCE_MAX];
        strcpy(sentence, lull_last_error());
        lull_ckpt_destroy(ckpt);
        lull__error_set(sentence);
        return status;
    }
    *out = ckpt;
    return LULL_OK;
}

/* ---- closing ---- */

/* Threads end when nothing is pending. */
static void stop(lull_ckpt_t *ckpt) {
    pthread_mutex_lock(&ckpt->lock);
    while (ckpt->pending != NULL && ckpt->thread_count > 0)
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    ckpt->stop = true;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_cond_broadcast(&ckpt->landed_changed);
    pthread_mutex_unlock(&ckpt->lock);
    while (ckpt->thread_count > 0)
        pthread_join(ckpt->threads[--ckpt->thread_count], NULL);
    if (ckpt->queue != NULL)
        ckpt->stats.flush_s = lull__io_queue_busy(ckpt->queue);
    lull__io_queue_destroy(ckpt->queue);
    ckpt->queue = NULL;
    while (ckpt->copier_count > 0)
        ckpt->device->exec->queue_destroy(
            ckpt->device, ckpt->copiers[--ckpt->copier_count].queue);
    lull__deleter_destroy(ckpt->deleter); /* under the lock of DIR */
    ckpt->deleter = NULL;
    if (ckpt->dir_lock != NULL && ckpt->options.world > 1)
        lull__spares_drop(&ckpt->lull_dir, ckpt->run_id);
    lull__lock_drop(ckpt->dir_lock);
    ckpt->dir_lock = NULL;
    lull__tiers_unlock_dirs(ckpt->tiers);
}

lull_status_t lull_ckpt_close(lull_ckpt_t *ckpt) {
    lull_status_t status = lull__engine_check(ckpt, "lull_ckpt_close", false);
    if (status != LULL_OK)
        return status;
    lull__mutation_check(ckpt);
    stop(ckpt);
    ckpt->closed = true;
    status = lull__wait_report(ckpt);
    if (status == LULL_OK && ckpt->tiers != NULL)
        status = lull__drain_report(ckpt->tiers);
    return status;
}

void lull_ckpt_destroy(lull_ckpt_t *ckpt) {
    /* In a forked child there are no threads to join, and locks may be held
     * by nobody: leaking is all that is safe. */
    if (ckpt == NULL || ckpt->pid != getpid())
        return;
    if (!ckpt->closed) {
        pthread_mutex_lock(&ckpt->lock);
        ckpt->cancel = true;
        for (lull_ckpt_request_t *s = ckpt->pending; s != NULL; s = s->next) {
            lull__chunks_drop(s);
            lull__copy_settle(s);
        }
        pthread_cond_broadcast(&ckpt->changed);
        pthread_mutex_unlock(&ckpt->lock);
        if (ckpt->ring != NULL)
            lull__ring_cancel(ckpt->ring);
        lull__encoder_cancel(ckpt->encoder);
        stop(ckpt);
    }
    for (unsigned i = 0; i < ckpt->failure_count; i++)
        free(ckpt->failures[i].sentence);
    lull__encoder_destroy(ckpt->encoder);
    lull__ring_destroy(ckpt->ring);
    free(ckpt->chunks);
    lull__tiers_destroy(ckpt->tiers);
    lull__history_free(&ckpt->history);
    lull__dir_close(&ckpt->lull_dir);
    lull__dir_close(&ckpt->dir);
    for (uint32_t i = 0; i < ckpt->place_count; i++)
        free(ckpt->place_names[i]);
    free(ckpt->place_names);
    free(ckpt->place_of);
    free(ckpt->cpus);
    free(ckpt->heard);
    free(ckpt->spare);
    free(ckpt->dir_path);
    pthread_cond_destroy(&ckpt->landed_changed);
    pthread_cond_destroy(&ckpt->changed);
    pthread_mutex_destroy(&ckpt->lock);
    free(ckpt);
}
