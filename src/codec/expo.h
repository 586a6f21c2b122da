/* The inside of expo: fields of values, the tree of symbols, and the kernels
 * that a variant for an instruction set gives. docs/formats/expo.md. */
#ifndef LULL__EXPO_H
#define LULL__EXPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LULL__EXPO_SLACK 64 /* bytes that kernels may touch past an end */

/* ---- Kernels ----------------------------------------------------------- */

/* A block of values apart: a byte for each value's exponent (f64: see
 * exponents), a byte plane for every 8 bits of mantissa from the low end on,
 * and a plane of bits for each that is left, the sign last. Where the sign
 * makes 8 bits with the mantissa's rest, it is their highest. */
#define LULL__EXPO_PLANES 6
#define LULL__EXPO_BITS 5
typedef struct lull__expo_fields {
    uint8_t *symbols;
    uint16_t *exponents; /* f64 only, instead of symbols */
    const uint8_t *plane[LULL__EXPO_PLANES];
    const uint8_t *bits[LULL__EXPO_BITS];
    bool past; /* gather is to write past the caches */
} lull__expo_fields_t;

/* One input of merge: `at`, or if that is NULL the same byte again and
 * again. */
typedef struct lull__expo_side {
    const uint8_t *at;
    uint8_t byte;
} lull__expo_side_t;

enum { LULL__EXPO_F32, LULL__EXPO_F16, LULL__EXPO_BF16, LULL__EXPO_F64 };
#define LULL__EXPO_KINDS 4

/* Values to fields and back, each for the kinds in their order. Nothing is read
 * past what they take but for SLACK bytes of the symbols and planes that
 * gather reads; the planes of fields are written to, and up to SLACK bytes past
 * their end. */
typedef struct lull__expo_cut {
    void (*scatter[LULL__EXPO_KINDS])(const uint8_t *src, size_t n,
                                      const lull__expo_fields_t *fields);
    void (*gather[LULL__EXPO_KINDS])(const lull__expo_fields_t *fields,
                                     size_t n, uint8_t *dst);
    /* Whether gather gains by writing past the caches. */
    bool past[LULL__EXPO_KINDS];
    /* As memcpy(), but past the caches. */
    void (*copy)(uint8_t *dst, const uint8_t *src, size_t bytes);
} lull__expo_cut_t;

extern const lull__expo_cut_t lull__expo_cut_portable, lull__expo_cut_avx2,
    lull__expo_cut_avx512;

/* Of symbols: whether one is 0, and between which the others are, if there are
 * any. It may be wider than need be, but zero is exact. */
typedef struct lull__expo_range {
    bool zero;
    uint8_t least, most;
} lull__expo_range_t;

/* Three levels of a tree from a node on, the root. The masks of the first two
 * levels are taken here, and those of the third but for a node with two inner
 * children: that one is left to what is below. */
typedef struct lull__expo_shape {
    uint8_t second; /* inner nodes of the second level: 1 or 2 */
    uint8_t third;  /* of the third: the rightmost of 4 places */
    uint8_t planes; /* of those, from the left, the ones taken here */
} lull__expo_shape_t;

/* What comes from below: symbols of the inner child of the last of `planes`,
 * those of the node that is right of them. */
enum { LULL__EXPO_MIXED, LULL__EXPO_WHOLE };

/* Nodes are numbered as in a heap: 1 is the root, 2n and 2n + 1 are the
 * children of n. A path is the bits of three steps down, and ends in zeros
 * where it is shorter. */
typedef struct lull__expo_merger {
    lull__expo_shape_t shape;
    const uint8_t *masks; /* the root's, and all others some bits on */
    size_t at;            /* symbols of the root that are done */
    size_t bit[8];        /* where the masks of 2 to 7 go on */
    /* By path: a leaf's symbol, and 0 where bytes come from below. */
    uint8_t symbol[16];
    const uint8_t *from[2]; /* those bytes, or NULL: there are none */
} lull__expo_merger_t;

