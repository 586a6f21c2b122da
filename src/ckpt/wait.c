/* The three waits, progress, counters. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "tiers.h"

static bool is_set(const lull_ckpt_request_t *save, size_t flag) {
    return *(const bool *)((const char *)save + flag);
}

/* With the lock held: is the flag set on `save`, or (NULL) on every pending
 * save below `number`? */
static bool reached(const lull_ckpt_t *ckpt, const lull_ckpt_request_t *save,
                    uint64_t number, size_t flag) {
    if (save != NULL)
        return is_set(save, flag);
    for (save = ckpt->pending; save != NULL && save->number < number;
         save = save->next)
        if (!is_set(save, flag))
            return false;
    return true;
}

/* With the lock held. */
static void forget_failure(lull_ckpt_t *ckpt, unsigned i) {
    free(ckpt->failures[i].sentence);
    ckpt->failure_count--;
    memmove(&ckpt->failures[i], &ckpt->failures[i + 1],
            (ckpt->failure_count - i) * sizeof *ckpt->failures);
}

static const char *sentence_of(const char *sentence) {
    return sentence ? sentence : "a save failed (no memory to say why)";
}

lull_status_t lull__wait_report(lull_ckpt_t *ckpt) {
    lull_status_t status = LULL_OK;
    pthread_mutex_lock(&ckpt->lock);
    if (ckpt->failure_count > 0) {
        lull__error_set(sentence_of(ckpt->failures[0].sentence));
        status = ckpt->failures[0].status;
        forget_failure(ckpt, 0);
    }
    pthread_mutex_unlock(&ckpt->lock);
    return status;
}

static lull_status_t report_one(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    lull_status_t status = save->status;
    if (status != LULL_OK) {
        lull__error_set(sentence_of(save->sentence));
        save->reported = true;
        for (unsigned i = 0; i < ckpt->failure_count; i++)
            if (ckpt->failures[i].number == save->number) {
                forget_failure(ckpt, i);
                break;
            }
    }
    pthread_mutex_unlock(&ckpt->lock);
    return status;
}

bool lull__wait_flag(lull_ckpt_t *ckpt, lull_ckpt_request_t *save, size_t flag,
                     double deadline) {
    bool in_time = true;
    pthread_mutex_lock(&ckpt->lock);
    uint64_t number = ckpt->next_number;
    while (!reached(ckpt, save, number, flag) && in_time)
        in_time = lull__cond_wait_until(&ckpt->changed, &ckpt->lock, deadline);
    bool ok = reached(ckpt, save, number, flag);
    pthread_mutex_unlock(&ckpt->lock);
    return ok;
}

static lull_status_t check(lull_ckpt_t *ckpt, lull_ckpt_request_t *request,
                           const char *call) {
    lull_status_t status = lull__engine_check(ckpt, call, false);
    if (status == LULL_OK && request != NULL && request->ckpt != ckpt)
        status = lull__fail(LULL_ERR_INVALID,
                            "%s: the request is of another engine", call);
    return status;
}

static lull_status_t wait(lull_ckpt_t *ckpt, lull_ckpt_request_t *request,
                          size_t flag, int64_t timeout_ms) {
    if (!lull__wait_flag(ckpt, request, flag, lull__deadline_ms(timeout_ms)))
        return lull__fail(LULL_ERR_TIMEOUT, "not yet after %lld ms",
                          (long long)timeout_ms);
    return request ? report_one(request) : lull__wait_report(ckpt);
}

/* ---- the calls ---- */

lull_status_t lull_ckpt_wait_snapshot(lull_ckpt_t *ckpt,
                                      lull_ckpt_request_t *request,
                                      int64_t timeout_ms) {
    double begin = lull__now();
    lull_status_t status = check(ckpt, request, "lull_ckpt_wait_snapshot");
    if (status != LULL_OK)
        return status;
    size_t flag = offsetof(lull_ckpt_request_t, copied);
    if (lull__wait_flag(ckpt, request, flag, lull__deadline_ms(timeout_ms)))
        lull__mutation_check(ckpt);
    status = wait(ckpt, request, flag, 0);
    double spent = lull__now() - begin;
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.wait_snapshot_s += spent;
    if (request == NULL) /* the newest is what is waited for */
        for (request = ckpt->pending; request && request->next;)
            request = request->next;
    if (request != NULL)
        request->at.blocked_s += spent;
    pthread_mutex_unlock(&ckpt->lock);
    return status;
}

