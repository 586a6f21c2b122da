/* The folder of bench_ckpt, and its yardsticks: torch.save and fio. */
#include "ckpt_bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"

static char folder[3000];

void fail(const char *what) {
    fprintf(stderr, "bench_ckpt: %s: %s\n", what, lull_last_error());
    exit(1);
}

void must(lull_status_t status, const char *what) {
    if (status != LULL_OK)
        fail(what);
}

void nap(double seconds) {
    struct timespec t = {(time_t)seconds,
                         (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (seconds > 0 && nanosleep(&t, &t) != 0)
        continue;
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void path_of(char out[4096], const char *name) {
    snprintf(out, 4096, "%s/%s", folder, name);
}

void forget(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* Deleting is the engine's, and in the background. */
static bool has_trash(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool found = false;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL)
        found = strncmp(entry->d_name, ".trash-", 7) == 0;
    if (dir != NULL)
        closedir(dir);
    return found;
}

void settle(void) {
    char path[4096];
    double until = now() + 60;
    path_of(path, "ckpt");
    nap(0.005); /* a commit is known before its trash is trash */
    while (has_trash(path) && now() < until)
        nap(0.002);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)syncfs(fd);
    close(fd);
}

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char below[4096 + 512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (unlink(below) != 0)
            remove_tree(below);
    }
    if (dir != NULL)
        closedir(dir);
    (void)rmdir(path);
}

static void clean_up(void) {
    remove_tree(folder);
}

void folder_make(const char *under) {
    snprintf(folder, sizeof folder, "%s/lull-bench-XXXXXX", under);
    if (mkdtemp(folder) == NULL)
        fail(under);
    atexit(clean_up);
}

void folder_empty(void) {
    remove_tree(folder);
    if (mkdir(folder, 0777) != 0)
        fail(folder);
}

/* A warm process that does torch.save when told. */
static struct {
    pid_t pid; /* 0: there is none */
    FILE *to, *from;
} torch;

bool torch_begin(const char *script, size_t bytes) {
    int in[2], out[2];
    char size[32], path[4096], line[64] = "";
    path_of(path, "torch.pt");
    snprintf(size, sizeof size, "%zu", bytes);
    if (pipe(in) != 0 || pipe(out) != 0)
        return false;
    torch.pid = fork();
    if (torch.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(PYTHON, PYTHON, script, size, path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    torch.to = fdopen(in[1], "w");
    torch.from = fdopen(out[0], "r");
    return fgets(line, sizeof line, torch.from) != NULL &&
           strcmp(line, "ready\n") == 0;
}

double torch_save(void) {
    char line[64] = "";
    if (torch.pid == 0)
        return 0;
    fputs("save\n", torch.to);
    fflush(torch.to);
    if (fgets(line, sizeof line, torch.from) == NULL)
        fail("torch.save ended");
    return strtod(line, NULL);
}

void torch_end(void) {
    if (torch.pid == 0)
        return;
    fclose(torch.to);
    fclose(torch.from);
    (void)waitpid(torch.pid, NULL, 0);
    torch.pid = 0;
}

/* GB/s of one pass over a file by fio; 0: no fio. The time is the job's, the
 * fsync at its end included. */
static double fio(const char *how, size_t bytes) {
    char command[8192], path[4096];
    double ms = 0;
    path_of(path, "fio.dat");
    snprintf(command, sizeof command,
             "fio --name=b --filename='%s' --rw=%s --bs=8M --iodepth=%d "
             "--ioengine=io_uring --direct=1 --size=%zu --fallocate=posix "
             "--end_fsync=%d --output-format=json 2>/dev/null | sed -n "
             "'s/.*\"job_runtime\" : \\([0-9]*\\).*/\\1/p'",
             path, how, DEPTH, bytes, strcmp(how, "write") == 0);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c)
    if (pipe == NULL)
        return 0;
    if (fscanf(pipe, "%lf", &ms) != 1)
        ms = 0;
    pclose(pipe);
    return ms > 0 ? 1e-6 * (double)bytes / ms : 0;
}

double fio_write(size_t bytes) {
    char path[4096];
    path_of(path, "fio.dat");
    if (unlink(path) == 0)
        settle();
    return fio("write", bytes);
}

double fio_read(size_t bytes) {
    char path[4096];
    path_of(path, "fio.dat");
    forget(path);
    return fio("read", bytes);
}
