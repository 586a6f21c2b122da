/* Values of arrays as doubles. */
#include "values.h"

#include <math.h>
#include <string.h>

static double half(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double sign = h >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static double brain(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* X(dtype, type, expression of the value v) */
#define KNOWN(X)                \
    X(BOOL, uint8_t, v)         \
    X(U8, uint8_t, v)           \
    X(I8, int8_t, v)            \
    X(U16, uint16_t, v)         \
    X(I16, int16_t, v)          \
    X(F16, uint16_t, half(v))   \
    X(BF16, uint16_t, brain(v)) \
    X(U32, uint32_t, v)         \
    X(I32, int32_t, v)          \
    X(F32, float, (double)v)    \
    X(F64, double, v)           \
    X(U64, uint64_t, (double)v) \
    X(I64, int64_t, (double)v)

bool value_known(lull_dtype_t dtype) {
    switch (dtype) {
#define ROW(name, type, value) case LULL_##name:
        KNOWN(ROW)
#undef ROW
        return true;
    default:
        return false;
    }
}

double value_at(lull_dtype_t dtype, const void *data, uint64_t index) {
    switch (dtype) {
#define ROW(name, type, value)                                           \
    case LULL_##name: {                                                  \
        type v;                                                          \
        memcpy(&v, (const char *)data + index * sizeof(type), sizeof v); \
        return value;                                                    \
    }
        KNOWN(ROW)
#undef ROW
    default:
        return NAN;
    }
}

void compare_begin(compare_t *compare) {
    *compare = (compare_t){0};
}

static void add_value(compare_t *compare, double a, double b, bool same) {
    double diff = same ? 0 : fabs(a - b);
    compare->sum_a += isfinite(a) ? a * a : 0;
    if (same)
        return;
    compare->different++;
    compare->sum_diff += diff * diff;
    if (isnan(diff) || diff > compare->max_abs)
        compare->max_abs = diff;
}

void compare_add(compare_t *compare, lull_dtype_t dtype, const void *a,
                 const void *b, uint64_t bytes) {
    uint64_t width = value_known(dtype) ? lull_dtype_bits(dtype) / 8 : 1;
    if (memcmp(a, b, bytes) == 0 && compare->different == 0 &&
        !value_known(dtype))
        return;
    for (uint64_t i = 0; i < bytes / width; i++) {
        bool same = memcmp((const char *)a + i * width,
                           (const char *)b + i * width, width) == 0;
        if (value_known(dtype))
            add_value(compare, value_at(dtype, a, i), value_at(dtype, b, i),
                      same);
        else
            compare->different += !same;
    }
}

void compare_end(compare_t *compare) {
    if (compare->different == 0)
        return;
    compare->rel_l2 = sqrt(compare->sum_diff) / sqrt(compare->sum_a);
}
