/* The instruction set in force, from cpuid and the setting `isa`. */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "log.h"
#include "settings.h"

static const char *const names[LULL__ISA_COUNT] = {"portable", "avx2",
                                                   "avx512"};

const char *lull__isa_name(lull__isa_t isa) {
    return names[isa];
}

#ifdef __x86_64__
/* clang 14 does not know these two by name. */
static int has_f16c_and_lzcnt(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 1u << 29) == 0)
        return 0;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & 1u << 5) != 0;
}

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("popcnt") && has_f16c_and_lzcnt();
}

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512bitalg") &&
           __builtin_cpu_supports("avx512vpopcntdq") &&
           __builtin_cpu_supports("gfni");
}
#endif

lull__isa_t lull__isa_best(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!has_avx2())
        return LULL__PORTABLE;
    return has_avx512() ? LULL__AVX512 : LULL__AVX2;
#else
    return LULL__PORTABLE;
#endif
}

static lull__isa_t resolve(void) {
    lull__isa_t best = lull__isa_best();
    const char *wanted = lull__setting(LULL__SETTING_ISA);
    for (int isa = 0; isa < LULL__ISA_COUNT; isa++) {
        if (strcmp(names[isa], wanted) != 0)
            continue;
        if ((lull__isa_t)isa <= best)
            return (lull__isa_t)isa;
        lull__log(LULL_LOG_WARN, "isa: this machine has no %s; using %s",
                  wanted, names[best]);
    }
    return best;
}

lull__isa_t lull__isa(void) {
    /* generation << 2 | isa, both at once, so that a reader never pairs a new
     * generation with an old choice; 3 is no isa. */
    static _Atomic unsigned cached = 3;
    unsigned seen = atomic_load_explicit(&cached, memory_order_relaxed);
    unsigned generation = lull__setting_generation();
    if ((seen & 3) == 3 || seen >> 2 != (generation & 0x3fffffff)) {
        seen = generation << 2 | (unsigned)resolve();
        atomic_store_explicit(&cached, seen, memory_order_relaxed);
    }
    return (lull__isa_t)(seen & 3);
}
