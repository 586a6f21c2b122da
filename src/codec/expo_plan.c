/* expo's choice of digits, from what a sample of the symbols says. */
#include "codec/expo_plan.h"

#include <string.h>

#include "codec/expo_code.h"

/* Symbols counted: all of a short block, else 64 of every 512 (of 8192 values
 * that makes 1024). */
#define SAMPLE_WHOLE 1024
#define SAMPLE_RUN 64
#define SAMPLE_STRIDE 512

/* Which symbols are listed, most frequent first, and what else there is. */
typedef struct plan {
    unsigned listed;
    uint32_t escape; /* estimated weight; 0: every symbol is listed */
    uint32_t total;
    uint32_t weight[LULL__EXPO_LISTED];
    uint8_t symbol[LULL__EXPO_LISTED];
} plan_t;

static void count(const lull__expo_kernel_t *kernel, const uint8_t *symbols,
                  size_t n, uint16_t *counts) {
    uint8_t sample[SAMPLE_WHOLE];
    size_t taken = 0;
    if (n <= SAMPLE_WHOLE) {
        kernel->count(symbols, n, counts);
        return;
    }
    for (size_t i = 0; i + SAMPLE_RUN <= n; i += SAMPLE_STRIDE) {
        memcpy(sample + taken, symbols + i, SAMPLE_RUN);
        taken += SAMPLE_RUN;
    }
    kernel->count(sample, taken, counts);
}

/* Inserts into the list, which stays sorted, before its equals; what falls off
 * its end counts to the escape. */
static void list(plan_t *plan, unsigned symbol, uint32_t weight) {
    unsigned at = plan->listed;
    if (at == LULL__EXPO_LISTED) {
        at--;
        if (plan->weight[at] > weight) {
            plan->escape += weight;
            return;
        }
        plan->escape += plan->weight[at];
    } else {
        plan->listed++;
    }
    for (; at > 0 && plan->weight[at - 1] <= weight; at--) {
        plan->weight[at] = plan->weight[at - 1];
        plan->symbol[at] = plan->symbol[at - 1];
    }
    plan->weight[at] = weight;
    plan->symbol[at] = (uint8_t)symbol;
}

static bool none_of_8(const uint16_t *counts) {
    uint64_t words[2];
    memcpy(words, counts, sizeof words);
    return (words[0] | words[1]) == 0;
}

static void make_plan(const lull__expo_kernel_t *kernel, const uint8_t *symbols,
                      size_t n, plan_t *plan) {
    uint16_t counts[256];
    count(kernel, symbols, n, counts);
    plan->listed = plan->escape = plan->total = 0;
    uint32_t once = 0;
    /* From the largest on: small values are ever rarer, so most symbols come
     * in the list's order. */
    for (unsigned s = 256; s-- > 0;) {
        if (s % 8 == 7 && none_of_8(counts + s - 7)) {
            s -= 7;
            continue;
        }
        if (counts[s] == 0)
            continue;
        list(plan, s, counts[s]);
        plan->total += counts[s];
        once += counts[s] == 1;
    }
    /* What a sample has once tells how much it has not (Good-Turing). */
    if (n > SAMPLE_WHOLE)
        plan->escape += once + 1;
}

/* ---- Widths ------------------------------------------------------------ */

/* Costs in 1/COST_BIT bits of the sample. Beside their digits, symbols that
 * pass a level take time, which is weighed as PASS, and a level has a head. */
enum { COST_BIT = 64, COST_PASS = 16, COST_LEVEL = 3 * COST_BIT };

static uint32_t cost(uint32_t weight, unsigned width) {
    return weight * (width * COST_BIT + COST_PASS) + COST_LEVEL;
}

/* From every symbol of the list on, the best width of the level that begins
 * there: from the end on, as what goes on costs the same wherever it comes
 * from. Returns the cost of all. */
