/* The system's own storage calls behind the table. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io.h"

static int result(int rc) {
    return rc < 0 ? -errno : rc;
}

static int sys_open(const lull__io_t *io, int dir, const char *path, int flags,
                    unsigned mode) {
    (void)io;
    return result(openat(dir, path, flags | O_CLOEXEC, (mode_t)mode));
}

static int sys_close(const lull__io_t *io, int fd) {
    (void)io;
    return result(close(fd));
}

static ssize_t sys_read(const lull__io_t *io, int fd, void *data, size_t bytes,
                        uint64_t offset) {
    (void)io;
    ssize_t n = pread(fd, data, bytes, (off_t)offset);
    return n < 0 ? -errno : n;
}

static ssize_t sys_write(const lull__io_t *io, int fd, const void *data,
                         size_t bytes, uint64_t offset) {
    (void)io;
    ssize_t n = pwrite(fd, data, bytes, (off_t)offset);
    return n < 0 ? -errno : n;
}

static int sys_sync(const lull__io_t *io, int fd) {
    (void)io;
    return result(fsync(fd));
}

static int sys_truncate(const lull__io_t *io, int fd, uint64_t bytes) {
    (void)io;
    return result(ftruncate(fd, (off_t)bytes));
}

static int sys_allocate(const lull__io_t *io, int fd, uint64_t bytes) {
    (void)io;
    return result(fallocate(fd, 0, 0, (off_t)bytes));
}

static int sys_rename(const lull__io_t *io, int old_dir, const char *old_name,
                      int new_dir, const char *new_name, unsigned flags) {
    (void)io;
    if (flags == 0)
        return result(renameat(old_dir, old_name, new_dir, new_name));
    return result(renameat2(old_dir, old_name, new_dir, new_name, flags));
}

static int sys_mkdir(const lull__io_t *io, int dir, const char *path,
                     unsigned mode) {
    (void)io;
    return result(mkdirat(dir, path, (mode_t)mode));
}

static int sys_unlink(const lull__io_t *io, int dir, const char *path,
                      int flags) {
    (void)io;
    return result(unlinkat(dir, path, flags));
}

static int sys_stat(const lull__io_t *io, int dir, const char *path,
                    lull__io_stat_t *out) {
    (void)io;
    struct stat st;
    int flags = AT_SYMLINK_NOFOLLOW | (path[0] ? 0 : AT_EMPTY_PATH);
    if (fstatat(dir, path, &st, flags) < 0)
        return -errno;
    out->size = (uint64_t)st.st_size;
    out->device = st.st_dev;
    out->inode = st.st_ino;
    out->mtime = st.st_mtime;
    out->is_dir = S_ISDIR(st.st_mode);
    out->is_file = S_ISREG(st.st_mode);
    return 0;
}

static int list_all(DIR *names, lull__io_list_fn fn, void *ctx) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(names);
        if (entry == NULL)
            return -errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int rc = fn(ctx, entry->d_name);
        if (rc != 0)
            return rc;
    }
}

static int sys_list(const lull__io_t *io, int dir, lull__io_list_fn fn,
                    void *ctx) {
    (void)io;
    /* An own descriptor: the caller's keeps its position. */
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *names = fdopendir(fd);
    if (names == NULL) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    int rc = list_all(names, fn, ctx);
    closedir(names);
    return rc;
}

static int sys_lock(const lull__io_t *io, int fd, int operation) {
    (void)io;
    return result(flock(fd, operation));
}

static int sys_space(const lull__io_t *io, int fd, uint64_t *free_bytes) {
    (void)io;
    struct statvfs st;
    if (fstatvfs(fd, &st) < 0)
        return -errno;
    if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize,
                               free_bytes))
        *free_bytes = UINT64_MAX;
    return 0;
}

static const lull__io_ops_t ops = {
    .name = "system",
    .open = sys_open,
    .close = sys_close,
    .read = sys_read,
    .write = sys_write,
    .sync = sys_sync,
    .truncate = sys_truncate,
    .allocate = sys_allocate,
    .rename = sys_rename,
    .mkdir = sys_mkdir,
    .unlink = sys_unlink,
    .stat = sys_stat,
    .list = sys_list,
    .lock = sys_lock,
    .space = sys_space,
};

const lull__io_t lull__io_system = {.ops = &ops};

static const lull__io_t *chosen = &lull__io_system;

const lull__io_t *lull__io_default(void) {
    return __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
}

void lull__io_set_default(const lull__io_t *io) {
    __atomic_store_n(&chosen, io ? io : &lull__io_system, __ATOMIC_RELEASE);
}
