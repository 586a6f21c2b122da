/* Parses policies: presets, rules for each role, further keys. */
#include "policy.h"

#include <ctype.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A word of the string: [at, at + size). */
typedef struct word {
    const char *at;
    size_t size;
} word_t;

typedef struct parser {
    const char *text;
    lull__policy_t *out;
    unsigned keys_seen; /* bit per row of `keys` */
} parser_t;

static lull_status_t complain(const parser_t *p, lull_status_t status,
                              const char *at, const char *why) {
    return lull__fail(status, "policy '%.200s': %s, at character %zu: '%.40s'",
                      p->text, why, (size_t)(at - p->text) + 1, at);
}

static bool is(word_t w, const char *name) {
    return w.size == strlen(name) && memcmp(w.at, name, w.size) == 0;
}

/* The codecs a policy may name. A lossy one never carries parameters. */
static const struct codec_row {
    const char *name;
    bool lossless, rated;
} codecs[] = {
    {"raw", true, false},   {"mpc", true, true},   {"zfp", false, true},
    {"bf16", false, false}, {"expo", true, false}, {"mxint8", false, false},
};

static const struct codec_row *codec_of(word_t w) {
    const char *colon = memchr(w.at, ':', w.size);
    word_t name = {w.at, colon ? (size_t)(colon - w.at) : w.size};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (is(name, codecs[i].name))
            return &codecs[i];
    return NULL;
}

/* A number such as 8 or 6.5, all of the word. */
static bool is_rate(word_t w) {
    size_t digits = 0, dots = 0;
    for (size_t i = 0; i < w.size; i++) {
        digits += isdigit((unsigned char)w.at[i]) != 0;
        dots += w.at[i] == '.';
    }
    return digits > 0 && dots <= 1 && digits + dots == w.size && w.size < 8 &&
           isdigit((unsigned char)w.at[0]);
}

/* Whether the library has it, and takes its parameter, for float32, or for f64
 * alone: then it is raw for the rest. The spec becomes the codec's own, the
 * same for all spellings. */
static lull_status_t settle(const parser_t *p, word_t w,
                            char spec[LULL__SPEC_MAX]) {
    lull_codec_t codec;
    char why[160];
    lull_status_t status = lull_codec_parse(spec, LULL_F32, &codec);
    snprintf(why, sizeof why, "%.150s", lull_last_error());
    if (status == LULL_OK ||
        (status == LULL_ERR_INVALID &&
         lull_codec_parse(spec, LULL_F64, &codec) == LULL_OK))
        return lull_codec_format(&codec, spec, LULL__SPEC_MAX);
    if (status == LULL_ERR_INVALID) {
        const char *colon = memchr(w.at, ':', w.size);
        return complain(p, status, colon ? colon + 1 : w.at, why);
    }
    return complain(p, LULL_ERR_UNSUPPORTED, w.at,
                    "this codec is not in this build yet");
}

/* Checks a codec's parameter: only some take one, zfp must have it. */
static lull_status_t check_parameter(const parser_t *p, word_t w,
                                     const struct codec_row *row) {
    const char *colon = memchr(w.at, ':', w.size);
    if (colon != NULL && !row->rated)
        return complain(p, LULL_ERR_INVALID, colon,
                        "this codec takes no parameter");
    if (colon == NULL && strcmp(row->name, "zfp") == 0)
        return complain(p, LULL_ERR_INVALID, w.at + w.size,
                        "zfp needs a rate, as in zfp:8");
    if (colon == NULL)
        return LULL_OK;
    word_t rate = {colon + 1, w.size - (size_t)(colon + 1 - w.at)};
    return is_rate(rate) ? LULL_OK
                         : complain(p, LULL_ERR_INVALID, rate.at,
                                    "a number was expected");
}

/* Checks a codec's spec, for a role, and copies it. */
static lull_status_t read_codec(const parser_t *p, unsigned role, word_t w,
                                char spec[LULL__SPEC_MAX]) {
    if (w.size == 0)
        return complain(p, LULL_ERR_INVALID, w.at, "a codec is missing");
    if (is(w, "none"))
        return strcpy(spec, "none"), LULL_OK;
    const struct codec_row *row = codec_of(w);
    if (row == NULL)
        return complain(p, LULL_ERR_INVALID, w.at, "no such codec");
    lull_status_t status = check_parameter(p, w, row);
    if (status != LULL_OK)
        return status;
    if (role == LULL_ROLE_OTHER)
        return complain(p, LULL_ERR_INVALID, w.at,
                        "role other is never compressed");
    if (role == LULL_ROLE_PARAM && !row->lossless)
        return complain(p, LULL_ERR_INVALID, w.at,
                        "role param takes raw or lossless codecs only");
    if (w.size >= LULL__SPEC_MAX)
        return complain(p, LULL_ERR_INVALID, w.at, "too long");
    memcpy(spec, w.at, w.size);
    spec[w.size] = '\0';
    return settle(p, w, spec);
}

