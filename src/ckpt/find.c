/* Which checkpoints a directory holds, and which of them to take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"
#include "reader.h"
#include "retention.h"

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

lull_ckpt_id_t lull__reader_id(const lull__manifest_t *manifest) {
    return (lull_ckpt_id_t){manifest->seq, manifest->step,
                            lull__history_row(manifest).origin};
}

/* Fills in what the manifest of `candidate` says. LULL_ERR_NO_MEMORY is the
 * only failure; all others are noted. */
static lull_status_t look(const lull__dir_t *root, uint64_t step,
                          lull__candidate_t *candidate) {
    lull__dir_t dir;
    lull__manifest_t manifest;
    char *text;
    candidate->id = (lull_ckpt_id_t){0, step, 0};
    lull_status_t status = lull__dir_open_at(root, candidate->name, &dir);
    if (status == LULL_OK) {
        status = lull__reader_manifest(&dir, &text, &manifest);
        lull__dir_close(&dir);
    }
    if (status == LULL_OK) {
        candidate->id = lull__reader_id(&manifest);
        candidate->id.step = step;
        candidate->time = manifest.time;
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

/* What was committed first; 0: it is the same. */
static int by_commit(const lull__candidate_t *x, const lull__candidate_t *y) {
    if (x->id.seq != y->id.seq)
        return x->id.seq < y->id.seq ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->id.origin > y->id.origin) - (x->id.origin < y->id.origin);
}

static int by_seq(const void *a, const void *b) {
    const lull__candidate_t *x = a, *y = b;
    int order = by_commit(x, y);
    if (order != 0)
        return order;
    if (x->tier != y->tier) /* the fastest last: first from the end */
        return x->tier > y->tier ? -1 : 1;
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
    for (size_t i = 0; status == LULL_OK && i < gather.count; i++) {
        gather.rows[i].root = root;
        status = look(root, gather.rows[i].id.step, &gather.rows[i]);
    }
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

/* Would another copy do instead? Not where the reason is this process or this
 * library. */
static bool copy_may_do(lull_status_t status) {
    return status != LULL_ERR_NO_MEMORY && status != LULL_ERR_VERSION;
}

/* ... an older checkpoint? Not where this one is perhaps as good as new, and
 * only cannot be read now. */
static bool may_skip(lull_status_t status) {
    return copy_may_do(status) && !lull__is_unread(status);
}

/* What is looked through: the candidates of one or more directories. */
typedef struct search {
    lull_ckpt_find_options_t options;
    lull__dir_t *roots; /* [root_count]; closed where there is none */
    size_t root_count;
    const char *where; /* for sentences */
    lull__candidate_t *rows;
    size_t count;
    lull_ckpt_info_t **keep; /* NULL, or gets what was found, opened */
} search_t;

/* The cheap checks are those of opening. */
static lull_status_t check(const search_t *search,
                           const lull__candidate_t *candidate) {
    lull_ckpt_info_t *info;
    if (candidate->status != LULL_OK)
        return lull__fail(candidate->status, "%s", candidate->why);
    lull_status_t status = lull__reader_open(candidate->root, candidate->name,
                                             candidate->id, &info);
    if (status != LULL_OK)
        return status;
    if (search->keep != NULL)
        *search->keep = info; /* the search ends with it */
    else
        lull_ckpt_info_destroy(info);
    return LULL_OK;
}

static void tell(const search_t *search, const lull__candidate_t *row,
                 const char *why) {
    if (search->options.on_skip != NULL)
        search->options.on_skip(search->options.ctx, row->id, why);
}

/* Of a checkpoint with before_seq: is it of the one that is meant? */
static bool is_meant(const search_t *search, const lull__candidate_t *row) {
    uint64_t origin = search->options.before_origin;
    return row->id.seq == search->options.before_seq &&
           (origin == 0 || row->id.origin == origin);
}

/* Others with its seq are the next where they stand before it, or it is not
 * here. */
static bool is_next(const search_t *search, const lull__candidate_t *row) {
    for (size_t i = 0; i < search->count; i++)
        if (is_meant(search, &search->rows[i]))
            return by_commit(row, &search->rows[i]) < 0;
    return true;
}

static bool asked_for(const search_t *search, const lull__candidate_t *row) {
    const lull_ckpt_find_options_t *options = &search->options;
    if (options->before_seq == 0 || row->id.seq < options->before_seq)
        return true;
    if (row->id.seq > options->before_seq)
        return false;
    return is_meant(search, row)
               ? options->from_tier > 0 && row->tier >= options->from_tier
               : is_next(search, row);
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
static lull_status_t tell_unordered(const search_t *search,
                                    const lull__candidate_t *found) {
    for (size_t i = 0; i < search->count && search->rows[i].id.seq == 0; i++) {
        const lull__candidate_t *row = &search->rows[i];
        if (row->id.step <= found->id.step && !hinted(row->root, row->name))
            continue;
        bool is_copy = row->id.step == found->id.step;
        if (!may_skip(row->status) && !(is_copy && copy_may_do(row->status)))
            return lull__fail(row->status, "%s", row->why);
        tell(search, row, row->why);
    }
    return LULL_OK;
}

/* One that another copy may do for. */
typedef struct passed {
    const lull__candidate_t *row; /* NULL: there is none */
    lull_status_t status;
    char why[LULL__SENTENCE_MAX];
} passed_t;

static void pass(passed_t *passed, const lull__candidate_t *row,
                 lull_status_t status) {
    if (passed->row != NULL)
        return;
    passed->row = row;
    passed->status = as_damage(status);
    lull__text_copy(passed->why, sizeof passed->why, lull_last_error());
}

static bool is_other(const passed_t *passed, const lull__candidate_t *row) {
    return passed->row != NULL && by_commit(passed->row, row) != 0;
}

static lull_status_t find_latest(const search_t *search,
                                 const lull__candidate_t **out) {
    size_t skipped = 0;
    passed_t unread = {.row = NULL};
    for (size_t i = search->count; i-- > 0;) {
        const lull__candidate_t *row = &search->rows[i];
        if (!asked_for(search, row))
            continue;
        if (is_other(&unread, row))
            break;
        lull_status_t status = check(search, row);
        if (status == LULL_OK) {
            *out = row;
            if (unread.row != NULL)
                tell(search, unread.row, unread.why);
            return search->options.before_seq == 0 ? tell_unordered(search, row)
                                                   : LULL_OK;
        }
        if (!copy_may_do(status))
            return status;
        if (may_skip(status)) {
            skipped++;
            tell(search, row, lull_last_error());
        } else {
            pass(&unread, row, status);
        }
    }
    if (unread.row != NULL)
        return lull__fail(unread.status, "%s", unread.why);
    if (skipped > 0)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "%s: no whole checkpoint, %zu damaged", search->where,
                          skipped);
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no checkpoint", search->where);
}

/* A damaged copy is passed over for another copy, not for another save of the
 * same step. */
static lull_status_t find_step(const search_t *search,
                               const lull__candidate_t **out) {
    passed_t damaged = {.row = NULL};
    for (size_t i = search->count; i-- > 0;) {
        const lull__candidate_t *row = &search->rows[i];
        if (row->id.step != search->options.step || !asked_for(search, row) ||
            is_other(&damaged, row))
            continue;
        lull_status_t status = check(search, row);
        *out = row;
        if (status == LULL_OK && damaged.row != NULL)
            tell(search, damaged.row, damaged.why);
        if (status == LULL_OK || !copy_may_do(status))
            return status;
        pass(&damaged, row, status);
    }
    if (damaged.row != NULL)
        return lull__fail(damaged.status, "%s", damaged.why);
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no checkpoint of step %llu",
                      search->where, (unsigned long long)search->options.step);
}

/* Adds the candidates of one directory. */
static lull_status_t add_root(search_t *search, size_t tier) {
    lull__candidate_t *rows, *grown;
    size_t count;
    lull_status_t status =
        lull__candidates(&search->roots[tier], &rows, &count);
    if (status != LULL_OK || count == 0) {
        if (status == LULL_OK)
            free(rows);
        return status;
    }
    grown = realloc(search->rows, (search->count + count) * sizeof *grown);
    if (grown == NULL) {
        free(rows);
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu checkpoints", count);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].tier = tier;
        grown[search->count++] = rows[i];
    }
    search->rows = grown;
    free(rows);
    return LULL_OK;
}

/* Opens all that are there; one at least has to be. */
static lull_status_t open_roots(search_t *search, const char *const *dirs) {
    char first[LULL__SENTENCE_MAX] = "";
    size_t opened = 0;
    for (size_t i = 0; i < search->root_count; i++) {
        lull_status_t status =
            lull__dir_open(lull__io_default(), dirs[i], &search->roots[i]);
        if (status == LULL_OK) {
            opened++;
            status = add_root(search, i);
        } else if (status == LULL_ERR_NOT_FOUND) {
            search->roots[i] = (lull__dir_t)LULL__DIR_CLOSED;
            if (first[0] == '\0')
                lull__text_copy(first, sizeof first, lull_last_error());
            status = LULL_OK;
        }
        if (status != LULL_OK)
            return status;
    }
    if (opened == 0)
        return lull__fail(LULL_ERR_NOT_FOUND, "%s", first);
    if (search->count > 1)
        qsort(search->rows, search->count, sizeof *search->rows, by_seq);
    return LULL_OK;
}

static lull_status_t run_search(search_t *search, const char *const *dirs,
                                lull_ckpt_id_t *out, size_t *index) {
    const lull__candidate_t *found = NULL;
    size_t count = search->root_count;
    search->where = dirs[0];
    search->roots = calloc(count, sizeof *search->roots);
    if (search->roots == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu directories", count);
    for (size_t i = 0; i < count; i++)
        search->roots[i] = (lull__dir_t)LULL__DIR_CLOSED;
    lull_status_t status = open_roots(search, dirs);
    if (status == LULL_OK)
        status = search->options.step == LULL_LATEST
                     ? find_latest(search, &found)
                     : find_step(search, &found);
    if (status == LULL_OK) {
        *out = found->id;
        *index = found->tier;
    } else if (search->keep != NULL) {
        lull_ckpt_info_destroy(*search->keep);
        *search->keep = NULL;
    }
    for (size_t i = 0; i < count; i++)
        lull__dir_close(&search->roots[i]);
    free(search->roots);
    free(search->rows);
    return status;
}

lull_status_t lull_ckpt_find_in(const char *const *dirs, size_t count,
                                const lull_ckpt_find_options_t *options,
                                lull_ckpt_id_t *out, size_t *index) {
    search_t search = {.options = LULL_CKPT_FIND_OPTIONS_INIT,
                       .root_count = count};
    if (dirs == NULL || out == NULL || index == NULL || count == 0)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_find_in: %s",
                          count ? "NULL" : "no directory");
    for (size_t i = 0; i < count; i++)
        if (dirs[i] == NULL)
            return lull__fail(LULL_ERR_INVALID,
                              "lull_ckpt_find_in: directory %zu is NULL", i);
    if (options != NULL)
        memcpy(&search.options, options,
               options->size < sizeof search.options ? options->size
                                                     : sizeof search.options);
    return run_search(&search, dirs, out, index);
}

lull_status_t lull__find_open(const char *dir, lull_ckpt_info_t **out) {
    lull_ckpt_info_t *info = NULL;
    search_t search = {
        .options = LULL_CKPT_FIND_OPTIONS_INIT, .root_count = 1, .keep = &info};
    lull_ckpt_id_t id;
    size_t index;
    lull_status_t status = run_search(&search, &dir, &id, &index);
    if (status == LULL_OK)
        *out = info;
    return status;
}

lull_status_t lull_ckpt_find(const char *dir,
                             const lull_ckpt_find_options_t *options,
                             lull_ckpt_id_t *out) {
    size_t index;
    if (dir == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_find: %s is NULL",
                          dir ? "out" : "dir");
    return lull_ckpt_find_in(&dir, 1, options, out, &index);
}

/* ---- Listing ---- */

static void describe(const lull__dir_t *root,
                     const lull__candidate_t *candidate,
                     lull_ckpt_entry_t *entry) {
    lull_ckpt_info_t *info;
    lull_status_t status = candidate->status;
    memset(entry, 0, sizeof *entry);
    if (status == LULL_OK)
        status = lull__reader_open(root, candidate->name, candidate->id, &info);
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
