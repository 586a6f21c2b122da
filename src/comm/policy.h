/* Policies: which codec each role's messages travel in. */
#ifndef LULL__POLICY_H
#define LULL__POLICY_H

#include <lull/comm.h>
#include <stdbool.h>
#include <stdint.h>

#define LULL__SPEC_MAX 24
#define LULL__POLICY_MAX 192
#define LULL__POLICY_MIN_DEFAULT 16384

typedef struct lull__policy {
    char spec[LULL_ROLE_COUNT][LULL__SPEC_MAX]; /* "none", "zfp:8" */
    uint64_t min;
    bool hier;
} lull__policy_t;

/* Parses a policy; NULL is "none". LULL_ERR_INVALID: malformed, the sentence
 * points at the character. LULL_ERR_UNSUPPORTED: well-formed, but something
 * in it is not in this build. */
lull_status_t lull__policy_parse(const char *text, lull__policy_t *out);

/* The canonical string of a policy, the same for all spellings of it. */
void lull__policy_text(const lull__policy_t *policy,
                       char text[LULL__POLICY_MAX]);

#endif
