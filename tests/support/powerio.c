/* Simulated power loss: a log of calls, and disks rebuilt from its prefixes. */
#include "powerio.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "test.h"

typedef enum op {
    OP_CREATE,
    OP_MKDIR,
    OP_WRITE,
    OP_TRUNCATE,
    OP_RENAME,
    OP_EXCHANGE,
    OP_UNLINK,
    OP_SYNC
} op_t;

static const char *const op_names[] = {"create",   "mkdir",  "write",
                                       "truncate", "rename", "exchange",
                                       "unlink",   "fsync"};

/* Inodes have numbers of our own: those of a file system come again. */
typedef struct call {
    op_t op;
    unsigned dir, inode;   /* where, what */
    unsigned dir2, inode2; /* of a rename: to where, over what */
    char name[256], name2[256];
    uint64_t offset, bytes;
    char *data;
    char text[640];
} call_t;

#define INODES_MAX 65536
#define FDS_MAX 4096
#define NO_INODE 0u
#define ROOT 1u

struct powerio {
    lull__io_t io;
    bool exchange;
    pthread_mutex_t lock;
    call_t *calls;
    size_t count, room;
    struct {
        uint64_t device, real; /* of the file system, while it exists */
        bool is_dir;
    } inodes[INODES_MAX];
    unsigned inode_count;
    unsigned fds[FDS_MAX];
};

static powerio_t *self(const lull__io_t *io) {
    return io->ctx;
}

static unsigned find_inode(powerio_t *power, const struct stat *st) {
    for (unsigned i = power->inode_count; i >= ROOT; i--)
        if (power->inodes[i].real == st->st_ino &&
            power->inodes[i].device == st->st_dev)
            return i;
    return NO_INODE;
}

static unsigned new_inode(powerio_t *power, const struct stat *st) {
    unsigned i = ++power->inode_count;
    assert_true(i < INODES_MAX);
    power->inodes[i].device = st->st_dev;
    power->inodes[i].real = st->st_ino;
    power->inodes[i].is_dir = S_ISDIR(st->st_mode);
    return i;
}

static unsigned inode_at(powerio_t *power, int dir, const char *path) {
    struct stat st;
    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return NO_INODE;
    return find_inode(power, &st);
}

/* The directory that `path` lies in, and its last part. */
static unsigned parent_of(powerio_t *power, int dir, const char *path,
                          const char **name) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        *name = path;
        return dir >= 0 && dir < FDS_MAX ? power->fds[dir] : NO_INODE;
    }
    char parent[512];
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    *name = slash + 1;
    return inode_at(power, dir, parent);
}

static call_t *record(powerio_t *power, op_t op, unsigned dir, unsigned inode,
                      const char *name) {
    if (power->count == power->room) {
        power->room = power->room ? 2 * power->room : 256;
        power->calls =
            realloc(power->calls, power->room * sizeof *power->calls);
        assert_non_null(power->calls);
    }
    call_t *call = &power->calls[power->count++];
    memset(call, 0, sizeof *call);
    call->op = op;
    call->dir = dir;
    call->inode = inode;
    snprintf(call->name, sizeof call->name, "%s", name);
    snprintf(call->text, sizeof call->text, "%s %s (inode %u in %u)",
             op_names[op], name, inode, dir);
    return call;
}

static int p_open(const lull__io_t *io, int dir, const char *path, int flags,
                  unsigned mode) {
    powerio_t *power = self(io);
    struct stat st;
    const char *name;
    pthread_mutex_lock(&power->lock);
    unsigned parent = parent_of(power, dir, path, &name);
    bool there = fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int fd =
        lull__io_system.ops->open(&lull__io_system, dir, path, flags, mode);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        unsigned inode;
        assert_true(fd < FDS_MAX);
        if (!there && (flags & O_CREAT)) {
            inode = new_inode(power, &st);
            if (parent != NO_INODE)
                record(power, OP_CREATE, parent, inode, name);
        } else {
            inode = find_inode(power, &st);
            if ((flags & O_TRUNC) && inode != NO_INODE)
                record(power, OP_TRUNCATE, NO_INODE, inode, name);
        }
        power->fds[fd] = inode;
    }
    pthread_mutex_unlock(&power->lock);
    return fd;
}

