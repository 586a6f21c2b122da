/* Whole tensors in and out of a run: --init, --dump-init, --dump-grads,
 * --dump-activations, --dump-batches. */
#ifndef TRAIN_DUMP_H
#define TRAIN_DUMP_H

#include "model.h"

/* Collective. Writes all weights or gradients to one safetensors file under
 * their Hugging Face names, by rank 0. */
lull_status_t dump_tensors(const model_t *model, const groups_t *groups,
                           shard_kind_t kind, const char *path);

/* A file of the traffic of one step's first micro-batch, under names like
 * activations.layers.I.output. Opened before the step; add is a hooks_t's
 * traffic with the dump as its context, once for each tensor; close completes
 * the file. destroy removes one that is not complete; of NULL: nothing. */
typedef struct dump dump_t;
lull_status_t dump_activations_open(const config_t *config, dump_t **out);
lull_status_t dump_activations_add(dump_t *dump, const float *values,
                                   size_t count);
lull_status_t dump_activations_close(dump_t *dump);
void dump_activations_destroy(dump_t *dump);

/* Collective. Fills the weights from a file that dump_tensors wrote, or from a
 * file or folder that transformers wrote for a model of this shape in F32. */
lull_status_t init_weights_from(const model_t *model, const char *path);

/* One rank. Writes the batches of steps first + 1 to last, counted from 1:
 * tensors "batch.NNNNNN" of U8 [global_batch, seq + 1], whose columns 0 to
 * seq - 1 are the input and 1 to seq the targets. */
lull_status_t dump_batches(const config_t *config, const data_t *data,
                           int64_t first, int64_t last);

#endif