static lull_status_t read_bytes(const parser_t *p, word_t w, uint64_t *out) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1}, {"KiB", 1u << 10}, {"MiB", 1u << 20}, {"GiB", 1u << 30}};
    uint64_t value = 0;
    size_t i = 0;
    for (; i < w.size && isdigit((unsigned char)w.at[i]); i++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(w.at[i] - '0'), &value))
            return complain(p, LULL_ERR_INVALID, w.at, "too large");
    word_t unit = {w.at + i, w.size - i};
    for (size_t k = 0; i != 0 && k < sizeof units / sizeof *units; k++) {
        if (!is(unit, units[k].name))
            continue;
        if (__builtin_mul_overflow(value, units[k].bytes, out))
            return complain(p, LULL_ERR_INVALID, w.at, "too large");
        return LULL_OK;
    }
    return complain(p, LULL_ERR_INVALID, w.at + i,
                    "a number of bytes was expected (12, 64KiB, 1MiB)");
}

/* The dtypes that a rule may name. */
static bool read_dtype(word_t w, lull_dtype_t *out) {
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16,
                                          LULL_BF16};
    char name[8];
    if (w.size >= sizeof name)
        return false;
    memcpy(name, w.at, w.size);
    name[w.size] = '\0';
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (lull_dtype_parse(name, out) == LULL_OK && *out == dtypes[i])
            return true;
    return false;
}

/* [BYTES[/DTYPE]:]CODEC */
static lull_status_t read_rule(const parser_t *p, unsigned role, word_t w,
                               lull__rule_t *out) {
    lull_status_t status = LULL_OK;
    *out = (lull__rule_t){.any = true};
    if (w.size != 0 && isdigit((unsigned char)*w.at)) {
        const char *colon = memchr(w.at, ':', w.size);
        if (colon == NULL)
            return complain(p, LULL_ERR_INVALID, w.at + w.size,
                            "':' and a codec were expected");
        word_t size = {w.at, (size_t)(colon - w.at)}, dtype = {NULL, 0};
        const char *slash = memchr(size.at, '/', size.size);
        if (slash != NULL) {
            dtype = (word_t){slash + 1, (size_t)(colon - slash) - 1};
            size.size = (size_t)(slash - size.at);
        }
        status = read_bytes(p, size, &out->bytes);
        out->any = slash == NULL;
        if (status == LULL_OK && !out->any && !read_dtype(dtype, &out->dtype))
            return complain(p, LULL_ERR_INVALID, dtype.at,
                            "f32, f64, f16 or bf16 was expected");
        w.size -= (size_t)(colon + 1 - w.at);
        w.at = colon + 1;
    }
    return status == LULL_OK ? read_codec(p, role, w, out->spec) : status;
}

/* The list after "auto:", or without that the rules of a role. */
static lull_status_t set_list(parser_t *p, unsigned role, word_t w,
                              bool automatic) {
    lull__rules_t *rules = &p->out->rules[role];
    *rules = (lull__rules_t){.automatic = automatic};
    for (const char *end = w.at + w.size;;) {
        const char *comma = memchr(w.at, ',', w.size);
        word_t one = {w.at, comma ? (size_t)(comma - w.at) : w.size};
        lull__rule_t rule = {.any = true};
        lull_status_t status = automatic ? read_codec(p, role, one, rule.spec)
                                         : read_rule(p, role, one, &rule);
        if (status != LULL_OK)
            return status;
        if (rules->count == LULL__RULES_MAX)
            return complain(p, LULL_ERR_INVALID, one.at, "too many of them");
        rules->rule[rules->count++] = rule;
        if (comma == NULL)
            return LULL_OK;
        w = (word_t){comma + 1, (size_t)(end - comma) - 1};
    }
}

static bool is_auto(word_t w) {
    return is(w, "auto") || (w.size > 5 && memcmp(w.at, "auto:", 5) == 0);
}