static int p_close(const lull__io_t *io, int fd) {
    powerio_t *power = self(io);
    pthread_mutex_lock(&power->lock);
    if (fd >= 0 && fd < FDS_MAX)
        power->fds[fd] = NO_INODE;
    int rc = lull__io_system.ops->close(&lull__io_system, fd);
    pthread_mutex_unlock(&power->lock);
    return rc;
}

static ssize_t p_write(const lull__io_t *io, int fd, const void *data,
                       size_t bytes, uint64_t offset) {
    powerio_t *power = self(io);
    pthread_mutex_lock(&power->lock);
    ssize_t n =
        lull__io_system.ops->write(&lull__io_system, fd, data, bytes, offset);
    if (n > 0) {
        call_t *call = record(power, OP_WRITE, NO_INODE, power->fds[fd], "");
        call->offset = offset;
        call->bytes = (uint64_t)n;
        call->data = malloc((size_t)n);
        assert_non_null(call->data);
        memcpy(call->data, data, (size_t)n);
    }
    pthread_mutex_unlock(&power->lock);
    return n;
}

static int p_sync(const lull__io_t *io, int fd) {
    /* The image does not need the real one. */
    powerio_t *power = self(io);
    pthread_mutex_lock(&power->lock);
    record(power, OP_SYNC, NO_INODE, power->fds[fd], "");
    pthread_mutex_unlock(&power->lock);
    return 0;
}

static int p_truncate(const lull__io_t *io, int fd, uint64_t bytes) {
    powerio_t *power = self(io);
    pthread_mutex_lock(&power->lock);
    int rc = lull__io_system.ops->truncate(&lull__io_system, fd, bytes);
    if (rc == 0)
        record(power, OP_TRUNCATE, NO_INODE, power->fds[fd], "")->bytes = bytes;
    pthread_mutex_unlock(&power->lock);
    return rc;
}

static int p_rename(const lull__io_t *io, int old_dir, const char *old_name,
                    int new_dir, const char *new_name, unsigned flags) {
    powerio_t *power = self(io);
    const char *from, *to;
    if (flags != 0 && !power->exchange)
        return -EINVAL;
    pthread_mutex_lock(&power->lock);
    unsigned dir = parent_of(power, old_dir, old_name, &from);
    unsigned dir2 = parent_of(power, new_dir, new_name, &to);
    unsigned inode = inode_at(power, old_dir, old_name);
    unsigned over = inode_at(power, new_dir, new_name);
    int rc = lull__io_system.ops->rename(&lull__io_system, old_dir, old_name,
                                         new_dir, new_name, flags);
    if (rc == 0) {
        call_t *call =
            record(power, flags ? OP_EXCHANGE : OP_RENAME, dir, inode, from);
        call->dir2 = dir2;
        call->inode2 = over;
        snprintf(call->name2, sizeof call->name2, "%s", to);
        size_t n = strlen(call->text);
        snprintf(call->text + n, sizeof call->text - n, " to %s (in %u)", to,
                 dir2);
    }
    pthread_mutex_unlock(&power->lock);
    return rc;
}

static int p_mkdir(const lull__io_t *io, int dir, const char *path,
                   unsigned mode) {
    powerio_t *power = self(io);
    struct stat st;
    const char *name;
    pthread_mutex_lock(&power->lock);
    int rc = lull__io_system.ops->mkdir(&lull__io_system, dir, path, mode);
    if (rc == 0 && fstatat(dir, path, &st, 0) == 0) {
        unsigned parent = parent_of(power, dir, path, &name);
        record(power, OP_MKDIR, parent, new_inode(power, &st), name);
    }
    pthread_mutex_unlock(&power->lock);
    return rc;
}

static int p_unlink(const lull__io_t *io, int dir, const char *path,
                    int flags) {
    powerio_t *power = self(io);
    const char *name;
    pthread_mutex_lock(&power->lock);
    unsigned parent = parent_of(power, dir, path, &name);
    unsigned inode = inode_at(power, dir, path);
    int rc = lull__io_system.ops->unlink(&lull__io_system, dir, path, flags);
    if (rc == 0) {
        record(power, OP_UNLINK, parent, inode, name);
        if (inode != NO_INODE) /* the number may come again at once */
            power->inodes[inode].real = 0;
    }
    pthread_mutex_unlock(&power->lock);
    return rc;
}

