/* What encoding and decoding expo's digits share. */
#ifndef LULL__EXPO_CODE_H
#define LULL__EXPO_CODE_H

#include "codec/expo.h"

/* The widest field that begins a digit of `width` bits, its highest bits
 * first: a digit of 3 bits is a field of 2 and one of 1. */
static inline unsigned lull__expo_field(unsigned width) {
    return width >= 4 ? 4 : width >= 2 ? 2 : 1;
}

/* Bits of the last level's digits, of so many symbols. */
static inline unsigned lull__expo_width_for(unsigned symbols) {
    return symbols < 2 ? 0 : 32 - (unsigned)__builtin_clz(symbols - 1);
}

/* Bytes of n digits. */
static inline size_t lull__expo_bytes(size_t n, unsigned width) {
    size_t bytes = 0;
    if (width == 8)
        return n;
    for (unsigned field; width > 0; width -= field) {
        field = lull__expo_field(width);
        bytes += (n * field + 7) / 8;
    }
    return bytes;
}

static inline void lull__expo_look(lull__expo_ahead_t *ahead, bool write) {
    enum { LINE = 64 };
    const uint8_t *at = ahead->at;
    if (at == ahead->end) /* or there is nothing to ask for */
        return;
    size_t left = (size_t)(ahead->end - at);
    size_t bytes = ahead->step < left ? ahead->step : left;
    for (size_t i = 0; i < bytes; i += LINE)
        if (write)
            __builtin_prefetch(at + i, 1, 2);
        else
            __builtin_prefetch(at + i, 0, 2);
    ahead->at = at + bytes;
}

static inline void lull__expo_look_ahead(lull__expo_room_t *room) {
    lull__expo_look(&room->read, false);
    lull__expo_look(&room->write, true);
}

/* Symbols until the next look, of those left. */
static inline size_t lull__expo_piece_of(const lull__expo_room_t *room,
                                         size_t left) {
    return left < room->kernel->piece ? left : room->kernel->piece;
}

#endif
