/* expo's tree: from symbols to masks and back. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"
#include "codec/expo_plan.h"

/* Three levels that kernels can take at once. The root is the last node of its
 * depth, and all nodes below that depth are under it. */
typedef struct top {
    unsigned depth, root; /* where the root is, and its number */
    lull__expo_shape_t shape;
    bool below[2];    /* whether there is a node that is MIXED, WHOLE */
    unsigned node[2]; /* its number */
    unsigned leaves[4], first[4]; /* at each level, and the first of them */
} top_t;

#define TOP_LEAST 256  /* symbols for which it pays */
#define TOP_OVERRUN 16 /* bytes that merge_top() reads past a mask */

static bool find_top(const lull__expo_tree_t *tree, unsigned depth,
                     top_t *top) {
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

/* The path to the j-th leaf of a level. */
static unsigned path_to(const top_t *top, unsigned level, unsigned j) {
    unsigned inner[4] = {1, top->shape.second, top->shape.third, 0};
    return ((1u << level) - 2 * inner[level - 1] + j) << (3 - level);
}

/* And to the nodes below. */
static unsigned path_below(const top_t *top, unsigned kind) {
    unsigned place = 3u - top->shape.third + top->shape.planes;
    return kind == LULL__EXPO_MIXED ? 2 * place + 1 : 6;
}

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
    size_t capacity;                       /* bytes for masks */
    size_t used;                           /* of them */
    size_t escapes;                        /* bytes in room->escapes */
    uint8_t first_leaf[LULL__EXPO_LEAVES]; /* of inner nodes */
    uint8_t threshold[LULL__EXPO_LEAVES];
    size_t size[LULL__EXPO_LEAVES]; /* symbols that come to inner nodes */
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

static size_t piece_of(const lull__expo_kernel_t *kernel, size_t left) {
    return left < kernel->piece ? left : kernel->piece;
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
    for (size_t i = 0; i < s->n; i += e->kernel->piece) {
        size_t n = piece_of(e->kernel, s->n - i);
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

/* Where the encoder is: a node, the bytes that come to it and to those right
 * of it, and where those go that the next depth gets. */
typedef struct front {
    unsigned depth, node; /* of the depth's inner nodes */
    uint8_t *in, *next;
    uint8_t *room[2]; /* what `in` and `next` are in */
} front_t;

/* Level by level; false where the masks have no room. */
static bool encode_levels(encoder_t *e, front_t at) {
    const lull__expo_tree_t *tree = e->tree;
    for (; at.depth < tree->depth; at.depth++, at.node = 0) {
        for (; at.node < tree->node_count[at.depth]; at.node++) {
            unsigned node = tree->node_first[at.depth] + at.node;
            int inner[2];
            step_t s = {.in = at.in, .n = e->size[node], .node = node};
            for (unsigned k = 0; k < 2; k++)
                lull__expo_child(tree, at.depth + 1, 2 * at.node + k,
                                 &s.leaf[k], &inner[k]);
            if (e->used + (s.n + 7) / 8 > e->capacity)
                return false;
            if (s.n != 0)
                at.next = encode_node(e, &s, at.next);
            at.in += s.n;
            for (unsigned k = 0; k < 2; k++)
                if (inner[k] >= 0)
                    e->size[inner[k]] = s.sizes[k];
        }
        uint8_t *other = at.room[0];
        at.in = at.room[0] = at.room[1];
        at.next = at.room[1] = other;
    }
    return true;
}

/* ---- Encoding three levels at once ------------------------------------- */

/* Of every symbol that may come the path; where its leaf is deeper, that to the
 * node above it. */
static void set_paths(const encoder_t *e, const top_t *top, uint8_t *path) {
    const lull__expo_tree_t *tree = e->tree;
    unsigned below[2], whole = tree->leaves;
    for (unsigned k = 0; k < 2; k++)
        below[k] = path_below(top, k) << 5;
    if (top->below[LULL__EXPO_WHOLE])
        whole = e->first_leaf[top->node[LULL__EXPO_WHOLE]];
    memset(path, (int)below[tree->escape >= (int)whole], 256);
    for (unsigned d = 1; d <= 3; d++)
        for (unsigned j = 0; j < top->leaves[d]; j++)
            path[tree->symbol[top->first[d] + j]] =
                (uint8_t)(path_to(top, d, j) << 5);
    if (top->depth + 4 > tree->depth)
        return;
    for (unsigned leaf = tree->leaf_first[top->depth + 4]; leaf < tree->leaves;
         leaf++)
        if ((int)leaf != tree->escape)
            path[tree->symbol[leaf]] = (uint8_t)below[leaf >= whole];
}

/* Bytes from mask to mask while they are written apart. */
static size_t stride_of(size_t n) {
    return (n + 63) / 64 * 8 + 16;
}

/* Joins the masks that split_top() left apart. */
static void join_masks(encoder_t *e, const lull__expo_splitter_t *top, size_t n,
                       size_t stride) {
    e->used += (n + 7) / 8;
    for (unsigned node = 2; node < 8; node++) {
        size_t from = (node - 1) * stride;
        size_t bytes = (top->bit[node] + 7) / 8 - from;
        memmove(e->room->masks + e->used, top->masks + from, bytes);
        e->used += bytes;
    }
}

/* The symbols that come to three levels to masks, and those that come to what
 * is below into the next room. */
static void encode_top(encoder_t *e, const top_t *top, front_t *at) {
    const size_t n = e->size[top->root], stride = stride_of(n);
    uint8_t path[256], *out = at->next;
    lull__expo_splitter_t splitter = {.shape = top->shape,
                                      .masks = e->room->masks + e->used,
                                      .path = path,
                                      .range = e->room->range};
    set_paths(e, top, path);
    for (unsigned node = 2; node < 8; node++) {
        splitter.bit[node] = 8 * (node - 1) * stride;
        memset(splitter.masks + (node - 1) * stride, 0, 8);
    }
    for (unsigned k = 0; k < 2; k++)
        splitter.below[k] = e->room->escapes + k * stride;
    for (size_t i = 0; i < n; i += e->kernel->piece) {
        look_ahead(e->room);
        e->kernel->split_top(&splitter, at->in + i, piece_of(e->kernel, n - i));
    }
    join_masks(e, &splitter, n, stride);
    for (unsigned k = 0; k < 2; k++)
        if (top->below[k]) {
            size_t size = e->kernel->pick(at->in, n, splitter.below[k], out);
            e->size[top->node[k]] = size;
            out += size;
        }
}

/* From the root down, as long as there is one node whose three levels can be
 * taken at once. Then symbols become ranks, as levels one by one need them;
 * `ranked`: those of all are in room->b. */
static front_t encode_tops(encoder_t *e, const uint8_t *ranks, bool ranked) {
    lull__expo_room_t *room = e->room;
    front_t at = {0, 0, room->a, room->b, {room->a, room->b}};
    bool below[2] = {true, false};
    size_t left = e->size[0], moved = 0;
    top_t top;
    while (e->kernel->split_top != NULL && below[0] != below[1] &&
           left >= TOP_LEAST &&
           e->used + 7 * stride_of(left) <= e->capacity + LULL__EXPO_SLACK &&
           find_top(e->tree, at.depth, &top)) {
        encode_top(e, &top, &at);
        memcpy(below, top.below, sizeof below);
        left = moved = 0;
        if (below[LULL__EXPO_MIXED])
            left += e->size[top.node[LULL__EXPO_MIXED]];
        if (below[LULL__EXPO_WHOLE]) {
            moved = left;
            left += e->size[top.node[LULL__EXPO_WHOLE]];
        }
        at.depth += below[LULL__EXPO_WHOLE] ? 2 : 3;
        at.node =
            below[LULL__EXPO_WHOLE] ? e->tree->node_count[at.depth] - 1u : 0;
        uint8_t *other = at.room[0];
        at.in = at.room[0] = at.room[1];
        at.next = at.room[1] = other;
    }
    if (ranked && at.depth == 0)
        return (front_t){0, 0, room->b, room->a, {room->b, room->a}};
    (void)e->kernel->map(at.in, left, ranks, room->range, at.in);
    /* What comes from the last of MIXED belongs to the next depth. */
    memcpy(at.next, at.in, moved);
    at.in += moved;
    at.next += moved;
    return at;
}

static void set_thresholds(encoder_t *e, const lull__expo_plan_t *plan) {
    uint8_t split[LULL__EXPO_LEAVES];
    make_splits(e->tree, e->first_leaf, split);
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
    const bool ranked = plan.escape != 0 && plan.before == plan.listed;
    if (ranked &&
        kernel->map(room->a, n, ranks, room->range, room->b) < plan.listed)
        (void)lull__expo_plan_tree(&plan, false, &tree);
    encoder_t e = {.kernel = kernel,
                   .tree = &tree,
                   .room = room,
                   .capacity = n,
                   .size = {n}};
    set_thresholds(&e, &plan);
    if (!encode_levels(&e, encode_tops(&e, ranks, ranked)))
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
    bool overrun; /* masks may be read past their end */
} decoder_t;

static void merge_node(const decoder_t *d, unsigned node,
                       lull__expo_side_t side[2], uint8_t *out) {
    const uint8_t *mask = d->masks->at[node];
    size_t size = d->masks->size[node];
    for (size_t i = 0; i < size; i += d->kernel->piece) {
        size_t n = piece_of(d->kernel, size - i);
        look_ahead(d->room);
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

static void merge_top(const decoder_t *d, const top_t *top,
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
            merger.symbol[path_to(top, level, j)] =
                tree->symbol[top->first[level] + j];
    size_t n = d->masks->size[top->root];
    for (size_t i = 0; i < n; i += d->kernel->piece) {
        look_ahead(d->room);
        d->kernel->merge_top(&merger, piece_of(d->kernel, n - i), out + i);
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

static bool takes_top(const decoder_t *d, unsigned depth, top_t *top) {
    const lull__expo_tree_t *tree = d->tree;
    unsigned node = tree->node_first[depth] + tree->node_count[depth] - 1u;
    return d->kernel->merge_top != NULL && d->overrun &&
           d->masks->size[node] >= TOP_LEAST && find_top(tree, depth, top);
}

/* The last node of a depth, with all below it. What is below comes to a room
 * first. `out` may be the other. */
static void decode_node(const decoder_t *d, unsigned depth, unsigned room,
                        uint8_t *out) {
    uint8_t *const rooms[2] = {d->room->a, d->room->b};
    const lull__expo_tree_t *tree = d->tree;
    const uint8_t *from[2] = {NULL, NULL};
    top_t top;
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
