/* Files over the storage table: whole transfers, sentences, publication. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/error.h"
#include "base/thread.h"

/* One write() moves at most 0x7ffff000 bytes; ask for whole pages below it. */
#define MOST_AT_ONCE ((uint64_t)1 << 30)

static lull_status_t file_error(int rc, const lull__file_t *file,
                                const char *what) {
    return lull__fail_errno(-rc, "%s/%s: %s", file->dir->path, file->name,
                            what);
}

bool lull__io_again(ssize_t rc, unsigned *times) {
    static const double naps[] = {0.01, 0.1};
    if (rc == -EINTR)
        return true;
    if ((rc != -EIO && rc != -ETIMEDOUT) || *times == 2)
        return false;
    lull__sleep(naps[(*times)++]);
    return true;
}

lull_status_t lull__file_open(const lull__dir_t *dir, const char *name,
                              int flags, lull__file_t *out) {
    lull__file_t file = {dir, name, -1};
    bool reads = (flags & (O_ACCMODE | O_CREAT)) == O_RDONLY;
    unsigned times = 0;
    do
        file.fd = dir->io->ops->open(dir->io, dir->fd, name, flags, 0666);
    while (file.fd == -EINTR || (reads && lull__io_again(file.fd, &times)));
    if (file.fd < 0)
        return file_error(file.fd, &file,
                          flags & O_CREAT ? "creating failed"
                                          : "opening failed");
    *out = file;
    return LULL_OK;
}

lull_status_t lull__file_close(lull__file_t *file) {
    if (file->fd < 0)
        return LULL_OK;
    int rc = file->dir->io->ops->close(file->dir->io, file->fd);
    file->fd = -1;
    /* On Linux the descriptor is gone even after EINTR. */
    if (rc < 0 && rc != -EINTR)
        return file_error(rc, file, "closing failed");
    return LULL_OK;
}

lull_status_t lull__file_write(const lull__file_t *file, const void *data,
                               uint64_t bytes, uint64_t offset) {
    const lull__io_t *io = file->dir->io;
    const char *from = data;
    while (bytes > 0) {
        size_t ask = bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE;
        ssize_t n = io->ops->write(io, file->fd, from, ask, offset);
        if (n == -EINTR)
            continue;
        if (n == 0)
            n = -EIO; /* no progress and no reason: do not spin */
        if (n < 0)
            return file_error((int)n, file, "writing failed");
        from += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return LULL_OK;
}

lull_status_t lull__file_read(const lull__file_t *file, void *data,
                              uint64_t bytes, uint64_t offset) {
    const lull__io_t *io = file->dir->io;
    char *to = data;
    unsigned times = 0;
    while (bytes > 0) {
        size_t ask = bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE;
        ssize_t n = io->ops->read(io, file->fd, to, ask, offset);
        if (n < 0 && lull__io_again(n, &times))
            continue;
        if (n < 0)
            return file_error((int)n, file, "reading failed");
        if (n == 0)
            return lull__fail(LULL_ERR_CORRUPT,
                              "%s/%s: ends at byte %llu, %llu more expected",
                              file->dir->path, file->name,
                              (unsigned long long)offset,
                              (unsigned long long)bytes);
        to += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return LULL_OK;
}

lull_status_t lull__file_sync(const lull__file_t *file) {
    int rc = file->dir->io->ops->sync(file->dir->io, file->fd);
    if (rc < 0)
        return file_error(rc, file, "fsync failed");
    return LULL_OK;
}

lull_status_t lull__file_truncate(const lull__file_t *file, uint64_t bytes) {
    int rc;
    do
        rc = file->dir->io->ops->truncate(file->dir->io, file->fd, bytes);
    while (rc == -EINTR);
    if (rc < 0)
        return file_error(rc, file, "setting the length failed");
    return LULL_OK;
}

lull_status_t lull__file_reserve(const lull__file_t *file, uint64_t bytes) {
    int rc;
    do
        rc = file->dir->io->ops->allocate(file->dir->io, file->fd, bytes);
    while (rc == -EINTR);
    if (rc == 0 || rc == -EOPNOTSUPP || rc == -ENOSYS)
        return LULL_OK;
    return lull__fail_errno(-rc, "%s/%s: reserving %" PRIu64 " bytes failed",
                            file->dir->path, file->name, bytes);
}

lull_status_t lull__file_size(const lull__file_t *file, uint64_t *bytes) {
    lull__io_stat_t st;
    int rc = file->dir->io->ops->stat(file->dir->io, file->fd, "", &st);
    if (rc < 0)
        return file_error(rc, file, "reading the length failed");
    *bytes = st.size;
    return LULL_OK;
}

lull_status_t lull__file_lock(const lull__file_t *file, int operation) {
    int rc;
    do
        rc = file->dir->io->ops->lock(file->dir->io, file->fd, operation);
    while (rc == -EINTR);
    if (rc == -EWOULDBLOCK)
        return lull__fail(LULL_ERR_BUSY, "%s/%s: locked by another process",
                          file->dir->path, file->name);
    if (rc < 0)
        return file_error(rc, file, "locking failed");
    return LULL_OK;
}

static lull_status_t slurp(const lull__file_t *file, uint64_t limit,
                           char **data, uint64_t *bytes) {
    lull__io_stat_t st;
    int rc = file->dir->io->ops->stat(file->dir->io, file->fd, "", &st);
    if (rc < 0)
        return file_error(rc, file, "reading the length failed");
    if (!st.is_file)
        return lull__fail(LULL_ERR_CORRUPT, "%s/%s: not a plain file",
                          file->dir->path, file->name);
    uint64_t size = st.size;
    if (size > limit)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s/%s: %llu bytes, at most %llu expected",
                          file->dir->path, file->name, (unsigned long long)size,
                          (unsigned long long)limit);
    char *text = malloc(size + 1);
    if (text == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s/%s: %llu bytes to read it",
                          file->dir->path, file->name,
                          (unsigned long long)size);
    lull_status_t status = lull__file_read(file, text, size, 0);
    if (status != LULL_OK) {
        free(text);
        return status;
    }
    text[size] = '\0';
    *data = text;
    *bytes = size;
    return LULL_OK;
}

lull_status_t lull__file_slurp(const lull__dir_t *dir, const char *name,
                               uint64_t limit, char **data, uint64_t *bytes) {
    lull__file_t file;
    /* A pipe in its place must not hold the reader. */
    lull_status_t status =
        lull__file_open(dir, name, O_RDONLY | O_NONBLOCK, &file);
    if (status != LULL_OK)
        return status;
    status = slurp(&file, limit, data, bytes);
    (void)lull__file_close(&file);
    return status;
}

static lull_status_t publish_temp(const lull__dir_t *dir,
                                  const lull__publish_t *what) {
    lull__file_t file;
    lull_status_t status =
        lull__file_open(dir, what->temp, O_WRONLY | O_CREAT | O_TRUNC, &file);
    if (status != LULL_OK)
        return status;
    status = lull__file_write(&file, what->data, what->bytes, 0);
    if (status == LULL_OK && what->durable)
        status = lull__file_sync(&file);
    lull_status_t closed = lull__file_close(&file);
    return status != LULL_OK ? status : closed;
}

lull_status_t lull__file_publish(const lull__dir_t *dir,
                                 const lull__publish_t *what) {
    lull_status_t status = publish_temp(dir, what);
    if (status == LULL_OK)
        status = lull__dir_rename(dir, what->temp, dir, what->name, 0);
    if (status != LULL_OK)
        (void)dir->io->ops->unlink(dir->io, dir->fd, what->temp, 0);
    return status;
}
