/* Arithmetic of one chunk: sums in float32 (float64 for f64), in the order in
 * which they are asked for. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine.h"
#include "half.h"

/* -0 is what changes nothing when it is added to, not even -0. */
void lull__sum_clear(void *sum, size_t n, lull_dtype_t dtype) {
    if (dtype == LULL_F64)
        for (size_t i = 0; i < n; i++)
            ((double *)sum)[i] = -0.0;
    else
        for (size_t i = 0; i < n; i++)
            ((float *)sum)[i] = -0.0f;
}

static void add_f32(float *sum, const char *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, x + 4 * i, 4);
        sum[i] += value;
    }
}

static void add_f64(double *sum, const char *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, x + 8 * i, 8);
        sum[i] += value;
    }
}

static float load_half(const char *at, lull_dtype_t dtype) {
    uint16_t bits;
    memcpy(&bits, at, 2);
    return dtype == LULL_F16 ? lull__from_f16(bits) : lull__from_bf16(bits);
}

/* A NaN of any rank stays. */
static float combine(float a, float b, lull_op_t op) {
    if (op == LULL_MIN)
        return isnan(a) || a < b ? a : b;
    if (op == LULL_MAX)
        return isnan(a) || a > b ? a : b;
    return a + b;
}

/* MIN and MAX come here for 16-bit floats only; MPI has them for the rest. */
static void add_half(const lull__call_t *call, float *sum, const char *x,
                     size_t n, bool first) {
    bool assign = first && (call->op == LULL_MIN || call->op == LULL_MAX);
    for (size_t i = 0; i < n; i++) {
        float value = load_half(x + 2 * i, call->dtype);
        sum[i] = assign ? value : combine(sum[i], value, call->op);
    }
}

void lull__sum_add(const lull__call_t *call, void *sum, const void *values,
                   size_t n, bool first) {
    if (call->dtype == LULL_F32)
        add_f32(sum, values, n);
    else if (call->dtype == LULL_F64)
        add_f64(sum, values, n);
    else
        add_half(call, sum, values, n, first);
}

/* f16 sums of any number of ranks fit float32; its small values do not bear
 * scaling. */
bool lull__scales(const lull__call_t *call) {
    return call->op == LULL_AVG && lull__reduces(call->kind) &&
           call->dtype != LULL_F16 && !call->plain;
}

void lull__scale(const lull__call_t *call, const void *in, void *out,
                 size_t n) {
    if (call->dtype != LULL_BF16) {
        lull__average_before(in, out, n, call->dtype, call->comm->size);
        return;
    }
    float by = (float)(1 / lull__average_power(call->comm->size));
    for (size_t i = 0; i < n; i++) {
        float x = load_half((const char *)in + 2 * i, LULL_BF16);
        uint16_t bits = lull__to_bf16(x * by);
        memcpy((char *)out + 2 * i, &bits, 2);
    }
}

/* An average of finite values is finite in its own dtype too. */
static uint16_t half_of(const lull__call_t *call, float sum, float divisor) {
    bool f16 = call->dtype == LULL_F16;
    float x = call->op == LULL_AVG ? sum / divisor : sum;
    uint16_t bits = f16 ? lull__to_f16(x) : lull__to_bf16(x);
    uint16_t infinity = f16 ? 0x7c00 : 0x7f80;
    if (call->op == LULL_AVG && isfinite(sum) && (bits & 0x7fff) == infinity)
        bits--; /* the largest finite one has the bits just below */
    return bits;
}

void lull__sum_finish(const lull__call_t *call, const void *sum, void *out,
                      size_t n) {
    if (!lull__is_half(call->dtype)) {
        if (out != sum)
            memcpy(out, sum, n * lull__size_of(call->dtype));
        if (call->op == LULL_AVG && !call->plain)
            lull__average_after(out, n, call->dtype, call->comm->size);
        return;
    }
    int ranks = call->comm->size;
    double divisor =
        ranks / (lull__scales(call) ? lull__average_power(ranks) : 1);
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = half_of(call, ((const float *)sum)[i], (float)divisor);
        memcpy((char *)out + 2 * i, &bits, 2);
    }
}
