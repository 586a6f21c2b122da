/* The table of dtypes: names, sizes, parsing. */
#include <lull/dtype.h>
#include <string.h>
#include <strings.h>

#include "error.h"

const char *lull_dtype_name(lull_dtype_t dtype) {
    switch (dtype) {
#define ROW(name, value, bits) \
    case LULL_##name:          \
        return #name;
        LULL_DTYPE_TABLE(ROW)
#undef ROW
    }
    return NULL;
}

unsigned lull_dtype_bits(lull_dtype_t dtype) {
    switch (dtype) {
#define ROW(name, value, bits) \
    case LULL_##name:          \
        return bits;
        LULL_DTYPE_TABLE(ROW)
#undef ROW
    }
    return 0;
}

lull_status_t lull_dtype_parse(const char *name, lull_dtype_t *out) {
    if (name == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_dtype_parse: %s is NULL",
                          name ? "out" : "name");
#define ROW(row, value, bits)        \
    if (strcasecmp(name, #row) == 0) \
        return *out = LULL_##row, LULL_OK;
    LULL_DTYPE_TABLE(ROW)
#undef ROW
    return lull__fail(LULL_ERR_NOT_FOUND, "no dtype is named '%.40s'", name);
}

lull_status_t lull_dtype_bytes(lull_dtype_t dtype, uint64_t count,
                               uint64_t *bytes) {
    unsigned bits = lull_dtype_bits(dtype);
    uint64_t total;
    if (bits == 0)
        return lull__fail(LULL_ERR_INVALID, "%d is no dtype", (int)dtype);
    if (__builtin_mul_overflow(count, (uint64_t)bits, &total))
        return lull__fail(LULL_ERR_INVALID, "%llu elements of %s overflow",
                          (unsigned long long)count, lull_dtype_name(dtype));
    if (total % 8 != 0)
        return lull__fail(LULL_ERR_INVALID,
                          "%llu elements of %s do not fill whole bytes",
                          (unsigned long long)count, lull_dtype_name(dtype));
    *bytes = total / 8;
    return LULL_OK;
}
