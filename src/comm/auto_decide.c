/* auto: from what was measured to rules. */
#include <string.h>

#include "auto.h"

/* A codec is chosen for what it gains, not for what noise gives it; and only
 * between two sizes at which it does not lose. */
static const double gain = 1.05, even = 1.0, framing = 0.95;

/* The best candidate from size s up to the next one; 0: none. */
static unsigned best(const lull__auto_part_t *part, unsigned codecs,
                     unsigned s) {
    unsigned chosen = 0;
    bool last = s + 1 == part->size_count;
    for (unsigned c = 1; c < codecs; c++) {
        double here = part->ratio[s][c];
        if (here >= gain && here > part->ratio[s][chosen] &&
            (last || part->ratio[s + 1][c] >= even))
            chosen = c;
    }
    return chosen;
}

static unsigned find(const lull__auto_table_t *table, const char *spec) {
    for (unsigned c = 1; c < table->codec_count; c++)
        if (strcmp(table->specs[c], spec) == 0)
            return c;
    return 0;
}

/* Beside a codec, messages between two ranks that are not coded are framed: do
 * they lose by it? */
static bool framing_costs(const lull__auto_table_t *table,
                          const lull__auto_part_t *part, unsigned s) {
    unsigned raw = find(table, "raw");
    return table->framed && raw != 0 && part->ratio[s][raw] != 0 &&
           part->ratio[s][raw] < framing;
}

static void add(lull__rules_t *to, uint64_t bytes, const lull_dtype_t *dtype,
                const char *spec) {
    if (to->count == LULL__RULES_MAX)
        return;
    lull__rule_t *rule = &to->rule[to->count++];
    *rule = (lull__rule_t){.bytes = bytes, .any = dtype == NULL};
    if (dtype != NULL)
        rule->dtype = *dtype;
    strcpy(rule->spec, spec);
}

void lull__auto_decide(const lull__auto_table_t *table, uint64_t min,
                       lull__rules_t *out) {
    lull__rules_t none = {0};
    bool costs = false;
    add(&none, 0, NULL, "none");
    *out = none;
    for (unsigned d = 0; d < table->part_count; d++) {
        const lull__auto_part_t *part = &table->parts[d];
        unsigned before = 0;
        for (unsigned s = 0; s < part->size_count; s++) {
            bool below = table->sizes[s] < min;
            unsigned now = below ? 0 : best(part, table->codec_count, s);
            costs = costs || (now == 0 && framing_costs(table, part, s));
            if (now != before)
                add(out, table->sizes[s], &part->dtype, table->specs[now]);
            before = now;
        }
    }
    if (costs)
        *out = none;
}