typedef struct lull__expo_splitter {
    lull__expo_shape_t shape;
    uint8_t *masks;      /* the root's, and others at every `stride` bytes */
    size_t at;           /* symbols of the root that are done */
    size_t bit[8];       /* where the masks of 2 to 7 go on */
    uint8_t *below[2];   /* masks of what goes below, over all symbols */
    const uint8_t *path; /* of each symbol, in the upper three bits */
    lull__expo_range_t range; /* of all symbols */
} lull__expo_splitter_t;

/* Bit i of a mask is bit i % 8 of its byte i / 8. All may write up to
 * LULL__EXPO_SLACK bytes past what they give, but for gather; and read so many
 * past what they take, but for scatter, gather and masks, of which nothing is
 * read past ceil(n / 8) bytes. */
typedef struct lull__expo_kernel {
    size_t piece; /* symbols between two looks ahead, a multiple of 64 */
    lull__expo_range_t (*range)(const uint8_t *in, size_t n);
    /* Counts n symbols, at most 1024. */
    void (*count)(const uint8_t *in, size_t n, uint16_t *counts);
    /* Bit i of mask is in[i] >= threshold (not 0); what is left of its last
     * byte is 0. If out is not NULL, the bytes whose bit is `keep` go there
     * in order. Returns how many bits are 1. */
    size_t (*split)(const uint8_t *in, size_t n, unsigned threshold,
                    uint8_t *mask, uint8_t *out, unsigned keep);
    /* How many of n bits are 1. */
    size_t (*ones)(const uint8_t *mask, size_t n);
    /* The bytes whose bit is 1; returns how many. */
    size_t (*pick)(const uint8_t *in, size_t n, const uint8_t *mask,
                   uint8_t *out);
    /* out[i] is the next byte of zero or of one, as bit i says. Returns how
     * many bits are 1, or if both are constants, anything. */
    size_t (*merge)(const uint8_t *mask, size_t n, lull__expo_side_t zero,
                    lull__expo_side_t one, uint8_t *out);
    /* The next n symbols of three levels; but for the last call n is a multiple
     * of 64. NULL: there is no such kernel. They write, and read, up to 16
     * bytes past each mask; the first 8 bytes of masks 2 to 7 are 0 before
     * split_top() writes there. */
    void (*split_top)(lull__expo_splitter_t *top, const uint8_t *in, size_t n);
    void (*merge_top)(lull__expo_merger_t *top, size_t n, uint8_t *out);
    /* out[i] = table[in[i]]; returns the largest. `in` is within the range, and
     * may be `out`. */
    unsigned (*map)(const uint8_t *in, size_t n, const uint8_t *table,
                    lull__expo_range_t range, uint8_t *out);
    const lull__expo_cut_t *cut;
} lull__expo_kernel_t;

extern const lull__expo_kernel_t lull__expo_portable, lull__expo_avx2,
    lull__expo_avx512;

/* Which of a chunk's 64 symbols there are, of `left`. */
static inline uint64_t lull__expo_valid(size_t left) {
    return left >= 64 ? UINT64_MAX : (UINT64_C(1) << left) - 1;
}

/* The fields from value `at` on, a multiple of 8. */
lull__expo_fields_t lull__expo_fields_at(const lull__expo_fields_t *fields,
                                         size_t at);

/* Values from i on, of n of `size` bytes, by the portable variant: what is less
 * than a register at the end of the others' loops. */
void lull__expo_scatter_rest(unsigned kind, const uint8_t *src, size_t n,
                             size_t i, const lull__expo_fields_t *fields,
                             unsigned size);
void lull__expo_gather_rest(unsigned kind, const lull__expo_fields_t *fields,
                            size_t n, size_t i, uint8_t *dst, unsigned size);

/* ---- f64 --------------------------------------------------------------- */

/* Its exponents have 11 bits. Those that a base brings into 8 are symbols, the
 * others are far and stand in a list; expo_far.c. */
#define LULL__EXPO_BASE_MOST (2047 - 254)

static inline bool lull__expo_is_far(unsigned exponent, unsigned base) {
    return exponent != 0 && exponent - base - 1 >= 254;
}

unsigned lull__expo_base(const uint16_t *exponents, size_t n);

/* Returns how many are far. */
size_t lull__expo_narrow(const uint16_t *restrict exponents, size_t n,
                         unsigned base, uint8_t *restrict symbols);

