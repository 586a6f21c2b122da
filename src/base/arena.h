/* Memory that is freed all at once: names and small arrays of one save. */
#ifndef LULL__ARENA_H
#define LULL__ARENA_H

#include <stddef.h>

typedef struct lull__arena {
    struct lull__arena_block *blocks; /* the newest first */
} lull__arena_t;

/* 16-byte aligned, NULL without memory. Zeros are an empty arena. */
void *lull__arena_alloc(lull__arena_t *arena, size_t bytes);
char *lull__arena_copy(lull__arena_t *arena, const void *data, size_t bytes);
/* Of a string, with its NUL. */
char *lull__arena_text(lull__arena_t *arena, const char *text);
void lull__arena_free(lull__arena_t *arena);

#endif
