/* Arrays that grow with what is read, never by what a file claims. */
#ifndef LULL__CKPT_GROW_H
#define LULL__CKPT_GROW_H

#include <lull/status.h>
#include <stddef.h>

/* Makes room for one more element in *array, which holds `count` of `size`
 * bytes and has room for *room. LULL_ERR_NO_MEMORY: nothing changed. */
lull_status_t lull__grow(void **array, size_t count, size_t *room, size_t size);

#endif
