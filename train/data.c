/* The text, read window by window: a file that shrinks is an error of a read,
 * never a fault. */
#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "random.h"

struct data {
    int fd;
    char *path;
    uint64_t size, train; /* bytes; of them for training */
    uint64_t key;
    int seq, val_windows;
};

static lull_status_t fail_errno(const char *path, const char *what) {
    int error = errno;
    lull_status_t status = error == ENOENT || error == ENOTDIR
                               ? LULL_ERR_NOT_FOUND
                           : error == EACCES ? LULL_ERR_PERMISSION
                                             : LULL_ERR_IO;
    return train_fail(status, "%s: %s: %s", path, what, strerror(error));
}

/* Enough bytes for what is asked of each part? */
static lull_status_t check_size(const data_t *data) {
    uint64_t seq = (uint64_t)data->seq;
    uint64_t windows = (uint64_t)data->val_windows;
    if (data->train < seq + 1)
        return train_fail(LULL_ERR_INVALID,
                          "%s: %llu bytes are too few: nine tenths of it must "
                          "hold one window of --seq + 1 = %llu bytes",
                          data->path, (unsigned long long)data->size,
                          (unsigned long long)seq + 1);
    if (windows > 0 && data->size - data->train < windows * seq + 1)
        return train_fail(LULL_ERR_INVALID,
                          "%s: its last tenth, %llu bytes, is too short for "
                          "--val-windows %llu of --seq %llu (%llu bytes)",
                          data->path,
                          (unsigned long long)(data->size - data->train),
                          (unsigned long long)windows, (unsigned long long)seq,
                          (unsigned long long)(windows * seq + 1));
    return LULL_OK;
}

static lull_status_t open_file(data_t *data) {
    /* A pipe must not hold the opener. */
    data->fd = open(data->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (data->fd < 0)
        return fail_errno(data->path, "cannot be opened");
    struct stat info;
    if (fstat(data->fd, &info) != 0)
        return fail_errno(data->path, "cannot be examined");
    if (!S_ISREG(info.st_mode))
        return train_fail(LULL_ERR_INVALID, "%s: not a plain file", data->path);
    data->size = (uint64_t)info.st_size;
    data->train = data->size / 10 * 9 + data->size % 10 * 9 / 10;
    return check_size(data);
}

lull_status_t data_open(const config_t *config, data_t **out) {
    data_t *data = calloc(1, sizeof *data);
    if (!data)
        return train_fail(LULL_ERR_NO_MEMORY, "data: out of memory");
    data->fd = -1;
    data->seq = config->seq;
    data->val_windows = config->val_windows;
    data->key = random_key(config->seed, "batch");
    data->path = strdup(config->data);
    lull_status_t status =
        data->path ? open_file(data)
                   : train_fail(LULL_ERR_NO_MEMORY, "data: out of memory");
    if (status != LULL_OK)
        data_close(data);
    else
        *out = data;
    return status;
}

void data_close(data_t *data) {
    if (!data)
        return;
    if (data->fd >= 0)
        close(data->fd);
    free(data->path);
    free(data);
}

uint64_t data_size(const data_t *data) {
    return data->size;
}

static lull_status_t read_window(const data_t *data, uint64_t at,
                                 uint8_t *out) {
    size_t left = (size_t)data->seq + 1;
    while (left > 0) {
        ssize_t got = pread(data->fd, out, left, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(data->path, "cannot be read");
        if (got == 0)
            return train_fail(LULL_ERR_IO, "%s: became shorter than %llu bytes",
                              data->path, (unsigned long long)data->size);
        left -= (size_t)got;
        out += got;
        at += (uint64_t)got;
    }
    return LULL_OK;
}

lull_status_t data_train_window(const data_t *data, int64_t step, int index,
                                uint8_t *out) {
    uint64_t starts = data->train - (uint64_t)data->seq;
    uint64_t key = random_bits(data->key, (uint64_t)step);
    return read_window(data, random_below(key, (uint64_t)index, starts), out);
}

lull_status_t data_val_window(const data_t *data, int index, uint8_t *out) {
    return read_window(
        data, data->train + (uint64_t)index * (uint64_t)data->seq, out);
}
