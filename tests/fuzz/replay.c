/* Runs a fuzz target on every file of the directories named, without
 * libFuzzer; on the empty input first. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int run_file(const char *path) {
    enum { MOST = 1 << 22 };
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MOST);
    if (file == NULL || data == NULL) {
        perror(path);
        exit(1);
    }
    size_t bytes = fread(data, 1, MOST, file);
    /* A block of its own size, so that a sanitizer sees a read past it. */
    uint8_t *exact = realloc(data, bytes ? bytes : 1);
    fclose(file);
    int status = LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
    return status;
}

int main(int argc, char **argv) {
    unsigned files = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            run_file(path);
            files++;
        }
        closedir(dir);
    }
    printf("%u files\n", files);
    return 0;
}
