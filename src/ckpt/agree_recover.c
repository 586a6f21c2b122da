/* What a crash left between places: a checkpoint that one has published and
 * the others have prepared is published there too; one that was moved aside
 * for a successor which never became complete comes back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/log.h"
#include "grow.h"

#define MANIFEST_MAX ((uint64_t)1 << 32)

/* ---- listing ---- */

typedef struct listing {
    const lull__dir_t *dir;
    lull__memory_t *rows;
    lull_status_t status;
} listing_t;

/* The row of DIR/name, if it has a manifest, of that step. Fails where it
 * cannot be told. */
static lull_status_t read_row(const lull__dir_t *dir, const char *name,
                              lull__recover_row_t *row, bool *found) {
    lull__naming_t naming;
    lull__dir_t at;
    lull__manifest_t manifest;
    char *text;
    uint64_t n;
    lull__naming_kind_t kind = lull__naming_parse(name, &naming);
    *found = false;
    *row = (lull__recover_row_t){.kind = kind == LULL__NAMING_STEP      ? 'H'
                                         : kind == LULL__NAMING_OLD     ? 'O'
                                         : kind == LULL__NAMING_PARTIAL ? 'P'
                                                                        : 0};
    if (row->kind == 0)
        return LULL_OK;
    lull_status_t status = lull__dir_open_at(dir, name, &at);
    if (status == LULL_OK) {
        status = lull__file_slurp(&at, LULL__MANIFEST, MANIFEST_MAX, &text, &n);
        lull__dir_close(&at);
    }
    if (status != LULL_OK)
        return status == LULL_ERR_NO_MEMORY || lull__is_unread(status)
                   ? status
                   : LULL_OK;
    status = lull__manifest_parse(text, n, name, &manifest);
    if (status == LULL_OK && manifest.step == naming.step) {
        lull__history_row_t is = lull__history_row(&manifest);
        row->tag = is.origin;
        row->seq = is.seq;
        row->step = is.step;
        *found = true;
    }
    if (status == LULL_OK)
        lull__manifest_free(&manifest);
    free(text);
    return status == LULL_ERR_NO_MEMORY ? status : LULL_OK;
}

static lull_status_t print_row(const lull__recover_row_t *row,
                               lull__memory_t *out) {
    char text[96];
    int n = snprintf(text, sizeof text,
                     "%c %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", row->kind,
                     row->seq, row->step, row->tag);
    return lull__out_to_memory(out, text, (size_t)n);
}

static int list_name(void *ctx, const char *name) {
    listing_t *listing = ctx;
    lull__recover_row_t row;
    bool found;
    listing->status = read_row(listing->dir, name, &row, &found);
    if (listing->status == LULL_OK && found)
        listing->status = print_row(&row, listing->rows);
    return listing->status != LULL_OK;
}

lull_status_t lull__recover_list(const lull__dir_t *dir, lull__memory_t *rows) {
    listing_t listing = {dir, rows, LULL_OK};
    lull_status_t status = lull__dir_list(dir, list_name, &listing);
    return listing.status != LULL_OK ? listing.status : status;
}

/* ---- what all have ---- */

lull_status_t lull__recover_add(lull__recover_t *recover, uint32_t place,
                                char *text, size_t n) {
    const char *end = text + n;
    while (text < end) {
        lull__recover_row_t row = {.place = place};
        int used = 0;
        if (sscanf(text, "%c %" SCNu64 " %" SCNu64 " %" SCNx64 "%n", &row.kind,
                   &row.seq, &row.step, &row.tag, &used) != 4 ||
            strchr("HOP", row.kind) == NULL || text[used] != '\n')
            return lull__fail(LULL_ERR_MISMATCH,
                              "agree: a list of checkpoints that is none");
        text += used + 1;
        lull_status_t status =
            lull__grow((void **)&recover->rows, recover->count, &recover->room,
                       sizeof row);
        if (status != LULL_OK)
            return status;
        recover->rows[recover->count++] = row;
    }
    return LULL_OK;
}

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int by_identity(const lull__recover_row_t *a,
                       const lull__recover_row_t *b) {
    int order = compare(a->seq, b->seq);
    if (order == 0)
        order = compare(a->step, b->step);
    return order != 0 ? order : compare(a->tag, b->tag);
}

static int by_all(const void *a, const void *b) {
    const lull__recover_row_t *x = a, *y = b;
    int order = by_identity(x, y);
    return order != 0 ? order : compare(x->place, y->place);
}

void lull__recover_complete(lull__recover_t *recover, uint32_t places) {
    lull__recover_row_t *rows = recover->rows;
    size_t kept = 0, end;
    if (recover->count > 1)
        qsort(rows, recover->count, sizeof *rows, by_all);
    for (size_t i = 0; i < recover->count; i = end) {
        uint32_t have = 0;
        bool published = false;
        for (end = i;
             end < recover->count && by_identity(&rows[end], &rows[i]) == 0;
             end++) {
            have += end == i || rows[end].place != rows[end - 1].place;
            published = published || rows[end].kind != 'P';
        }
        if (have == places && published)
            rows[kept++] = rows[i];
    }
    recover->count = kept;
}

lull_status_t lull__recover_print(const lull__recover_t *recover,
                                  lull__memory_t *out) {
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < recover->count; i++)
        status = print_row(&recover->rows[i], out);
    return status;
}

void lull__recover_free(lull__recover_t *recover) {
    free(recover->rows);
    *recover = (lull__recover_t){0};
}

/* ---- doing ---- */

static bool is_complete(const lull__recover_t *complete,
                        const lull__recover_row_t *row) {
    for (size_t i = 0; i < complete->count; i++)
        if (by_identity(&complete->rows[i], row) == 0)
            return true;
    return false;
}

