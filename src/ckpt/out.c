/* The buffered, hashing byte sink. */
#include "out.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"

#define BUFFER_BYTES 65536

struct lull__out {
    lull__out_fn fn;
    void *ctx;
    lull_status_t status;
    uint64_t count;
    XXH3_state_t *hash;
    size_t used;
    char buffer[BUFFER_BYTES];
};

lull_status_t lull__out_create(lull__out_fn fn, void *ctx, lull__out_t **out) {
    lull__out_t *o = malloc(sizeof *o);
    if (o == NULL)
        goto no_out;
    o->hash = XXH3_createState();
    if (o->hash == NULL)
        goto no_hash;
    XXH3_64bits_reset(o->hash);
    o->fn = fn;
    o->ctx = ctx;
    o->status = LULL_OK;
    o->count = 0;
    o->used = 0;
    *out = o;
    return LULL_OK;

no_hash:
    free(o);
no_out:
    return lull__fail(LULL_ERR_NO_MEMORY, "an output buffer of %d bytes",
                      BUFFER_BYTES);
}

void lull__out_destroy(lull__out_t *out) {
    if (out == NULL)
        return;
    XXH3_freeState(out->hash);
    free(out);
}

static void hand_on(lull__out_t *out) {
    if (out->used == 0)
        return;
    XXH3_64bits_update(out->hash, out->buffer, out->used);
    if (out->status == LULL_OK && out->fn != NULL)
        out->status = out->fn(out->ctx, out->buffer, out->used);
    out->used = 0;
}

void lull__out_bytes(lull__out_t *out, const void *data, size_t n) {
    const char *from = data;
    out->count += n;
    while (n > 0) {
        if (out->used == BUFFER_BYTES)
            hand_on(out);
        size_t m = BUFFER_BYTES - out->used;
        m = n < m ? n : m;
        memcpy(out->buffer + out->used, from, m);
        out->used += m;
        from += m;
        n -= m;
    }
}

void lull__out_text(lull__out_t *out, const char *text) {
    lull__out_bytes(out, text, strlen(text));
}

void lull__out_u64(lull__out_t *out, uint64_t value) {
    char digits[20], *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    lull__out_bytes(out, at, (size_t)(digits + sizeof digits - at));
}

/* What JSON wants for one byte; *n is its length. */
static const char *escape(unsigned char c, char room[7], size_t *n) {
    static const char hex[] = "0123456789abcdef";
    if (c >= 0x20 && c != '"' && c != '\\') {
        room[0] = (char)c;
        *n = 1;
    } else if (c >= 0x20) {
        room[0] = '\\';
        room[1] = (char)c;
        *n = 2;
    } else {
        memcpy(room, "\\u00", 4);
        room[4] = hex[c >> 4];
        room[5] = hex[c & 15];
        *n = 6;
    }
    return room;
}

uint64_t lull__out_escaped_bytes(const char *text) {
    uint64_t sum = 0;
    char room[7];
    size_t n;
    for (; *text != '\0'; text++) {
        escape((unsigned char)*text, room, &n);
        sum += n;
    }
    return sum;
}

void lull__out_escaped(lull__out_t *out, const char *text) {
    char room[7];
    size_t n;
    for (; *text != '\0'; text++) {
        escape((unsigned char)*text, room, &n);
        lull__out_bytes(out, room, n);
    }
}

void lull__out_string(lull__out_t *out, const char *text) {
    lull__out_bytes(out, "\"", 1);
    lull__out_escaped(out, text);
    lull__out_bytes(out, "\"", 1);
}

void lull__out_hash(lull__out_t *out, uint64_t hash) {
    static const char hex[] = "0123456789abcdef";
    char text[18] = {'"'};
    for (unsigned i = 0; i < 16; i++)
        text[1 + i] = hex[hash >> (60 - 4 * i) & 15];
    text[17] = '"';
    lull__out_bytes(out, text, sizeof text);
}

void lull__out_list(lull__out_t *out, const uint64_t *values, size_t n) {
    lull__out_bytes(out, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            lull__out_bytes(out, ",", 1);
        lull__out_u64(out, values[i]);
    }
    lull__out_bytes(out, "]", 1);
}

void lull__out_spaces(lull__out_t *out, uint64_t n) {
    static const char blank[64] = "                                "
                                  "                                ";
    _Static_assert(sizeof blank == 64, "64 spaces, no NUL");
    while (n > 0) {
        size_t m = n < sizeof blank ? (size_t)n : sizeof blank;
        lull__out_bytes(out, blank, m);
        n -= m;
    }
}

uint64_t lull__out_count(const lull__out_t *out) {
    return out->count;
}

uint64_t lull__out_digest(lull__out_t *out) {
    hand_on(out);
    return XXH3_64bits_digest(out->hash);
}

lull_status_t lull__out_finish(lull__out_t *out, uint64_t *bytes,
                               uint64_t *hash) {
    hand_on(out);
    if (bytes != NULL)
        *bytes = out->count;
    if (hash != NULL)
        *hash = XXH3_64bits_digest(out->hash);
    return out->status;
}

lull_status_t lull__out_to_memory(void *memory, const void *data, size_t n) {
    lull__memory_t *m = memory;
    if (n == 0)
        return LULL_OK;
    if (n > m->capacity - m->bytes) {
        size_t capacity = (m->bytes + n) * 2;
        char *grown = realloc(m->data, capacity);
        if (grown == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "%zu bytes of text",
                              capacity);
        m->data = grown;
        m->capacity = capacity;
    }
    memcpy(m->data + m->bytes, data, n);
    m->bytes += n;
    return LULL_OK;
}

lull_status_t lull__out_to_file(void *out_file, const void *data, size_t n) {
    lull__out_file_t *to = out_file;
    lull_status_t status = lull__file_write(to->file, data, n, to->at);
    to->at += n;
    return status;
}
