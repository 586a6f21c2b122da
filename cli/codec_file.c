/* Files of `lull codec`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec.h"

static int said(const char *path, const char *what) {
    cli_say("%s: %s: %s", path, what, strerror(errno));
    return CLI_FAILED;
}

int file_read(const char *path, file_t *out) {
    struct stat st;
    *out = (file_t){.path = path, .stream = fopen(path, "rb")};
    if (out->stream == NULL)
        return said(path, "opening failed");
    if (fstat(fileno(out->stream), &st) != 0)
        return said(path, "looking at it failed");
    if (!S_ISREG(st.st_mode)) {
        cli_say("%s: not a regular file", path);
        return CLI_FAILED;
    }
    out->bytes = (uint64_t)st.st_size;
    return CLI_OK;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A device or a pipe is written as it is: a rename would put a file in its
 * place. A name that another has is taken by nobody's file. */
int file_create(const char *path, const char *in, file_t *out) {
    struct stat there, read;
    *out = (file_t){.path = path};
    bool exists = stat(path, &there) == 0;
    if (exists && stat(in, &read) == 0 && same_file(&there, &read)) {
        cli_say("%s: it is the file to be read: give another name", path);
        return CLI_FAILED;
    }
    if (exists && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
        return said(path, "creating failed");
    }
    if (exists && !S_ISREG(there.st_mode)) {
        out->stream = fopen(path, "wbe");
        return out->stream == NULL ? said(path, "opening failed") : CLI_OK;
    }
    if (asprintf(&out->temp, "%s.tmp-%ld", path, (long)getpid()) < 0)
        out->temp = NULL;
    if (out->temp != NULL)
        out->stream = fopen(out->temp, "wbxe");
    return out->stream == NULL ? said(path, "creating failed") : CLI_OK;
}

int file_get(file_t *file, void *data, size_t bytes) {
    if (fread(data, 1, bytes, file->stream) == bytes)
        return CLI_OK;
    if (ferror(file->stream))
        return said(file->path, "reading failed");
    cli_say("%s: reading failed: it became shorter", file->path);
    return CLI_FAILED;
}

int file_put(file_t *file, const void *data, size_t bytes) {
    if (fwrite(data, 1, bytes, file->stream) == bytes)
        return CLI_OK;
    return said(file->path, "writing failed");
}

int file_finish(file_t *file, int code) {
    bool opened = file->stream != NULL;
    if (opened && fclose(file->stream) != 0 && code == CLI_OK)
        code = said(file->path, "writing failed");
    file->stream = NULL;
    if (!opened && code == CLI_OK)
        code = CLI_FAILED;
    if (file->temp != NULL && opened) {
        if (code == CLI_OK && rename(file->temp, file->path) != 0)
            code = said(file->path, "naming it failed");
        if (code != CLI_OK)
            unlink(file->temp);
    }
    free(file->temp);
    file->temp = NULL;
    return code;
}

void file_close(file_t *file) {
    if (file->stream != NULL)
        fclose(file->stream);
    file->stream = NULL;
}