typedef struct names {
    lull__entry_name_t *rows;
    size_t count, room;
    lull_status_t status;
} names_t;

static int gather(void *ctx, const char *name) {
    names_t *names = ctx;
    lull__naming_t naming;
    lull__naming_kind_t kind = lull__naming_parse(name, &naming);
    if (kind != LULL__NAMING_STEP && kind != LULL__NAMING_OLD &&
        kind != LULL__NAMING_PARTIAL)
        return 0;
    names->status = lull__grow((void **)&names->rows, names->count,
                               &names->room, sizeof *names->rows);
    if (names->status == LULL_OK)
        snprintf(names->rows[names->count++], LULL__ENTRY_MAX, "%s", name);
    return names->status != LULL_OK;
}

/* What is at home of this step, and is it complete? seq 0: nothing. */
static lull_status_t look_home(const lull__recover_t *complete,
                               const lull__dir_t *dir, uint64_t step,
                               uint64_t *seq, bool *whole) {
    lull__entry_name_t home;
    lull__recover_row_t row;
    bool found;
    lull__naming_step(home, step);
    *seq = 0;
    *whole = false;
    if (!lull__dir_has(dir, home))
        return LULL_OK;
    lull_status_t status = read_row(dir, home, &row, &found);
    *seq = found ? row.seq : UINT64_MAX; /* there, and nobody can read it */
    *whole = found && is_complete(complete, &row);
    return status;
}

/* Makes DIR/name the checkpoint of its step; what had the place goes, to
 * `aside` if it is complete itself, else to trash. */
static lull_status_t bring_home(const lull__dir_t *dir, const char *name,
                                const lull__naming_t *naming, bool aside,
                                bool has_home) {
    lull__entry_name_t home, away;
    lull_status_t status = LULL_OK;
    lull__naming_step(home, naming->step);
    if (aside)
        lull__naming_old(away, naming->step, naming->run_id, naming->save);
    else
        lull__naming_trash(away, naming->run_id, naming->save, naming->step);
    if (has_home)
        status = lull__dir_rename(dir, home, dir, away, 0);
    if (status == LULL_OK)
        status = lull__dir_rename(dir, name, dir, home, 0);
    if (status == LULL_OK)
        status = lull__dir_sync(dir);
    if (status == LULL_OK)
        lull__log(LULL_LOG_WARN, "%s/%s is completed after a crash", dir->path,
                  home);
    return status;
}

static lull_status_t throw_away(const lull__dir_t *dir, const char *name,
                                const lull__naming_t *naming) {
    lull__entry_name_t trash;
    lull__naming_trash(trash, naming->run_id, naming->save, naming->step);
    lull_status_t status = lull__dir_rename(dir, name, dir, trash, 0);
    return status != LULL_OK ? status : lull__dir_remove_tree(dir, trash);
}

static lull_status_t apply_one(const lull__recover_t *complete,
                               const lull__dir_t *dir, const char *name) {
    lull__naming_t naming;
    lull__recover_row_t row;
    uint64_t home;
    bool found, whole;
    lull_status_t status = read_row(dir, name, &row, &found);
    if (status != LULL_OK || row.kind == 'H')
        return status;
    (void)lull__naming_parse(name, &naming);
    status = look_home(complete, dir, naming.step, &home, &whole);
    if (status != LULL_OK)
        return status;
    bool good = found && is_complete(complete, &row);
    /* Prepared: published elsewhere, so also here. */
    if (row.kind == 'P')
        return good && !(whole && home > row.seq)
                   ? bring_home(dir, name, &naming, whole, home != 0)
                   : LULL_OK;
    if (home == 0 || (good && !whole))
        return bring_home(dir, name, &naming, false, home != 0);
    /* Neither is complete: which one counts, nobody here can tell. */
    return whole ? throw_away(dir, name, &naming) : LULL_OK;
}

static lull_status_t add_history(const lull__recover_t *complete,
                                 const lull__dir_t *dir, const char *name,
                                 lull__history_t *history) {
    lull__recover_row_t row;
    bool found;
    lull_status_t status = read_row(dir, name, &row, &found);
    if (status != LULL_OK || row.kind != 'H')
        return status;
    bool whole = found && is_complete(complete, &row);
    if (!whole)
        lull__log(LULL_LOG_WARN,
                  "%s/%s is left alone%s: not every place has its part of it",
                  dir->path, name, found ? " until retention takes it" : "");
    return found
               ? lull__history_put(
                     history, &(lull__history_row_t){row.seq, row.step, row.tag,
                                                     false, !whole, false})
               : LULL_OK;
}

/* ".step-N.old-..." before ".step-N.partial-...": what was moved aside for a
 * prepared one is gone or home before that comes. */
static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

static lull_status_t list_names(const lull__dir_t *dir, names_t *names) {
    names->count = 0;
    lull_status_t status = lull__dir_list(dir, gather, names);
    if (status == LULL_OK)
        status = names->status;
    if (names->count > 1)
        qsort(names->rows, names->count, sizeof *names->rows, by_text);
    return status;
}

lull_status_t lull__recover_apply(const lull__recover_t *complete,
                                  const lull__dir_t *dir,
                                  lull__history_t *history) {
    names_t names = {0};
    lull_status_t status = list_names(dir, &names);
    /* Twice: what comes home moves something aside, which then may go. */
    for (unsigned pass = 0; pass < 2 && status == LULL_OK; pass++) {
        for (size_t i = 0; status == LULL_OK && i < names.count; i++)
            status = apply_one(complete, dir, names.rows[i]);
        if (status == LULL_OK)
            status = list_names(dir, &names);
    }
    for (size_t i = 0; status == LULL_OK && i < names.count; i++)
        status = add_history(complete, dir, names.rows[i], history);
    free(names.rows);
    return status;
}
