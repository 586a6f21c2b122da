/* Tensors of a checkpoint or of safetensors files, read alike and in pieces,
 * so that no tensor has to fit into memory. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "cli.h"

typedef struct source {
    lull_ckpt_info_t *info; /* one of the two */
    lull_safetensors_t *file;
} source_t;

typedef lull_safetensors_tensor_t tensor_t;

/* A checkpoint ("DIR", "DIR/STEP"), a safetensors file, or a directory with
 * model.safetensors or its index. Returns an exit status, having said why. */
int source_open(const char *path, uint64_t step, source_t *out);
void source_close(source_t *source);

size_t source_count(const source_t *source);
bool source_at(const source_t *source, size_t index, tensor_t *out);
bool source_find(const source_t *source, const char *name, tensor_t *out);

/* How a tensor is cut: into pieces of at most about SOURCE_PIECE bytes, along
 * its first dimension that is not 1. The same for equal dtypes and shapes. */
#define SOURCE_PIECE (UINT64_C(8) << 20)
typedef struct cut {
    uint32_t dim;  /* that is cut */
    uint64_t rows; /* of it in a piece */
    uint64_t pieces;
    uint64_t piece_bytes; /* of every piece but the last */
} cut_t;
void source_cut(const tensor_t *tensor, cut_t *out);

/* Reads piece `index`; *bytes is its size, at most piece_bytes. */
lull_status_t source_read(const source_t *source, const tensor_t *tensor,
                          uint64_t index, void *data, uint64_t *bytes);

#endif
