/* The one table of storage calls. Whatever lull does to a disk goes through
 * it, so that a test can fail the n-th call, write short, be slow or full, or
 * lose power. A call returns >= 0, or -errno. */
#ifndef LULL__IO_H
#define LULL__IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct lull__io lull__io_t;

typedef struct lull__io_stat {
    uint64_t size;
    uint64_t device, inode;
    int64_t mtime; /* seconds since the epoch */
    bool is_dir, is_file;
} lull__io_stat_t;

/* One name of a directory ("." and ".." are left out). Returning a non-zero
 * value ends the listing with it. */
typedef int (*lull__io_list_fn)(void *ctx, const char *name);

/* As the system calls of their names, thin; reads and writes may be short and
 * any call may answer -EINTR: use the helpers of file.h. */
typedef struct lull__io_ops {
    const char *name;
    int (*open)(const lull__io_t *io, int dir, const char *path, int flags,
                unsigned mode); /* openat; O_CLOEXEC is added */
    int (*close)(const lull__io_t *io, int fd);
    ssize_t (*read)(const lull__io_t *io, int fd, void *data, size_t bytes,
                    uint64_t offset);
    ssize_t (*write)(const lull__io_t *io, int fd, const void *data,
                     size_t bytes, uint64_t offset);
    int (*sync)(const lull__io_t *io, int fd); /* fsync, file or directory */
    int (*truncate)(const lull__io_t *io, int fd, uint64_t bytes);
    int (*allocate)(const lull__io_t *io, int fd, uint64_t bytes);
    int (*rename)(const lull__io_t *io, int old_dir, const char *old_name,
                  int new_dir, const char *new_name,
                  unsigned flags); /* renameat2 */
    int (*mkdir)(const lull__io_t *io, int dir, const char *path,
                 unsigned mode);
    int (*unlink)(const lull__io_t *io, int dir, const char *path,
                  int flags); /* unlinkat: AT_REMOVEDIR */
    int (*stat)(const lull__io_t *io, int dir, const char *path,
                lull__io_stat_t *out); /* no links followed; "": dir itself */
    int (*list)(const lull__io_t *io, int dir, lull__io_list_fn fn, void *ctx);
    int (*lock)(const lull__io_t *io, int fd, int operation); /* flock */
    int (*space)(const lull__io_t *io, int fd,
                 uint64_t *free_bytes); /* for an ordinary user */
} lull__io_ops_t;

struct lull__io {
    const lull__io_ops_t *ops;
    void *ctx; /* of the backend; a wrapper keeps the wrapped io here */
};

/* The system's own calls. */
extern const lull__io_t lull__io_system;

/* The io that engines and readers opened from now on use: the system's, or
 * what a test put there. NULL: the system's again. Not for use beside opens. */
const lull__io_t *lull__io_default(void);
void lull__io_set_default(const lull__io_t *io);

#endif
