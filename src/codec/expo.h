/* The inside of expo: fields of values, digits of symbols, and the kernels
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

/* ---- Digits ------------------------------------------------------------ */

/* Symbols are written in digits, the frequent ones in few. At each level the
 * digits of what comes to it have the same width; the last value says that the
 * symbol goes on to the next level, any other is a symbol. docs/decisions/0045
 * says why. */
#define LULL__EXPO_LEVELS 16
#define LULL__EXPO_LISTED 64 /* symbols with a digit of their own */
#define LULL__EXPO_WIDTH 6   /* bits of their digits */

typedef struct lull__expo_level {
    uint8_t width; /* 0: all are symbol[0]; 8: digits are the symbols */
    uint8_t last;  /* this digit goes on; 255: none does */
    /* By digit; 0 where it is no symbol. */
    uint8_t symbol[1 << LULL__EXPO_WIDTH];
} lull__expo_level_t;

typedef struct lull__expo_table {
    unsigned levels;
    lull__expo_level_t level[LULL__EXPO_LEVELS];
} lull__expo_table_t;

/* The same for an encoder: the digit of every symbol, xor `rest`, which is that
 * of most. Those of another digit lie between `least` and `most`, but for 0. */
typedef struct lull__expo_digits {
    uint8_t rest, least, most;
    bool zero; /* the digit of 0 is another */
    uint8_t digit[256];
} lull__expo_digits_t;

/* All may write up to LULL__EXPO_SLACK bytes past what they give, but for
 * gather; and read so many past what they take, but for scatter, gather and
 * unpack, of which nothing is read past its end. */
typedef struct lull__expo_kernel {
    size_t piece; /* symbols between two looks ahead, a multiple of 64 */
    /* How many of n bytes are not 0. */
    size_t (*nonzeros)(const uint8_t *in, size_t n);
    /* Counts n symbols, at most 1024. */
    void (*count)(const uint8_t *in, size_t n, uint16_t *counts);
    /* digits[i] is the digit of in[i]. Where it is `last` the byte goes to
     * `kept`, which may be `in`; returns how many did. 255: none is. */
    size_t (*digits)(const uint8_t *in, size_t n, const lull__expo_digits_t *of,
                     unsigned last, uint8_t *digits, uint8_t *kept);
    /* The bytes whose flag is not 0. */
    void (*keep)(const uint8_t *in, size_t n, const uint8_t *flags,
                 uint8_t *out);
    /* Fields of 1, 2 or 4 bits: of each digit those from bit `shift` on. Byte i
     * of the v = ceil(n * width / 8) that there are holds those of the digits
     * i, i + v, i + 2v, ..., the first in its lowest bits. What is past n has
     * to be 0. */
    void (*pack)(const uint8_t *digits, size_t n, unsigned shift,
                 unsigned width, uint8_t *out);
    /* The inverse: or'ed to `digits`, or if `first` instead of what is there.
     */
    void (*unpack)(const uint8_t *in, size_t n, unsigned shift, unsigned width,
                   bool first, uint8_t *digits);
    /* out[i] is the symbol of digits[i], or where that is the level's last the
     * next byte of `below`. Returns how many of those there were; reads no more
     * than n of them. */
    size_t (*join)(const uint8_t *digits, size_t n,
                   const lull__expo_level_t *level, const uint8_t *below,
                   uint8_t *out);
    const lull__expo_cut_t *cut;
} lull__expo_kernel_t;

extern const lull__expo_kernel_t lull__expo_portable, lull__expo_avx2,
    lull__expo_avx512;

/* call(shift, width) with what is frequent as constants. */
#define LULL__EXPO_BY_WIDTH(shift, width, call) \
    do {                                        \
        if ((width) == 2 && (shift) == 0)       \
            call(0, 2);                         \
        else if ((width) == 2)                  \
            call(shift, 2);                     \
        else if ((width) == 1)                  \
            call(shift, 1);                     \
        else                                    \
            call(shift, 4);                     \
    } while (0)

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

/* ---- Coding ------------------------------------------------------------ */

/* Memory that will soon be read or written. It is asked for a little at a time
 * while levels keep the core busy: a core waits for few lines at once. */
typedef struct lull__expo_ahead {
    const uint8_t *at, *end;
    size_t step; /* bytes of each look */
} lull__expo_ahead_t;

/* What codes, and its working memory for a block of up to n values: n + SLACK
 * bytes each. */
typedef struct lull__expo_room {
    const lull__expo_kernel_t *kernel;
    uint8_t *a, *b, *c, *out;
    lull__expo_ahead_t read, write;
} lull__expo_room_t;

typedef struct lull__expo_choice lull__expo_choice_t; /* expo_plan.h */

/* What an encoder gives: two parts in this order. The digits stay in the
 * room. */
#define LULL__EXPO_HEAD (3 * LULL__EXPO_LEVELS + LULL__EXPO_LISTED)
typedef struct lull__expo_coded {
    uint8_t head[LULL__EXPO_HEAD];
    size_t head_bytes;
    const uint8_t *digits;
    size_t digit_bytes;
} lull__expo_coded_t;

/* Encodes n (at least 1) symbols by the choice of a block before, if there is
 * one; room->a may hold them and stays. Returns false where that takes more
 * room than they do as they are. */
bool lull__expo_encode(lull__expo_room_t *room, const uint8_t *symbols,
                       size_t n, lull__expo_choice_t *choice,
                       lull__expo_coded_t *out);

/* As they are: no table, and they follow. */
void lull__expo_literal(const uint8_t *symbols, size_t n,
                        lull__expo_coded_t *out);

/* Decodes n symbols from what is at *at and moves it on, never past end. The
 * symbols come to `symbols`, which has SLACK more bytes. `table` holds the last
 * one (no levels: there was none), and then this one. Returns NULL, or what is
 * wrong. */
const char *lull__expo_decode(lull__expo_room_t *room, size_t n,
                              const uint8_t **at, const uint8_t *end,
                              lull__expo_table_t *table, uint8_t *symbols);

#endif
