/* Directories over the storage table. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "file.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)

static int open_dir(const lull__io_t *io, int at, const char *name) {
    unsigned times = 0;
    int fd;
    do
        fd = io->ops->open(io, at, name, DIR_FLAGS, 0);
    while (fd < 0 && lull__io_again(fd, &times));
    return fd;
}

static char *joined(const char *parent, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", parent, name) < 0 ? NULL : path;
}

static lull_status_t dir_finish(const lull__io_t *io, int fd, char *path,
                                lull__dir_t *out) {
    if (path == NULL) {
        if (fd >= 0)
            (void)io->ops->close(io, fd);
        return lull__fail(LULL_ERR_NO_MEMORY, "opening a directory");
    }
    if (fd < 0) {
        lull_status_t status =
            lull__fail_errno(-fd, "%s: opening the directory failed", path);
        free(path);
        return status;
    }
    *out = (lull__dir_t){io, fd, path};
    return LULL_OK;
}

lull_status_t lull__dir_open(const lull__io_t *io, const char *path,
                             lull__dir_t *out) {
    return dir_finish(io, open_dir(io, AT_FDCWD, path), strdup(path), out);
}

lull_status_t lull__dir_open_at(const lull__dir_t *parent, const char *name,
                                lull__dir_t *out) {
    int fd = open_dir(parent->io, parent->fd, name);
    lull_status_t status =
        dir_finish(parent->io, fd, joined(parent->path, name), out);
    return fd == -ENOTDIR || fd == -ELOOP ? LULL_ERR_CORRUPT : status;
}

void lull__dir_close(lull__dir_t *dir) {
    if (dir->fd >= 0)
        (void)dir->io->ops->close(dir->io, dir->fd);
    dir->fd = -1;
    free(dir->path);
    dir->path = NULL;
}

bool lull__dir_rename_path(lull__dir_t *dir, const lull__dir_t *parent,
                           const char *name) {
    char *path = joined(parent->path, name);
    if (path == NULL)
        return false;
    free(dir->path);
    dir->path = path;
    return true;
}

lull_status_t lull__dir_create(const lull__dir_t *parent, const char *name,
                               bool exists_ok) {
    int rc;
    do
        rc = parent->io->ops->mkdir(parent->io, parent->fd, name, 0777);
    while (rc == -EINTR);
    if (rc < 0 && !(rc == -EEXIST && exists_ok))
        return lull__fail_errno(-rc, "%s/%s: creating the directory failed",
                                parent->path, name);
    return LULL_OK;
}

/* Creates one prefix of a path and syncs the directory it lies in. */
static lull_status_t create_prefix(const lull__io_t *io, const char *path) {
    int rc;
    do
        rc = io->ops->mkdir(io, AT_FDCWD, path, 0777);
    while (rc == -EINTR);
    if (rc == -EEXIST)
        return LULL_OK;
    if (rc < 0)
        return lull__fail_errno(-rc, "%s: creating the directory failed", path);
    char *parent = joined(path, "..");
    if (parent == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", path);
    lull__dir_t dir;
    lull_status_t status = lull__dir_open(io, parent, &dir);
    free(parent);
    if (status != LULL_OK)
        return status;
    status = lull__dir_sync(&dir);
    lull__dir_close(&dir);
    return status;
}

lull_status_t lull__dir_create_path(const lull__io_t *io, const char *path) {
    lull__io_stat_t st;
    if (io->ops->stat(io, AT_FDCWD, path, &st) == 0 && st.is_dir)
        return LULL_OK;
    char *prefix = strdup(path);
    if (prefix == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", path);
    lull_status_t status = LULL_OK;
    for (char *at = prefix + 1; status == LULL_OK && *at != '\0'; at++) {
        if (*at != '/' || at[-1] == '/')
            continue;
        *at = '\0';
        status = create_prefix(io, prefix);
        *at = '/';
    }
    if (status == LULL_OK)
        status = create_prefix(io, prefix);
    free(prefix);
    return status;
}

lull_status_t lull__dir_sync(const lull__dir_t *dir) {
    int rc = dir->io->ops->sync(dir->io, dir->fd);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s: fsync of the directory failed",
                                dir->path);
    return LULL_OK;
}

lull_status_t lull__dir_list(const lull__dir_t *dir, lull__io_list_fn fn,
                             void *ctx) {
    int rc = dir->io->ops->list(dir->io, dir->fd, fn, ctx);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s: listing the directory failed",
                                dir->path);
    return LULL_OK;
}