static lull__io_ops_t ops;

static powerio_t *create(bool exchange) {
    powerio_t *power = calloc(1, sizeof *power);
    assert_non_null(power);
    ops = *lull__io_system.ops;
    ops.name = "power";
    ops.open = p_open;
    ops.close = p_close;
    ops.write = p_write;
    ops.sync = p_sync;
    ops.truncate = p_truncate;
    ops.rename = p_rename;
    ops.mkdir = p_mkdir;
    ops.unlink = p_unlink;
    power->io = (lull__io_t){&ops, power};
    power->exchange = exchange;
    pthread_mutex_init(&power->lock, NULL);
    return power;
}

powerio_t *powerio_create(const char *root, bool exchange) {
    powerio_t *power = create(exchange);
    struct stat st;
    assert_int_equal(stat(root, &st), 0);
    assert_int_equal(new_inode(power, &st), ROOT);
    return power;
}

void powerio_destroy(powerio_t *power) {
    for (size_t i = 0; i < power->count; i++)
        free(power->calls[i].data);
    free(power->calls);
    pthread_mutex_destroy(&power->lock);
    free(power);
}

const lull__io_t *powerio_io(powerio_t *power) {
    return &power->io;
}

size_t powerio_count(powerio_t *power) {
    pthread_mutex_lock(&power->lock);
    size_t count = power->count;
    pthread_mutex_unlock(&power->lock);
    return count;
}

const char *powerio_describe(powerio_t *power, size_t i) {
    return power->calls[i].text;
}

/* ---- rebuilding ---- */

typedef struct disk_entry {
    unsigned dir, inode;
    char name[256];
} disk_entry_t;

typedef struct disk_file {
    char *data;
    uint64_t bytes;
} disk_file_t;

typedef struct disk {
    powerio_t *power;
    disk_entry_t *entries;
    size_t count, room;
    disk_file_t *files; /* by inode */
} disk_t;

static void drop_entry(disk_t *disk, unsigned dir, const char *name) {
    for (size_t i = 0; i < disk->count; i++)
        if (disk->entries[i].dir == dir &&
            strcmp(disk->entries[i].name, name) == 0) {
            disk->entries[i] = disk->entries[--disk->count];
            return;
        }
}

static void put_entry(disk_t *disk, unsigned dir, const char *name,
                      unsigned inode) {
    drop_entry(disk, dir, name);
    if (disk->count == disk->room) {
        disk->room = disk->room ? 2 * disk->room : 64;
        disk->entries =
            realloc(disk->entries, disk->room * sizeof *disk->entries);
        assert_non_null(disk->entries);
    }
    disk_entry_t *entry = &disk->entries[disk->count++];
    entry->dir = dir;
    entry->inode = inode;
    strcpy(entry->name, name);
}

static void set_size(disk_file_t *file, uint64_t bytes) {
    file->data = realloc(file->data, bytes + 1);
    assert_non_null(file->data);
    if (bytes > file->bytes)
        memset(file->data + file->bytes, 0, bytes - file->bytes);
    file->bytes = bytes;
}

static void apply(disk_t *disk, const call_t *call, uint64_t written) {
    disk_file_t *file = &disk->files[call->inode];
    switch (call->op) {
    case OP_CREATE:
    case OP_MKDIR:
        put_entry(disk, call->dir, call->name, call->inode);
        break;
    case OP_WRITE:
        if (call->offset + written > file->bytes)
            set_size(file, call->offset + written);
        if (written > 0)
            memcpy(file->data + call->offset, call->data, written);
        break;
    case OP_TRUNCATE:
        set_size(file, call->bytes);
        break;
    case OP_RENAME:
        drop_entry(disk, call->dir, call->name);
        put_entry(disk, call->dir2, call->name2, call->inode);
        break;
    case OP_EXCHANGE:
        put_entry(disk, call->dir, call->name, call->inode2);
        put_entry(disk, call->dir2, call->name2, call->inode);
        break;
    case OP_UNLINK:
        drop_entry(disk, call->dir, call->name);
        break;
    case OP_SYNC:
        break;
    }
}