/* The inverse: far ones are read from *at, never past end. Returns NULL, or
 * what is wrong. */
const char *lull__expo_widen(const uint8_t *restrict symbols, size_t n,
                             unsigned base, const uint8_t **at,
                             const uint8_t *end, uint16_t *restrict exponents);

/* ---- The tree ---------------------------------------------------------- */

/* A canonical Huffman tree as a wavelet tree: at every inner node one mask
 * says which symbols go left and which right. Nodes of a depth stand left to
 * right, leaves first. One leaf may be the escape: it stands for all symbols
 * that have no leaf, and keeps theirs as bytes. */
#define LULL__EXPO_LISTED 64 /* symbols with a leaf of their own */
#define LULL__EXPO_LEAVES (LULL__EXPO_LISTED + 1)
#define LULL__EXPO_DEPTH 16
#define LULL__EXPO_TABLE (2 + LULL__EXPO_DEPTH + LULL__EXPO_LISTED)

typedef struct lull__expo_tree {
    unsigned leaves, depth;
    int escape; /* the leaf that is the escape, or -1 */
    /* Of each depth: leaves, inner nodes, and the first of them counted over
     * all depths. */
    uint8_t leaf_count[LULL__EXPO_DEPTH + 1];
    uint8_t leaf_first[LULL__EXPO_DEPTH + 1];
    uint8_t node_count[LULL__EXPO_DEPTH + 1];
    uint8_t node_first[LULL__EXPO_DEPTH + 1];
    uint8_t symbol[LULL__EXPO_LEAVES]; /* of leaves but the escape */
} lull__expo_tree_t;

/* Memory that will soon be read or written. It is asked for a little at a time
 * while a tree keeps the core busy: a core waits for few lines at once. */
typedef struct lull__expo_ahead {
    const uint8_t *at, *end;
    size_t step; /* bytes of each look */
} lull__expo_ahead_t;

/* Working memory for a block of up to n values: n + SLACK bytes each. */
typedef struct lull__expo_room {
    uint8_t *a, *b, *masks, *escapes;
    lull__expo_range_t range; /* of the symbols in a that are to be encoded */
    lull__expo_ahead_t read, write;
} lull__expo_room_t;

typedef struct lull__expo_choice lull__expo_choice_t; /* expo_plan.h */

/* What a tree's encoder gives: three parts in this order. masks and escapes
 * stay in the room, or escapes are the symbols themselves. */
typedef struct lull__expo_coded {
    uint8_t table[LULL__EXPO_TABLE];
    size_t table_bytes;
    const uint8_t *masks, *escapes;
    size_t mask_bytes, escape_bytes;
} lull__expo_coded_t;

/* Encodes n (at least 1) symbols, which lie in room->a, their range in
 * room->range, and may be overwritten; by the choice of a block before, if
 * there is one. Returns false where coding failed to gain and the symbols are
 * spoilt: put them there again and use lull__expo_tree_raw(). */
bool lull__expo_tree_encode(const lull__expo_kernel_t *kernel, size_t n,
                            lull__expo_room_t *room,
                            lull__expo_choice_t *choice,
                            lull__expo_coded_t *out);
void lull__expo_tree_raw(size_t n, lull__expo_room_t *room,
                         lull__expo_coded_t *out);

/* Decodes n symbols from what is at *at and moves it on, never past end. The
 * symbols come to `symbols`, which has SLACK more bytes. Returns NULL, or what
 * is wrong. */
const char *lull__expo_tree_decode(const lull__expo_kernel_t *kernel, size_t n,
                                   const uint8_t **at, const uint8_t *end,
                                   lull__expo_room_t *room, uint8_t *symbols);

/* Where an inner node's child `right` (0 or 1) stands: *leaf or *node is set
 * to its number over all depths, the other to -1. */
static inline void lull__expo_child(const lull__expo_tree_t *tree,
                                    unsigned depth, unsigned node, int *leaf,
                                    int *inner) {
    unsigned leaves = tree->leaf_count[depth];
    *leaf = node < leaves ? (int)(tree->leaf_first[depth] + node) : -1;
    *inner =
        node < leaves ? -1 : (int)(tree->node_first[depth] + node - leaves);
}

#endif
