/* Reads and writes past the page cache. Nothing is asked beforehand: what the
 * file system refuses is learnt from its EINVAL, which comes before any
 * transfer, and from no other error. */
#include "direct.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define MOST_AT_ONCE ((uint64_t)1 << 30)

bool lull__direct_refused(const lull__direct_t *direct) {
    return __atomic_load_n(&direct->known->refused, __ATOMIC_RELAXED);
}

static bool is_refusal(ssize_t rc) {
    _Static_assert(ENOTSUP == EOPNOTSUPP, "one number");
    return rc == -EINVAL || rc == -EOPNOTSUPP;
}

/* The file once more: a descriptor, or -errno. */
static int open_again(const lull__file_t *plain, int flags) {
    const lull__io_t *io = plain->dir->io;
    int fd;
    do
        fd = io->ops->open(io, plain->dir->fd, plain->name, flags, 0);
    while (fd == -EINTR);
    return fd;
}

static void refuse(lull__direct_t *direct, const lull__file_t *file, int rc) {
    if (!__atomic_exchange_n(&direct->known->refused, true, __ATOMIC_RELAXED))
        lull__log(LULL_LOG_INFO, "%s/%s: read through the page cache: %s",
                  file->dir->path, file->name, strerrordesc_np(-rc));
}

/* Opens the file unless it is the one that is open. */
static bool use(lull__direct_t *direct, const lull__file_t *plain) {
    if (direct->file.fd >= 0 && direct->file.dir == plain->dir &&
        direct->file.name == plain->name)
        return true;
    lull__direct_close(direct);
    /* A FIFO that was put there must not hold us. */
    int fd = open_again(plain, O_RDONLY | O_NONBLOCK | O_DIRECT);
    if (is_refusal(fd))
        refuse(direct, plain, fd);
    if (fd < 0)
        return false;
    direct->file = (lull__file_t){plain->dir, plain->name, fd};
    return true;
}

/* Reads whole sectors as long as that works; *done: how many bytes. What is
 * left, and whether it is there at all, the page cache has to tell. */
static lull_status_t sectors(lull__direct_t *direct, char *data, uint64_t bytes,
                             uint64_t offset, uint64_t *done) {
    const lull__file_t *file = &direct->file;
    const lull__io_t *io = file->dir->io;
    unsigned times = 0;
    *done = 0;
    while (*done < bytes) {
        uint64_t left = bytes - *done;
        ssize_t n = io->ops->read(io, file->fd, data + *done,
                                  left < MOST_AT_ONCE ? left : MOST_AT_ONCE,
                                  offset + *done);
        if (n < 0 && lull__io_again(n, &times))
            continue;
        if (n == -EFAULT) /* memory of a driver: only copies reach it */
            return LULL_OK;
        if (is_refusal(n)) {
            refuse(direct, file, (int)n);
            return LULL_OK;
        }
        if (n < 0)
            return lull__fail_errno((int)-n, "%s/%s: reading failed",
                                    file->dir->path, file->name);
        *done += (uint64_t)n;
        if (n == 0 || n % LULL__SECTOR != 0)
            return LULL_OK; /* the end, or an odd place to go on from */
    }
    return LULL_OK;
}

lull_status_t lull__direct_read(lull__direct_t *direct,
                                const lull__file_t *plain, void *data,
                                uint64_t bytes, uint64_t offset) {
    uint64_t done = 0, whole = bytes - bytes % LULL__SECTOR;
    lull_status_t status = LULL_OK;
    if (whole > 0 && offset % LULL__SECTOR == 0 &&
        (uintptr_t)data % LULL__SECTOR == 0 && !lull__direct_refused(direct) &&
        use(direct, plain))
        status = sectors(direct, data, whole, offset, &done);
    if (status != LULL_OK || done == bytes)
        return status;
    return lull__file_read(plain, (char *)data + done, bytes - done,
                           offset + done);
}

void lull__direct_close(lull__direct_t *direct) {
    (void)lull__file_close(&direct->file);
}

/* ---- writes ---- */

/* Zeros its first sector, or some of it. The number, or -errno. */
static ssize_t try_zeros(const lull__file_t *file) {
    static const _Alignas(LULL__SECTOR) char zeros[LULL__SECTOR];
    const lull__io_t *io = file->dir->io;
    ssize_t n;
    do
        n = io->ops->write(io, file->fd, zeros, sizeof zeros, 0);
    while (n == -EINTR);
    return n;
}

lull_status_t lull__direct_open(const lull__file_t *plain,
                                lull__direct_writes_t *known,
                                lull__file_t *out) {
    const char *dir = plain->dir->path;
    *out = (lull__file_t)LULL__FILE_CLOSED;
    if (known->refused)
        return LULL_OK;
    int fd = open_again(plain, O_WRONLY | O_DIRECT);
    if (fd >= 0)
        *out = (lull__file_t){plain->dir, plain->name, fd};
    ssize_t tried = fd >= 0 && !known->taken ? try_zeros(out) : fd;
    if (tried >= 0) {
        if (!known->taken)
            lull__log(LULL_LOG_INFO, "%s: writing past the page cache", dir);
        known->taken = true;
        return LULL_OK;
    }
    (void)lull__file_close(out);
    if (!is_refusal(tried))
        return lull__fail_errno((int)-tried,
                                "%s/%s: %s past the page cache failed", dir,
                                plain->name, fd < 0 ? "opening" : "writing");
    known->refused = true;
    lull__log(LULL_LOG_INFO, "%s: writing through the page cache: %s", dir,
              strerrordesc_np((int)-tried));
    return LULL_OK;
}

uint64_t lull__direct_pad(void *data, uint64_t bytes) {
    uint64_t over = bytes % LULL__SECTOR, pad = over ? LULL__SECTOR - over : 0;
    memset((char *)data + bytes, 0, pad);
    return bytes + pad;
}
