/* Whole tensors in and out of a run: --init, --dump-init, --dump-grads,
 * --dump-batches. */
#ifndef TRAIN_DUMP_H
#define TRAIN_DUMP_H

#include "model.h"

/* Collective. Writes all weights or gradients to one safetensors file under
 * their Hugging Face names, by rank 0. */
lull_status_t dump_tensors(const model_t *model, const groups_t *groups,
                           shard_kind_t kind, const char *path);

/* Collective. Fills the weights from a file that dump_tensors wrote, or from a
 * file or folder that transformers wrote for a model of this shape in F32. */
lull_status_t init_weights_from(const model_t *model, const char *path);

/* One rank. Writes the batches of steps first + 1 to last, counted from 1:
 * tensors "batch.NNNNNN" of U8 [global_batch, seq + 1], whose columns 0 to
 * seq - 1 are the input and 1 to seq the targets. */
lull_status_t dump_batches(const config_t *config, const data_t *data,
                           int64_t first, int64_t last);

#endif
