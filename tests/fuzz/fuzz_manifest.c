/* Fuzz target: a manifest, as it is and with its hash put right, so that the
 * parser behind the hash is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void parse(char *text, size_t bytes) {
    lull__manifest_t manifest;
    if (lull__manifest_parse(text, bytes, "manifest", &manifest) != LULL_OK)
        return;
    if (manifest.world == 0 || manifest.seq == 0)
        abort();
    for (size_t i = 0; i < manifest.file_count; i++)
        if (manifest.files[i].rank >= manifest.world ||
            strchr(manifest.files[i].name, '/') != NULL)
            abort();
    lull__manifest_free(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { TAIL = 27 }; /* "hash":"0123456789abcdef"} and a newline */
    char *text = malloc(bytes + TAIL + 1);
    memcpy(text, data, bytes);
    parse(text, bytes);
    memcpy(text, data, bytes);
    size_t n = bytes < TAIL ? bytes : bytes - TAIL;
    snprintf(text + n, TAIL + 1, "\"hash\":\"%016llx\"}\n",
             (unsigned long long)XXH3_64bits(text, n));
    parse(text, n + TAIL);
    free(text);
    return 0;
}
