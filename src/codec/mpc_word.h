/* Portable MPC kernel for one word size: included by mpc_portable.c with
 * MPC_WORD (the unsigned type) and MPC_BITS defined. */
#define MPC_JOIN_(a, b) a##b
#define MPC_JOIN(a, b) MPC_JOIN_(a, b)
#define MPC_NAME(name) MPC_JOIN(name, MPC_BITS)

/* Bit i of word l becomes bit l of word i: halves are swapped, then quarters,
 * and so on (Warren, Hacker's Delight, 7-3). */
static void MPC_NAME(transpose)(MPC_WORD *a) {
    MPC_WORD mask = (MPC_WORD)((MPC_WORD) ~(MPC_WORD)0 >> (MPC_BITS / 2));
    for (unsigned j = MPC_BITS / 2; j != 0; j >>= 1) {
        for (unsigned k = 0; k < MPC_BITS; k = ((k | j) + 1) & ~j) {
            MPC_WORD t = (MPC_WORD)(((a[k] >> j) ^ a[k | j]) & mask);
            a[k] ^= (MPC_WORD)(t << j);
            a[k | j] ^= t;
        }
        mask ^= (MPC_WORD)(mask << (j >> 1));
    }
}

size_t MPC_NAME(lull__mpc_encode)(const uint8_t *values, unsigned dim,
                                  uint8_t *bitmap, uint8_t *words) {
    MPC_WORD v[LULL__MPC_CHUNK], last = 0;
    memcpy(v, values, sizeof v);
    for (unsigned i = LULL__MPC_CHUNK - 1; i >= dim; i--)
        v[i] -= v[i - dim];
    size_t count = 0;
    for (unsigned g = 0; g < LULL__MPC_CHUNK; g += MPC_BITS) {
        MPC_WORD bits = 0;
        MPC_NAME(transpose)(v + g);
        for (unsigned i = 0; i < MPC_BITS; i++) {
            MPC_WORD u = (MPC_WORD)(v[g + i] - last);
            last = v[g + i];
            memcpy(words + count * sizeof u, &u, sizeof u);
            count += u != 0;
            bits |= (MPC_WORD)((MPC_WORD)(u != 0) << i);
        }
        memcpy(bitmap + g / 8, &bits, sizeof bits);
    }
    return count;
}

void MPC_NAME(lull__mpc_decode)(const uint8_t *bitmap, const uint8_t *words,
                                unsigned dim, uint8_t *values) {
    MPC_WORD v[LULL__MPC_CHUNK], last = 0;
    for (unsigned g = 0; g < LULL__MPC_CHUNK; g += MPC_BITS) {
        MPC_WORD bits;
        memcpy(&bits, bitmap + g / 8, sizeof bits);
        for (unsigned i = 0; i < MPC_BITS; i++) {
            MPC_WORD u;
            MPC_WORD set = (MPC_WORD)((bits >> i) & 1);
            memcpy(&u, words, sizeof u);
            last += (MPC_WORD)(u & (MPC_WORD)(0 - set));
            words += set * sizeof u;
            v[g + i] = last;
        }
        MPC_NAME(transpose)(v + g);
    }
    for (unsigned i = dim; i < LULL__MPC_CHUNK; i++)
        v[i] += v[i - dim];
    memcpy(values, v, sizeof v);
}

#undef MPC_JOIN_
#undef MPC_JOIN
#undef MPC_NAME
#undef MPC_WORD
#undef MPC_BITS
