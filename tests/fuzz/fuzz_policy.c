/* Fuzz target: a policy, and after a newline rules for one of its roles. What
 * parses has a canonical string that means the same, and codecs; what does not
 * is pointed at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool holds) {
    if (!holds)
        abort();
}

/* The sentence shows the text and the place, which lies in it or at its end. */
static void check_sentence(const char *text) {
    static const char before[] = ", at character ";
    size_t length = strlen(text), shown = length < 200 ? length : 200;
    const char *said = lull_last_error();
    must(strncmp(said, "policy '", 8) == 0);
    must(strncmp(said + 8, text, shown) == 0);
    const char *at = strstr(said + 8 + shown, before);
    must(at != NULL);
    size_t place = strtoull(at + sizeof before - 1, NULL, 10);
    must(place >= 1 && place <= length + 1);
}

static bool same_rules(const lull__rules_t *a, const lull__rules_t *b) {
    bool same = a->automatic == b->automatic && a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++) {
        const lull__rule_t *x = &a->rule[i], *y = &b->rule[i];
        same = x->bytes == y->bytes && x->any == y->any &&
               (x->any || x->dtype == y->dtype) &&
               strcmp(x->spec, y->spec) == 0;
    }
    return same;
}

static void check_policy(const lull__policy_t *policy) {
    static lull_comm_t comm;
    static char text[LULL__POLICY_MAX], again[LULL__POLICY_MAX];
    lull__policy_t other;
    lull__policy_text(policy, text);
    must(strlen(text) < sizeof text - 1);
    must(lull__policy_parse(text, &other) == LULL_OK);
    lull__policy_text(&other, again);
    must(strcmp(text, again) == 0);
    must(policy->min == other.min && policy->hier == other.hier &&
         policy->check == other.check);
    for (unsigned role = 0; role < LULL_ROLE_OTHER; role++)
        must(same_rules(&policy->rules[role], &other.rules[role]));
    comm.policy = *policy;
    for (comm.role = LULL_ROLE_DP; comm.role < LULL_ROLE_COUNT; comm.role++) {
        lull__rules_text(&policy->rules[comm.role], comm.rules,
                         sizeof comm.rules);
        must(strlen(comm.rules) < sizeof comm.rules - 1);
        must(lull__choices_fill(&comm) == LULL_OK);
        for (unsigned d = 0; d < LULL__DTYPES; d++)
            for (unsigned shift = 0; shift < 64; shift++) {
                lull__coding_t coding =
                    lull__choose(&comm, lull__dtypes[d], (uint64_t)1 << shift);
                must(coding.none ||
                     (coding.step >= 32 && coding.step <= LULL_UNIT));
            }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    lull__policy_t policy;
    char *text = malloc(bytes + 1);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    char *rules = strchr(text, '\n');
    if (rules != NULL)
        *rules++ = '\0';
    if (lull__policy_parse(text, &policy) == LULL_OK) {
        check_policy(&policy);
        lull_role_t role = (lull_role_t)(bytes % LULL_ROLE_COUNT);
        if (rules != NULL && lull__policy_set(&policy, role, rules) == LULL_OK)
            check_policy(&policy);
        else if (rules != NULL)
            check_sentence(rules);
    } else {
        check_sentence(text);
    }
    free(text);
    return 0;
}