lull_status_t lull_ckpt_wait_durable(lull_ckpt_t *ckpt,
                                     lull_ckpt_request_t *request,
                                     int64_t timeout_ms) {
    lull_status_t status = check(ckpt, request, "lull_ckpt_wait_durable");
    if (status != LULL_OK)
        return status;
    lull__mutation_check(ckpt);
    return wait(ckpt, request, offsetof(lull_ckpt_request_t, finished),
                timeout_ms);
}

lull_status_t lull_ckpt_wait_committed(lull_ckpt_t *ckpt,
                                       lull_ckpt_request_t *request,
                                       int64_t timeout_ms) {
    lull_status_t status = check(ckpt, request, "lull_ckpt_wait_committed");
    if (status != LULL_OK)
        return status;
    lull__mutation_check(ckpt);
    return wait(ckpt, request, offsetof(lull_ckpt_request_t, decided),
                timeout_ms);
}

lull_status_t lull_ckpt_wait_drained(lull_ckpt_t *ckpt, int64_t timeout_ms) {
    lull_status_t status =
        lull__engine_check(ckpt, "lull_ckpt_wait_drained", false);
    if (status != LULL_OK || ckpt->tiers == NULL || ckpt->tiers->follows)
        return status;
    double deadline = lull__deadline_ms(timeout_ms);
    bool in_time = true;
    pthread_mutex_lock(&ckpt->lock);
    if (timeout_ms != 0)
        lull__drain_wake(ckpt->tiers, true);
    while (!ckpt->tiers->idle && in_time)
        in_time = lull__cond_wait_until(&ckpt->changed, &ckpt->lock, deadline);
    bool idle = ckpt->tiers->idle;
    pthread_mutex_unlock(&ckpt->lock);
    if (!idle)
        return lull__fail(LULL_ERR_TIMEOUT, "not drained after %lld ms",
                          (long long)timeout_ms);
    return lull__drain_report(ckpt->tiers);
}

/* With the lock held. */
static lull_ckpt_stage_t stage_of(const lull_ckpt_request_t *save) {
    if (save->status != LULL_OK)
        return LULL_CKPT_FAILED;
    if (save->decided)
        return LULL_CKPT_COMMITTED;
    if (save->finished)
        return LULL_CKPT_DURABLE;
    if (save->copied)
        return LULL_CKPT_FLUSHING;
    return save->at.copy_begin_s > 0 ? LULL_CKPT_COPYING : LULL_CKPT_QUEUED;
}

lull_status_t lull_ckpt_test(lull_ckpt_t *ckpt, lull_ckpt_request_t *request,
                             lull_ckpt_progress_t *out) {
    lull_status_t status = lull__engine_check(ckpt, "lull_ckpt_test", true);
    if (status != LULL_OK)
        return status;
    if (request == NULL || request->ckpt != ckpt || out == NULL ||
        out->size == 0 || out->size > sizeof *out)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_test: %s",
                          request ? "set out->size" : "request is NULL");
    pthread_mutex_lock(&ckpt->lock);
    lull_ckpt_progress_t progress = request->at;
    progress.stage = stage_of(request);
    progress.step = request->step;
    progress.bytes = request->bytes;
    progress.bytes_copied = request->bytes_copied;
    progress.bytes_written = request->bytes_written;
    progress.status = request->status;
    pthread_mutex_unlock(&ckpt->lock);
    progress.size = out->size;
    memcpy(out, &progress, out->size);
    return LULL_OK;
}

void lull_ckpt_request_destroy(lull_ckpt_request_t *request) {
    /* In a forked child the lock may be held by a thread that is not there. */
    if (request == NULL || request->ckpt->pid != getpid())
        return;
    lull_ckpt_t *ckpt = request->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    lull__save_unref(request);
    pthread_mutex_unlock(&ckpt->lock);
}

lull_status_t lull_ckpt_stats(lull_ckpt_t *ckpt, lull_ckpt_stats_t *out) {
    lull_status_t status = lull__engine_check(ckpt, "lull_ckpt_stats", true);
    if (status != LULL_OK)
        return status;
    if (out == NULL || out->size == 0 || out->size > sizeof *out)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_stats: set out->size");
    pthread_mutex_lock(&ckpt->lock);
    lull_ckpt_stats_t stats = ckpt->stats;
    pthread_mutex_unlock(&ckpt->lock);
    if (ckpt->queue != NULL)
        stats.flush_s = lull__io_queue_busy(ckpt->queue);
    stats.buffer_bytes = lull__ring_bytes(ckpt->ring);
    stats.buffer_peak = lull__ring_peak(ckpt->ring);
    stats.size = out->size;
    memcpy(out, &stats, out->size);
    return LULL_OK;
}
