/* Things that several tests need. */
#include "support.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t test_seed(void) {
    const char *given = getenv("LULL_TEST_SEED");
    uint64_t seed = given
                        ? strtoull(given, NULL, 0)
                        : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("LULL_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

uint64_t test_random(uint64_t *state) {
    /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* LC_NUMERIC of a locale as glibc reads it: a comma, no grouping. */
static const unsigned char numeric[] = {
    0x14, 0x11, 0x03, 0x20, 6,   0,   0,   0,   32,  0,   0,   0,
    34,   0,    0,    0,    35,  0,   0,   0,   36,  0,   0,   0,
    40,   0,    0,    0,    44,  0,   0,   0,   ',', 0,   0,   0,
    ',',  0,    0,    0,    0,   0,   0,   0,   'A', 'N', 'S', 'I',
    '_',  'X',  '3',  '.',  '4', '-', '1', '9', '6', '8', 0};

static void write_locale(const char *root) {
    char path[300];
    snprintf(path, sizeof path, "%s/comma", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", root);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return;
    fwrite(numeric, 1, sizeof numeric, file);
    fclose(file);
}

static void drop_locale(const char *root) {
    char path[300];
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", root);
    unlink(path);
    snprintf(path, sizeof path, "%s/comma", root);
    rmdir(path);
    rmdir(root);
}

bool test_decimal_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
    char root[200];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_NUMERIC, names[i]) != NULL)
            return true;
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/lull-locale-XXXXXX", tmp ? tmp : "/tmp");
    if (mkdtemp(root) == NULL)
        return false;
    write_locale(root);
    setenv("LOCPATH", root, 1);
    bool set = setlocale(LC_NUMERIC, "comma") != NULL;
    unsetenv("LOCPATH");
    drop_locale(root);
    if (!set)
        printf("not tested: no locale with a decimal comma\n");
    return set;
}
