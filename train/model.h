/* The model of one rank: its part of the weights, their gradients, the
 * optimizer's state, and what can be done with them. Everything but the
 * accessors is collective over all ranks. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <lull/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "data.h"
#include "groups.h"

typedef struct model model_t;

/* Allocates everything a step needs; weights and moments are zero. config,
 * groups and data must outlive the model; data may be NULL for a model that
 * only samples. LULL_ERR_INVALID: layers, heads, hidden, vocabulary or batch
 * do not divide as the layout wants, named. LULL_ERR_NO_MEMORY. */
lull_status_t model_create(const config_t *config, const groups_t *groups,
                           const data_t *data, model_t **out);
void model_destroy(model_t *model);

/* Fresh weights by (seed, tensor, global index): the same on any layout. */
void model_init_weights(model_t *model);

/* Updates that the optimizer has done: part of its state, to be saved and
 * restored beside the tensors. */
int64_t model_updates(const model_t *model);
void model_set_updates(model_t *model, int64_t updates);

/* Weights of the whole model; floating operations of one step on all ranks
 * (matrix products, forward and backward, attention counted causal). */
uint64_t model_parameters(const model_t *model);
double model_step_flops(const model_t *model);

/* ---- Tensors ----------------------------------------------------------- */

/* One box of a tensor that this rank holds, row-major and contiguous. */
typedef struct shard {
    const char *name; /* owned by the model */
    uint32_t ndim;    /* 1 or 2 */
    uint64_t global_shape[2], offset[2], shape[2];
    float *data;                /* live: what training uses */
    uint32_t replica, replicas; /* as lull_ckpt_tensor_t has them */
} shard_t;

typedef enum shard_kind {
    SHARDS_WEIGHTS = 0,  /* under their Hugging Face names */
    SHARDS_STATE = 1,    /* weights, optimizer.exp_avg.NAME and
                            optimizer.exp_avg_sq.NAME */
    SHARDS_GRADIENTS = 2 /* under the weights' names; inside hooks.gradients
                            only; split as the moments are */
} shard_kind_t;

/* The boxes of this rank; the array is owned by the model and valid until it
 * is destroyed. With zero = 1 the moments and gradients are split over
 * data-parallel ranks and a tensor may have several boxes. */
const shard_t *model_shards(const model_t *model, shard_kind_t kind,
                            size_t *count);

/* A tensor of the whole model; the same list on every rank. */
typedef struct tensor_info {
    const char *name;
    uint32_t ndim;
    uint64_t shape[2];
} tensor_info_t;
const tensor_info_t *model_tensors(const model_t *model, size_t *count);

/* Every name that SHARDS_STATE has over all ranks, for a loader that looks for
 * extra tensors. */
const char *const *model_names(const model_t *model, size_t *count);

/* Assembles tensor `index` of model_tensors() from all ranks' weights or
 * gradients into `whole`, which every rank gives. Collective. */
lull_status_t model_gather(const model_t *model, shard_kind_t kind,
                           size_t index, float *whole);

/* ---- Training ---------------------------------------------------------- */

/* What parallel ranks send each other at a layer, in the order in which the
 * hook hears of it: layers from the last to the first, of each these. */
typedef enum traffic {
    TRAFFIC_OUTPUT,          /* [batch, seq, hidden]: a stage to the next */
    TRAFFIC_OUTPUT_GRADIENT, /* the same shape: a stage to the one before */
    TRAFFIC_ROW_PARALLEL,    /* the same shape: what forward all-reduces, the
                                sum of both row-parallel products */
    TRAFFIC_NORM_GRADIENTS,  /* [2, batch, seq, hidden]: what backward
                                all-reduces, of both norms' outputs */
    TRAFFIC_KINDS
} traffic_t;

/* What the caller wants to be asked or told during a step; any may be NULL. */
typedef struct hooks {
    void *ctx;
    /* Gradients are reduced over data-parallel ranks and not yet clipped. */
    lull_status_t (*gradients)(void *ctx, model_t *model);
    /* Traffic of the first micro-batch, during its backward; of one rank
     * only, where there are no parts. `values` live during the call. */
    lull_status_t (*traffic)(void *ctx, const float *values, size_t count);
    /* Right before weights and moments change. */
    lull_status_t (*before_update)(void *ctx);
    /* Spans for a trace; they nest within a lane. `lane` and `name` are
     * static strings: forward, backward, optimizer; tp, pp, dp, param, other.
     */
    void (*span_begin)(void *ctx, const char *lane, const char *name);
    void (*span_end)(void *ctx, const char *lane);
} hooks_t;

typedef struct step_result {
    double loss;      /* mean nats a byte over the global batch */
    double grad_norm; /* of the whole model, before clipping */
    double lr;
    bool skipped; /* the norm was not finite: nothing was updated */
} step_result_t;

/* Step number `step`, from 0: forward, backward, reduction, update. The result
 * is the same bits on every rank. hooks may be NULL. After a
 * failure the model is unusable and communication may be left hanging: all
 * that remains is to end the process, and the others. */
lull_status_t train_step(model_t *model, int64_t step, const hooks_t *hooks,
                         step_result_t *out);

/* The learning rate of a step. */
double train_lr(const config_t *config, int64_t step);

/* Mean cross entropy in nats a byte over the validation windows; never
 * compressed. */
lull_status_t model_validate(model_t *model, double *out);

typedef struct sample_options {
    const uint8_t *prompt; /* at least one byte */
    size_t prompt_bytes;
    size_t count;       /* bytes to add */
    double temperature; /* 0: the likeliest */
    int top_k;          /* 0: all */
    uint64_t seed;
} sample_options_t;

/* Writes options->count bytes to `out`, the same on every rank. Sees the last
 * seq bytes. Never compressed. */
lull_status_t model_sample(model_t *model, const sample_options_t *options,
                           uint8_t *out);

#endif
