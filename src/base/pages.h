/* Memory in large pages, where the system has them. */
#ifndef LULL__PAGES_H
#define LULL__PAGES_H

#include <stddef.h>

/* Zeros, page-aligned, not touched yet. What is read or written past the page
 * cache lies best here: small pages are scattered over memory, and a request
 * to a disk takes few of them. NULL: no memory. */
void *lull__pages_alloc(size_t bytes);
/* NULL is harmless. */
void lull__pages_free(void *data, size_t bytes);

#endif
