/* expo's tree: from symbols to masks and back. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"
#include "codec/expo_plan.h"

static void write_table(const lull__expo_tree_t *tree,
                        lull__expo_coded_t *out) {
    uint8_t *at = out->table;
    *at++ = (uint8_t)(tree->leaves - 1);
    *at++ = (uint8_t)tree->escape; /* none: 255 */
    for (unsigned d = 1; d <= tree->depth; d++)
        *at++ = tree->leaf_count[d];
    for (unsigned i = 0; i < tree->leaves; i++)
        if ((int)i != tree->escape)
            *at++ = tree->symbol[i];
    out->table_bytes = (size_t)(at - out->table);
}

/* ---- Encoding ---------------------------------------------------------- */

/* The first leaf under each child of each inner node's right side: where the
 * node splits. From the deepest nodes up. */
static void make_splits(const lull__expo_tree_t *tree, uint8_t *first_leaf,
                        uint8_t *split_leaf) {
    for (int d = (int)tree->depth - 1; d >= 0; d--)
        for (unsigned j = 0; j < tree->node_count[d]; j++) {
            unsigned node = tree->node_first[d] + j;
            int leaf, inner;
            lull__expo_child(tree, (unsigned)d + 1, 2 * j, &leaf, &inner);
            first_leaf[node] = leaf >= 0 ? (uint8_t)leaf : first_leaf[inner];
            lull__expo_child(tree, (unsigned)d + 1, 2 * j + 1, &leaf, &inner);
            split_leaf[node] = leaf >= 0 ? (uint8_t)leaf : first_leaf[inner];
        }
}

typedef struct encoder {
    const lull__expo_kernel_t *kernel;
    const lull__expo_tree_t *tree;
    lull__expo_room_t *room;
    size_t capacity;                      /* bytes for masks */
    size_t used;                          /* of them */
    size_t escapes;                       /* bytes in room->escapes */
    uint8_t threshold[LULL__EXPO_LEAVES]; /* of inner nodes */
} encoder_t;

/* Where the bytes of a child go: the next level, the escapes, or nowhere. */
static uint8_t *child_room(encoder_t *e, int leaf, uint8_t *next) {
    if (leaf < 0)
        return next;
    return leaf == e->tree->escape ? e->room->escapes : NULL;
}

