/* Fuzz target: a vote. What parses must hold together. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/vote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const lull__vote_t *vote) {
    uint64_t sum = 0;
    for (size_t i = 0; i < vote->file_count; i++)
        for (uint64_t b = 0; b < vote->files[i].hash_count; b++)
            sum += vote->files[i].hashes[b];
    for (size_t i = 0; i < vote->shard_count; i++) {
        const lull__shard_t *shard = &vote->shards[i];
        const lull__vote_file_t *file = &vote->files[shard->file];
        lull__box_t box;
        lull__shard_box(shard, &box);
        if (shard->file >= vote->file_count || shard->end < shard->begin ||
            shard->end > file->bytes - file->header_bytes ||
            !lull__box_inside(shard->ndim, shard->global, &box))
            abort();
        for (uint64_t f = 0; f < shard->frame_count; f++)
            sum += shard->frames[f];
    }
    for (size_t i = 0; i < vote->alias_count; i++)
        sum += strlen(vote->aliases[i].key) + strlen(vote->aliases[i].value);
    if (sum == 1 && vote->head.rank >= vote->head.world)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    lull__vote_head_t head;
    lull__vote_t vote;
    char *text = malloc(bytes > 0 ? bytes : 1);
    memcpy(text, data, bytes);
    (void)lull__vote_peek(text, bytes, "vote", &head);
    memcpy(text, data, bytes);
    if (lull__vote_parse(text, bytes, "vote", &vote) == LULL_OK) {
        check(&vote);
        lull__vote_free(&vote);
    }
    free(text);
    return 0;
}
