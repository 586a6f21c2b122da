/* The policy auto: what was measured, and what follows from it. */
#ifndef LULL__AUTO_H
#define LULL__AUTO_H

#include "internal.h"

enum {
    /* Candidates: none, the lossless codecs, and all that can be listed. */
    LULL__AUTO_CODECS = LULL__RULES_MAX + 4,
    LULL__AUTO_SIZES = 7,
    LULL__AUTO_DTYPES = 2
};

/* One dtype: how many times faster than none each candidate was; 0: not
 * measured. */
typedef struct lull__auto_part {
    lull_dtype_t dtype;
    unsigned size_count;
    double ratio[LULL__AUTO_SIZES][LULL__AUTO_CODECS];
} lull__auto_part_t;

typedef struct lull__auto_table {
    bool framed; /* what is none beside a codec travels raw, with headers */
    unsigned codec_count, part_count;
    char specs[LULL__AUTO_CODECS][LULL__SPEC_MAX];
    uint64_t sizes[LULL__AUTO_SIZES];
    lull__auto_part_t parts[LULL__AUTO_DTYPES];
} lull__auto_table_t;

/* The rules that follow from a table, and from nothing else. */
void lull__auto_decide(const lull__auto_table_t *table, uint64_t min,
                       lull__rules_t *out);

/* Measures on the communicator, whose rules are automatic; collective.
 * *policy is then the same on all ranks and not automatic for its role. */
lull_status_t lull__auto_resolve(lull_comm_t *comm, lull__policy_t *policy);

#endif
