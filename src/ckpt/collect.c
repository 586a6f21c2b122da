/* Rank 0: the votes of a save. */
#include "collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checksum.h"
#include "base/log.h"
#include "note.h"
#include "tiles.h"

#define VOTE_MAX ((uint64_t)1 << 36)

typedef struct collector {
    lull_ckpt_request_t *save;
    lull__manifest_t *manifest;
    lull__tiles_t *tiles;
    bool *seen; /* [world] the vote of this rank is in the manifest */
    uint32_t missing;
    size_t file_room;
    lull_status_t status;
} collector_t;

static lull_status_t no_memory(void) {
    return lull__fail(LULL_ERR_NO_MEMORY, "collecting votes");
}

static lull_status_t add_file(collector_t *c, uint32_t rank,
                              const lull__vote_file_t *file) {
    lull__manifest_t *manifest = c->manifest;
    lull__io_stat_t st;
    lull_status_t status = lull__dir_stat(&c->save->dir, file->name, &st);
    if (status != LULL_OK)
        return status;
    if (st.size != file->bytes)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s/%s: has %" PRIu64
                          " bytes, its vote says %" PRIu64,
                          c->save->dir.path, file->name, st.size, file->bytes);
    if (manifest->file_count == c->file_room) {
        size_t room = c->file_room ? 2 * c->file_room : 16;
        void *files = realloc(manifest->files, room * sizeof *manifest->files);
        if (files == NULL)
            return no_memory();
        manifest->files = files;
        c->file_room = room;
    }
    char *name = strdup(file->name);
    if (name == NULL)
        return no_memory();
    manifest->files[manifest->file_count++] = (lull__manifest_file_t){
        name, rank, file->bytes, lull__vote_file_digest(file)};
    return LULL_OK;
}

/* Is it of this run, save, step and world? Any other is ignored. */
static bool is_ours(const collector_t *c, const lull__vote_head_t *head,
                    uint32_t rank) {
    const lull_ckpt_t *ckpt = c->save->ckpt;
    return strcmp(head->run_id, ckpt->run_id) == 0 &&
           head->save == c->save->number && head->step == c->save->step &&
           head->world == ckpt->options.world && head->rank == rank;
}

static lull_status_t add_parsed(collector_t *c, const lull__vote_t *vote,
                                uint32_t rank) {
    lull_status_t status = lull__tiles_add(c->tiles, vote);
    for (size_t f = 0; status == LULL_OK && f < vote->file_count; f++)
        status = add_file(c, rank, &vote->files[f]);
    if (status == LULL_OK) {
        c->seen[rank] = true;
        c->missing--;
    }
    return status;
}

static lull_status_t add_vote(collector_t *c, const char *name, uint32_t rank) {
    char *text;
    uint64_t bytes;
    lull__vote_t vote;
    lull_status_t status =
        lull__file_slurp(&c->save->dir, name, VOTE_MAX, &text, &bytes);
    if (status != LULL_OK)
        return status;
    uint64_t hash = lull__hash_of(text, bytes);
    status = lull__vote_parse(text, bytes, name, &vote);
    if (status == LULL_OK) {
        if (is_ours(c, &vote.head, rank)) {
            c->manifest->votes[rank] = (lull__manifest_vote_t){bytes, hash};
            status = add_parsed(c, &vote, rank);
        }
        lull__vote_free(&vote);
    }
    free(text);
    return status;
}

static int look_at_vote(void *ctx, const char *name) {
    collector_t *c = ctx;
    lull__naming_t naming;
    if (lull__naming_parse(name, &naming) != LULL__NAMING_VOTE ||
        naming.rank >= c->save->ckpt->options.world || c->seen[naming.rank])
        return 0;
    c->status = add_vote(c, name, naming.rank);
    return c->status != LULL_OK;
}

