/* Types of array elements. Names and sizes are those of safetensors
 * (https://github.com/huggingface/safetensors, README "Format"). */
#ifndef LULL_DTYPE_H
#define LULL_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, bits): values are pinned for ever, they stand in frames.
 * Elements of fewer than 8 bits are packed; a whole array of them must fill
 * whole bytes. */
#define LULL_DTYPE_TABLE(X) \
    X(BOOL, 1, 8)           \
    X(U8, 2, 8)             \
    X(I8, 3, 8)             \
    X(F8_E5M2, 4, 8)        \
    X(F8_E4M3, 5, 8)        \
    X(F8_E8M0, 6, 8)        \
    X(F8_E4M3FNUZ, 7, 8)    \
    X(F8_E5M2FNUZ, 8, 8)    \
    X(I16, 9, 16)           \
    X(U16, 10, 16)          \
    X(F16, 11, 16)          \
    X(BF16, 12, 16)         \
    X(I32, 13, 32)          \
    X(U32, 14, 32)          \
    X(F32, 15, 32)          \
    X(C64, 16, 64)          \
    X(F64, 17, 64)          \
    X(I64, 18, 64)          \
    X(U64, 19, 64)          \
    X(F4, 20, 4)            \
    X(F6_E2M3, 21, 6)       \
    X(F6_E3M2, 22, 6)

typedef enum lull_dtype {
#define LULL_DTYPE_ENUM_(name, value, bits) LULL_##name = (value),
    LULL_DTYPE_TABLE(LULL_DTYPE_ENUM_)
#undef LULL_DTYPE_ENUM_
} lull_dtype_t;

/* The name as safetensors writes it ("F32", "BF16"); NULL for a value that
 * is none. Static string; any thread. */
LULL_API const char *lull_dtype_name(lull_dtype_t dtype);

/* Bits of one element; 0 for a value that is none. */
LULL_API unsigned lull_dtype_bits(lull_dtype_t dtype);

/* The dtype of a name, exact as in safetensors or in lower case ("f32").
 * LULL_ERR_NOT_FOUND: no such dtype. */
LULL_API lull_status_t lull_dtype_parse(const char *name, lull_dtype_t *out);

/* Bytes of `count` elements. LULL_ERR_INVALID: no such dtype, an overflow,
 * or packed elements that do not fill whole bytes. */
LULL_API lull_status_t lull_dtype_bytes(lull_dtype_t dtype, uint64_t count,
                                        uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
