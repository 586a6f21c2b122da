/* The trainer's element-wise kernels against plain double precision. */
#include "kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels_math.h"
#include "random.h"
#include "support.h"
#include "test.h"

enum { ROWS = 5, WIDTH = 37, VALUES = ROWS * WIDTH };

static void fill(float *out, size_t count, uint64_t key, double scale) {
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(scale * random_normal(key, i));
}

static void assert_close(const char *what, double got, double want,
                         double tolerance) {
    if (!(fabs(got - want) <= tolerance * fmax(1.0, fabs(want))))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

/* Distance in units of the last place of the float nearest to `want`. */
static double ulps(float got, double want) {
    float near = (float)want;
    double unit =
        (double)nextafterf(fabsf(near), INFINITY) - fabs((double)near);
    return fabs((double)got - want) / unit;
}

static void exp_and_erf_are_accurate(void **state) {
    (void)state;
    double worst_exp = 0, worst_erf = 0;
    for (int i = -870000; i <= 870000; i++) {
        float x = (float)(i * 1e-4);
        worst_exp = fmax(worst_exp, ulps(exp_f32(x), exp((double)x)));
        float small = (float)(i * 5e-6);
        worst_erf = fmax(worst_erf, ulps(erf_f32(small), erf((double)small)));
    }
    print_message("exp %.2f ulp, erf %.2f ulp\n", worst_exp, worst_erf);
    assert_true(worst_exp <= 2.0);
    assert_true(worst_erf <= 2.5);
    assert_true(isnan(exp_f32(NAN)));
    assert_true(isnan(erf_f32(NAN)));
    assert_true(exp_f32(-INFINITY) < 1e-37f);
    assert_true(erf_f32(INFINITY) == 1.0f && erf_f32(-INFINITY) == -1.0f);
}

static void gelu_and_its_slope(void **state) {
    (void)state;
    uint64_t key = test_seed();
    float h[VALUES], in[VALUES], out[VALUES], grad[VALUES], bias[WIDTH];
    float bias_grad[WIDTH] = {0};
    fill(h, VALUES, key, 3);
    fill(bias, WIDTH, key + 1, 1);
    fill(grad, VALUES, key + 2, 1);
    memcpy(in, h, sizeof in);
    kernel_gelu_forward(h, bias, out, ROWS, WIDTH);
    double sums[WIDTH] = {0};
    for (int i = 0; i < VALUES; i++) {
        double x = (double)in[i] + (double)bias[i % WIDTH];
        double cdf = 0.5 * erfc(-x / sqrt(2));
        double slope = cdf + x * exp(-x * x / 2) / sqrt(2 * M_PI);
        assert_close("gelu", out[i], x * cdf, 1e-6);
        assert_close("slope", h[i], slope, 1e-6);
        sums[i % WIDTH] += (double)grad[i] * slope;
    }
    kernel_gelu_backward(grad, h, bias_grad, ROWS, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        assert_close("bias", bias_grad[i], sums[i], 1e-5);
}

/* Two norms of one input: values, and gradients by differences in double. */
static double norm_value(const double *x, const float *weight,
                         const float *bias, int i) {
    double mean = 0, square = 0;
    for (int k = 0; k < WIDTH; k++)
        mean += x[k] / WIDTH;
    for (int k = 0; k < WIDTH; k++)
        square += (x[k] - mean) * (x[k] - mean) / WIDTH;
    return (x[i] - mean) / sqrt(square + 1e-5) * (double)weight[i] +
           (double)bias[i];
}

static double norm_loss(const double *x, const norm_t *norms) {
    double loss = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < WIDTH; i++)
            loss += norm_value(x, norms[k].weight, norms[k].bias, i) *
                    (double)norms[k].grad[i];
    return loss;
}

static void norms_forward_and_back(void **state) {
    (void)state;
    uint64_t key = test_seed();
    float x[VALUES], weight[2][WIDTH], bias[2][WIDTH], out[2][VALUES];
    float grad[2][VALUES], weight_grad[2][WIDTH] = {0}, stats[2 * ROWS];
    float bias_grad[2][WIDTH] = {0}, dx[VALUES] = {0};
    norm_t norms[2];
    fill(x, VALUES, key, 2);
    for (int k = 0; k < 2; k++) {
        fill(weight[k], WIDTH, key + 3 + (uint64_t)k, 1);
        fill(bias[k], WIDTH, key + 5 + (uint64_t)k, 1);
        fill(grad[k], VALUES, key + 7 + (uint64_t)k, 1);
        norms[k] = (norm_t){weight[k], bias[k],        out[k],
                            grad[k],   weight_grad[k], bias_grad[k]};
    }
    kernel_norm_forward(x, ROWS, WIDTH, norms, 2, stats);
    norm_input_t in = {x, stats, ROWS, WIDTH};
    kernel_norm_backward(&in, norms, 2, dx, 1);
    for (int i = 0; i < WIDTH; i++) {
        double row[WIDTH], h = 1e-5;
        for (int k = 0; k < WIDTH; k++)
            row[k] = (double)x[k];
        assert_close("norm", out[1][i], norm_value(row, weight[1], bias[1], i),
                     1e-5);
        row[i] += h;
        double above = norm_loss(row, norms);
        row[i] -= 2 * h;
        double slope = (above - norm_loss(row, norms)) / (2 * h);
        assert_close("dx", dx[i], slope, 1e-4);
        double sum = 0;
        for (int r = 0; r < ROWS; r++)
            sum += (double)grad[1][r * WIDTH + i];
        assert_close("bias", bias_grad[1][i], sum, 1e-5);
    }
}

static void softmax_is_causal(void **state) {
    (void)state;
    enum { FIRST = 3, STRIDE = 11, SEEN = FIRST + ROWS };
    float p[ROWS * STRIDE], scores[ROWS * STRIDE], grad[ROWS * STRIDE];
    uint64_t key = test_seed();
    fill(p, ROWS * STRIDE, key, 4);
    fill(grad, ROWS * STRIDE, key + 1, 1);
    memcpy(scores, p, sizeof scores);
    scores_t block = {p, STRIDE, ROWS, SEEN, FIRST};
    kernel_softmax_forward(&block);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0, dot = 0;
        int count = FIRST + row + 1;
        for (int i = 0; i < count; i++)
            sum += exp((double)scores[row * STRIDE + i]);
        for (int i = 0; i < SEEN; i++) {
            double want =
                i < count ? exp((double)scores[row * STRIDE + i]) / sum : 0.0;
            assert_close("softmax", p[row * STRIDE + i], want, 1e-6);
            dot += want * (double)grad[row * STRIDE + i];
        }
        float copy[STRIDE];
        memcpy(copy, grad + row * STRIDE, sizeof copy);
        scores_t one = {p + row * STRIDE, STRIDE, 1, SEEN,
                        (size_t)(FIRST + row)};
        kernel_softmax_backward(&one, grad + row * STRIDE, STRIDE);
        for (int i = 0; i < SEEN; i++)
            assert_close("softmax back", grad[row * STRIDE + i],
                         (double)p[row * STRIDE + i] * ((double)copy[i] - dot),
                         1e-5);
        assert_true(p[row * STRIDE + STRIDE - 1] ==
                    scores[row * STRIDE + STRIDE - 1]);
    }
}