/* Checks what is written for a role and stores it. */
static lull_status_t set_rules(parser_t *p, unsigned role, word_t w) {
    if (is_auto(w) && role == LULL_ROLE_OTHER)
        return complain(p, LULL_ERR_INVALID, w.at,
                        "role other is never compressed");
    if (is(w, "auto")) {
        p->out->rules[role] = (lull__rules_t){.automatic = true};
        return LULL_OK;
    }
    if (is_auto(w))
        return set_list(p, role, (word_t){w.at + 5, w.size - 5}, true);
    return set_list(p, role, w, false);
}

static void set_one(parser_t *p, unsigned role, const char *spec) {
    lull__rules_t *rules = &p->out->rules[role];
    *rules = (lull__rules_t){.count = 1, .rule = {{.any = true}}};
    strcpy(rules->rule[0].spec, spec);
}

/* The same for all compressed roles; lossy codecs leave parameters raw, or are
 * no candidates for them. */
static lull_status_t set_all(parser_t *p, word_t w) {
    for (unsigned role = 0; role < LULL_ROLE_PARAM; role++) {
        lull_status_t status = set_rules(p, role, w);
        if (status != LULL_OK)
            return status;
    }
    lull__rules_t *to = &p->out->rules[LULL_ROLE_PARAM];
    lull__rules_t all = p->out->rules[LULL_ROLE_DP];
    *to = (lull__rules_t){.automatic = all.automatic};
    for (unsigned i = 0; i < all.count; i++) {
        lull__rule_t rule = all.rule[i];
        word_t spec = {rule.spec, strlen(rule.spec)};
        bool lossy = !is(spec, "none") && !codec_of(spec)->lossless;
        if (lossy && all.automatic)
            continue;
        if (lossy)
            strcpy(rule.spec, "raw");
        to->rule[to->count++] = rule;
    }
    return LULL_OK;
}

/* A word made from a rate, checked where the user wrote the rate. */
static lull_status_t set_zfp(parser_t *p, unsigned role, word_t rate) {
    char spec[LULL__SPEC_MAX];
    if (!is_rate(rate))
        return complain(p, LULL_ERR_INVALID, rate.at, "a rate was expected");
    snprintf(spec, sizeof spec, "zfp:%.*s", (int)rate.size, rate.at);
    lull_status_t status = settle(p, rate, spec);
    if (status == LULL_OK)
        set_one(p, role, spec);
    return status;
}

static lull_status_t set_mzhybrid(parser_t *p, word_t w, word_t args) {
    static const unsigned lossless[] = {LULL_ROLE_TP, LULL_ROLE_PP,
                                        LULL_ROLE_PARAM};
    word_t rate = {"8", 1};
    (void)w;
    lull_status_t status = set_zfp(p, LULL_ROLE_DP, args.at ? args : rate);
    for (unsigned i = 0; i < 3; i++)
        set_one(p, lossless[i], "mpc");
    return status;
}

static lull_status_t set_zhybrid(parser_t *p, word_t w, word_t args) {
    word_t high = {"16", 2}, low = {"8", 1};
    (void)w;
    if (args.at != NULL) {
        const char *comma = memchr(args.at, ',', args.size);
        high = args;
        if (comma != NULL) {
            high.size = (size_t)(comma - args.at);
            low.at = comma + 1;
            low.size = args.size - high.size - 1;
        }
    }
    set_one(p, LULL_ROLE_PARAM, "raw");
    lull_status_t status = set_zfp(p, LULL_ROLE_TP, high);
    if (status == LULL_OK)
        status = set_zfp(p, LULL_ROLE_PP, high);
    return status == LULL_OK ? set_zfp(p, LULL_ROLE_DP, low) : status;
}

/* As zhybrid, of codecs that take less time than ZFP. */
static lull_status_t set_mxhybrid(parser_t *p, word_t w, word_t args) {
    static const char *const specs[LULL_ROLE_OTHER] = {
        [LULL_ROLE_DP] = "mxint8",
        [LULL_ROLE_TP] = "bf16",
        [LULL_ROLE_PP] = "bf16",
        [LULL_ROLE_PARAM] = "raw",
    };
    (void)w;
    if (args.at != NULL)
        return complain(p, LULL_ERR_INVALID, args.at - 1,
                        "this preset takes no parameter");
    for (unsigned role = 0; role < LULL_ROLE_OTHER; role++)
        set_one(p, role, specs[role]);
    return LULL_OK;
}

