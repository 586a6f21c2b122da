/* What tests of engines on a device that copies in the background share. Their
 * directory is ckpt_room. */
#ifndef DEVICE_ENGINE_H
#define DEVICE_ENGINE_H

#include <lull/ckpt.h>

lull_ckpt_t *device_engine_open(lull_device_t *device, uint64_t buffer_bytes,
                                unsigned copy_threads);
lull_status_t device_engine_save(lull_ckpt_t *ckpt, uint64_t step, size_t count,
                                 const lull_ckpt_tensor_t *tensors,
                                 lull_stream_t stream);
/* What a step stores of a tensor: one value in all bytes; these bytes. */
void device_engine_assert_all(uint64_t step, const char *name, int value,
                              size_t bytes);
void device_engine_assert_stored(uint64_t step, const char *name,
                                 const void *data, size_t bytes);
/* The newest checkpoint, which is of this step. */
lull_ckpt_info_t *device_engine_latest(uint64_t step);

#endif
