/* Rank 0: the votes of a save. */
#include "collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checksum.h"
#include "base/log.h"
#include "grow.h"
#include "note.h"
#include "tiles.h"

#define VOTE_MAX ((uint64_t)1 << 36)

struct lull__collector {
    lull_ckpt_request_t *save;
    lull__manifest_t *manifest;
    lull__tiles_t *tiles;
    bool *seen; /* [world] the vote of this rank is in the manifest */
    uint32_t missing;
    size_t file_room;
    lull_status_t status;
    bool told; /* votes come as messages, of files that may be elsewhere */
};
typedef struct lull__collector collector_t;

static lull_status_t no_memory(void) {
    return lull__fail(LULL_ERR_NO_MEMORY, "collecting votes");
}

lull_status_t lull__collect_size(const lull__dir_t *dir, const char *name,
                                 uint64_t bytes) {
    lull__io_stat_t st;
    lull_status_t status = lull__dir_stat(dir, name, &st);
    if (status != LULL_OK)
        return status;
    if (st.size != bytes)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s/%s: has %" PRIu64
                          " bytes, its vote says %" PRIu64,
                          dir->path, name, st.size, bytes);
    return LULL_OK;
}

static lull_status_t add_file(collector_t *c, uint32_t rank,
                              const lull__vote_file_t *file) {
    lull__manifest_t *manifest = c->manifest;
    lull_status_t status = LULL_OK;
    if (!c->told) /* else its place looks */
        status = lull__collect_size(&c->save->dir, file->name, file->bytes);
    if (status != LULL_OK)
        return status;
    status = lull__grow((void **)&manifest->files, manifest->file_count,
                        &c->file_room, sizeof *manifest->files);
    if (status != LULL_OK)
        return status;
    char *name = strdup(file->name);
    if (name == NULL)
        return no_memory();
    manifest->files[manifest->file_count++] = (lull__manifest_file_t){
        name, rank, file->bytes, lull__vote_file_digest(file)};
    return LULL_OK;
}

/* Is it of this run, save, step and world, and of that rank alone? Any other is
 * ignored. */
