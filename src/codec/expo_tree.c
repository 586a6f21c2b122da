/* expo's tree: from masks back to symbols, and its upper levels. */
#include "codec/expo_tree.h"

#include <string.h>

#include "codec/expo_plan.h"

#define TOP_OVERRUN 16 /* bytes that merge_top() reads past a mask */

bool lull__expo_find_top(const lull__expo_tree_t *tree, unsigned depth,
                         lull__expo_top_t *top) {
    const uint8_t *inner = tree->node_count + depth;
    /* Where one symbol is half of all, few come to the second level. */
    const unsigned second = depth == 0 ? 2 : 1;
    if (depth + 3 > LULL__EXPO_DEPTH || inner[1] < second || inner[3] > 3)
        return false;
    for (unsigned d = 1, above = 1; d <= 3; above = inner[d++]) {
        top->leaves[d] = 2 * above - inner[d];
        top->first[d] = tree->leaf_first[depth + d] +
                        tree->leaf_count[depth + d] - top->leaves[d];
        /* An escape's bytes come from no node. */
        if (tree->escape >= 0 &&
            (unsigned)tree->escape - top->first[d] < top->leaves[d])
            return false;
    }
    const unsigned mixed = inner[3] % 2, whole = inner[3] / 2;
    top->depth = depth;
    top->root = tree->node_first[depth] + inner[0] - 1u;
    top->shape =
        (lull__expo_shape_t){inner[1], inner[2], (uint8_t)(inner[2] - whole)};
    top->below[LULL__EXPO_MIXED] = mixed;
    top->below[LULL__EXPO_WHOLE] = whole;
    top->node[LULL__EXPO_MIXED] = tree->node_first[depth + 3];
    top->node[LULL__EXPO_WHOLE] = tree->node_first[depth + 2] + inner[2] - 1u;
    return true;
}

unsigned lull__expo_path_to(const lull__expo_top_t *top, unsigned level,
                            unsigned j) {
    unsigned inner[4] = {1, top->shape.second, top->shape.third, 0};
    return ((1u << level) - 2 * inner[level - 1] + j) << (3 - level);
}

unsigned lull__expo_path_below(const lull__expo_top_t *top, unsigned kind) {
    unsigned place = 3u - top->shape.third + top->shape.planes;
    return kind == LULL__EXPO_MIXED ? 2 * place + 1 : 6;
}

/* ---- Decoding ---------------------------------------------------------- */

static const char *read_table(const uint8_t **at, const uint8_t *end,
                              lull__expo_tree_t *tree) {
    const uint8_t *p = *at;
    if (end - p < 2)
        return "cut off in the table";
    tree->leaves = *p++ + 1u;
    tree->escape = *p == 255 ? -1 : *p;
    p++;
    if (tree->leaves > LULL__EXPO_LEAVES || tree->escape >= (int)tree->leaves ||
        tree->leaves - (tree->escape >= 0) > LULL__EXPO_LISTED)
        return "the table's leaves";
    memset(tree->leaf_count, 0, sizeof tree->leaf_count);
    tree->depth = 0;
    if (tree->leaves > 1) {
        unsigned inner = 1, d = 0;
        while (inner != 0) {
            if (++d > LULL__EXPO_DEPTH)
                return "the table's depth";
            if (p == end)
                return "cut off in the table";
            tree->leaf_count[d] = *p++;
            if (tree->leaf_count[d] > 2 * inner)
                return "the table's leaves";
            inner = 2 * inner - tree->leaf_count[d];
        }
        if (!lull__expo_shape(tree))
            return "the table's leaves";
    }
    for (unsigned i = 0; i < tree->leaves; i++)
        if ((int)i != tree->escape) {
            if (p == end)
                return "cut off in the table";
            tree->symbol[i] = *p++;
        }
    *at = p;
    return NULL;
}

/* The masks of a stream: where each inner node's begins and its bits. */
typedef struct masks {
    const uint8_t *at[LULL__EXPO_LEAVES];
    size_t size[LULL__EXPO_LEAVES];
    size_t escapes;
} masks_t;

