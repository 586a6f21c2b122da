/* A directory that appears whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export.h"

static int fail(const char *path, const char *what) {
    cli_say("%s: %s: %s", path, what, strerror(errno));
    return CLI_FAILED;
}

int export_open(export_dir_t *dir, const char *path) {
    *dir = (export_dir_t){.path = strdup(path)};
    size_t n = dir->path != NULL ? strlen(dir->path) : 0;
    while (n > 1 && dir->path[n - 1] == '/')
        dir->path[--n] = '\0';
    if (n == 0 ||
        asprintf(&dir->temp, "%s.tmp-%ld", dir->path, (long)getpid()) < 0) {
        dir->temp = NULL;
        cli_say("%s: not a name for a directory", path);
        return CLI_FAILED;
    }
    if (mkdir(dir->temp, 0777) != 0)
        return fail(dir->path, "creating failed");
    dir->made = true;
    return CLI_OK;
}

static int sync_path(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(path, "opening failed");
    int rc = fsync(fd);
    if (rc != 0)
        fail(path, "fsync failed");
    close(fd);
    return rc == 0 ? CLI_OK : CLI_FAILED;
}

static int sync_parent(const char *path) {
    char *parent = strdup(path);
    if (parent == NULL)
        return CLI_FAILED;
    char *slash = strrchr(parent, '/');
    if (slash != NULL)
        slash[slash == parent] = '\0';
    int code = sync_path(slash != NULL ? parent : ".");
    free(parent);
    return code;
}

int export_publish(export_dir_t *dir) {
    int code = sync_path(dir->temp);
    if (code != CLI_OK)
        return code;
    /* rename() replaces only an empty directory; renameat2 not even that. */
    if (renameat2(AT_FDCWD, dir->temp, AT_FDCWD, dir->path, RENAME_NOREPLACE) !=
        0) {
        if (errno != EINVAL || access(dir->path, F_OK) == 0 ||
            rename(dir->temp, dir->path) != 0)
            return fail(dir->path, "renaming to it failed");
    }
    dir->published = true;
    return sync_parent(dir->path);
}

void export_close(export_dir_t *dir) {
    DIR *list = dir->made && !dir->published ? opendir(dir->temp) : NULL;
    if (list != NULL) {
        for (struct dirent *e; (e = readdir(list)) != NULL;)
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                unlinkat(dirfd(list), e->d_name, 0);
        closedir(list);
        rmdir(dir->temp);
    }
    free(dir->path);
    free(dir->temp);
    *dir = (export_dir_t){0};
}

char *export_path(const export_dir_t *dir, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", dir->temp, name) < 0 ? NULL : path;
}

FILE *export_begin(const export_dir_t *dir, const char *name) {
    char *path = export_path(dir, name);
    FILE *file = path != NULL ? fopen(path, "wxe") : NULL;
    if (file == NULL)
        fail(path != NULL ? path : name, "creating failed");
    free(path);
    return file;
}

int export_end(const export_dir_t *dir, const char *name, FILE *file) {
    bool good = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
    int code = good ? CLI_OK : fail(name, "writing failed");
    if (fclose(file) != 0 && code == CLI_OK)
        code = fail(name, "writing failed");
    (void)dir;
    return code;
}
