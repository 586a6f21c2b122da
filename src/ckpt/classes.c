/* Parses codec policies of checkpoints; tells a tensor's class. */
#include "classes.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "vote.h"

#define MOMENTS_PREFIX "optimizer."
#define OTHERS LULL__CLASSES /* '*': classes that are not named */

static const char *const class_names[] = {
    [LULL__CLASS_WEIGHTS] = "weights",
    [LULL__CLASS_MOMENTS] = "moments",
    [OTHERS] = "*",
};

typedef struct parser {
    const char *text;
    lull__classes_t *out;
    bool seen[LULL__CLASSES + 1];
} parser_t;

static lull_status_t complain(const parser_t *p, const char *at,
                              const char *why) {
    return lull__fail(LULL_ERR_INVALID,
                      "codec policy '%.200s': %s, at character %zu: '%.40s'",
                      p->text, why, (size_t)(at - p->text) + 1, at);
}

/* Fills the row of a class; false: no dtype takes the spec, and *why says what
 * the codec said. */
static bool fill(lull__class_codec_t row[LULL__DTYPES], const char *spec,
                 char *why, size_t room) {
    bool any = false;
    for (unsigned d = 0; d < LULL__DTYPES; d++) {
        lull__class_codec_t *one = &row[d];
        lull_status_t status =
            lull_dtype_name((lull_dtype_t)d) != NULL
                ? lull_codec_parse(spec, (lull_dtype_t)d, &one->codec)
                : LULL_ERR_UNSUPPORTED;
        one->coded =
            status == LULL_OK && lull_codec_format(&one->codec, one->spec,
                                                   sizeof one->spec) == LULL_OK;
        any |= one->coded;
        if (status != LULL_OK && status != LULL_ERR_UNSUPPORTED)
            snprintf(why, room, "%s", lull_last_error());
    }
    return any;
}

static bool is_raw(const lull__class_codec_t row[LULL__DTYPES]) {
    return strcmp(row[LULL_U8].spec, "raw") == 0;
}

static bool is_lossy(const lull__class_codec_t row[LULL__DTYPES]) {
    bool lossy = false;
    for (unsigned d = 0; d < LULL__DTYPES; d++)
        lossy |= row[d].coded && lull_codec_is_lossy(&row[d].codec);
    return lossy;
}

/* A spec, n bytes at `at`, for a class or for OTHERS. */
static lull_status_t set(parser_t *p, unsigned class, const char *at,
                         size_t n) {
    lull__class_codec_t row[LULL__DTYPES];
    char spec[LULL_CODEC_SPEC_MAX], why[200] = "no dtype can be coded so";
    if (n == 0)
        return complain(p, at, "a codec is missing");
    if (n >= sizeof spec)
        return complain(p, at, "no such codec");
    memcpy(spec, at, n);
    spec[n] = '\0';
    memset(row, 0, sizeof row);
    if (!fill(row, spec, why, sizeof why))
        return complain(p, at, why);
    if (class == OTHERS && is_lossy(row))
        return complain(p, at,
                        "a lossy codec is only for what is named: weights=, "
                        "moments=");
    if (is_raw(row))
        memset(row, 0, sizeof row);
    for (unsigned c = 0; c < LULL__CLASSES; c++)
        if (c == class || (class == OTHERS && !p->seen[c]))
            memcpy(p->out->of[c], row, sizeof row);
    p->seen[class] = true;
    return LULL_OK;
}

/* "CLASS=SPEC" or, for all classes, "SPEC"; n bytes. */
static lull_status_t parse_one(parser_t *p, const char *at, size_t n) {
    const char *equals = memchr(at, '=', n);
    unsigned class = OTHERS;
    if (equals != NULL) {
        size_t length = (size_t)(equals - at);
        for (class = 0; class <= OTHERS; class ++)
            if (strlen(class_names[class]) == length &&
                memcmp(class_names[class], at, length) == 0)
                break;
        if (class > OTHERS)
            return complain(p, at,
                            "no such class (there are weights, moments, *)");
    }
    if (p->seen[class])
        return complain(p, at, "this class was given before");
    const char *spec = equals != NULL ? equals + 1 : at;
    return set(p, class, spec, n - (size_t)(spec - at));
}

static lull_status_t measure(lull__classes_t *classes) {
    for (unsigned c = 0; c < LULL__CLASSES; c++) {
        for (unsigned d = 0; d < LULL__DTYPES; d++) {
            const lull__class_codec_t *one = &classes->of[c][d];
            size_t bound;
            if (!one->coded)
                continue;
            size_t count = LULL__FRAME_BYTES * 8 / lull_dtype_bits(d);
            lull_status_t status = lull_frame_bound(&one->codec, count, &bound);
            if (status != LULL_OK)
                return status;
            classes->any = true;
            if (bound > classes->frame_most)
                classes->frame_most = bound;
        }
    }
    return LULL_OK;
}

lull_status_t lull__classes_parse(const char *policy, lull__classes_t *out) {
    parser_t parser = {.text = policy, .out = out};
    lull_status_t status = LULL_OK;
    memset(out, 0, sizeof *out);
    if (policy == NULL || policy[0] == '\0')
        return LULL_OK;
    for (const char *at = policy; status == LULL_OK;) {
        size_t n = strcspn(at, ",");
        status = parse_one(&parser, at, n);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    return status == LULL_OK ? measure(out) : status;
}

const lull__class_codec_t *lull__classes_find(const lull__classes_t *classes,
                                              const char *name,
                                              lull_dtype_t dtype) {
    bool moments = strncmp(name, MOMENTS_PREFIX, strlen(MOMENTS_PREFIX)) == 0;
    const lull__class_codec_t *one =
        &classes
             ->of[moments ? LULL__CLASS_MOMENTS : LULL__CLASS_WEIGHTS][dtype];
    return one->coded ? one : NULL;
}
