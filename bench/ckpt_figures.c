/* Series of measurements, and how they are shown. */
#include "ckpt_bench.h"

#include <stdlib.h>

FILE *figures_json;
static bool any_json;

void add(series_t *s, double value) {
    if (s->n < SERIES_MOST)
        s->values[s->n++] = value;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a - *(const double *)b;
    return x < 0 ? -1 : x > 0;
}

double at(const series_t *s, double share) {
    series_t sorted = *s;
    if (s->n == 0)
        return 0;
    qsort(sorted.values, (size_t)s->n, sizeof(double), by_value);
    return sorted.values[(int)(share * (s->n - 1) + 0.5)];
}

double mean(const series_t *s) {
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->values[i];
    return s->n > 0 ? sum / s->n : 0;
}

/* The median of the ratios of pairs. */
static double pair_ratio(const series_t *ours, const series_t *theirs) {
    series_t ratios = {.n = 0};
    for (int i = 0; i < ours->n && i < theirs->n; i++)
        if (theirs->values[i] > 0)
            add(&ratios, ours->values[i] / theirs->values[i]);
    return at(&ratios, 0.5);
}

static int count(const row_t *r) {
    return r->n > 0 ? r->n : r->ours->n;
}

static void print_row(const char *name, const row_t *r) {
    printf("%-24s %-15s %9.4g %-4s (%.4g to %.4g, n %d)", name, r->metric,
           at(r->ours, 0.5), r->unit, at(r->ours, 0), at(r->ours, 1), count(r));
    if (r->theirs != NULL && r->theirs->n > 0)
        printf("  %s %.4g, ratio %.3g", r->baseline, at(r->theirs, 0.5),
               r->ratio);
    putchar('\n');
    fflush(stdout);
}

void emit(const char *name, const row_t *r) {
    bool paired = r->theirs != NULL && r->theirs->n > 0;
    print_row(name, r);
    if (figures_json == NULL)
        return;
    fprintf(figures_json,
            "%s\n{\"bench\":\"ckpt\",\"case\":\"%s\",\"metric\":\"%s\","
            "\"unit\":\"%s\",\"value\":%.6g,\"min\":%.6g,\"max\":%.6g,"
            "\"n\":%d,",
            any_json ? "," : "", name, r->metric, r->unit, at(r->ours, 0.5),
            at(r->ours, 0), at(r->ours, 1), count(r));
    if (paired)
        fprintf(figures_json,
                "\"baseline\":\"%s\",\"baseline_value\":%.6g,\"ratio\":%.6g}",
                r->baseline, at(r->theirs, 0.5), r->ratio);
    else
        fprintf(figures_json,
                "\"baseline\":null,\"baseline_value\":null,\"ratio\":null}");
    any_json = true;
}

void emit_less(const char *name, row_t r) {
    if (r.theirs != NULL)
        r.ratio = pair_ratio(r.theirs, r.ours);
    emit(name, &r);
}

void emit_more(const char *name, row_t r) {
    if (r.theirs != NULL)
        r.ratio = pair_ratio(r.ours, r.theirs);
    emit(name, &r);
}

void emit_one(const char *name, row_t r, double ours, double theirs) {
    series_t value = {.n = 0}, yardstick = value;
    add(&value, ours);
    if (theirs > 0)
        add(&yardstick, theirs);
    r.ours = &value;
    r.theirs = &yardstick;
    emit_less(name, r);
}
