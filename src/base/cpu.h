/* Which instruction set to use. Variants are sibling files; each family has
 * an array of variants indexed by lull__isa(), and every entry is set (to a
 * lesser variant where there is no own one). */
#ifndef LULL__CPU_H
#define LULL__CPU_H

typedef enum lull__isa {
    LULL__PORTABLE = 0,
    LULL__AVX2 = 1,   /* with BMI2, FMA, F16C, LZCNT */
    LULL__AVX512 = 2, /* F BW VL DQ CD VBMI VBMI2 GFNI BITALG VPOPCNTDQ */
    LULL__ISA_COUNT
} lull__isa_t;

/* The best this machine has, whatever the setting says. */
lull__isa_t lull__isa_best(void);

/* The one in force: the setting `isa`, but never beyond what the machine has.
 * Follows lull_setting_set(), which must not run beside it; cheap enough to
 * ask at each call. */
lull__isa_t lull__isa(void);

/* "portable", "avx2", "avx512". */
const char *lull__isa_name(lull__isa_t isa);

#endif
