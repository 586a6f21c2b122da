/* expo's tree: from symbols to masks. */
#include <string.h>

#include "codec/expo_plan.h"
#include "codec/expo_tree.h"

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

typedef struct encoder {
    const lull__expo_kernel_t *kernel;
    const lull__expo_code_t *code;
    const lull__expo_tree_t *tree; /* its */
    lull__expo_room_t *room;
    size_t capacity;                /* bytes for masks */
    size_t used;                    /* of them */
    size_t escapes;                 /* bytes in room->escapes */
    size_t size[LULL__EXPO_LEAVES]; /* symbols that come to inner nodes */
} encoder_t;

/* Where the bytes of a child go: the next level, the escapes, or nowhere. */
static uint8_t *child_room(encoder_t *e, int leaf, uint8_t *next) {
    if (leaf < 0)
        return next;
    return leaf == e->tree->escape ? e->room->escapes : NULL;
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
        size_t n = lull__expo_piece_of(e->kernel, s->n - i);
        lull__expo_look_ahead(e->room);
        size_t right = e->kernel->split(
            s->in + i, n, e->code->threshold[s->node], mask + i / 8, out, keep);
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
static void set_paths(const encoder_t *e, const lull__expo_top_t *top,
                      uint8_t *path) {
    const lull__expo_tree_t *tree = e->tree;
    unsigned below[2], whole = tree->leaves;
    for (unsigned k = 0; k < 2; k++)
        below[k] = lull__expo_path_below(top, k) << 5;
    if (top->below[LULL__EXPO_WHOLE])
        whole = e->code->first_leaf[top->node[LULL__EXPO_WHOLE]];
    memset(path, (int)below[tree->escape >= (int)whole], 256);
    for (unsigned d = 1; d <= 3; d++)
        for (unsigned j = 0; j < top->leaves[d]; j++)
            path[tree->symbol[top->first[d] + j]] =
                (uint8_t)(lull__expo_path_to(top, d, j) << 5);
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
static void encode_top(encoder_t *e, const lull__expo_top_t *top, front_t *at) {
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
        lull__expo_look_ahead(e->room);
        e->kernel->split_top(&splitter, at->in + i,
                             lull__expo_piece_of(e->kernel, n - i));
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
    lull__expo_top_t top;
    while (e->kernel->split_top != NULL && below[0] != below[1] &&
           left >= LULL__EXPO_TOP_LEAST &&
           e->used + 7 * stride_of(left) <= e->capacity + LULL__EXPO_SLACK &&
           lull__expo_find_top(e->tree, at.depth, &top)) {
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

void lull__expo_tree_raw(size_t n, lull__expo_room_t *room,
                         lull__expo_coded_t *out) {
    const lull__expo_tree_t tree = {.leaves = 1};
    write_table(&tree, out);
    out->masks = room->masks;
    out->mask_bytes = 0;
    out->escapes = room->a;
    out->escape_bytes = n;
}

/* All of it, by a choice; returns whether the masks had room. */
static bool encode_by(encoder_t *e, lull__expo_choice_t *choice) {
    const lull__expo_plan_t *plan = &choice->plan;
    lull__expo_room_t *room = e->room;
    const bool ranked = plan->escape != 0 && plan->before == plan->listed;
    e->code = &choice->code;
    if (ranked && e->kernel->map(room->a, e->size[0], choice->ranks,
                                 room->range, room->b) < plan->listed)
        e->code = lull__expo_bare(choice);
    e->tree = &e->code->tree;
    return encode_levels(e, encode_tops(e, choice->ranks, ranked));
}

bool lull__expo_tree_encode(const lull__expo_kernel_t *kernel, size_t n,
                            lull__expo_room_t *room,
                            lull__expo_choice_t *choice,
                            lull__expo_coded_t *out) {
    const bool fresh = choice->blocks == 0 || choice->n != n;
    if (fresh && !lull__expo_choose(kernel, room->a, n, choice)) {
        choice->blocks = 0;
        lull__expo_tree_raw(n, room, out);
        return true;
    }
    encoder_t e = {.kernel = kernel, .room = room, .capacity = n, .size = {n}};
    if (!encode_by(&e, choice)) {
        lull__expo_judge(choice, fresh, n, SIZE_MAX);
        return false;
    }
    lull__expo_judge(choice, fresh, n, e.used + e.escapes);
    lull__expo_restore(choice->ranks, room->escapes, e.escapes);
    write_table(e.tree, out);
    out->masks = room->masks;
    out->mask_bytes = e.used;
    out->escapes = room->escapes;
    out->escape_bytes = e.escapes;
    return out->table_bytes + e.used + e.escapes < n + 2;
}
