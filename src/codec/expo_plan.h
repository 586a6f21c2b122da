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

/* A tree, and of its inner nodes the first leaf under each, and the least rank
 * that goes right. */
typedef struct lull__expo_code {
    lull__expo_tree_t tree;
    uint8_t first_leaf[LULL__EXPO_LEAVES];
    uint8_t threshold[LULL__EXPO_LEAVES];
} lull__expo_code_t;

/* What an encoder chose for one block's symbols. Neighbours are alike, so that
 * it serves those of the blocks that follow, as long as they take no more
 * room; docs/decisions/0045. */
struct lull__expo_choice {
    lull__expo_plan_t plan;
    lull__expo_code_t code, bare; /* with the escape and, if made, without */
    bool has_bare;
    uint8_t ranks[256];
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

/* The code without the escape. */
const lull__expo_code_t *lull__expo_bare(lull__expo_choice_t *choice);

/* Ranks that came to the escape back to symbols; mostly they are few. */
void lull__expo_restore(const uint8_t *ranks, uint8_t *escapes, size_t n);

/* Fills what follows from leaf_count; returns whether it is a whole tree of
 * tree->leaves leaves. */
bool lull__expo_shape(lull__expo_tree_t *tree);

#endif