static uint32_t find_widths(const plan_t *plan,
                            uint8_t width[LULL__EXPO_LISTED + 1]) {
    uint32_t best[LULL__EXPO_LISTED + 1], weight = plan->escape;
    const unsigned listed = plan->listed;
    best[listed] = plan->escape != 0 ? cost(weight, 8) : 0;
    width[listed] = 8;
    for (unsigned i = listed; i-- > 0;) {
        const unsigned left = listed - i;
        weight += plan->weight[i];
        best[i] = cost(weight, 8);
        width[i] = 8;
        for (unsigned w = 1; w <= LULL__EXPO_WIDTH; w++) {
            unsigned symbols = (1u << w) - 1;
            if (symbols > left)
                break;
            uint32_t all = cost(weight, w) + best[i + symbols];
            /* The last level's last digit is a symbol, too. */
            if (plan->escape == 0 && left <= symbols)
                break;
            if (all < best[i]) {
                best[i] = all;
                width[i] = (uint8_t)w;
            }
        }
        unsigned last = lull__expo_width_for(left);
        if (plan->escape == 0 && cost(weight, last) < best[i]) {
            best[i] = cost(weight, last);
            width[i] = (uint8_t)last;
        }
    }
    return best[0];
}

void lull__expo_set_digits(lull__expo_digits_t *of, const uint8_t *symbols,
                           unsigned n, unsigned rest) {
    memset(of->digit, 0, sizeof of->digit);
    of->rest = (uint8_t)rest;
    of->zero = false;
    of->least = 255;
    of->most = 0;
    for (unsigned i = 0; i < n; i++) {
        uint8_t s = symbols[i];
        of->digit[s] = (uint8_t)(i ^ rest);
        if (s == 0) {
            of->zero = true;
            continue;
        }
        of->least = s < of->least ? s : of->least;
        of->most = s > of->most ? s : of->most;
    }
}

/* The levels whose widths were found. */
static void make_levels(const plan_t *plan, const uint8_t *width,
                        lull__expo_choice_t *choice) {
    lull__expo_table_t *table = &choice->table;
    unsigned at = 0, k = 0;
    for (;; k++) {
        lull__expo_level_t *level = table->level + k;
        const unsigned left = plan->listed - at, w = width[at];
        unsigned symbols = w < 8 ? (1u << w) - 1 : 0;
        bool ends = w == 8 || (plan->escape == 0 && left <= symbols + 1);
        if (k + 1 == LULL__EXPO_LEVELS && !ends) {
            level->width = 8;
            symbols = 0;
            ends = true;
        } else {
            level->width = (uint8_t)w;
        }
        if (ends && level->width < 8)
            symbols = left;
        level->last = ends ? 255 : (uint8_t)symbols;
        memset(level->symbol, 0, sizeof level->symbol);
        memcpy(level->symbol, plan->symbol + at, symbols);
        /* Where none goes on, whatever symbols may come have digits. */
        lull__expo_set_digits(choice->digits + k, plan->symbol + at, symbols,
                              ends ? 0 : symbols);
        choice->zero |= choice->digits[k].zero;
        at += symbols;
        if (ends) {
            choice->listed = symbols;
            break;
        }
    }
    table->levels = k + 1;
}

/* ---- Choices ----------------------------------------------------------- */

#define SERVES 15 /* more blocks than the one it was made for */

bool lull__expo_choose(const lull__expo_kernel_t *kernel, const uint8_t *a,
                       size_t n, lull__expo_choice_t *choice) {
    plan_t plan;
    uint8_t width[LULL__EXPO_LISTED + 1];
    choice->zero = true;
    make_plan(kernel, a, n, &plan);
    if (plan.listed == 1 && memcmp(a, a + 1, n - 1) == 0) {
        plan.escape = 0; /* all are the same */
        plan.total = plan.weight[0];
    }
    if (find_widths(&plan, width) >= (uint64_t)plan.total * (COST_BIT * 31 / 4))
        return false;
    choice->zero = false;
    make_levels(&plan, width, choice);
    return true;
}

void lull__expo_judge(lull__expo_choice_t *choice, bool fresh, size_t n,
                      size_t bytes) {
    if (!fresh) {
        choice->blocks--;
        if (bytes > choice->bytes + choice->bytes / 2) {
            choice->failed = choice->failed < 5 ? choice->failed + 1 : 5;
            choice->wary = 2u << choice->failed;
        }
        if (bytes > choice->bytes + choice->bytes / 64)
            choice->blocks = 0;
        else if (choice->blocks == 0)
            choice->failed = 0;
        return;
    }
    choice->n = n;
    choice->bytes = bytes;
    choice->blocks = 0;
    if (choice->wary != 0)
        choice->wary--;
    else if (choice->listed == 0 && bytes < n) /* others may come */
        choice->blocks = SERVES;
}
