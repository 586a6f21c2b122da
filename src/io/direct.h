/* Reads that go past the page cache, as far as the file system lets them; the
 * rest goes through the cache. */
#ifndef LULL__DIRECT_H
#define LULL__DIRECT_H

#include "file.h"

/* What several threads have learnt about the file system; all zero to begin
 * with. */
typedef struct lull__direct_known {
    bool refused; /* atomic: no direct reads */
} lull__direct_known_t;

/* One thread's: the file it read last, opened a second time. */
typedef struct lull__direct {
    lull__direct_known_t *known;
    lull__file_t file;
} lull__direct_t;

#define LULL__DIRECT_INIT(known_) \
    { (known_), LULL__FILE_CLOSED }

/* Is it known that all goes through the cache? */
bool lull__direct_refused(const lull__direct_t *direct);

/* As lull__file_read. `data` on a page's boundary, and best in large pages
 * (base/pages.h); else all goes through the cache. `plain` is the same file,
 * open; its name must live as long as `direct`. */
lull_status_t lull__direct_read(lull__direct_t *direct,
                                const lull__file_t *plain, void *data,
                                uint64_t bytes, uint64_t offset);
/* Harmless twice. */
void lull__direct_close(lull__direct_t *direct);

#endif