/* The directory whose sync makes a call on names last; else the file. */
static unsigned synced_by(const call_t *call) {
    switch (call->op) {
    case OP_CREATE:
    case OP_MKDIR:
    case OP_UNLINK:
        return call->dir;
    case OP_RENAME:
    case OP_EXCHANGE:
        return call->dir2;
    default:
        return call->inode;
    }
}

static bool is_synced(const powerio_t *power, size_t i, size_t calls) {
    unsigned by = synced_by(&power->calls[i]);
    for (size_t j = i + 1; j < calls; j++)
        if (power->calls[j].op == OP_SYNC && power->calls[j].inode == by)
            return true;
    return false;
}

static void know(powerio_t *known, unsigned inode, const char *path) {
    struct stat st;
    if (known == NULL)
        return;
    assert_int_equal(stat(path, &st), 0);
    known->inodes[inode].device = st.st_dev;
    known->inodes[inode].real = st.st_ino;
}

/* In `known`, if any, the numbers of the new tree's inodes. */
static void make_tree(const disk_t *disk, unsigned dir, const char *path,
                      powerio_t *known) {
    char below[1024];
    assert_int_equal(mkdir(path, 0777), 0);
    know(known, dir, path);
    for (size_t i = 0; i < disk->count; i++) {
        const disk_entry_t *entry = &disk->entries[i];
        if (entry->dir != dir)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->name);
        if (disk->power->inodes[entry->inode].is_dir) {
            make_tree(disk, entry->inode, below, known);
            continue;
        }
        int fd = open(below, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        const disk_file_t *file = &disk->files[entry->inode];
        assert_true(fd >= 0);
        if (file->bytes > 0)
            assert_true(write(fd, file->data, file->bytes) ==
                        (ssize_t)file->bytes);
        close(fd);
        know(known, entry->inode, below);
    }
}

static void rebuild(powerio_t *power, size_t calls, power_loss_t loss,
                    uint64_t seed, const char *image, powerio_t *known) {
    disk_t disk = {.power = power};
    /* Names of a directory are lost from some point on. */
    bool *cut = calloc(power->inode_count + 1, sizeof *cut);
    disk.files = calloc(power->inode_count + 1, sizeof *disk.files);
    assert_true(cut && disk.files);
    for (size_t i = 0; i < calls; i++) {
        const call_t *call = &power->calls[i];
        uint64_t written = call->bytes;
        if (call->op == OP_SYNC)
            continue;
        if (!is_synced(power, i, calls)) {
            bool names = call->op != OP_WRITE && call->op != OP_TRUNCATE;
            unsigned by = synced_by(call);
            uint64_t random = test_random(&seed);
            bool lost = loss == POWER_DROP ||
                        (loss == POWER_MIX && (cut[by] || random % 3 == 0));
            if (names && lost)
                cut[by] = true;
            if (lost && call->op == OP_WRITE && loss == POWER_MIX &&
                written > 512 && random % 2)
                written = 512 * (random / 8 % (written / 512)); /* torn */
            else if (lost)
                continue;
        }
        apply(&disk, call, written);
    }
    make_tree(&disk, ROOT, image, known);
    for (unsigned i = 0; i <= power->inode_count; i++)
        free(disk.files[i].data);
    free(disk.files);
    free(disk.entries);
    free(cut);
}

void powerio_rebuild(powerio_t *power, size_t calls, power_loss_t loss,
                     uint64_t seed, const char *image) {
    rebuild(power, calls, loss, seed, image, NULL);
}

powerio_t *powerio_resume(powerio_t *power, size_t calls, const char *image) {
    powerio_t *next = create(power->exchange);
    next->inode_count = power->inode_count;
    for (unsigned i = ROOT; i <= power->inode_count; i++)
        next->inodes[i].is_dir = power->inodes[i].is_dir;
    for (size_t i = 0; i < calls; i++) {
        const call_t *from = &power->calls[i];
        call_t *call = record(next, from->op, NO_INODE, NO_INODE, "");
        *call = *from;
        if (from->data != NULL) {
            call->data = malloc(from->bytes);
            assert_non_null(call->data);
            memcpy(call->data, from->data, from->bytes);
        }
    }
    rebuild(power, calls, POWER_KEEP, 0, image, next);
    return next;
}