static const char *read_masks(const lull__expo_kernel_t *kernel,
                              const lull__expo_tree_t *tree, const uint8_t **at,
                              const uint8_t *end, masks_t *masks) {
    size_t n = masks->size[0];
    masks->escapes = tree->leaves == 1 && tree->escape == 0 ? n : 0;
    for (unsigned d = 0; d < tree->depth; d++)
        for (unsigned j = 0; j < tree->node_count[d]; j++) {
            unsigned node = tree->node_first[d] + j;
            size_t size = masks->size[node], bytes = (size + 7) / 8;
            if (bytes > (size_t)(end - *at))
                return "cut off in the masks";
            masks->at[node] = *at;
            size_t right = kernel->ones(*at, size);
            *at += bytes;
            for (unsigned k = 0; k < 2; k++) {
                int leaf, inner;
                size_t child = k ? right : size - right;
                lull__expo_child(tree, d + 1, 2 * j + k, &leaf, &inner);
                if (inner >= 0)
                    masks->size[inner] = child;
                else if (leaf == tree->escape)
                    masks->escapes = child;
            }
        }
    return NULL;
}

typedef struct decoder {
    const lull__expo_kernel_t *kernel;
    const lull__expo_tree_t *tree;
    const masks_t *masks;
    lull__expo_room_t *room;
    bool overrun; /* masks may be read past their end */
} decoder_t;

static void merge_node(const decoder_t *d, unsigned node,
                       lull__expo_side_t side[2], uint8_t *out) {
    const uint8_t *mask = d->masks->at[node];
    size_t size = d->masks->size[node];
    for (size_t i = 0; i < size; i += d->kernel->piece) {
        size_t n = lull__expo_piece_of(d->kernel, size - i);
        lull__expo_look_ahead(d->room);
        size_t ones =
            d->kernel->merge(mask + i / 8, n, side[0], side[1], out + i);
        if (side[0].at != NULL)
            side[0].at += n - ones;
        if (side[1].at != NULL)
            side[1].at += ones;
    }
}

/* The inner nodes of a depth from the j-th on, from what those below them
 * gave, in `below`. */
static void decode_level(const decoder_t *d, unsigned depth, unsigned j,
                         const uint8_t *below, uint8_t *out) {
    const lull__expo_tree_t *tree = d->tree;
    for (; j < tree->node_count[depth]; j++) {
        unsigned node = tree->node_first[depth] + j;
        lull__expo_side_t side[2];
        for (unsigned k = 0; k < 2; k++) {
            int leaf, inner;
            lull__expo_child(tree, depth + 1, 2 * j + k, &leaf, &inner);
            if (inner >= 0) {
                side[k] = (lull__expo_side_t){below, 0};
                below += d->masks->size[inner];
            } else if (leaf == tree->escape) {
                side[k] = (lull__expo_side_t){d->room->escapes, 0};
            } else {
                side[k] = (lull__expo_side_t){NULL, tree->symbol[leaf]};
            }
        }
        merge_node(d, node, side, out);
        out += d->masks->size[node];
    }
}

static void merge_top(const decoder_t *d, const lull__expo_top_t *top,
                      const uint8_t *const from[2], uint8_t *out) {
    const lull__expo_tree_t *tree = d->tree;
    lull__expo_merger_t merger = {.shape = top->shape,
                                  .masks = d->masks->at[top->root],
                                  .from = {from[0], from[1]}};
    for (unsigned level = 1; level <= 2; level++) {
        unsigned first = tree->node_first[top->depth + level];
        unsigned count = tree->node_count[top->depth + level];
        for (unsigned j = 0; j < count; j++)
            merger.bit[(2u << level) - count + j] =
                8 * (size_t)(d->masks->at[first + j] - merger.masks);
    }
    for (unsigned level = 1; level <= 3; level++)
        for (unsigned j = 0; j < top->leaves[level]; j++)
            merger.symbol[lull__expo_path_to(top, level, j)] =
                tree->symbol[top->first[level] + j];
    size_t n = d->masks->size[top->root];
    for (size_t i = 0; i < n; i += d->kernel->piece) {
        lull__expo_look_ahead(d->room);
        d->kernel->merge_top(&merger, lull__expo_piece_of(d->kernel, n - i),
                             out + i);
    }
}

