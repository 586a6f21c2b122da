/* Directories and files over the storage table: whole reads and writes,
 * EINTR and short transfers resumed, failures as sentences with the path. */
#ifndef LULL__FILE_H
#define LULL__FILE_H

#include <lull/status.h>

#include "io.h"

/* An open directory and the path that sentences call it by. */
typedef struct lull__dir {
    const lull__io_t *io;
    int fd; /* -1: closed */
    char *path;
} lull__dir_t;

#define LULL__DIR_CLOSED \
    { .fd = -1 }

/* Opens a directory by path, or `name` inside `parent`. */
lull_status_t lull__dir_open(const lull__io_t *io, const char *path,
                             lull__dir_t *out);
/* ... LULL_ERR_CORRUPT: it is something else. */
lull_status_t lull__dir_open_at(const lull__dir_t *parent, const char *name,
                                lull__dir_t *out);
/* Harmless on a closed one. */
void lull__dir_close(lull__dir_t *dir);
/* After a rename: what sentences say from now on; false without memory. */
bool lull__dir_rename_path(lull__dir_t *dir, const lull__dir_t *parent,
                           const char *name);

/* Creates a directory and its parents where missing; the new entries are
 * synced. An existing one is fine. */
lull_status_t lull__dir_create_path(const lull__io_t *io, const char *path);
/* One level; exists_ok: an existing one is fine. */
lull_status_t lull__dir_create(const lull__dir_t *parent, const char *name,
                               bool exists_ok);
lull_status_t lull__dir_sync(const lull__dir_t *dir);
lull_status_t lull__dir_list(const lull__dir_t *dir, lull__io_list_fn fn,
                             void *ctx);
/* flags as renameat2. `new_dir` NULL: the same. */
lull_status_t lull__dir_rename(const lull__dir_t *dir, const char *old_name,
                               const lull__dir_t *new_dir, const char *new_name,
                               unsigned flags);
/* Unlinks a file; a missing one is fine. */
lull_status_t lull__dir_unlink(const lull__dir_t *dir, const char *name);
/* Removes a file, or a directory with all that is in it; missing is fine. */
lull_status_t lull__dir_remove_tree(const lull__dir_t *dir, const char *name);
/* LULL_ERR_NOT_FOUND if it is not there. */
lull_status_t lull__dir_stat(const lull__dir_t *dir, const char *name,
                             lull__io_stat_t *out);
bool lull__dir_has(const lull__dir_t *dir, const char *name);

/* An open file; `name` and `dir` only for sentences, borrowed. */
typedef struct lull__file {
    const lull__dir_t *dir;
    const char *name;
    int fd; /* -1: closed */
} lull__file_t;

#define LULL__FILE_CLOSED \
    { .fd = -1 }

/* After a call that only reads failed with `rc`: is it to be made again? After
 * an interrupt always. A disk behind a network or a switched path has moments,
 * so also a little later, twice, after EIO or ETIMEDOUT; *times counts those.
 * Sleeps. */
bool lull__io_again(ssize_t rc, unsigned *times);

/* A status of reading that says nothing about what is there. */
static inline bool lull__is_unread(lull_status_t status) {
    return status == LULL_ERR_IO || status == LULL_ERR_PERMISSION;
}

/* flags as open(2); created files get mode 0666 under the umask. */
lull_status_t lull__file_open(const lull__dir_t *dir, const char *name,
                              int flags, lull__file_t *out);
/* Harmless on a closed one. A failing close is only reported: after an fsync
 * nothing can be lost by it. */
lull_status_t lull__file_close(lull__file_t *file);
lull_status_t lull__file_write(const lull__file_t *file, const void *data,
                               uint64_t bytes, uint64_t offset);
/* All of it; LULL_ERR_CORRUPT if the file ends before. */
lull_status_t lull__file_read(const lull__file_t *file, void *data,
                              uint64_t bytes, uint64_t offset);
/* Never retried: after a failed fsync the pages may be gone. */
lull_status_t lull__file_sync(const lull__file_t *file);
lull_status_t lull__file_truncate(const lull__file_t *file, uint64_t bytes);
/* Reserves blocks for `bytes`, so that a full disk shows at once; a file system
 * that cannot is no failure. */
lull_status_t lull__file_reserve(const lull__file_t *file, uint64_t bytes);
lull_status_t lull__file_size(const lull__file_t *file, uint64_t *bytes);
/* flock; LULL_ERR_BUSY if it would block. */
lull_status_t lull__file_lock(const lull__file_t *file, int operation);

/* Reads a whole file of at most `limit` bytes; *data is malloc'd, with a NUL
 * behind its last byte. LULL_ERR_CORRUPT if it is longer. */
lull_status_t lull__file_slurp(const lull__dir_t *dir, const char *name,
                               uint64_t limit, char **data, uint64_t *bytes);

/* Publishes a small file whole or not at all: writes `temp`, syncs it (if
 * durable), renames it to `name`. The caller syncs the directory. On failure
 * the temp is removed. */
typedef struct lull__publish {
    const char *temp, *name;
    const void *data;
    uint64_t bytes;
    bool durable;
} lull__publish_t;
lull_status_t lull__file_publish(const lull__dir_t *dir,
                                 const lull__publish_t *what);

#endif
