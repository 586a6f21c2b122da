/* Deletes trash in the background: on some file systems a large file takes
 * longer to delete than to write, and the next commit is not to wait for it. */
#ifndef LULL__CKPT_DELETER_H
#define LULL__CKPT_DELETER_H

#include <stdbool.h>

#include "base/thread.h"
#include "io/file.h"
#include "naming.h"

/* A checkpoint that has lost its name; malloc'ed. */
typedef struct lull__trash {
    lull__entry_name_t name;
    lull__dir_t dir;       /* itself */
    lull__file_t manifest; /* locked against readers until it is gone */
    struct lull__trash *next;
} lull__trash_t;

typedef struct lull__deleter lull__deleter_t;

/* For trash in `dir`, which may be opened later. The thread is started when
 * there is something to delete. */
lull_status_t lull__deleter_create(const lull__dir_t *dir,
                                   const lull__thread_options_t *thread,
                                   lull__deleter_t **out);
/* Takes the trash, false: it has enough to do, or no thread. `deleter` NULL:
 * false. */
bool lull__deleter_add(lull__deleter_t *deleter, lull__trash_t *trash);
/* Waits until all it took is gone. */
void lull__deleter_wait(lull__deleter_t *deleter);
/* Waits, and frees it. NULL is harmless. */
void lull__deleter_destroy(lull__deleter_t *deleter);

/* Deletes it now, and frees it. */
lull_status_t lull__trash_delete(const lull__dir_t *dir, lull__trash_t *trash);
/* Lets go of it. */
void lull__trash_free(lull__trash_t *trash);

#endif
