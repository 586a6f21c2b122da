/* Policies as strings: the canonical one, and what programs ask of them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "policy.h"

/* A text that grows in a buffer; what does not fit is cut off. */
typedef struct text {
    char *at;
    size_t used, room;
} text_t;

__attribute__((format(printf, 2, 3))) static void add(text_t *to,
                                                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to->at + to->used, to->room - to->used, format, args);
    va_end(args);
    to->used += n > 0 ? (size_t)n : 0;
    if (to->used >= to->room)
        to->used = to->room - 1;
}

static void add_rule(text_t *to, const lull__rule_t *rule) {
    char dtype[8] = "";
    const char *name = rule->any ? NULL : lull_dtype_name(rule->dtype);
    for (unsigned i = 0; name != NULL && name[i] != '\0' && i < 7; i++)
        dtype[i] =
            (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    if (rule->bytes != 0 || !rule->any)
        add(to, "%llu%s%s:", (unsigned long long)rule->bytes,
            rule->any ? "" : "/", dtype);
    add(to, "%s", rule->spec);
}

static void add_rules(text_t *to, const lull__rules_t *rules) {
    if (rules->automatic)
        add(to, "auto%s", rules->count != 0 ? ":" : "");
    for (unsigned i = 0; i < rules->count; i++) {
        add(to, "%s", i != 0 ? "," : "");
        add_rule(to, &rules->rule[i]);
    }
}

void lull__rules_text(const lull__rules_t *rules, char *text, size_t room) {
    text_t to = {text, 0, room};
    *text = '\0';
    add_rules(&to, rules);
}

void lull__policy_text(const lull__policy_t *policy,
                       char text[LULL__POLICY_MAX]) {
    text_t to = {text, 0, LULL__POLICY_MAX};
    for (unsigned role = 0; role < LULL_ROLE_OTHER; role++) {
        add(&to, "%s=", lull_role_name(role));
        add_rules(&to, &policy->rules[role]);
        add(&to, ";");
    }
    add(&to, "min=%llu;hier=%d", (unsigned long long)policy->min, policy->hier);
    if (policy->check)
        add(&to, ";check=1");
}

bool lull__rules_code(const lull__rules_t *rules) {
    if (rules->automatic)
        return false;
    for (unsigned i = 0; i < rules->count; i++)
        if (strcmp(rules->rule[i].spec, "none") != 0)
            return true;
    return false;
}

lull_status_t lull_policy_check(const char *text) {
    lull__policy_t policy;
    return lull__policy_parse(text, &policy);
}

bool lull_policy_is_auto(const char *text, lull_role_t role) {
    lull__policy_t policy;
    return lull_role_name(role) != NULL &&
           lull__policy_parse(text, &policy) == LULL_OK &&
           policy.rules[role].automatic;
}

lull_status_t lull_policy_replace(const char *text, lull_role_t role,
                                  const char *rules, char *out,
                                  size_t capacity) {
    lull__policy_t policy;
    char all[LULL__POLICY_MAX];
    if (rules == NULL || out == NULL || lull_role_name(role) == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_policy_replace: %s",
                          rules == NULL ? "rules"
                          : out == NULL ? "out"
                                        : "role");
    lull_status_t status = lull__policy_parse(text, &policy);
    if (status == LULL_OK)
        status = lull__policy_set(&policy, role, rules);
    if (status != LULL_OK)
        return status;
    lull__policy_text(&policy, all);
    if (strlen(all) >= capacity)
        return lull__fail(LULL_ERR_CAPACITY,
                          "lull_policy_replace: %zu bytes are needed",
                          strlen(all) + 1);
    strcpy(out, all);
    return LULL_OK;
}