static void rotation_keeps_lengths_and_turns_back(void **state) {
    (void)state;
    enum { HEADS = 3, DIM = 12, SEQ = 4, TURN = 6, LINE = HEADS * 3 * DIM };
    float x[SEQ * LINE], first[SEQ * LINE], zero[LINE] = {0}, sums[LINE] = {0};
    float cosine[SEQ * TURN / 2], sine[SEQ * TURN / 2];
    heads_t heads = {HEADS, DIM, TURN, SEQ, cosine, sine};
    for (int i = 0; i < SEQ * TURN / 2; i++) {
        cosine[i] = cosf((float)i);
        sine[i] = sinf((float)i);
    }
    fill(x, SEQ * LINE, test_seed(), 1);
    memcpy(first, x, sizeof first);
    kernel_rotate_forward(x, zero, SEQ, &heads);
    int at = LINE + DIM; /* position 1, head 0, key */
    double a = first[at], b = first[at + TURN / 2], angle = TURN / 2;
    assert_close("a", x[at], a * cos(angle) - b * sin(angle), 1e-6);
    assert_close("b", x[at + TURN / 2], b * cos(angle) + a * sin(angle), 1e-6);
    assert_true(x[at + TURN] == first[at + TURN]); /* the rest passes */
    assert_true(x[at + DIM] == first[at + DIM]);   /* and values */
    kernel_rotate_backward(x, sums, SEQ, &heads);
    for (int i = 0; i < SEQ * LINE; i++)
        assert_close("turned back", x[i], first[i], 1e-6);
}

