/* Names of directories and files, made and parsed back. */
#include "naming.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lull__naming_step(lull__entry_name_t out, uint64_t step) {
    snprintf(out, LULL__ENTRY_MAX, "step-%08" PRIu64, step);
}

void lull__naming_partial(lull__entry_name_t out, uint64_t step,
                          const char *run_id, uint64_t save) {
    snprintf(out, LULL__ENTRY_MAX, ".step-%08" PRIu64 ".partial-%s-%" PRIu64,
             step, run_id, save);
}

void lull__naming_old(lull__entry_name_t out, uint64_t step, const char *run_id,
                      uint64_t save) {
    snprintf(out, LULL__ENTRY_MAX, ".step-%08" PRIu64 ".old-%s-%" PRIu64, step,
             run_id, save);
}

void lull__naming_trash(lull__entry_name_t out, const char *run_id,
                        uint64_t save, uint64_t step) {
    snprintf(out, LULL__ENTRY_MAX, ".trash-%s-%" PRIu64 "-%" PRIu64, run_id,
             save, step);
}

void lull__naming_data(lull__entry_name_t out, uint32_t rank, uint32_t part) {
    if (part == 0)
        snprintf(out, LULL__ENTRY_MAX, "rank-%05" PRIu32 ".safetensors", rank);
    else
        snprintf(out, LULL__ENTRY_MAX,
                 "rank-%05" PRIu32 ".%02" PRIu32 ".safetensors", rank, part);
}

void lull__naming_vote(lull__entry_name_t out, uint32_t rank) {
    snprintf(out, LULL__ENTRY_MAX, "rank-%05" PRIu32 ".json", rank);
}

bool lull__run_id_valid(const char *run_id) {
    size_t n = strspn(run_id, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n < LULL_RUN_ID_MAX && run_id[n] == '\0';
}

/* Digits at *at, moved past; false: none, or too many. */
static bool number(const char **at, uint64_t *out) {
    uint64_t value = 0;
    const char *s = *at;
    for (; *s >= '0' && *s <= '9'; s++) {
        unsigned digit = (unsigned)(*s - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (s == *at)
        return false;
    *at = s;
    *out = value;
    return true;
}

static bool skip(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

/* "RUN-SAVE": the last '-' divides them. */
static bool run_and_save(const char *at, lull__naming_t *out) {
    const char *dash = strrchr(at, '-');
    if (dash == NULL || dash == at || dash - at >= LULL_RUN_ID_MAX)
        return false;
    memcpy(out->run_id, at, (size_t)(dash - at));
    out->run_id[dash - at] = '\0';
    at = dash + 1;
    return number(&at, &out->save) && *at == '\0' &&
           lull__run_id_valid(out->run_id);
}

static lull__naming_kind_t parse_step(const char *at, bool hidden,
                                      lull__naming_t *out) {
    if (!number(&at, &out->step))
        return LULL__NAMING_OTHER;
    if (!hidden)
        return *at == '\0' ? LULL__NAMING_STEP : LULL__NAMING_OTHER;
    if (skip(&at, ".partial-") && run_and_save(at, out))
        return LULL__NAMING_PARTIAL;
    if (skip(&at, ".old-") && run_and_save(at, out))
        return LULL__NAMING_OLD;
    return LULL__NAMING_OTHER;
}

static lull__naming_kind_t parse_rank(const char *at, lull__naming_t *out) {
    uint64_t rank, part = 0;
    if (!number(&at, &rank) || rank > UINT32_MAX)
        return LULL__NAMING_OTHER;
    out->rank = (uint32_t)rank;
    if (strcmp(at, ".json") == 0)
        return LULL__NAMING_VOTE;
    if (at[0] == '.' && at[1] >= '0' && at[1] <= '9') {
        at++;
        if (!number(&at, &part) || part > UINT32_MAX || part == 0)
            return LULL__NAMING_OTHER;
    }
    out->part = (uint32_t)part;
    return strcmp(at, ".safetensors") == 0 ? LULL__NAMING_DATA
                                           : LULL__NAMING_OTHER;
}

/* The name these fields make: what was parsed must be just that. */
static void make(const lull__naming_t *fields, lull__entry_name_t out) {
    switch (fields->kind) {
    case LULL__NAMING_STEP:
        lull__naming_step(out, fields->step);
        break;
    case LULL__NAMING_PARTIAL:
        lull__naming_partial(out, fields->step, fields->run_id, fields->save);
        break;
    case LULL__NAMING_OLD:
        lull__naming_old(out, fields->step, fields->run_id, fields->save);
        break;
    case LULL__NAMING_DATA:
        lull__naming_data(out, fields->rank, fields->part);
        break;
    case LULL__NAMING_VOTE:
        lull__naming_vote(out, fields->rank);
        break;
    default:
        out[0] = '\0';
    }
}

lull__naming_kind_t lull__naming_parse(const char *name, lull__naming_t *out) {
    lull__naming_t fields = {.kind = LULL__NAMING_OTHER};
    const char *at = name;
    if (strcmp(name, LULL__MANIFEST) == 0)
        fields.kind = LULL__NAMING_MANIFEST;
    else if (strncmp(name, ".trash-", 7) == 0 && name[7] != '\0')
        fields.kind = LULL__NAMING_TRASH;
    else if (skip(&at, "step-"))
        fields.kind = parse_step(at, false, &fields);
    else if (skip(&at, ".step-"))
        fields.kind = parse_step(at, true, &fields);
    else if (skip(&at, "rank-"))
        fields.kind = parse_rank(at, &fields);

    lull__entry_name_t made;
    make(&fields, made);
    if (made[0] != '\0' && strcmp(made, name) != 0)
        fields = (lull__naming_t){.kind = LULL__NAMING_OTHER};
    *out = fields;
    return fields.kind;
}

bool lull__naming_is_data(const char *name, uint32_t rank) {
    lull__naming_t fields;
    return lull__naming_parse(name, &fields) == LULL__NAMING_DATA &&
           fields.rank == rank;
}
