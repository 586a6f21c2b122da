/* XXH3-64 over the header-only xxHash, and its text form. */
#include "checksum.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(lull__hash_t), "grow state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(lull__hash_t), "align state");

void lull__hash_begin(lull__hash_t *hash) {
    XXH3_64bits_reset((XXH3_state_t *)(void *)hash->state);
}

void lull__hash_update(lull__hash_t *hash, const void *data, size_t bytes) {
    if (bytes > 0)
        XXH3_64bits_update((XXH3_state_t *)(void *)hash->state, data, bytes);
}

uint64_t lull__hash_end(const lull__hash_t *hash) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash->state);
}

uint64_t lull__hash_of(const void *data, size_t bytes) {
    return XXH3_64bits(bytes ? data : "", bytes);
}

void lull__hash_format(uint64_t value, char out[LULL__HASH_HEX]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++)
        out[i] = digits[(value >> (60 - 4 * i)) & 15];
    out[16] = '\0';
}

static int digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool lull__hash_parse(const char *text, uint64_t *value) {
    uint64_t parsed = 0;
    if (text == NULL || strlen(text) != 16)
        return false;
    for (int i = 0; i < 16; i++) {
        int d = digit(text[i]);
        if (d < 0)
            return false;
        parsed = parsed << 4 | (uint64_t)d;
    }
    *value = parsed;
    return true;
}
