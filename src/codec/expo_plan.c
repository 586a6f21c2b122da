/* expo's choice of a tree: what a sample of the symbols says, and Huffman's
 * algorithm. */
#include "codec/expo_plan.h"

#include <string.h>

/* Symbols counted: all of a short block, else 64 of every 512 (of 8192 values
 * that makes 1024). The tree then costs about 0.01 bits a value more than that
 * of all. */
#define SAMPLE_WHOLE 1024
#define SAMPLE_RUN 64
#define SAMPLE_STRIDE 512

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
static void list(lull__expo_plan_t *plan, unsigned symbol, uint32_t weight) {
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
                      size_t n, lull__expo_plan_t *plan) {
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
    plan->before = 0;
    while (plan->before < plan->listed &&
           plan->weight[plan->before] >= plan->escape)
        plan->before++;
}

/* Ranks: the listed symbols in their order, with all others between, so that
 * every node of the tree is a range of ranks. */
static void make_ranks(const lull__expo_plan_t *plan, uint8_t *ranks) {
    uint64_t listed[4] = {0};
    unsigned others = 256 - plan->listed, from = 0;
    /* The others by runs: each rank is the symbol, moved. */
    for (unsigned i = 0; i < plan->listed; i++)
        listed[plan->symbol[i] / 64] |= 1ull << (plan->symbol[i] % 64);
    unsigned move = plan->before;
    for (unsigned k = 0; k < 4; k++)
        for (uint64_t left = listed[k]; left != 0; left &= left - 1) {
            unsigned s = 64 * k + (unsigned)__builtin_ctzll(left);
            for (; from <= s; from++)
                ranks[from] = (uint8_t)(from + move);
            move--;
        }
    for (; from < 256; from++)
        ranks[from] = (uint8_t)(from + move);
    for (unsigned i = 0; i < plan->listed; i++)
        ranks[plan->symbol[i]] = (uint8_t)(i < plan->before ? i : i + others);
}

void lull__expo_restore(const uint8_t *ranks, uint8_t *escapes, size_t n) {
    uint8_t symbols[256];
    if (n < 16) {
        for (size_t i = 0; i < n; i++)
            escapes[i] =
                (uint8_t)((const uint8_t *)memchr(ranks, escapes[i], 256) -
                          ranks);
        return;
    }
    for (unsigned s = 0; s < 256; s++)
        symbols[ranks[s]] = (uint8_t)s;
    for (size_t i = 0; i < n; i++)
        escapes[i] = symbols[escapes[i]];
}

/* ---- The tree's shape -------------------------------------------------- */

bool lull__expo_shape(lull__expo_tree_t *tree) {
    unsigned leaves = 0, nodes = 0, inner = 1;
    memset(tree->node_count, 0, sizeof tree->node_count);
    memset(tree->leaf_first, 0, sizeof tree->leaf_first);
    memset(tree->node_first, 0, sizeof tree->node_first);
    tree->leaf_count[0] = 0;
    for (unsigned d = 0;; d++) {
        if (d > 0) {
            if (d > LULL__EXPO_DEPTH || tree->leaf_count[d] > 2 * inner)
                return false;
            inner = 2 * inner - tree->leaf_count[d];
        }
        tree->leaf_first[d] = (uint8_t)leaves;
        tree->node_first[d] = (uint8_t)nodes;
        tree->node_count[d] = (uint8_t)inner;
        leaves += tree->leaf_count[d];
        nodes += inner;
        if (leaves > LULL__EXPO_LEAVES || nodes >= LULL__EXPO_LEAVES)
            return false;
        if (inner == 0) {
            tree->depth = d;
            return leaves == tree->leaves;
        }
    }
}

/* Huffman's algorithm with two queues: weights are sorted, largest first, and
 * sums come out sorted too. */