static inline void look(lull__expo_ahead_t *ahead, bool write) {
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

static void look_ahead(lull__expo_room_t *room) {
    look(&room->read, false);
    look(&room->write, true);
}

static size_t piece_of(size_t left) {
    return left < LULL__EXPO_PIECE ? left : LULL__EXPO_PIECE;
}

/* One inner node with the bytes that come to it. */
typedef struct step {
    const uint8_t *in;
    size_t n;
    unsigned node;
    int leaf[2];     /* its children, where they are leaves, else -1 */
    size_t sizes[2]; /* set: bytes that go to each */
} step_t;

/* Its mask, and the bytes of one child; returns how many bits are 1. */
static size_t split_node(encoder_t *e, const step_t *s, uint8_t *mask,
                         uint8_t *out, unsigned keep) {
    size_t ones = 0;
    for (size_t i = 0; i < s->n; i += LULL__EXPO_PIECE) {
        size_t n = piece_of(s->n - i);
        look_ahead(e->room);
        size_t right = e->kernel->split(s->in + i, n, e->threshold[s->node],
                                        mask + i / 8, out, keep);
        ones += right;
        if (out != NULL)
            out += keep ? right : n - right;
    }
    return ones;
}

/* Its mask, and the children's bytes; returns where the next level goes on. */
static uint8_t *encode_node(encoder_t *e, step_t *s, uint8_t *next) {
    uint8_t *mask = e->room->masks + e->used;
    uint8_t *left = child_room(e, s->leaf[0], next);
    uint8_t *right = child_room(e, s->leaf[1], next);
    size_t ones =
        split_node(e, s, mask, left != NULL ? left : right, left == NULL);
    s->sizes[0] = s->n - ones;
    s->sizes[1] = ones;
    if (left != NULL && right != NULL)
        e->kernel->pick(s->in, s->n, mask,
                        left == right ? right + s->sizes[0] : right);
    for (unsigned k = 0; k < 2; k++)
        if (s->leaf[k] < 0)
            next += s->sizes[k];
        else if (s->leaf[k] == e->tree->escape)
            e->escapes = s->sizes[k];
    e->used += (s->n + 7) / 8;
    return next;
}

/* Level by level from the root; false where the masks have no room. */
static bool encode_levels(encoder_t *e, size_t n, uint8_t *from, uint8_t *to) {
    const lull__expo_tree_t *tree = e->tree;
    size_t size[LULL__EXPO_LEAVES] = {n};
    for (unsigned d = 0; d < tree->depth; d++) {
        const uint8_t *in = from;
        uint8_t *next = to;
        for (unsigned j = 0; j < tree->node_count[d]; j++) {
            unsigned node = tree->node_first[d] + j;
            int inner[2];
            step_t s = {.in = in, .n = size[node], .node = node};
            for (unsigned k = 0; k < 2; k++)
                lull__expo_child(tree, d + 1, 2 * j + k, &s.leaf[k], &inner[k]);
            if (e->used + (s.n + 7) / 8 > e->capacity)
                return false;
            if (s.n != 0)
                next = encode_node(e, &s, next);
            in += s.n;
            for (unsigned k = 0; k < 2; k++)
                if (inner[k] >= 0)
                    size[inner[k]] = s.sizes[k];
        }
        uint8_t *other = from;
        from = to;
        to = other;
    }
    return true;
}

static void set_thresholds(encoder_t *e, const lull__expo_plan_t *plan) {
    uint8_t first[LULL__EXPO_LEAVES], split[LULL__EXPO_LEAVES];
    make_splits(e->tree, first, split);
    for (unsigned node = 0; node + 1 < e->tree->leaves; node++) {
        int leaf = split[node];
        bool after = e->tree->escape >= 0 && leaf > e->tree->escape;
        e->threshold[node] =
            (uint8_t)(after ? leaf - 1 + 256 - (int)plan->listed : leaf);
    }
}

void lull__expo_tree_raw(size_t n, lull__expo_room_t *room,
                         lull__expo_coded_t *out) {
    const lull__expo_tree_t tree = {.leaves = 1};
    write_table(&tree, out);
    out->masks = room->masks;
    out->mask_bytes = 0;
    out->escapes = room->a;
    out->escape_bytes = n;
}

bool lull__expo_tree_encode(const lull__expo_kernel_t *kernel, size_t n,
                            lull__expo_room_t *room, lull__expo_coded_t *out) {
    lull__expo_plan_t plan;
    lull__expo_tree_t tree;
    uint8_t ranks[256];
    lull__expo_plan(kernel, room->a, n, &plan);
    if (lull__expo_plan_tree(&plan, plan.escape != 0, &tree) >=
        plan.total * 31 / 4) {
        lull__expo_tree_raw(n, room, out);
        return true;
    }
    lull__expo_ranks(&plan, ranks);
    unsigned most = kernel->map(room->a, n, ranks, room->b);
    if (plan.escape != 0 && plan.before == plan.listed && most < plan.listed)
        (void)lull__expo_plan_tree(&plan, false, &tree);
    encoder_t e = {
        .kernel = kernel, .tree = &tree, .room = room, .capacity = n};
    set_thresholds(&e, &plan);
    if (!encode_levels(&e, n, room->b, room->a))
        return false;
    lull__expo_restore(ranks, room->escapes, e.escapes);
    write_table(&tree, out);
    out->masks = room->masks;
    out->mask_bytes = e.used;
    out->escapes = room->escapes;
    out->escape_bytes = e.escapes;
    return out->table_bytes + e.used + e.escapes < n + 2;
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
} decoder_t;

static void merge_node(const decoder_t *d, unsigned node,
                       lull__expo_side_t side[2], uint8_t *out) {
    const uint8_t *mask = d->masks->at[node];
    size_t size = d->masks->size[node];
    for (size_t i = 0; i < size; i += LULL__EXPO_PIECE) {
        size_t n = piece_of(size - i);
        look_ahead(d->room);
        size_t ones =
            d->kernel->merge(mask + i / 8, n, side[0], side[1], out + i);
        if (side[0].at != NULL)
            side[0].at += n - ones;
        if (side[1].at != NULL)
            side[1].at += ones;
    }
}

/* The inner nodes of a depth, from what those below it gave, in `below`. */
static void decode_level(const decoder_t *d, unsigned depth,
                         const uint8_t *below, uint8_t *out) {
    const lull__expo_tree_t *tree = d->tree;
    for (unsigned j = 0; j < tree->node_count[depth]; j++) {
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
    memcpy(room->escapes, *at, masks.escapes);
    *at += masks.escapes;
    decoder_t d = {kernel, &tree, &masks, room};
    for (unsigned depth = tree.depth; depth-- > 0;) {
        uint8_t *out = depth % 2 ? room->a : room->b;
        decode_level(&d, depth, depth % 2 ? room->b : room->a,
                     depth == 0 ? symbols : out);
    }
    return NULL;
}