/* All inner nodes from a depth on, level by level from the deepest up. What one
 * gives stays in a room for the next; `room` is where that depth's own comes
 * to. */
static void decode_levels(const decoder_t *d, unsigned depth, unsigned room) {
    uint8_t *const rooms[2] = {d->room->a, d->room->b};
    for (unsigned at = d->tree->depth; at-- > depth;) {
        unsigned to = (room + at - depth) % 2;
        decode_level(d, at, 0, rooms[!to], rooms[to]);
    }
}

static bool takes_top(const decoder_t *d, unsigned depth,
                      lull__expo_top_t *top) {
    const lull__expo_tree_t *tree = d->tree;
    unsigned node = tree->node_first[depth] + tree->node_count[depth] - 1u;
    return d->kernel->merge_top != NULL && d->overrun &&
           d->masks->size[node] >= LULL__EXPO_TOP_LEAST &&
           lull__expo_find_top(tree, depth, top);
}

/* The last node of a depth, with all below it. What is below comes to a room
 * first. `out` may be the other. */
static void decode_node(const decoder_t *d, unsigned depth, unsigned room,
                        uint8_t *out) {
    uint8_t *const rooms[2] = {d->room->a, d->room->b};
    const lull__expo_tree_t *tree = d->tree;
    const uint8_t *from[2] = {NULL, NULL};
    lull__expo_top_t top;
    if (!takes_top(d, depth, &top) ||
        (out == rooms[!room] && top.below[0] && top.below[1])) {
        decode_levels(d, depth + 1, room);
        decode_level(d, depth, tree->node_count[depth] - 1u, rooms[room], out);
        return;
    }
    for (unsigned k = 0; k < 2; k++)
        if (top.below[k])
            from[k] = rooms[room];
    if (top.below[LULL__EXPO_MIXED] && top.below[LULL__EXPO_WHOLE]) {
        decode_levels(d, depth + 3, room);
        from[LULL__EXPO_WHOLE] = rooms[!room];
        decode_level(d, depth + 2, tree->node_count[depth + 2] - 1u,
                     rooms[room] + d->masks->size[top.node[LULL__EXPO_MIXED]],
                     rooms[!room]);
    } else if (top.below[LULL__EXPO_MIXED]) {
        decode_node(d, depth + 3, !room, rooms[room]);
    } else if (top.below[LULL__EXPO_WHOLE]) {
        decode_node(d, depth + 2, !room, rooms[room]);
    }
    merge_top(d, &top, from, out);
}

const char *lull__expo_tree_decode(const lull__expo_kernel_t *kernel, size_t n,
                                   const uint8_t **at, const uint8_t *end,
                                   lull__expo_room_t *room, uint8_t *symbols) {
    lull__expo_tree_t tree;
    masks_t masks = {.size = {n}};
    const char *wrong = read_table(at, end, &tree);
    if (wrong == NULL)
        wrong = read_masks(kernel, &tree, at, end, &masks);
    if (wrong != NULL)
        return wrong;
    if (masks.escapes > (size_t)(end - *at))
        return "cut off in the escapes";
    if (tree.leaves == 1) {
        if (tree.escape == 0)
            memcpy(symbols, *at, n);
        else
            memset(symbols, tree.symbol[0], n);
        *at += masks.escapes;
        return NULL;
    }
    decoder_t d = {kernel, &tree, &masks, room, end - *at >= TOP_OVERRUN};
    memcpy(room->escapes, *at, masks.escapes);
    *at += masks.escapes;
    decode_node(&d, 0, 0, symbols);
    return NULL;
}
