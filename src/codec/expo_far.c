/* expo of f64: exponents of 11 bits to symbols of 8. Symbol 0 is exponent 0,
 * symbols 1 to 254 are base + 1 to base + 254, and 255 is any other, which then
 * stands in a list. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"

enum { FAR = 255 };

/* The middle of some exponents, so that a few far values do not move it. */
unsigned lull__expo_base(const uint16_t *exponents, size_t n) {
    uint16_t sorted[64];
    unsigned kept = 0;
    for (size_t i = 0; i < n; i += n / 64 + 1) {
        unsigned at = kept;
        if (exponents[i] == 0)
            continue;
        for (; at > 0 && sorted[at - 1] > exponents[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = exponents[i];
        kept++;
    }
    unsigned middle = kept ? sorted[kept / 2] : 1023;
    return middle < 127                          ? 0
           : middle - 127 > LULL__EXPO_BASE_MOST ? LULL__EXPO_BASE_MOST
                                                 : middle - 127;
}

size_t lull__expo_narrow(const uint16_t *restrict exponents, size_t n,
                         unsigned base, uint8_t *restrict symbols) {
    size_t far = 0;
    /* In 16 bits, and sums that a byte holds: many at once for the compiler. */
    for (size_t i = 0; i < n; i += 128) {
        size_t end = n - i < 128 ? n : i + 128;
        uint8_t some = 0;
        for (size_t k = i; k < end; k++) {
            uint16_t e = exponents[k], s = (uint16_t)(e - base);
            uint16_t least = (uint16_t)(s - 1) < 254 ? s : FAR;
            uint16_t symbol = e == 0 ? 0 : least;
            symbols[k] = (uint8_t)symbol;
            some = (uint8_t)(some + (symbol == FAR));
        }
        far += some;
    }
    return far;
}

const char *lull__expo_widen(const uint8_t *restrict symbols, size_t n,
                             unsigned base, const uint8_t **at,
                             const uint8_t *end, uint16_t *restrict exponents) {
    for (size_t i = 0; i < n; i++) {
        uint16_t s = symbols[i];
        exponents[i] = (uint16_t)(s == 0 ? 0 : s + base);
    }
    const uint8_t *symbol = symbols, *last = symbols + n;
    while ((symbol = memchr(symbol, FAR, (size_t)(last - symbol))) != NULL) {
        if (end - *at < 2)
            return "cut off in the far exponents";
        unsigned exponent = lull__load16(*at);
        *at += 2;
        if (exponent > 2047)
            return "a far exponent over 2047";
        exponents[symbol - symbols] = (uint16_t)exponent;
        symbol++;
    }
    return NULL;
}
