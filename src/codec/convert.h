/* Conversions between float and 16-bit floats: one table a variant. */
#ifndef LULL__CONVERT_H
#define LULL__CONVERT_H

#include <stdbool.h>
#include <stddef.h>

/* Any alignment. As lull__f16_to_f32() and its siblings in codec_impl.h. */
typedef struct lull__convert {
    void (*f16_to_f32)(const void *src, void *dst, size_t count);
    void (*bf16_to_f32)(const void *src, void *dst, size_t count);
    bool (*f32_to_f16)(const void *src, void *dst, size_t count);
    bool (*f32_to_bf16)(const void *src, void *dst, size_t count);
    void (*add_f32)(const void *src, void *sum, size_t count);
    void (*add_f16)(const void *src, void *sum, size_t count);
    void (*add_bf16)(const void *src, void *sum, size_t count);
} lull__convert_t;

extern const lull__convert_t lull__convert_portable, lull__convert_avx2,
    lull__convert_avx512;

#endif
