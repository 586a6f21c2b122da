/* Whole tensors in one safetensors file, for --init and the dumps
 * (https://github.com/huggingface/safetensors, README "Format"). */
#ifndef TRAIN_SAFETENSORS_H
#define TRAIN_SAFETENSORS_H

#include <lull/dtype.h>
#include <lull/status.h>
#include <stddef.h>
#include <stdint.h>

enum { TENSOR_DIMS = 2, TENSOR_NAME_MAX = 128 };

/* A tensor of a file: what it is, not its data. */
typedef struct tensor_head {
    char name[TENSOR_NAME_MAX];
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t shape[TENSOR_DIMS];
} tensor_head_t;

/* Writes a file: the header at once, then the tensors' data in the order of
 * `heads`, each in as many pieces as the caller likes. The file is PATH.part
 * until finish gives it its name: a name stands for a whole file. */
typedef struct tensor_writer tensor_writer_t;
lull_status_t tensor_writer_open(const char *path, const tensor_head_t *heads,
                                 size_t count, tensor_writer_t **out);
lull_status_t tensor_writer_add(tensor_writer_t *writer, const void *data,
                                size_t bytes);
lull_status_t tensor_writer_finish(tensor_writer_t *writer);
/* Without finish before it the unfinished file is removed. NULL is fine. */
void tensor_writer_close(tensor_writer_t *writer);

/* Reads a file of which nothing is trusted. LULL_ERR_CORRUPT says why. */
typedef struct tensor_reader tensor_reader_t;
lull_status_t tensor_reader_open(const char *path, tensor_reader_t **out);
void tensor_reader_close(tensor_reader_t *reader);
size_t tensor_reader_count(const tensor_reader_t *reader);
/* Name of tensor `index`, in the file's order. */
const char *tensor_reader_name(const tensor_reader_t *reader, size_t index);

/* A box of an F32 tensor, row-major. */
typedef struct tensor_box {
    const char *name;
    uint32_t ndim;
    uint64_t global_shape[TENSOR_DIMS], offset[TENSOR_DIMS], shape[TENSOR_DIMS];
} tensor_box_t;
/* Reads it into `out`. LULL_ERR_NOT_FOUND, LULL_ERR_MISMATCH: dtype or shape
 * is another. */
lull_status_t tensor_reader_box(const tensor_reader_t *reader,
                                const tensor_box_t *box, float *out);

#endif
