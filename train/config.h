/* What a run of lull-train is: the model, the parallel layout, the schedule,
 * where things are written. Filled by options.c, read by everyone. */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include <lull/ckpt.h>
#include <lull/comm.h>
#include <stdbool.h>
#include <stdint.h>

enum { VOCABULARY = 256 }; /* bytes */

typedef struct tier_texts {
    const char *text[LULL_CKPT_TIERS_MAX];
    int count;
} tier_texts_t;

typedef struct config {
    /* model */
    int layers, hidden, heads, seq;
    /* batch: sequences a step over all ranks, and in one micro-batch */
    int global_batch, micro_batch;
    /* layout; dp = world / (tp * pp) */
    int tp, pp, dp, zero;
    /* schedule */
    int64_t steps, stop_at, warmup;
    double lr;
    uint64_t seed;
    int64_t val_every;
    int val_windows;
    /* paths; NULL: not asked for */
    const char *data, *metrics, *trace;
    const char *init, *dump_init, *dump_grads, *dump_activations;
    const char *dump_batches;
    int64_t dump_step; /* from 1; 0: the run's first */
    /* communication */
    const char *comm;
    /* an auto policy that comm was measured for */
    char comm_asked[LULL_POLICY_MAX];
    /* checkpoints */
    const char *ckpt_dir, *resume;
    int64_t ckpt_every;
    lull_ckpt_mode_t ckpt_mode;
    uint64_t ckpt_buffer;
    const char *ckpt_codec; /* NULL: raw */
    int ckpt_encode_threads;
    tier_texts_t ckpt_tiers; /* as given, fast to slow */
    int ckpt_local;          /* ckpt_dir is a disk of each node */
    double commit_timeout;   /* seconds */
    int keep_last;
    int64_t keep_every;
    /* sampling */
    int sample, top_k;
    const char *prompt;
    double temperature;
} config_t;

#endif
