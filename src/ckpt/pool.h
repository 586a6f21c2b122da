/* Tasks 0 to n - 1 done by a few threads, while the caller waits and shows
 * progress. */
#ifndef LULL__CKPT_POOL_H
#define LULL__CKPT_POOL_H

#include <lull/ckpt.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lull__pool {
    unsigned threads;
    size_t tasks;
    /* Does one task; `worker` < threads tells whose buffers to use. */
    lull_status_t (*fn)(void *ctx, unsigned worker, size_t task);
    void *ctx;
    lull_ckpt_progress_fn progress; /* NULL: none; called by the caller's
                                       thread */
    void *progress_ctx;
    const uint64_t *done; /* what progress is told; tasks add atomically */
    uint64_t total;
} lull__pool_t;

/* Blocks. After the first failure no task is begun any more; its status and
 * sentence become the caller's. LULL_ERR_CANCELLED: progress said so. */
lull_status_t lull__pool_run(const lull__pool_t *pool);

#endif