static int look_at_note(void *ctx, const char *name) {
    collector_t *c = ctx;
    lull__note_t note;
    uint32_t rank;
    if (!lull__note_is_abort(name, c->save->ckpt->run_id, c->save->number,
                             &rank) ||
        lull__note_read(&c->save->ckpt->lull_dir, name, &note) != LULL_OK)
        return 0;
    (void)lull__dir_unlink(&c->save->ckpt->lull_dir, name);
    c->status =
        lull__fail(LULL_ERR_ABORTED, "rank %" PRIu32 ": %s", rank, note.text);
    return 1;
}

static lull_status_t too_late(const collector_t *c) {
    uint32_t rank = 0;
    while (c->seen[rank])
        rank++;
    return lull__fail(LULL_ERR_ABORTED,
                      "step %" PRIu64 ": %" PRIu32 " of %" PRIu32
                      " ranks did not vote within %.0f s; the first is rank "
                      "%" PRIu32,
                      c->save->step, c->missing, c->save->ckpt->options.world,
                      c->save->ckpt->options.commit_timeout_s, rank);
}

static lull_status_t collect(collector_t *c) {
    lull_ckpt_t *ckpt = c->save->ckpt;
    double begin = lull__now();
    double deadline = begin + ckpt->options.commit_timeout_s;
    for (;;) {
        lull_status_t status = lull__dir_list(&c->save->dir, look_at_vote, c);
        if (status == LULL_OK && c->status == LULL_OK && c->missing > 0)
            status = lull__dir_list(&ckpt->lull_dir, look_at_note, c);
        if (status == LULL_OK)
            status = c->status;
        if (status != LULL_OK || c->missing == 0)
            return status;
        status = lull__engine_there(ckpt);
        if (status != LULL_OK)
            return status;
        if (lull__now() > deadline)
            return too_late(c);
        if (!lull__engine_nap(ckpt, begin))
            return lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    }
}

static int by_rank(const void *a, const void *b) {
    const lull__manifest_file_t *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    /* Part 0 has no number; "rank-00000.safetensors" is shorter. */
    size_t n = strlen(x->name), m = strlen(y->name);
    return n != m ? (n > m) - (n < m) : strcmp(x->name, y->name);
}

static void fill(lull_ckpt_request_t *save, lull__manifest_t *manifest) {
    lull_ckpt_t *ckpt = save->ckpt;
    manifest->seq = ckpt->history.last + 1;
    manifest->parent = save->parent_seq;
    manifest->step = save->step;
    manifest->save = save->number;
    manifest->time = time(NULL);
    if (manifest->time < 0)
        manifest->time = 0;
    manifest->world = ckpt->options.world;
    strcpy(manifest->run_id, ckpt->run_id);
    manifest->meta = save->meta;
    manifest->meta_count = save->meta_count;
}

lull_status_t lull__collect(lull_ckpt_request_t *save,
                            lull__manifest_t *manifest) {
    uint32_t world = save->ckpt->options.world;
    collector_t c = {.save = save, .manifest = manifest, .missing = world};
    *manifest = (lull__manifest_t){0};
    fill(save, manifest);
    lull_status_t status = lull__tiles_create(&c.tiles);
    if (status != LULL_OK)
        return status;
    c.seen = calloc(world, sizeof *c.seen);
    manifest->votes = calloc(world, sizeof *manifest->votes);
    status = c.seen && manifest->votes ? collect(&c) : no_memory();
    if (status == LULL_OK)
        status = lull__tiles_check(c.tiles);
    lull__tiles_destroy(c.tiles);
    free(c.seen);
    if (manifest->file_count > 0)
        qsort(manifest->files, manifest->file_count, sizeof *manifest->files,
              by_rank);
    if (status != LULL_OK)
        lull__collect_free(manifest);
    return status;
}

void lull__collect_free(lull__manifest_t *manifest) {
    for (size_t i = 0; i < manifest->file_count; i++)
        free((char *)manifest->files[i].name);
    free(manifest->files);
    free(manifest->votes);
    *manifest = (lull__manifest_t){0};
}
