/* How expo's encoder chooses the digits of symbols. */
#ifndef LULL__EXPO_PLAN_H
#define LULL__EXPO_PLAN_H

#include "codec/expo.h"

/* What an encoder chose for one block's symbols. Neighbours are alike, so that
 * it serves those of the blocks that follow, as long as they take no more
 * room; docs/decisions/0045. */
struct lull__expo_choice {
    lull__expo_table_t table;
    lull__expo_digits_t digits[LULL__EXPO_LEVELS];
    unsigned listed; /* symbols of the last level; 0: all, as they are */
    bool zero;       /* symbol 0 may be more than rare */
    size_t n, bytes; /* symbols of the block it was made for, and their coded
                        bytes */
    unsigned blocks; /* for which it may still serve */
    unsigned wary;   /* choices that are to serve for one block only: the more,
                        the more often one was far from good for a block */
    unsigned failed; /* how often, until one has served all its blocks */
};

static inline void lull__expo_choice_begin(lull__expo_choice_t *choice) {
    choice->blocks = choice->wary = choice->failed = 0;
}

/* For n symbols in `a`; false: they are best left as they are. */
bool lull__expo_choose(const lull__expo_kernel_t *kernel, const uint8_t *a,
                       size_t n, lull__expo_choice_t *choice);

/* After a block of n symbols, which it made `bytes` of (SIZE_MAX: more than
 * they were), `fresh`: the one it was made for. Sees whether it may serve the
 * next one. */
void lull__expo_judge(lull__expo_choice_t *choice, bool fresh, size_t n,
                      size_t bytes);

/* Makes `of` give, of n symbols, the i-th the digit i, and all others `rest`.
 */
void lull__expo_set_digits(lull__expo_digits_t *of, const uint8_t *symbols,
                           unsigned n, unsigned rest);

#endif
