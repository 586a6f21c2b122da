/* Memory in large pages: anonymous, and advised to be of those. */
#include "pages.h"

#include <stdint.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20) /* of x86-64 */
#define SMALL ((size_t)4096)

/* On a large page's boundary: before Linux 6.7 a mapping is on any. */
void *lull__pages_alloc(size_t bytes) {
    if (bytes > SIZE_MAX - LARGE - SMALL)
        return NULL;
    bytes = (bytes + SMALL - 1) & -SMALL;
    char *raw = mmap(NULL, bytes + LARGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    size_t before = LARGE - (uintptr_t)raw % LARGE;
    char *data = raw + before;
    munmap(raw, before);
    if (LARGE - before > 0)
        munmap(data + bytes, LARGE - before);
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

void lull__pages_free(void *data, size_t bytes) {
    if (data != NULL)
        munmap(data, bytes);
}