static bool is_ours(const collector_t *c, const lull__vote_head_t *head,
                    uint32_t rank) {
    const lull_ckpt_t *ckpt = c->save->ckpt;
    return strcmp(head->run_id, ckpt->run_id) == 0 &&
           head->save == c->save->number && head->step == c->save->step &&
           head->world == ckpt->options.world && head->rank == rank &&
           head->ranks == 1;
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

/* Of text[bytes], which is written to. Another save's is ignored. */
static lull_status_t add_text(collector_t *c, uint32_t rank, const char *name,
                              char *text, uint64_t bytes) {
    lull__vote_t vote;
    uint64_t hash = lull__hash_of(text, bytes);
    lull_status_t status = lull__vote_parse(text, bytes, name, &vote);
    if (status == LULL_OK) {
        if (is_ours(c, &vote.head, rank)) {
            c->manifest->votes[rank].bytes = bytes;
            c->manifest->votes[rank].hash = hash;
            status = add_parsed(c, &vote, rank);
        }
        lull__vote_free(&vote);
    }
    return status;
}

static lull_status_t add_vote(collector_t *c, const char *name, uint32_t rank) {
    char *text;
    uint64_t bytes;
    lull_status_t status =
        lull__file_slurp(&c->save->dir, name, VOTE_MAX, &text, &bytes);
    if (status != LULL_OK)
        return status;
    status = add_text(c, rank, name, text, bytes);
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
        /* Before it looks: it may be stopped between. */
        bool late = lull__now() > deadline;
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
        if (late)
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

/* Places, where there are several, and whose is which. */
static lull_status_t fill_places(const lull_ckpt_t *ckpt,
                                 lull__manifest_t *manifest) {
    if (ckpt->place_count < 2)
        return LULL_OK;
    size_t bytes = ckpt->place_count * sizeof *manifest->places;
    manifest->places = malloc(bytes);
    if (manifest->places == NULL)
        return no_memory();
    memcpy(manifest->places, ckpt->place_names, bytes);
    manifest->place_count = ckpt->place_count;
    for (uint32_t r = 0; r < ckpt->options.world; r++)
        manifest->votes[r].place = ckpt->place_of[r];
    return LULL_OK;
}

static lull_status_t begin_collecting(collector_t *c) {
    lull_ckpt_t *ckpt = c->save->ckpt;
    uint32_t world = ckpt->options.world;
    *c->manifest = (lull__manifest_t){0};
    c->missing = world;
    /* Nobody could read one of LULL_LATEST. */
    if (ckpt->history.last >= LULL_LATEST - 1)
        return lull__fail(LULL_ERR_STATE,
                          "%s: there is a checkpoint of seq %" PRIu64
                          ", the last there can be: no seq is left for step "
                          "%" PRIu64,
                          ckpt->dir_path, ckpt->history.last, c->save->step);
    fill(c->save, c->manifest);
    lull_status_t status = lull__tiles_create(ckpt->place_count > 1, &c->tiles);
    if (status != LULL_OK)
        return status;
    c->seen = calloc(world, sizeof *c->seen);
    c->manifest->vote_count = world;
    c->manifest->votes = calloc(world, sizeof *c->manifest->votes);
    if (c->seen == NULL || c->manifest->votes == NULL)
        return no_memory();
    return fill_places(ckpt, c->manifest);
}

/* `status` is what came of it so far; also of a collector that never began. */
static lull_status_t end_collecting(collector_t *c, lull_status_t status) {
    lull__manifest_t *manifest = c->manifest;
    if (status == LULL_OK)
        status = lull__tiles_check(c->tiles);
    lull__tiles_destroy(c->tiles);
    free(c->seen);
    if (manifest->file_count > 0)
        qsort(manifest->files, manifest->file_count, sizeof *manifest->files,
              by_rank);
    if (status != LULL_OK)
        lull__collect_free(manifest);
    return status;
}

lull_status_t lull__collect(lull_ckpt_request_t *save,
                            lull__manifest_t *manifest) {
    collector_t c = {.save = save, .manifest = manifest};
    lull_status_t status = begin_collecting(&c);
    if (status == LULL_OK)
        status = collect(&c);
    return end_collecting(&c, status);
}

lull_status_t lull__collect_begin(lull_ckpt_request_t *save,
                                  lull__manifest_t *manifest,
                                  lull__collector_t **out) {
    collector_t *c = calloc(1, sizeof *c);
    if (c == NULL)
        return no_memory();
    *c = (collector_t){.save = save, .manifest = manifest, .told = true};
    lull_status_t status = begin_collecting(c);
    if (status != LULL_OK) {
        end_collecting(c, status);
        free(c);
        return status;
    }
    *out = c;
    return LULL_OK;
}

lull_status_t lull__collect_vote(lull__collector_t *c, uint32_t rank,
                                 char *text, uint64_t bytes) {
    lull__entry_name_t name;
    lull__naming_vote(name, rank);
    lull_status_t status = add_text(c, rank, name, text, bytes);
    if (status == LULL_OK && !c->seen[rank])
        status = lull__fail(LULL_ERR_MISMATCH, "its vote is of another save: "
                                               "the ranks save other steps");
    return status;
}

lull_status_t lull__collect_end(lull__collector_t *c, bool all) {
    if (c == NULL)
        return LULL_OK;
    lull_status_t status = end_collecting(c, all ? LULL_OK : LULL_ERR_ABORTED);
    free(c);
    return status;
}

void lull__collect_free(lull__manifest_t *manifest) {
    for (size_t i = 0; i < manifest->file_count; i++)
        free((char *)manifest->files[i].name);
    free(manifest->files);
    free(manifest->votes);
    free(manifest->places);
    *manifest = (lull__manifest_t){0};
}