/* A vocabulary in two halves, as two ranks have it. */
static void loss_of_a_split_vocabulary(void **state) {
    (void)state;
    enum { PART = 16 };
    uint64_t key = test_seed();
    float logits[2][ROWS * PART], before[2][ROWS * PART], max[2][ROWS];
    float sum[2][ROWS], target[2][ROWS];
    uint8_t targets[ROWS] = {0, 15, 16, 31, 7};
    vocabulary_t parts[2];
    for (int k = 0; k < 2; k++) {
        fill(logits[k], ROWS * PART, key + (uint64_t)k, 5);
        memcpy(before[k], logits[k], sizeof before[k]);
        parts[k] = (vocabulary_t){logits[k], ROWS, PART, k * PART, targets};
        kernel_loss_max(&parts[k], max[k]);
    }
    for (int row = 0; row < ROWS; row++)
        max[0][row] = fmaxf(max[0][row], max[1][row]);
    for (int k = 0; k < 2; k++)
        kernel_loss_exp(&parts[k], max[0], sum[k], target[k]);
    for (int row = 0; row < ROWS; row++) {
        double total = 0;
        sum[0][row] += sum[1][row];
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < PART; i++)
                total += exp((double)before[k][row * PART + i]);
        int t = targets[row];
        double logit = before[t / PART][row * PART + t % PART];
        double loss = log((double)sum[0][row]) -
                      (double)(target[0][row] + target[1][row]);
        assert_close("loss", loss, log(total) - logit, 1e-6);
        sum[1][row] = sum[0][row];
    }
    kernel_loss_backward(&parts[1], sum[1], 0.5f);
    double p = exp((double)before[1][2 * PART] - (double)max[0][2]) /
               (double)sum[0][2];
    assert_close("gradient", logits[1][2 * PART], 0.5 * (p - 1), 1e-6);
}

static void nothing_hides_a_nan(void **state) {
    (void)state;
    float x[WIDTH], bias[WIDTH] = {0}, out[WIDTH], stats[2], one[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        x[i] = one[i] = 1.0f;
    x[20] = NAN;
    assert_true(isnan(kernel_sum_squares(x, WIDTH)));
    x[20] = INFINITY;
    assert_true(isinf(kernel_sum_squares(x, WIDTH)));
    norm_t norm = {.weight = one, .bias = bias, .out = out};
    kernel_norm_forward(x, 1, WIDTH, &norm, 1, stats);
    assert_true(isnan(out[0]) || isnan(out[20]));
    x[20] = NAN;
    scores_t block = {x, WIDTH, 1, WIDTH, WIDTH - 1};
    kernel_softmax_forward(&block);
    assert_true(isnan(x[0]));
    x[20] = NAN;
    kernel_gelu_forward(x, bias, out, 1, WIDTH);
    assert_true(isnan(out[20]));
}

static void adamw_as_pytorch_has_it(void **state) {
    (void)state;
    float weight[3] = {1, -2, 3}, mean[3] = {0}, square[3] = {0};
    float grad[3] = {0.5f, -4, 0};
    adamw_arrays_t arrays = {weight, mean, square, grad, 3};
    double lr = 0.1, m = 0, v = 0, w = -2;
    for (int t = 1; t <= 3; t++) {
        adamw_t adamw = {0.5f,
                         0.9f,
                         0.95f,
                         1e-8f,
                         (float)(lr / (1 - pow(0.9, t))),
                         (float)(1 / sqrt(1 - pow(0.95, t))),
                         (float)(1 - lr * 0.1)};
        kernel_adamw(&arrays, &adamw);
        m = 0.9 * m + 0.1 * -2.0;
        v = 0.95 * v + 0.05 * 4.0;
        w = w * (1 - lr * 0.1) - lr * (m / (1 - pow(0.9, t))) /
                                     (sqrt(v / (1 - pow(0.95, t))) + 1e-8);
    }
    assert_close("weight", weight[1], w, 1e-6);
    assert_close("still", weight[2], 3 * pow(0.99, 3), 1e-6);
}

static void random_numbers(void **state) {
    (void)state;
    uint64_t key = random_key(test_seed(), "test");
    double sum = 0, square = 0, uniform = 0;
    enum { COUNT = 100000 };
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = random_normal(key, i);
        sum += x;
        square += x * x;
        uniform += random_uniform(key, i);
        assert_true(random_below(key, i, 7) < 7);
    }
    assert_true(fabs(sum / COUNT) < 0.02);
    assert_true(fabs(square / COUNT - 1) < 0.03);
    assert_true(fabs(uniform / COUNT - 0.5) < 0.01);
    assert_true(random_key(1, "a") != random_key(1, "b"));
    assert_true(random_key(1, "a") != random_key(2, "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_erf_are_accurate),
        cmocka_unit_test(gelu_and_its_slope),
        cmocka_unit_test(norms_forward_and_back),
        cmocka_unit_test(softmax_is_causal),
        cmocka_unit_test(rotation_keeps_lengths_and_turns_back),
        cmocka_unit_test(loss_of_a_split_vocabulary),
        cmocka_unit_test(nothing_hides_a_nan),
        cmocka_unit_test(adamw_as_pytorch_has_it),
        cmocka_unit_test(random_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