static const struct preset {
    const char *name;
    lull_status_t (*set)(parser_t *p, word_t w, word_t args);
} presets[] = {
    {"mzhybrid", set_mzhybrid},
    {"zhybrid", set_zhybrid},
    {"mxhybrid", set_mxhybrid},
};

/* The first part, where it is no key: a preset, or a codec for all roles. */
static lull_status_t set_preset(parser_t *p, word_t w) {
    const char *colon = memchr(w.at, ':', w.size);
    word_t name = w, args = {NULL, 0};
    if (colon != NULL) {
        name.size = (size_t)(colon - w.at);
        args = (word_t){colon + 1, w.size - name.size - 1};
    }
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (is(name, presets[i].name))
            return presets[i].set(p, w, args);
    bool rules = memchr(w.at, ',', w.size) != NULL ||
                 (w.size != 0 && isdigit((unsigned char)*w.at));
    if (w.size != 0 && !rules && !is_auto(w) && !is(w, "none") &&
        codec_of(w) == NULL)
        return complain(p, LULL_ERR_INVALID, w.at, "no such policy or codec");
    return set_all(p, w);
}

static lull_status_t set_min(parser_t *p, unsigned unused, word_t w) {
    (void)unused;
    return read_bytes(p, w, &p->out->min);
}

static lull_status_t read_flag(const parser_t *p, word_t w, bool *out) {
    if (!is(w, "0") && !is(w, "1"))
        return complain(p, LULL_ERR_INVALID, w.at, "0 or 1 was expected");
    *out = is(w, "1");
    return LULL_OK;
}

static lull_status_t set_hier(parser_t *p, unsigned unused, word_t w) {
    (void)unused;
    return read_flag(p, w, &p->out->hier);
}

static lull_status_t set_check(parser_t *p, unsigned unused, word_t w) {
    (void)unused;
    return read_flag(p, w, &p->out->check);
}

static const struct key {
    const char *name;
    lull_status_t (*set)(parser_t *p, unsigned role, word_t value);
    unsigned role;
} keys[] = {
#define ROW(name, value, text) {text, set_rules, value},
    LULL_ROLE_TABLE(ROW)
#undef ROW
        {"min", set_min, 0},
    {"hier", set_hier, 0},
    {"check", set_check, 0},
};

static lull_status_t set_key(parser_t *p, word_t part, const char *equals) {
    word_t name = {part.at, (size_t)(equals - part.at)};
    word_t value = {equals + 1, part.size - name.size - 1};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!is(name, keys[i].name))
            continue;
        if (p->keys_seen & 1u << i)
            return complain(p, LULL_ERR_INVALID, part.at,
                            "this key is there twice");
        p->keys_seen |= 1u << i;
        return keys[i].set(p, keys[i].role, value);
    }
    return complain(p, LULL_ERR_INVALID, part.at,
                    "no such key (dp, tp, pp, param, min, hier, check)");
}

static lull_status_t set_part(parser_t *p, word_t part) {
    const char *equals = memchr(part.at, '=', part.size);
    if (equals != NULL)
        return set_key(p, part, equals);
    if (part.size == 0)
        return complain(p, LULL_ERR_INVALID, part.at, "something is missing");
    if (part.at != p->text)
        return complain(p, LULL_ERR_INVALID, part.at,
                        "a key and '=' were expected");
    return set_preset(p, part);
}

lull_status_t lull__policy_parse(const char *text, lull__policy_t *out) {
    lull__policy_t policy = {.min = LULL__POLICY_MIN_DEFAULT};
    parser_t p = {text ? text : "none", &policy, 0};
    for (unsigned role = 0; role < LULL_ROLE_COUNT; role++)
        set_one(&p, role, "none");
    for (const char *at = p.text;; at++) {
        size_t size = strcspn(at, ";");
        lull_status_t status = set_part(&p, (word_t){at, size});
        if (status != LULL_OK)
            return status;
        at += size;
        if (*at == '\0')
            break;
    }
    *out = policy;
    return LULL_OK;
}

lull_status_t lull__policy_set(lull__policy_t *policy, lull_role_t role,
                               const char *rules) {
    lull__policy_t changed = *policy;
    parser_t p = {rules, &changed, 0};
    lull_status_t status = set_rules(&p, role, (word_t){rules, strlen(rules)});
    if (status == LULL_OK)
        *policy = changed;
    return status;
}
