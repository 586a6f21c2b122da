/* Copies past the cache, for what no processor reads soon. */
#ifndef LULL__STREAM_H
#define LULL__STREAM_H

#include <stddef.h>

/* memcpy that leaves the destination out of the cache: its lines are not read
 * before they are written, and push nothing out. Worth it from a cache line
 * on, when `to` is aligned to 16 bytes. What it wrote may be given to another
 * thread after lull__stream_fence(). */
void lull__stream_copy(void *to, const void *from, size_t bytes);
void lull__stream_fence(void);

#endif
