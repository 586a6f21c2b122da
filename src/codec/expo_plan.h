/* How expo's encoder chooses a tree. */
#ifndef LULL__EXPO_PLAN_H
#define LULL__EXPO_PLAN_H

#include "codec/expo.h"

/* Which symbols are listed, most frequent first, and what else there is. */
typedef struct plan {
    unsigned listed;
    unsigned before; /* so many listed ones stand before the escape */
    uint32_t escape; /* estimated weight; 0: every symbol is listed */
    uint32_t total;
    uint32_t weight[LULL__EXPO_LISTED];
    uint8_t symbol[LULL__EXPO_LISTED];
} lull__expo_plan_t;

/* Of n symbols. */
void lull__expo_plan(const lull__expo_kernel_t *kernel, const uint8_t *symbols,
                     size_t n, lull__expo_plan_t *plan);

/* The tree of a plan, with or without its escape, and the bits of the sample
 * in it. */
uint64_t lull__expo_plan_tree(const lull__expo_plan_t *plan, bool escape,
                              lull__expo_tree_t *tree);

/* Ranks: the listed symbols in their order, with all others between, so that
 * every node of the tree is a range of ranks. */
void lull__expo_ranks(const lull__expo_plan_t *plan, uint8_t *ranks);

/* Ranks that came to the escape back to symbols; mostly they are few. */
void lull__expo_restore(const uint8_t *ranks, uint8_t *escapes, size_t n);

/* Fills what follows from leaf_count; returns whether it is a whole tree of
 * tree->leaves leaves. */
bool lull__expo_shape(lull__expo_tree_t *tree);

#endif
