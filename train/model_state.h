/* The inside of a model: sizes, tensors, arenas, buckets, micro-batch slots.
 * For the files that implement model.h; others see model.h only. */
#ifndef TRAIN_MODEL_STATE_H
#define TRAIN_MODEL_STATE_H

#include "kernels.h"
#include "model.h"

/* A whole tensor, and the part of it that this rank holds. */
typedef enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS } split_t;
typedef enum initial { INITIAL_ZERO, INITIAL_ONE, INITIAL_NORMAL } initial_t;
typedef struct tensor {
    tensor_info_t info;
    split_t split; /* over tp */
    initial_t initial;
    double deviation;
    int stage; /* that holds it */
    int layer; /* of the model, -1: none */
    bool local;
    uint64_t offset[2], shape[2]; /* of the local box; valid if local */
    size_t at;                    /* in the arenas */
    size_t count;                 /* local values */
} tensor_t;

/* A stretch of the arenas that is reduced at once, a multiple of 32 values on
 * each data-parallel rank. `ready`: it is final when this step of backward is
 * done: the local layer of that index, READY_END after everything. */
enum { READY_END = -1 };
typedef struct bucket {
    size_t at, count;
    size_t moments; /* where its moments lie with zero = 1 */
    int ready;
    bool replicated; /* over tp */
    lull_request_t *request;
} bucket_t;

/* Where the tensors of a layer lie in the arenas. */
typedef struct layer {
    size_t norm1_weight, norm1_bias, norm2_weight, norm2_bias;
    size_t qkv_weight, qkv_bias, dense_weight, dense_bias;
    size_t up_weight, up_bias, down_weight, down_bias;
} layer_t;
typedef struct ends {
    size_t embed_in, norm_weight, norm_bias, embed_out;
} ends_t;

/* What forward leaves for backward, of one layer and one micro-batch. */
typedef struct saved {
    float *x;             /* [rows, hidden], the input */
    float *stats;         /* [rows, 2] */
    float *norm1, *norm2; /* [rows, hidden] */
    float *qkv;           /* [rows, 3 hidden / tp] */
    float *probabilities; /* [batch, heads / tp, seq, seq] */
    float *context;       /* [rows, hidden / tp] */
    float *slope, *gelu;  /* [rows, 4 hidden / tp] */
} saved_t;

/* A micro-batch on its way through this stage. */
typedef struct slot {
    saved_t *layers;
    float *out; /* [rows, hidden], of the last layer */
    /* last stage */
    float *norm;   /* [rows, hidden], the final norm */
    float *stats;  /* [rows, 2] */
    float *logits; /* [rows, vocabulary / tp]; their gradient after the loss */
    uint8_t *inputs, *targets; /* [rows] */
    lull_request_t *sent;      /* of out */
} slot_t;

/* Buffers of no lasting content. */
typedef struct scratch {
    float *qkv, *up, *context; /* gradients, as in saved_t */
    float *norms;              /* [2, rows, hidden] */
    float *scores;             /* [ATTENTION_BLOCK, seq] */
    float *bias;               /* [hidden] */
    float *loss;               /* [3, rows]: max, sum, target */
    uint8_t *window;           /* [seq + 1] */
} scratch_t;

/* Gradients between stages: one being received, one in the layers, one being
 * sent. */
enum { GRADIENT_BUFFERS = 3 };

struct model {
    const config_t *config;
    const groups_t *groups;
    const data_t *data;
    const hooks_t *hooks; /* during a step */

    int hidden, heads, head_dim, rotary; /* heads: of this rank */
    int hidden_part, up_part, vocabulary_part;
    int layers, first_layer; /* of this stage */
    int micro_batches;
    bool is_first, is_last; /* stage */

    tensor_t *tensors;
    tensor_info_t *infos;
    const char **names; /* weights, then both moments */
    size_t tensor_count;
    shard_t *shards[3];
    size_t shard_count[3];

    size_t arena;               /* values in weights and gradients */
    size_t moments;             /* values in each moment */
    float *weights, *gradients; /* [arena] */
    float *mean, *square;       /* [moments] */
    bucket_t *buckets;          /* in the order backward finishes them */
    size_t bucket_count;
    layer_t *places; /* of this stage's layers */
    ends_t ends;
    int64_t updates;

    slot_t *slots;
    int slot_count;
    float **inputs; /* slot_count + 1 buffers for stage inputs, in turn */
    float *gradient[GRADIENT_BUFFERS];
    lull_request_t *gradient_sent[GRADIENT_BUFFERS];
    scratch_t scratch;
    float *cosine, *sine;
    void **blocks; /* every allocation above, freed at once */
    size_t block_count;
};

enum {
    ROTARY_BASE = 10000,
    ATTENTION_BLOCK = 64, /* rows of scores at a time */
    BUCKET_VALUES = 65536,
    BUCKET_ALIGN = 32
};

/* Zeroed memory that lives as long as the model, aligned to 64 bytes; NULL
 * when there is none. */
void *model_alloc(model_t *model, size_t count, size_t size);

/* The list of tensors, and where the local ones lie (tensors.c). */
lull_status_t tensors_make(model_t *model);
/* Buffers for micro-batches (slots.c). */
lull_status_t slots_make(model_t *model);
/* Boxes for model_shards() (shards.c). */
lull_status_t shards_make(model_t *model);

/* The part of a bucket that this rank updates, in the arenas and in the
 * moments. */
typedef struct part {
    size_t at, moments, count;
} part_t;
part_t bucket_part(const model_t *model, const bucket_t *bucket);

#endif
