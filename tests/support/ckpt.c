/* What tests of checkpoints share. */
#include "ckpt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt/naming.h"
#include "ckpt/safetensors.h"
#include "support.h"
#include "test.h"

void test_dir_make(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/lull-test-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(path) == NULL)
        fail_msg("mkdtemp %s", path);
}

void test_dir_drop(const char *path) {
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0)
        fail_msg("%s", command);
}

char ckpt_room[256];

int ckpt_room_make(void **state) {
    (void)state;
    test_dir_make(ckpt_room);
    return 0;
}

int ckpt_room_drop(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(ckpt_room);
    return 0;
}

void ckpt_room_in_memory(void) {
    struct statvfs fs;
    /* Containers often have 64 MiB there, which a test may fill. */
    if (access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize >= (uint64_t)1 << 30)
        setenv("TMPDIR", "/dev/shm", 0);
}

lull_status_t test_commit(lull_ckpt_t *ckpt, const lull_ckpt_save_t *save) {
    lull_status_t status = lull_ckpt_save(ckpt, save, NULL);
    return status ? status : lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
}

bool test_has(const char *dir, const char *name) {
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

unsigned test_count(const char *dir, const char *prefix) {
    unsigned n = 0;
    DIR *names = opendir(dir);
    const struct dirent *entry;
    while (names != NULL && (entry = readdir(names)) != NULL)
        n += strcmp(entry->d_name, ".") != 0 &&
             strcmp(entry->d_name, "..") != 0 &&
             strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (names != NULL)
        closedir(names);
    return n;
}

char *test_slurp(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    long n = ftell(file);
    rewind(file);
    char *data = malloc((size_t)n + 1);
    if (data != NULL && fread(data, 1, (size_t)n, file) != (size_t)n)
        n = 0;
    fclose(file);
    if (data != NULL)
        data[n] = '\0';
    *bytes = (size_t)n;
    return data;
}

void test_spit(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes)
        fail_msg("writing %s", path);
    fclose(file);
}

lull_ckpt_options_t test_options(const char *dir, uint32_t rank,
                                 uint32_t world) {
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    options.dir = dir;
    options.rank = rank;
    options.world = world;
    options.run_id = "run";
    options.buffer_bytes = 1 << 20;
    options.commit_timeout_s = 20;
    return options;
}

lull_ckpt_tensor_t test_tensor(const char *name, lull_dtype_t dtype,
                               uint64_t count, const void *data) {
    lull_ckpt_tensor_t tensor = LULL_CKPT_TENSOR_INIT;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.ndim = 1;
    tensor.global_shape[0] = tensor.shape[0] = count;
    tensor.data = data;
    return tensor;
}

static char *find_stored(char *file, size_t n, const char *name,
                         uint64_t *bytes) {
    uint64_t length;
    lull__st_header_t header;
    char *found = NULL;
    assert_ok(lull__st_length((unsigned char *)file, n, "file", &length));
    assert_int_equal((8 + length) % LULL__ST_ALIGN, 0);
    char *text = malloc(length);
    assert_non_null(text);
    memcpy(text, file + 8, length);
    assert_ok(lull__st_parse(text, length, n - 8 - length, "file", &header));
    size_t i = lull__names_find(&header.index, name);
    if (i != SIZE_MAX) {
        const lull__st_entry_t *entry = &header.entries[i];
        *bytes = entry->end - entry->begin;
        found = malloc(*bytes + 1);
        assert_non_null(found);
        memcpy(found, file + 8 + length + entry->begin, *bytes);
    }
    lull__st_free(&header);
    free(text);
    return found;
}

char *test_stored(const char *dir, uint64_t step, uint32_t rank,
                  const char *stored, uint64_t *bytes) {
    char path[1024];
    lull__entry_name_t home, name;
    size_t n;
    char *found = NULL;
    lull__naming_step(home, step);
    for (uint32_t part = 0; found == NULL; part++) {
        lull__naming_data(name, rank, part);
        snprintf(path, sizeof path, "%s/%s/%s", dir, home, name);
        char *file = test_slurp(path, &n);
        if (file == NULL)
            return NULL;
        found = find_stored(file, n, stored, bytes);
        free(file);
    }
    return found;
}

void test_fill(void *data, size_t bytes, uint64_t seed) {
    unsigned char *at = data;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t value = test_random(&seed);
        memcpy(at + i, &value, bytes - i < 8 ? bytes - i : 8);
    }
}

unsigned test_descriptors(void) {
    return test_count("/proc/self/fd", "");
}