lull_status_t lull__dir_rename(const lull__dir_t *dir, const char *old_name,
                               const lull__dir_t *new_dir, const char *new_name,
                               unsigned flags) {
    if (new_dir == NULL)
        new_dir = dir;
    int rc;
    do
        rc = dir->io->ops->rename(dir->io, dir->fd, old_name, new_dir->fd,
                                  new_name, flags);
    while (rc == -EINTR);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s/%s: renaming to %s failed", dir->path,
                                old_name, new_name);
    return LULL_OK;
}

lull_status_t lull__dir_unlink(const lull__dir_t *dir, const char *name) {
    int rc;
    do
        rc = dir->io->ops->unlink(dir->io, dir->fd, name, 0);
    while (rc == -EINTR);
    if (rc < 0 && rc != -ENOENT)
        return lull__fail_errno(-rc, "%s/%s: deleting failed", dir->path, name);
    return LULL_OK;
}

/* Names are gathered first: deleting while listing may skip some. */
typedef struct names {
    char **rows;
    size_t count, room;
} names_t;

static int gather(void *ctx, const char *name) {
    names_t *names = ctx;
    if (names->count == names->room) {
        size_t room = names->room ? 2 * names->room : 16;
        char **rows = realloc(names->rows, room * sizeof *rows);
        if (rows == NULL)
            return -ENOMEM;
        names->rows = rows;
        names->room = room;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    names->rows[names->count++] = copy;
    return 0;
}

static lull_status_t remove_at_depth(const lull__dir_t *dir, const char *name,
                                     int depth);

static lull_status_t remove_contents(const lull__dir_t *parent,
                                     const char *name, int depth) {
    lull__dir_t dir;
    lull_status_t status = lull__dir_open_at(parent, name, &dir);
    if (status != LULL_OK)
        return status;
    names_t names = {0};
    status = lull__dir_list(&dir, gather, &names);
    for (size_t i = 0; i < names.count; i++) {
        if (status == LULL_OK)
            status = remove_at_depth(&dir, names.rows[i], depth + 1);
        free(names.rows[i]);
    }
    free(names.rows);
    lull__dir_close(&dir);
    return status;
}

static lull_status_t remove_at_depth(const lull__dir_t *dir, const char *name,
                                     int depth) {
    lull__io_stat_t st;
    int rc = dir->io->ops->stat(dir->io, dir->fd, name, &st);
    if (rc == -ENOENT)
        return LULL_OK;
    if (rc < 0)
        return lull__fail_errno(-rc, "%s/%s: deleting failed", dir->path, name);
    if (!st.is_dir)
        return lull__dir_unlink(dir, name);
    if (depth > 8)
        return lull__fail(LULL_ERR_IO, "%s/%s: nested too deep to delete",
                          dir->path, name);
    lull_status_t status = remove_contents(dir, name, depth);
    if (status != LULL_OK)
        return status;
    rc = dir->io->ops->unlink(dir->io, dir->fd, name, AT_REMOVEDIR);
    if (rc < 0 && rc != -ENOENT)
        return lull__fail_errno(-rc, "%s/%s: deleting failed", dir->path, name);
    return LULL_OK;
}

lull_status_t lull__dir_remove_tree(const lull__dir_t *dir, const char *name) {
    return remove_at_depth(dir, name, 0);
}

lull_status_t lull__dir_stat(const lull__dir_t *dir, const char *name,
                             lull__io_stat_t *out) {
    int rc = dir->io->ops->stat(dir->io, dir->fd, name, out);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s/%s", dir->path, name);
    return LULL_OK;
}

bool lull__dir_has(const lull__dir_t *dir, const char *name) {
    lull__io_stat_t st;
    return dir->io->ops->stat(dir->io, dir->fd, name, &st) == 0;
}