static void make_tree(const uint32_t *weight, lull__expo_tree_t *tree) {
    uint32_t sum[LULL__EXPO_LEAVES];
    /* Leaves are 0 .. n - 1, inner nodes n, n + 1, ... as they are made. */
    uint8_t parent[2 * LULL__EXPO_LEAVES], depth[2 * LULL__EXPO_LEAVES];
    unsigned n = tree->leaves, leaf = n, used = 0;
    for (unsigned made = 0; made < n - 1; made++) {
        sum[made] = 0;
        for (unsigned k = 0; k < 2; k++) {
            bool from_leaves =
                leaf > 0 && (used == made || weight[leaf - 1] <= sum[used]);
            unsigned node = from_leaves ? --leaf : n + used;
            sum[made] += from_leaves ? weight[leaf] : sum[used++];
            parent[node] = (uint8_t)(n + made);
        }
    }
    memset(tree->leaf_count, 0, sizeof tree->leaf_count);
    depth[2 * n - 2] = 0;
    for (int node = (int)(2 * n) - 3; node >= 0; node--) {
        depth[node] = (uint8_t)(depth[parent[node]] + 1);
        if ((unsigned)node < n)
            tree->leaf_count[depth[node]]++;
    }
    /* Depth: a path of d nodes needs a weight of the d-th Fibonacci number,
     * and a sample has less than the 18th. */
    (void)lull__expo_shape(tree);
}

/* The tree of a plan, with or without its escape, and the bits of the sample
 * in it. */
static uint64_t plan_tree(const lull__expo_plan_t *plan, bool escape,
                          lull__expo_tree_t *tree) {
    uint32_t weight[LULL__EXPO_LEAVES];
    unsigned n = 0;
    tree->escape = -1;
    for (unsigned i = 0; i <= plan->listed; i++) {
        if (escape && i == plan->before) {
            tree->escape = (int)n;
            weight[n++] = plan->escape;
        }
        if (i < plan->listed) {
            tree->symbol[n] = plan->symbol[i];
            weight[n++] = plan->weight[i];
        }
    }
    tree->leaves = n;
    if (n == 1) {
        memset(tree->leaf_count, 0, sizeof tree->leaf_count);
        memset(tree->node_count, 0, sizeof tree->node_count);
        tree->depth = 0;
        return 0;
    }
    make_tree(weight, tree);
    uint64_t bits = escape ? (uint64_t)plan->escape * 8 : 0;
    for (unsigned d = 1, i = 0; d <= tree->depth; d++)
        for (unsigned k = 0; k < tree->leaf_count[d]; k++)
            bits += (uint64_t)weight[i++] * d;
    return bits;
}

/* ---- Choices ----------------------------------------------------------- */

#define SERVES 15 /* more blocks than the one it was made for */

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

static void set_thresholds(const lull__expo_plan_t *plan,
                           lull__expo_code_t *code) {
    const lull__expo_tree_t *tree = &code->tree;
    uint8_t split[LULL__EXPO_LEAVES];
    make_splits(tree, code->first_leaf, split);
    for (unsigned node = 0; node + 1 < tree->leaves; node++) {
        int leaf = split[node];
        bool after = tree->escape >= 0 && leaf > tree->escape;
        code->threshold[node] =
            (uint8_t)(after ? leaf - 1 + 256 - (int)plan->listed : leaf);
    }
}

bool lull__expo_choose(const lull__expo_kernel_t *kernel, const uint8_t *a,
                       size_t n, lull__expo_choice_t *choice) {
    lull__expo_plan_t *plan = &choice->plan;
    make_plan(kernel, a, n, plan);
    choice->has_bare = false;
    if (plan_tree(plan, plan->escape != 0, &choice->code.tree) >=
        plan->total * 31 / 4)
        return false;
    make_ranks(plan, choice->ranks);
    set_thresholds(plan, &choice->code);
    return true;
}

const lull__expo_code_t *lull__expo_bare(lull__expo_choice_t *choice) {
    if (!choice->has_bare) {
        (void)plan_tree(&choice->plan, false, &choice->bare.tree);
        set_thresholds(&choice->plan, &choice->bare);
        choice->has_bare = true;
    }
    return &choice->bare;
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
    else if (choice->plan.escape != 0 && bytes < n) /* others may come */
        choice->blocks = SERVES;
}
