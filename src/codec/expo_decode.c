/* expo's digits back to symbols. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo_code.h"

/* Widths of all levels but the last, and the symbols of that. */
static const char *read_levels(const uint8_t **at, const uint8_t *end,
                               lull__expo_table_t *table, unsigned *listed) {
    const uint8_t *p = *at;
    unsigned levels = *p++, symbols = 0;
    if (levels > LULL__EXPO_LEVELS)
        return "the table's levels";
    if ((size_t)(end - p) < levels)
        return "cut off in the table";
    for (unsigned k = 0; k + 1 < levels; k++) {
        lull__expo_level_t *level = table->level + k;
        level->width = *p++;
        if (level->width == 0 || level->width > LULL__EXPO_WIDTH)
            return "the width of a level";
        level->last = (uint8_t)((1u << level->width) - 1);
        symbols += level->last;
    }
    lull__expo_level_t *last = table->level + levels - 1;
    *listed = *p++;
    if (symbols + *listed > LULL__EXPO_LISTED)
        return "the table's symbols";
    last->width = (uint8_t)(*listed == 0 ? 8 : lull__expo_width_for(*listed));
    last->last = 255;
    table->levels = levels;
    *at = p;
    return NULL;
}

/* A new table, or the last one again. */
static const char *read_table(const uint8_t **at, const uint8_t *end,
                              lull__expo_table_t *table) {
    unsigned listed;
    if (*at == end)
        return "cut off before the table";
    if (**at == 0) {
        ++*at;
        return table->levels == 0 ? "a table that was not there" : NULL;
    }
    const char *wrong = read_levels(at, end, table, &listed);
    for (unsigned k = 0; wrong == NULL && k < table->levels; k++) {
        lull__expo_level_t *level = table->level + k;
        unsigned symbols = k + 1 < table->levels ? level->last : listed;
        if ((size_t)(end - *at) < symbols)
            wrong = "cut off in the table";
        memset(level->symbol, 0, sizeof level->symbol);
        if (wrong == NULL)
            memcpy(level->symbol, *at, symbols);
        *at += wrong == NULL ? symbols : 0;
    }
    return wrong;
}

typedef struct decoder {
    const lull__expo_table_t *table;
    lull__expo_room_t *room;
    const uint8_t *at[LULL__EXPO_LEVELS]; /* each level's digits */
    size_t size[LULL__EXPO_LEVELS + 1];   /* and symbols */
} decoder_t;

static const char *read_sizes(decoder_t *d, const uint8_t **at,
                              const uint8_t *end) {
    const lull__expo_table_t *table = d->table;
    if ((size_t)(end - *at) < 2 * (table->levels - 1))
        return "cut off in the sizes";
    for (unsigned k = 1; k < table->levels; k++, *at += 2) {
        d->size[k] = lull__load16(*at);
        if (d->size[k] > d->size[k - 1])
            return "the size of a level";
    }
    d->size[table->levels] = 0;
    for (unsigned k = 0; k < table->levels; k++) {
        size_t bytes = lull__expo_bytes(d->size[k], table->level[k].width);
        if (bytes > (size_t)(end - *at))
            return "cut off in the digits";
        d->at[k] = *at;
        *at += bytes;
    }
    return NULL;
}

/* From what the level below gave; returns whether that was all used. */
static bool decode_level(const decoder_t *d, unsigned k, const uint8_t *below,
                         uint8_t *out) {
    const lull__expo_level_t *level = d->table->level + k;
    const uint8_t *from = d->at[k];
    const size_t n = d->size[k];
    size_t used = 0;
    bool first = true;
    if (level->width == 8)
        memcpy(out, from, n);
    else if (level->width == 0)
        memset(out, level->symbol[0], n);
    if (level->width % 8 == 0 || n == 0)
        return d->size[k + 1] == 0;
    for (unsigned left = level->width, field; left > 0; left -= field) {
        field = lull__expo_field(left);
        d->room->kernel->unpack(from, n, left - field, field, first,
                                d->room->b);
        from += lull__expo_bytes(n, field);
        first = false;
    }
    for (size_t i = 0; i < n; i += d->room->kernel->piece) {
        lull__expo_look_ahead(d->room);
        used += d->room->kernel->join(d->room->b + i,
                                      lull__expo_piece_of(d->room, n - i),
                                      level, below + used, out + i);
    }
    return used == d->size[k + 1];
}

const char *lull__expo_decode(lull__expo_room_t *room, size_t n,
                              const uint8_t **at, const uint8_t *end,
                              lull__expo_table_t *table, uint8_t *symbols) {
    decoder_t d = {.table = table, .room = room, .size = {n}};
    uint8_t *const rooms[2] = {room->a, room->c};
    const char *wrong = read_table(at, end, table);
    if (wrong == NULL)
        wrong = read_sizes(&d, at, end);
    if (wrong != NULL)
        return wrong;
    for (unsigned k = table->levels; k-- > 0;)
        if (!decode_level(&d, k, rooms[(k + 1) % 2],
                          k == 0 ? symbols : rooms[k % 2]))
            return "the size of a level";
    return NULL;
}
