/* Which checkpoints a directory holds, and which of them to take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"
#include "reader.h"

lull_status_t lull__reader_manifest(const lull__dir_t *dir, char **text,
                                    lull__manifest_t *out) {
    uint64_t bytes;
    char *path = NULL;
    lull_status_t status =
        lull__file_slurp(dir, LULL__MANIFEST, LULL__MANIFEST_MAX, text, &bytes);
    if (status != LULL_OK)
        return status;
    if (asprintf(&path, "%s/" LULL__MANIFEST, dir->path) < 0) {
        status = lull__fail(LULL_ERR_NO_MEMORY, "%s", dir->path);
        goto no_path;
    }
    status = lull__manifest_parse(*text, bytes, path, out);
    free(path);
no_path:
    if (status != LULL_OK)
        free(*text);
    return status;
}

/* A published directory lacks what it must have: that is damage. */
static lull_status_t as_damage(lull_status_t status) {
    return status == LULL_ERR_NOT_FOUND ? LULL_ERR_CORRUPT : status;
}

/* Fills in what the manifest of `candidate` says. LULL_ERR_NO_MEMORY is the
 * only failure; all others are noted. */
static lull_status_t look(const lull__dir_t *root, uint64_t step,
                          lull__candidate_t *candidate) {
    lull__dir_t dir;
    lull__manifest_t manifest;
    char *text;
    candidate->id = (lull_ckpt_id_t){0, step};
    lull_status_t status = lull__dir_open_at(root, candidate->name, &dir);
    if (status == LULL_OK) {
        status = lull__reader_manifest(&dir, &text, &manifest);
        lull__dir_close(&dir);
    }
    if (status == LULL_OK) {
        candidate->id.seq = manifest.seq;
        if (manifest.step != step)
            status = lull__fail(
                LULL_ERR_CORRUPT, "%s/%s: its manifest is that of step %llu",
                root->path, candidate->name, (unsigned long long)manifest.step);
        lull__manifest_free(&manifest);
        free(text);
    }
    if (status == LULL_ERR_NO_MEMORY)
        return status;
    candidate->status = as_damage(status);
    if (status != LULL_OK)
        lull__text_copy(candidate->why, sizeof candidate->why,
                        lull_last_error());
    return LULL_OK;
}

typedef struct gather {
    lull__candidate_t *rows;
    size_t count, room;
    lull_status_t status;
} gather_t;

static int gather_name(void *ctx, const char *name) {
    gather_t *gather = ctx;
    lull__naming_t fields;
    lull__naming_kind_t kind = lull__naming_parse(name, &fields);
    if (kind != LULL__NAMING_STEP && kind != LULL__NAMING_OLD)
        return 0;
    gather->status = lull__grow((void **)&gather->rows, gather->count,
                                &gather->room, sizeof *gather->rows);
    if (gather->status != LULL_OK)
        return 1;
    lull__candidate_t *row = &gather->rows[gather->count++];
    memset(row, 0, sizeof *row);
    lull__text_copy(row->name, sizeof row->name, name);
    row->id.step = fields.step;
    /* For the moment: which kind it is. */
    row->id.seq = kind == LULL__NAMING_OLD;
    return 0;
}

static int by_step_then_kind(const void *a, const void *b) {
    const lull__candidate_t *x = a, *y = b;
    if (x->id.step != y->id.step)
        return x->id.step < y->id.step ? -1 : 1;
    return (x->id.seq > y->id.seq) - (x->id.seq < y->id.seq);
}

static int by_seq(const void *a, const void *b) {
    const lull__candidate_t *x = a, *y = b;
    if (x->id.seq != y->id.seq)
        return x->id.seq < y->id.seq ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* One whose directory was moved aside counts only while nothing has its
 * place: a crash between two renames left it so. */
static void drop_replaced(gather_t *gather) {
    size_t kept = 0;
    if (gather->count > 1)
        qsort(gather->rows, gather->count, sizeof *gather->rows,
              by_step_then_kind);
    for (size_t i = 0; i < gather->count; i++) {
        bool has_place = kept > 0 && gather->rows[kept - 1].id.step ==
                                         gather->rows[i].id.step;
        if (gather->rows[i].id.seq == 0 || !has_place)
            gather->rows[kept++] = gather->rows[i];
    }
    gather->count = kept;
}

lull_status_t lull__candidates(const lull__dir_t *root, lull__candidate_t **out,
                               size_t *count) {
    gather_t gather = {0};
    lull_status_t status = lull__dir_list(root, gather_name, &gather);
    if (gather.status != LULL_OK)
        status = gather.status;
    if (status == LULL_OK)
        drop_replaced(&gather);
    for (size_t i = 0; status == LULL_OK && i < gather.count; i++)
        status = look(root, gather.rows[i].id.step, &gather.rows[i]);
    if (status != LULL_OK) {
        free(gather.rows);
        return status;
    }
    if (gather.count > 1)
        qsort(gather.rows, gather.count, sizeof *gather.rows, by_seq);
    *out = gather.rows;
    *count = gather.count;
    return LULL_OK;
}

/* The cheap checks are those of opening. */
static lull_status_t check(const lull__dir_t *root,
                           const lull__candidate_t *candidate) {
    lull_ckpt_info_t *info;
    if (candidate->status != LULL_OK)
        return lull__fail(candidate->status, "%s", candidate->why);
    lull_status_t status =
        lull__reader_open(root, candidate->name, candidate->id.seq, &info);
    if (status == LULL_OK)
        lull_ckpt_info_destroy(info);
    return status;
}

/* Would an older checkpoint do instead? Not where the reason is this process
 * or this library. */
static bool may_skip(lull_status_t status) {
    return status != LULL_ERR_NO_MEMORY && status != LULL_ERR_VERSION;
}

/* `latest` names it. */
static bool hinted(const lull__dir_t *root, const char *name) {
    char *text;
    uint64_t n;
    if (lull__file_slurp(root, LULL__LATEST_FILE, LULL__ENTRY_MAX + 2, &text,
                         &n) != LULL_OK)
        return false;
    text[strcspn(text, "\n")] = '\0';
    bool same = strcmp(text, name) == 0;
    free(text);
    return same;
}

/* Those of unknown seq sort below all others: one that may be newer than the
 * one found, by its step or by the hint, is not passed over in silence. */
static lull_status_t tell_unordered(const lull__dir_t *root,
                                    const lull_ckpt_find_options_t *options,
                                    const lull__candidate_t *rows, size_t count,
                                    uint64_t found_step) {
    for (size_t i = 0; i < count && rows[i].id.seq == 0; i++) {
        if (rows[i].id.step <= found_step && !hinted(root, rows[i].name))
            continue;
        if (!may_skip(rows[i].status))
            return lull__fail(rows[i].status, "%s", rows[i].why);
        if (options->on_skip != NULL)
            options->on_skip(options->ctx, rows[i].id, rows[i].why);
    }
    return LULL_OK;
}

static lull_status_t find_latest(const lull__dir_t *root,
                                 const lull_ckpt_find_options_t *options,
                                 const lull__candidate_t *rows, size_t count,
                                 lull_ckpt_id_t *out) {
    size_t skipped = 0, all = count;
    while (count-- > 0) {
        if (options->before_seq != 0 &&
            rows[count].id.seq >= options->before_seq)
            continue;
        lull_status_t status = check(root, &rows[count]);
        if (status == LULL_OK && options->before_seq == 0)
            status =
                tell_unordered(root, options, rows, all, rows[count].id.step);
        else if (status != LULL_OK && may_skip(status)) {
            skipped++;
            if (options->on_skip != NULL)
                options->on_skip(options->ctx, rows[count].id,
                                 lull_last_error());
            continue;
        }
        if (status == LULL_OK)
            *out = rows[count].id;
        return status;
    }
    if (skipped > 0)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "%s: no whole checkpoint, %zu damaged", root->path,
                          skipped);
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no checkpoint", root->path);
}

