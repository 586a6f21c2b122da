/* How checkpoints would be written to a directory and read from it: what is
 * chosen, tried out, and why nothing faster. */
#include <errno.h>
#include <fcntl.h>
#include <lull/ckpt.h>
#include <stdarg.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "io/direct.h"
#include "io/queue.h"

#define BUFFER_BYTES ((size_t)1 << 20)

__attribute__((format(printf, 2, 3))) static void say(lull_ckpt_io_t *out,
                                                      const char *format, ...) {
    size_t n = strlen(out->why);
    va_list args;
    if (n > 0 && n + 1 < sizeof out->why)
        out->why[n++] = '\n';
    va_start(args, format);
    vsnprintf(out->why + n, sizeof out->why - n, format, args);
    va_end(args);
}

/* A queue as an engine makes it, only smaller. */
static lull_status_t probe_queue(char *buffer, lull_ckpt_io_t *out) {
    lull__io_queue_t *queue;
    lull__io_queue_options_t options = {.io = lull__io_default(),
                                        .threads = 2,
                                        .buffer = buffer,
                                        .buffer_bytes = BUFFER_BYTES};
    lull_status_t status = lull__io_queue_create(&options, &queue);
    if (status != LULL_OK)
        return status;
    const lull__io_queue_about_t *about = lull__io_queue_about(queue);
    snprintf(out->writer, sizeof out->writer, "%s", about->backend);
    out->registered = about->registered;
    if (about->why[0] != '\0')
        say(out, "%s", about->why);
    lull__io_queue_destroy(queue);
    return LULL_OK;
}

static int open_direct(const lull__dir_t *dir, const char *name, int flags) {
    return dir->io->ops->open(dir->io, dir->fd, name, flags | O_DIRECT, 0);
}

static void probe_direct(const lull__dir_t *dir, const char *name, char *buffer,
                         lull_ckpt_io_t *out) {
    const lull__io_t *io = dir->io;
    int fd = open_direct(dir, name, O_WRONLY);
    ssize_t n = fd;
    if (fd >= 0)
        n = io->ops->write(io, fd, buffer, LULL__SECTOR, 0);
    out->direct_writes = n == LULL__SECTOR;
    if (n < 0)
        say(out, "writes go through the page cache: O_DIRECT: %s",
            strerrordesc_np((int)-n));
    if (fd >= 0)
        (void)io->ops->close(io, fd);
    fd = open_direct(dir, name, O_RDONLY);
    n = fd;
    if (fd >= 0)
        n = io->ops->read(io, fd, buffer, LULL__SECTOR, 0);
    out->direct_reads = n == LULL__SECTOR;
    if (n < 0)
        say(out, "reads go through the page cache: O_DIRECT: %s",
            strerrordesc_np((int)-n));
    if (fd >= 0)
        (void)io->ops->close(io, fd);
}

static void probe_space(const lull__dir_t *dir, const lull__file_t *file,
                        lull_ckpt_io_t *out) {
    const lull__io_t *io = dir->io;
    int rc = io->ops->allocate(io, file->fd, BUFFER_BYTES);
    out->reserves = rc == 0;
    if (rc < 0)
        say(out, "files grow write by write: fallocate: %s",
            strerrordesc_np(-rc));
    rc = io->ops->space(io, dir->fd, &out->free_bytes);
    if (rc < 0)
        say(out, "free space is not told: %s", strerrordesc_np(-rc));
}

static void probe_exchange(const lull__dir_t *dir, const char *a, const char *b,
                           lull_ckpt_io_t *out) {
    const lull__io_t *io = dir->io;
    int rc = io->ops->rename(io, dir->fd, a, dir->fd, b, RENAME_EXCHANGE);
    out->exchanges = rc == 0;
    if (rc < 0)
        say(out,
            "a step that is saved again is replaced in two renames: "
            "RENAME_EXCHANGE: %s",
            strerrordesc_np(-rc));
}

/* With two files of its own in DIR, which are gone afterwards. */
static lull_status_t probe_dir(const lull__dir_t *dir, char *buffer,
                               lull_ckpt_io_t *out) {
    char a[64], b[64];
    lull__file_t first, second;
    snprintf(a, sizeof a, ".lull-probe-%ld-a", (long)getpid());
    snprintf(b, sizeof b, ".lull-probe-%ld-b", (long)getpid());
    lull_status_t status =
        lull__file_open(dir, a, O_RDWR | O_CREAT | O_TRUNC, &first);
    if (status != LULL_OK)
        return status;
    status = lull__file_write(&first, buffer, 2 * LULL__SECTOR, 0);
    if (status == LULL_OK)
        probe_direct(dir, a, buffer, out);
    if (status == LULL_OK)
        probe_space(dir, &first, out);
    (void)lull__file_close(&first);
    if (status == LULL_OK)
        status = lull__file_open(dir, b, O_RDWR | O_CREAT | O_TRUNC, &second);
    if (status == LULL_OK) {
        (void)lull__file_close(&second);
        probe_exchange(dir, a, b, out);
        (void)lull__dir_unlink(dir, b);
    }
    (void)lull__dir_unlink(dir, a);
    return status;
}

lull_status_t lull_ckpt_probe(const char *path, lull_ckpt_io_t *out) {
    lull_ckpt_io_t found = {.size = sizeof found};
    lull__dir_t dir = LULL__DIR_CLOSED;
    if (out == NULL || out->size == 0 || out->size > sizeof *out)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_probe: set out->size");
    char *buffer = aligned_alloc(LULL__SECTOR, BUFFER_BYTES);
    if (buffer == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "lull_ckpt_probe");
    memset(buffer, 0, BUFFER_BYTES);
    lull_status_t status = probe_queue(buffer, &found);
    if (status == LULL_OK && path != NULL)
        status = lull__dir_open(lull__io_default(), path, &dir);
    if (status == LULL_OK && path != NULL)
        status = probe_dir(&dir, buffer, &found);
    lull__dir_close(&dir);
    free(buffer);
    if (status != LULL_OK)
        return status;
    found.size = out->size;
    memcpy(out, &found, out->size);
    return LULL_OK;
}
