/* Policies: which codec each role's messages travel in. */
#ifndef LULL__POLICY_H
#define LULL__POLICY_H

#include <lull/comm.h>
#include <stdbool.h>
#include <stdint.h>

#define LULL__SPEC_MAX 24
#define LULL__RULES_MAX 16
#define LULL__RULES_TEXT_MAX 832 /* 16 of at most 52 characters */
#define LULL__POLICY_MAX LULL_POLICY_MAX
#define LULL__POLICY_MIN_DEFAULT 16384

typedef struct lull__rule {
    uint64_t bytes; /* messages from this size on */
    bool any;       /* of every dtype, else of this one */
    lull_dtype_t dtype;
    char spec[LULL__SPEC_MAX]; /* "none", "zfp:8" */
} lull__rule_t;

/* Of one role. The last rule that fits a message decides; none fits: none. */
typedef struct lull__rules {
    bool automatic; /* to be measured; these are further candidates */
    unsigned count;
    lull__rule_t rule[LULL__RULES_MAX];
} lull__rules_t;

typedef struct lull__policy {
    lull__rules_t rules[LULL_ROLE_COUNT];
    uint64_t min;
    bool hier, check;
} lull__policy_t;

/* Parses a policy; NULL is "none". LULL_ERR_INVALID: malformed, the sentence
 * points at the character. LULL_ERR_UNSUPPORTED: well-formed, but something
 * in it is not in this build. */
lull_status_t lull__policy_parse(const char *text, lull__policy_t *out);
/* Replaces the rules of one role. */
lull_status_t lull__policy_set(lull__policy_t *policy, lull_role_t role,
                               const char *rules);

/* Does some message of the role not travel by MPI's own call? */
bool lull__rules_code(const lull__rules_t *rules);

/* The canonical string of a policy, the same for all spellings of it, and of
 * the rules of one role. */
void lull__policy_text(const lull__policy_t *policy,
                       char text[LULL__POLICY_MAX]);
void lull__rules_text(const lull__rules_t *rules, char *text, size_t room);

#endif