static lull_status_t find_step(const lull__dir_t *root,
                               const lull_ckpt_find_options_t *options,
                               const lull__candidate_t *rows, size_t count,
                               lull_ckpt_id_t *out) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i].id.step != options->step ||
            (options->before_seq != 0 && rows[i].id.seq >= options->before_seq))
            continue;
        lull_status_t status = check(root, &rows[i]);
        if (status == LULL_OK)
            *out = rows[i].id;
        return as_damage(status);
    }
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no checkpoint of step %llu",
                      root->path, (unsigned long long)options->step);
}

lull_status_t lull_ckpt_find(const char *dir,
                             const lull_ckpt_find_options_t *options,
                             lull_ckpt_id_t *out) {
    lull_ckpt_find_options_t all = LULL_CKPT_FIND_OPTIONS_INIT;
    lull__candidate_t *rows;
    lull__dir_t root;
    size_t count;
    if (dir == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_find: %s is NULL",
                          dir ? "out" : "dir");
    if (options != NULL)
        memcpy(&all, options,
               options->size < sizeof all ? options->size : sizeof all);
    lull_status_t status = lull__dir_open(lull__io_default(), dir, &root);
    if (status != LULL_OK)
        return status;
    status = lull__candidates(&root, &rows, &count);
    if (status != LULL_OK)
        goto no_rows;
    status = all.step == LULL_LATEST
                 ? find_latest(&root, &all, rows, count, out)
                 : find_step(&root, &all, rows, count, out);
    free(rows);
no_rows:
    lull__dir_close(&root);
    return status;
}

/* ---- Listing ---- */

static void describe(const lull__dir_t *root,
                     const lull__candidate_t *candidate,
                     lull_ckpt_entry_t *entry) {
    lull_ckpt_info_t *info;
    lull_status_t status = candidate->status;
    memset(entry, 0, sizeof *entry);
    if (status == LULL_OK)
        status =
            lull__reader_open(root, candidate->name, candidate->id.seq, &info);
    else
        lull__fail(status, "%s", candidate->why);
    if (status == LULL_OK) {
        lull_ckpt_info_entry(info, entry);
        lull_ckpt_info_destroy(info);
        return;
    }
    entry->id = candidate->id;
    entry->state = status;
    lull__text_copy(entry->name, sizeof entry->name, candidate->name);
    lull__text_copy(entry->why, sizeof entry->why, lull_last_error());
}

lull_status_t lull_ckpt_list(const char *dir, lull_ckpt_entry_t **entries,
                             size_t *count) {
    lull__candidate_t *rows;
    lull_ckpt_entry_t *out;
    lull__dir_t root;
    size_t n;
    if (dir == NULL || entries == NULL || count == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_list: NULL");
    lull_status_t status = lull__dir_open(lull__io_default(), dir, &root);
    if (status != LULL_OK)
        return status;
    status = lull__candidates(&root, &rows, &n);
    if (status != LULL_OK)
        goto no_rows;
    out = calloc(n > 0 ? n : 1, sizeof *out);
    if (out == NULL) {
        status = lull__fail(LULL_ERR_NO_MEMORY, "a list of %zu rows", n);
        goto no_out;
    }
    for (size_t i = 0; i < n; i++)
        describe(&root, &rows[i], &out[i]);
    *entries = out;
    *count = n;
no_out:
    free(rows);
no_rows:
    lull__dir_close(&root);
    return status;
}

void lull_ckpt_entries_free(lull_ckpt_entry_t *entries) {
    free(entries);
}
