/* Storage tables for tests. */
#include "faultio.h"

#include <errno.h>
#include <string.h>

#include "base/thread.h"

/* What to do with this call: 0 go on, 1 be short, -errno fail. */
static int decide(const lull__io_t *io, fault_op_t op) {
    faultio_t *fault = io->ctx;
    if (!(fault->ops & op))
        return 0;
    uint64_t n = __atomic_add_fetch(&fault->calls, 1, __ATOMIC_SEQ_CST);
    uint64_t at = __atomic_load_n(&fault->at, __ATOMIC_SEQ_CST);
    if (op == FAULT_WRITE && fault->slow_s > 0)
        lull__sleep(fault->slow_s);
    if (at == 0 || !(n == at || (fault->from_then_on && n > at)))
        return 0;
    if (fault->hook != NULL)
        fault->hook(fault, op);
    __atomic_add_fetch(&fault->hits, 1, __ATOMIC_SEQ_CST);
    int error = __atomic_load_n(&fault->error, __ATOMIC_SEQ_CST);
    return error ? -error : 1;
}

static const lull__io_t *below(const lull__io_t *io) {
    return ((faultio_t *)io->ctx)->below;
}

#define GUARD(op)                    \
    int decided = decide(io, op);    \
    const lull__io_t *b = below(io); \
    if (decided < 0)                 \
    return decided

static int f_open(const lull__io_t *io, int dir, const char *path, int flags,
                  unsigned mode) {
    GUARD(FAULT_OPEN);
    return b->ops->open(b, dir, path, flags, mode);
}

static int f_close(const lull__io_t *io, int fd) {
    /* The descriptor is closed whatever close says. */
    int decided = decide(io, FAULT_CLOSE);
    const lull__io_t *b = below(io);
    int rc = b->ops->close(b, fd);
    return decided < 0 ? decided : rc;
}

static ssize_t f_read(const lull__io_t *io, int fd, void *data, size_t bytes,
                      uint64_t offset) {
    GUARD(FAULT_READ);
    return b->ops->read(b, fd, data, decided && bytes ? 1 : bytes, offset);
}

static ssize_t f_write(const lull__io_t *io, int fd, const void *data,
                       size_t bytes, uint64_t offset) {
    GUARD(FAULT_WRITE);
    /* A short one keeps to sectors, as O_DIRECT does. */
    size_t shorter = bytes > 4096 ? 4096 : bytes / 2 + 1;
    return b->ops->write(b, fd, data, decided && bytes ? shorter : bytes,
                         offset);
}

static int f_sync(const lull__io_t *io, int fd) {
    GUARD(FAULT_SYNC);
    return b->ops->sync(b, fd);
}

static int f_truncate(const lull__io_t *io, int fd, uint64_t bytes) {
    GUARD(FAULT_TRUNCATE);
    return b->ops->truncate(b, fd, bytes);
}

static int f_allocate(const lull__io_t *io, int fd, uint64_t bytes) {
    GUARD(FAULT_ALLOCATE);
    return b->ops->allocate(b, fd, bytes);
}

static int f_rename(const lull__io_t *io, int old_dir, const char *old_name,
                    int new_dir, const char *new_name, unsigned flags) {
    GUARD(FAULT_RENAME);
    return b->ops->rename(b, old_dir, old_name, new_dir, new_name, flags);
}

static int f_mkdir(const lull__io_t *io, int dir, const char *path,
                   unsigned mode) {
    GUARD(FAULT_MKDIR);
    return b->ops->mkdir(b, dir, path, mode);
}

static int f_unlink(const lull__io_t *io, int dir, const char *path,
                    int flags) {
    GUARD(FAULT_UNLINK);
    return b->ops->unlink(b, dir, path, flags);
}

static int f_stat(const lull__io_t *io, int dir, const char *path,
                  lull__io_stat_t *out) {
    GUARD(FAULT_STAT);
    return b->ops->stat(b, dir, path, out);
}

static int f_list(const lull__io_t *io, int dir, lull__io_list_fn fn,
                  void *ctx) {
    GUARD(FAULT_LIST);
    return b->ops->list(b, dir, fn, ctx);
}

static int f_lock(const lull__io_t *io, int fd, int operation) {
    GUARD(FAULT_LOCK);
    return b->ops->lock(b, fd, operation);
}

static int f_space(const lull__io_t *io, int fd, uint64_t *free_bytes) {
    GUARD(FAULT_SPACE);
    return b->ops->space(b, fd, free_bytes);
}

static const lull__io_ops_t ops = {
    .name = "fault",
    .open = f_open,
    .close = f_close,
    .read = f_read,
    .write = f_write,
    .sync = f_sync,
    .truncate = f_truncate,
    .allocate = f_allocate,
    .rename = f_rename,
    .mkdir = f_mkdir,
    .unlink = f_unlink,
    .stat = f_stat,
    .list = f_list,
    .lock = f_lock,
    .space = f_space,
};

void faultio_init(faultio_t *fault) {
    memset(fault, 0, sizeof *fault);
    fault->io = (lull__io_t){&ops, fault};
    fault->below = &lull__io_system;
    fault->ops = FAULT_ANY;
}

void faultio_arm(faultio_t *fault, uint64_t at, int error) {
    __atomic_store_n(&fault->error, error, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fault->calls, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fault->hits, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fault->at, at, __ATOMIC_SEQ_CST);
}

bool faultio_hit(const faultio_t *fault) {
    return __atomic_load_n(&fault->hits, __ATOMIC_SEQ_CST) > 0;
}
