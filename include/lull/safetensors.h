/* safetensors files: read with every rule of the format checked, written
 * atomically. Format: https://github.com/huggingface/safetensors ("Format").
 * Little-endian, row-major, no holes. */
#ifndef LULL_SAFETENSORS_H
#define LULL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt.h"
#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lull_safetensors lull_safetensors_t;

/* A tensor of a file. The name is owned by the reader, or, for a writer, by
 * the caller during create. */
typedef struct lull_safetensors_tensor {
    const char *name;
    lull_dtype_t dtype;
    uint32_t ndim; /* 0: a scalar */
    uint64_t shape[LULL_MAX_DIMS];
    uint64_t bytes; /* of its values; a writer works it out itself */
} lull_safetensors_tensor_t;

/* Opens a file, or a directory as Hugging Face lays models out: its
 * model.safetensors, else all files of model.safetensors.index.json. Parses
 * and checks all headers, reads no data. An opened reader is immutable: any
 * number of threads may read. LULL_ERR_NOT_FOUND, LULL_ERR_IO,
 * LULL_ERR_CORRUPT (names file and tensor), LULL_ERR_UNSUPPORTED (more than
 * LULL_MAX_DIMS dimensions). */
LULL_API lull_status_t lull_safetensors_open(const char *path,
                                             lull_safetensors_t **out);
/* NULL is harmless. */
LULL_API void lull_safetensors_destroy(lull_safetensors_t *file);

/* How many tensors, and row `index` of them in the order of their bytes;
 * false past the last. */
LULL_API size_t lull_safetensors_count(const lull_safetensors_t *file);
LULL_API bool lull_safetensors_at(const lull_safetensors_t *file, size_t index,
                                  lull_safetensors_tensor_t *out);
/* By name; LULL_ERR_NOT_FOUND. */
LULL_API lull_status_t lull_safetensors_find(const lull_safetensors_t *file,
                                             const char *name,
                                             lull_safetensors_tensor_t *out);
/* A value of __metadata__ (of the first file), NULL if there is none; owned
 * by the reader. */
LULL_API const char *lull_safetensors_meta(const lull_safetensors_t *file,
                                           const char *key);

/* Reads bytes [offset, offset + bytes) of a tensor's values. Blocks.
 * LULL_ERR_NOT_FOUND, LULL_ERR_INVALID (past its end), LULL_ERR_IO. */
LULL_API lull_status_t lull_safetensors_read(const lull_safetensors_t *file,
                                             const char *name, uint64_t offset,
                                             uint64_t bytes, void *data);

typedef struct lull_safetensors_writer lull_safetensors_writer_t;

/* Begins a file of these tensors, in this order, with metadata ("format" is
 * set to "pt" if it is not given). Its bytes go to a temporary file beside
 * `path`. LULL_ERR_INVALID: a name, a dtype, a shape or a duplicate;
 * LULL_ERR_BUSY: `path` exists. */
LULL_API lull_status_t lull_safetensors_create(
    const char *path, const lull_safetensors_tensor_t *tensors, size_t count,
    const lull_ckpt_meta_t *meta, size_t meta_count,
    lull_safetensors_writer_t **out);

/* Appends values: all tensors in order, in pieces of any size. */
LULL_API lull_status_t lull_safetensors_write(lull_safetensors_writer_t *writer,
                                              const void *data, uint64_t bytes);

/* Syncs the file and gives it its name, never over an existing one.
 * LULL_ERR_INVALID: bytes are missing. */
LULL_API lull_status_t
lull_safetensors_close(lull_safetensors_writer_t *writer);

/* Frees a writer; before close its temporary file is removed. NULL is
 * harmless. */
LULL_API void
lull_safetensors_writer_destroy(lull_safetensors_writer_t *writer);

#ifdef __cplusplus
}
#endif

#endif
