/* What encoding and decoding expo's tree share. */
#ifndef LULL__EXPO_TREE_H
#define LULL__EXPO_TREE_H

#include "codec/expo.h"

/* Three levels that kernels can take at once. The root is the last node of its
 * depth, and all nodes below that depth are under it. */
typedef struct lull__expo_top {
    unsigned depth, root; /* where the root is, and its number */
    lull__expo_shape_t shape;
    bool below[2];    /* whether there is a node that is MIXED, WHOLE */
    unsigned node[2]; /* its number */
    unsigned leaves[4], first[4]; /* at each level, and the first of them */
} lull__expo_top_t;

#define LULL__EXPO_TOP_LEAST 256 /* symbols for which it pays */

/* Of the tree from a depth on; false where it is none for the kernels. */
bool lull__expo_find_top(const lull__expo_tree_t *tree, unsigned depth,
                         lull__expo_top_t *top);

/* The path to the j-th leaf of a level. */
unsigned lull__expo_path_to(const lull__expo_top_t *top, unsigned level,
                            unsigned j);

/* And to the nodes below. */
unsigned lull__expo_path_below(const lull__expo_top_t *top, unsigned kind);

static inline void lull__expo_look(lull__expo_ahead_t *ahead, bool write) {
    enum { LINE = 64 };
    const uint8_t *at = ahead->at;
    if (at == ahead->end) /* or there is nothing to ask for */
        return;
    size_t left = (size_t)(ahead->end - at);
    size_t bytes = ahead->step < left ? ahead->step : left;
    for (size_t i = 0; i < bytes; i += LINE)
        if (write)
            __builtin_prefetch(at + i, 1, 2);
        else
            __builtin_prefetch(at + i, 0, 2);
    ahead->at = at + bytes;
}

static inline void lull__expo_look_ahead(lull__expo_room_t *room) {
    lull__expo_look(&room->read, false);
    lull__expo_look(&room->write, true);
}

static inline size_t lull__expo_piece_of(const lull__expo_kernel_t *kernel,
                                         size_t left) {
    return left < kernel->piece ? left : kernel->piece;
}

#endif
