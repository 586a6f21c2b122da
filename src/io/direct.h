/* Reads that go past the page cache, as far as the file system lets them; the
 * rest goes through the cache. And writes of a file that is opened twice: for
 * data, and for the rest. */
#ifndef LULL__DIRECT_H
#define LULL__DIRECT_H

#include "file.h"

#define LULL__SECTOR 4096u /* no disk has larger ones */

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

/* Writes. What is known of a disk; all zero to begin with. */
typedef struct lull__direct_writes {
    bool refused, taken;
} lull__direct_writes_t;

/* Opens `plain`, which is open and empty, once more for writes past the page
 * cache; *out is closed where this disk does not take them. The first of a disk
 * is tried with zeros; what else may fail then is told. */
lull_status_t lull__direct_open(const lull__file_t *plain,
                                lull__direct_writes_t *known,
                                lull__file_t *out);
/* How much is to be written there of the last `bytes` at `data`: zeros go
 * behind them up to a whole sector, so the file is to be cut to its length. */
uint64_t lull__direct_pad(void *data, uint64_t bytes);

#endif
