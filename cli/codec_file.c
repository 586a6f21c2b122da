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

static char *temporary(const char *path) {
    char *name = malloc(strlen(path) + 5);
    if (name != NULL)
        strcat(strcpy(name, path), ".tmp");
    return name;
}

int file_create(const char *path, file_t *out) {
    *out = (file_t){.path = path};
    char *name = temporary(path);
    if (name != NULL)
        out->stream = fopen(name, "wb");
    int code = out->stream == NULL ? said(path, "creating failed") : CLI_OK;
    free(name);
    return code;
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
    char *name = temporary(file->path);
    if (name == NULL || file->stream == NULL) {
        free(name);
        return code == CLI_OK ? CLI_FAILED : code;
    }
    if (fclose(file->stream) != 0 && code == CLI_OK)
        code = said(file->path, "writing failed");
    file->stream = NULL;
    if (code == CLI_OK && rename(name, file->path) != 0)
        code = said(file->path, "naming it failed");
    if (code != CLI_OK)
        unlink(name);
    free(name);
    return code;
}

void file_close(file_t *file) {
    if (file->stream != NULL)
        fclose(file->stream);
    file->stream = NULL;
}
