/* bf16 values with exponents by Huff0: blocks of 128 Ki values, as many symbols
 * as Huff0 takes at once; of each the signs and mantissas, four bytes of
 * length, and the coded exponents. Splitting and joining are plain C. */
#include "huff0.h"

#include <stdint.h>
#include <string.h>

/* Huff0 is no part of libzstd's interface: only its static library has it, and
 * these are its functions as of 1.5.4, which the build asks for. */
size_t HUF_compress4X_repeat(void *dst, size_t capacity, const void *src,
                             size_t bytes, unsigned most, unsigned table_log,
                             void *work, size_t work_bytes, size_t *table,
                             int *repeat, int flags);
size_t HUF_decompress4X_hufOnly_wksp(uint32_t *table, void *dst, size_t bytes,
                                     const void *src, size_t src_bytes,
                                     void *work, size_t work_bytes, int flags);
unsigned HUF_isError(size_t code);

enum { BLOCK = 128 << 10, LENGTH = 4, LOG = 11, BMI2 = 1 };
static uint8_t symbols[BLOCK];
static size_t work[4096]; /* for either */

size_t huff0_bound(size_t count) {
    return 2 * count + (count / BLOCK + 1) * (LENGTH + 1024);
}

static void split(const uint8_t *restrict values, size_t n,
                  uint8_t *restrict rest) {
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, values + 2 * i, 2);
        symbols[i] = (uint8_t)(x >> 7);
        rest[i] = (uint8_t)((x & 0x7f) | (x >> 8 & 0x80));
    }
}

static void join(const uint8_t *restrict rest, size_t n,
                 uint8_t *restrict values) {
    for (size_t i = 0; i < n; i++) {
        unsigned low = rest[i];
        uint16_t x = (uint16_t)((low & 0x7f) | (low & 0x80) << 8 |
                                (unsigned)symbols[i] << 7);
        memcpy(values + 2 * i, &x, 2);
    }
}

size_t huff0_encode(const uint8_t *values, size_t count, uint8_t *stream) {
    static size_t table[257];
    uint8_t *at = stream;
    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;
        int repeat = 0;
        split(values + 2 * i, n, at);
        uint8_t *coded = at + n + LENGTH;
        size_t bytes =
            HUF_compress4X_repeat(coded, n + 1024, symbols, n, 255, LOG, work,
                                  sizeof work, table, &repeat, BMI2);
        if (HUF_isError(bytes))
            return 0;
        if (bytes == 1) /* one symbol only */
            *coded = symbols[0];
        if (bytes == 0) /* does not shrink */
            memcpy(coded, symbols, bytes = n);
        uint32_t length = (uint32_t)bytes;
        memcpy(at + n, &length, LENGTH);
        at = coded + bytes;
    }
    return (size_t)(at - stream);
}

size_t huff0_decode(const uint8_t *stream, uint8_t *values, size_t count) {
    static uint32_t table[1 + (1 << (LOG + 1))];
    const uint8_t *at = stream;
    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;
        uint32_t length;
        memcpy(&length, at + n, LENGTH);
        const uint8_t *coded = at + n + LENGTH;
        table[0] = LOG * 0x01000001u; /* how large the table may be */
        if (length == 1)
            memset(symbols, *coded, n);
        else if (length == n)
            memcpy(symbols, coded, n);
        else if (HUF_decompress4X_hufOnly_wksp(table, symbols, n, coded, length,
                                               work, sizeof work, BMI2) != n)
            return 0;
        join(at, n, values + 2 * i);
        at = coded + length;
    }
    return (size_t)(at - stream);
}
