/* Averages that are finite where the true average is.
 *
 * Values are scaled by 2^-k with 2^k >= 2 P before the sum and the sum is
 * divided by P / 2^k after it. Both factors are exact, no partial sum reaches
 * half the largest value, so that not even what a lossy codec makes of the
 * contributions overflows, and a quotient that rounds up past the largest
 * finite value stays there. Only values near the smallest normal number lose
 * bits. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "internal.h"

double lull__average_power(int ranks) {
    double power = 2;
    while (power < 2 * (double)ranks)
        power *= 2;
    return power;
}

static void scale_f32(const char *in, char *out, size_t count, float by) {
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, in + 4 * i, 4);
        x *= by;
        memcpy(out + 4 * i, &x, 4);
    }
}

static void divide_f32(char *data, size_t count, float by) {
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, data + 4 * i, 4);
        float y = x / by;
        y = isfinite(x) && !isfinite(y) ? copysignf(FLT_MAX, y) : y;
        memcpy(data + 4 * i, &y, 4);
    }
}

static void scale_f64(const char *in, char *out, size_t count, double by) {
    for (size_t i = 0; i < count; i++) {
        double x;
        memcpy(&x, in + 8 * i, 8);
        x *= by;
        memcpy(out + 8 * i, &x, 8);
    }
}

static void divide_f64(char *data, size_t count, double by) {
    for (size_t i = 0; i < count; i++) {
        double x;
        memcpy(&x, data + 8 * i, 8);
        double y = x / by;
        y = isfinite(x) && !isfinite(y) ? copysign(DBL_MAX, y) : y;
        memcpy(data + 8 * i, &y, 8);
    }
}

void lull__average_before(const void *in, void *out, size_t count,
                          lull_dtype_t dtype, int ranks) {
    double by = 1 / lull__average_power(ranks);
    if (dtype == LULL_F32)
        scale_f32(in, out, count, (float)by);
    else
        scale_f64(in, out, count, by);
}

void lull__average_after(void *data, size_t count, lull_dtype_t dtype,
                         int ranks) {
    double by = ranks / lull__average_power(ranks);
    if (by == 1)
        return;
    if (dtype == LULL_F32)
        divide_f32(data, count, (float)by);
    else
        divide_f64(data, count, by);
}
