/* Fuzz target: a whole safetensors file. What parses must hold together. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    unsigned char first[8] = {0};
    uint64_t n;
    lull__st_header_t header;
    memcpy(first, data, bytes < 8 ? bytes : 8);
    if (lull__st_length(first, bytes, "file", &n) != LULL_OK)
        return 0;
    char *text = malloc(n);
    memcpy(text, data + 8, n);
    if (lull__st_parse(text, n, bytes - 8 - n, "file", &header) == LULL_OK) {
        uint64_t at = 0;
        for (size_t i = 0; i < header.count; i++) {
            const lull__st_entry_t *entry = &header.entries[i];
            if (entry->begin != at || entry->end < at ||
                entry->end > bytes - 8 - n ||
                lull__names_find(&header.index, entry->name) != i)
                abort();
            at = entry->end;
        }
        if (at != bytes - 8 - n)
            abort();
        lull__st_free(&header);
    }
    free(text);
    return 0;
}
