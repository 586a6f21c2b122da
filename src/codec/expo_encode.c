/* expo's symbols to digits. */
#include <string.h>

#include "codec/expo_code.h"
#include "codec/expo_plan.h"

typedef struct encoder {
    const lull__expo_choice_t *choice;
    lull__expo_room_t *room;
    size_t capacity;                    /* bytes for digits */
    size_t used;                        /* of them */
    size_t size[LULL__EXPO_LEVELS + 1]; /* symbols that come to each level */
} encoder_t;

void lull__expo_literal(const uint8_t *symbols, size_t n,
                        lull__expo_coded_t *out) {
    out->head[0] = 1;
    out->head[1] = 0;
    out->head_bytes = 2;
    out->digits = symbols;
    out->digit_bytes = n;
}

static uint8_t *put_table(const lull__expo_choice_t *choice, uint8_t *at) {
    const lull__expo_table_t *table = &choice->table;
    const unsigned last = table->levels - 1;
    *at++ = (uint8_t)table->levels;
    for (unsigned k = 0; k < last; k++)
        *at++ = table->level[k].width;
    *at++ = (uint8_t)choice->listed;
    for (unsigned k = 0; k < table->levels; k++) {
        const lull__expo_level_t *level = table->level + k;
        unsigned symbols = k < last ? level->last : choice->listed;
        memcpy(at, level->symbol, symbols);
        at += symbols;
    }
    return at;
}

/* The table, unless it is the last one, and how many go on to each level. */
static void put_head(const encoder_t *e, bool fresh, lull__expo_coded_t *out) {
    uint8_t *at = out->head;
    if (fresh)
        at = put_table(e->choice, at);
    else
        *at++ = 0;
    for (unsigned k = 1; k < e->choice->table.levels; k++) {
        *at++ = (uint8_t)e->size[k];
        *at++ = (uint8_t)(e->size[k] >> 8);
    }
    out->head_bytes = (size_t)(at - out->head);
}

/* The digits of a level's symbols, and in `kept` what goes on. */
static size_t make_digits(encoder_t *e, unsigned k, const uint8_t *in,
                          uint8_t *kept) {
    const lull__expo_level_t *level = e->choice->table.level + k;
    const size_t n = e->size[k];
    size_t sum = 0;
    for (size_t i = 0; i < n; i += e->room->kernel->piece) {
        size_t part = lull__expo_piece_of(e->room, n - i);
        uint8_t *digits = e->room->b + i;
        lull__expo_look_ahead(e->room);
        sum += e->room->kernel->digits(in + i, part, e->choice->digits + k,
                                       level->last, digits, kept + sum);
    }
    memset(e->room->b + n, 0, 8);
    return sum;
}

/* Returns whether the level had room. */
static bool encode_level(encoder_t *e, unsigned k, const uint8_t *in) {
    const lull__expo_level_t *level = e->choice->table.level + k;
    const size_t n = e->size[k];
    uint8_t *out = e->room->out + e->used;
    e->used += lull__expo_bytes(n, level->width);
    if (e->used > e->capacity)
        return false;
    e->size[k + 1] = 0;
    if (level->width == 8)
        memcpy(out, in, n);
    if (level->width % 8 == 0 || n == 0)
        return true;
    e->size[k + 1] = make_digits(e, k, in, e->room->c);
    for (unsigned left = level->width, field; left > 0; left -= field) {
        field = lull__expo_field(left);
        e->room->kernel->pack(e->room->b, n, left - field, field, out);
        out += lull__expo_bytes(n, field);
    }
    return true;
}

bool lull__expo_encode(lull__expo_room_t *room, const uint8_t *symbols,
                       size_t n, lull__expo_choice_t *choice,
                       lull__expo_coded_t *out) {
    const bool fresh = choice->blocks == 0 || choice->n != n;
    if (fresh && !lull__expo_choose(room->kernel, symbols, n, choice)) {
        choice->blocks = 0;
        return false;
    }
    encoder_t e = {.choice = choice, .room = room, .capacity = n, .size = {n}};
    for (unsigned k = 0; k < choice->table.levels; k++)
        if (!encode_level(&e, k, k == 0 ? symbols : room->c)) {
            lull__expo_judge(choice, fresh, n, SIZE_MAX);
            return false;
        }
    lull__expo_judge(choice, fresh, n, e.used);
    put_head(&e, fresh, out);
    out->digits = room->out;
    out->digit_bytes = e.used;
    if (out->head_bytes + e.used < n + 2)
        return true;
    choice->blocks = 0;
    return false;
}
