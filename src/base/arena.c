/* Memory that is freed all at once. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of a block; each is twice the last, up to the most. */
#define LEAST ((size_t)4 << 10)
#define MOST ((size_t)64 << 10)

struct lull__arena_block {
    struct lull__arena_block *next;
    size_t used, room;
    _Alignas(16) char data[];
};

void *lull__arena_alloc(lull__arena_t *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    struct lull__arena_block *block = arena->blocks;
    if (block == NULL || block->room - block->used < bytes) {
        size_t room = block == NULL ? LEAST : 2 * block->room;
        room = room < MOST ? room : MOST;
        room = room > bytes ? room : bytes;
        block = malloc(sizeof *block + room);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        block->used = 0;
        block->room = room;
        arena->blocks = block;
    }
    void *data = block->data + block->used;
    block->used += bytes;
    return data;
}

char *lull__arena_copy(lull__arena_t *arena, const void *data, size_t bytes) {
    char *copy = lull__arena_alloc(arena, bytes);
    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

char *lull__arena_text(lull__arena_t *arena, const char *text) {
    return lull__arena_copy(arena, text, strlen(text) + 1);
}

void lull__arena_free(lull__arena_t *arena) {
    while (arena->blocks != NULL) {
        struct lull__arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
