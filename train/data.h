/* The text: which bytes train, which validate, and which are in a batch. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <lull/status.h>
#include <stdint.h>

#include "config.h"

typedef struct data data_t;

/* Opens config->data. The first floor(0.9 * size) bytes train, the rest
 * validates. LULL_ERR_NOT_FOUND, _PERMISSION, _IO; LULL_ERR_INVALID: not a
 * plain file, or too short for one training window of seq + 1 bytes or for
 * val_windows validation windows (not looked at when val_windows is 0). */
lull_status_t data_open(const config_t *config, data_t **out);
void data_close(data_t *data);

uint64_t data_size(const data_t *data);

/* The seq + 1 bytes of sequence `index` of the global batch of `step`: a
 * function of (seed, step, index) and the file. Bytes 0 to seq - 1 are the
 * input, 1 to seq the targets. */
lull_status_t data_train_window(const data_t *data, int64_t step, int index,
                                uint8_t *out);

/* Validation window `index`: seq + 1 bytes at stride seq. */
lull_status_t data_val_window(const data_t *data, int index, uint8_t *out);

#endif
