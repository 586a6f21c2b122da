/* What rank 0 and the places of a run tell each other of drains. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "note.h"
#include "parts.h"

#define ROW "%" PRIu64 " %" PRIu64 " %016" PRIx64
#define ROW_OF(row) (row)->seq, (row)->step, (row)->origin
#define READ_ROW "%" SCNu64 " %" SCNu64 " %" SCNx64
#define READ_OF(row) &(row)->seq, &(row)->step, &(row)->origin

static uint32_t own_place(const lull_ckpt_t *ckpt) {
    return ckpt->place_of[ckpt->options.rank];
}

/* ---- orders ---- */

lull_status_t lull__parts_order(lull__tiers_t *tiers) {
    const lull__part_order_t *order = &tiers->order;
    lull__entry_name_t name;
    lull__note_t note = {
        .kind = "drain", .number = order->number, .seq = order->beat};
    strcpy(note.run_id, tiers->ckpt->run_id);
    int n = snprintf(note.text, sizeof note.text, "drained " ROW "\n",
                     ROW_OF(&order->drained));
    if (order->copy)
        snprintf(note.text + n, sizeof note.text - (size_t)n,
                 "copy " ROW " %s\n", ROW_OF(&order->row), order->partial);
    lull__note_drain(name, note.run_id);
    return lull__note_write(&tiers->tiers[1].home->lull_dir, name, &note);
}

/* False: it is not of this run, or says something else. */
static bool parse_order(const lull__tiers_t *tiers, const lull__note_t *note,
                        lull__part_order_t *out) {
    int used = 0;
    *out = (lull__part_order_t){.number = note->number, .beat = note->seq};
    if (strcmp(note->kind, "drain") != 0 || note->rank != 0 ||
        strcmp(note->run_id, tiers->ckpt->run_id) != 0 ||
        sscanf(note->text, "drained " READ_ROW " %n", READ_OF(&out->drained),
               &used) != 3)
        return false;
    const char *rest = note->text + used;
    lull__naming_t naming;
    out->copy = rest[0] != '\0';
    return !out->copy ||
           (sscanf(rest, "copy " READ_ROW " %191s", READ_OF(&out->row),
                   out->partial) == 4 &&
            lull__naming_parse(out->partial, &naming) == LULL__NAMING_PARTIAL);
}

lull_status_t lull__parts_look(const lull__tiers_t *tiers,
                               lull__part_order_t *out, bool *ended) {
    const lull_ckpt_t *ckpt = tiers->ckpt;
    lull__entry_name_t name;
    lull__note_t note;
    lull__dir_t lull;
    *ended = false;
    lull_status_t status =
        lull__tiers_notes(ckpt->io, tiers->tiers[1].dir->path, &lull);
    if (status != LULL_OK)
        return status;
    lull__note_drain(name, ckpt->run_id);
    status = lull__note_read(&lull, name, &note);
    *ended = status == LULL_ERR_NOT_FOUND;
    if (status == LULL_OK && !parse_order(tiers, &note, out))
        status = lull__fail(LULL_ERR_CORRUPT, "%s/%s: not what rank 0 drains",
                            lull.path, name);
    lull__dir_close(&lull);
    return status;
}

/* ---- answers ---- */

lull_status_t lull__parts_say(const lull__tiers_t *tiers,
                              const lull__part_word_t *word) {
    const lull_ckpt_t *ckpt = tiers->ckpt;
    lull__entry_name_t name;
    lull__dir_t lull;
    lull__note_t note = {.kind = "part",
                         .number = word->number,
                         .rank = ckpt->options.rank,
                         .status = word->status,
                         .seq = word->sum};
    strcpy(note.run_id, ckpt->run_id);
    snprintf(note.text, sizeof note.text, "%s",
             word->status != LULL_OK ? word->text
             : word->done            ? "done"
                                     : "copying");
    lull__note_part(name, ckpt->run_id, own_place(ckpt));
    lull_status_t status =
        lull__tiers_notes(ckpt->io, tiers->tiers[1].dir->path, &lull);
    if (status != LULL_OK)
        return status;
    status = lull__note_write(&lull, name, &note);
    lull__dir_close(&lull);
    return status;
}

bool lull__parts_hear(const lull__tiers_t *tiers, uint32_t place,
                      lull__part_word_t *out) {
    const char *run_id = tiers->ckpt->run_id;
    lull__entry_name_t name;
    lull__note_t note;
    lull__note_part(name, run_id, place);
    if (lull__note_read(&tiers->tiers[1].home->lull_dir, name, &note) !=
            LULL_OK ||
        strcmp(note.kind, "part") != 0 || strcmp(note.run_id, run_id) != 0)
        return false;
    *out = (lull__part_word_t){.number = note.number,
                               .status = note.status,
                               .done = strcmp(note.text, "done") == 0,
                               .sum = note.seq};
    memcpy(out->text, note.text, sizeof out->text);
    return true;
}

uint64_t lull__parts_sum(uint32_t rank, const lull__manifest_vote_t *vote) {
    uint64_t words[3] = {rank, vote->bytes, vote->hash};
    return lull__hash_of(words, sizeof words);
}

/* ---- what is wanted ---- */

static lull_status_t print_row(const lull__history_row_t *row,
                               lull__memory_t *out) {
    char text[80];
    int n = snprintf(text, sizeof text, ROW "\n", ROW_OF(row));
    return lull__out_to_memory(out, text, (size_t)n);
}

lull_status_t lull__parts_wanted_print(lull__tiers_t *tiers,
                                       const lull__history_row_t *also,
                                       lull__memory_t *out) {
    static const char head[] = "wanted\n";
    lull_status_t status = lull__out_to_memory(out, head, sizeof head - 1);
    pthread_mutex_lock(&tiers->lock);
    const lull__history_t *history = tiers->tiers[0].history;
    for (size_t i = 0; status == LULL_OK && i < history->count; i++)
        if (lull__tiers_want(tiers, 1, &history->rows[i]))
            status = print_row(&history->rows[i], out);
    if (status == LULL_OK && also != NULL && lull__tiers_want(tiers, 1, also))
        status = print_row(also, out);
    pthread_mutex_unlock(&tiers->lock);
    return status;
}

/* With tiers->lock held. Of what this place has not it has nothing to keep. */
static lull_status_t take_rows(lull__tiers_t *tiers, const char *text) {
    lull__history_t *history = tiers->tiers[0].history;
    int used = 0;
    for (size_t i = 0; i < history->count; i++)
        history->rows[i].wanted = false;
    for (; *text != '\0'; text += used) {
        lull__history_row_t row = {0};
        if (sscanf(text, READ_ROW "%n", READ_OF(&row), &used) != 3 ||
            text[used++] != '\n')
            return lull__fail(LULL_ERR_MISMATCH,
                              "agree: a list of checkpoints that is none");
        lull__history_row_t *own = lull__history_find(history, &row);
        if (own != NULL)
            own->wanted = true;
    }
    return LULL_OK;
}

lull_status_t lull__parts_wanted_take(lull__tiers_t *tiers, char *text) {
    lull__history_t *history = tiers->tiers[0].history;
    lull_status_t status = LULL_OK;
    pthread_mutex_lock(&tiers->lock);
    if (strncmp(text, "wanted\n", 7) == 0)
        status = take_rows(tiers, text + 7);
    else if (history->count > 0)
        history->rows[history->count - 1].wanted = true;
    pthread_mutex_unlock(&tiers->lock);
    return status;
}

uint64_t lull__parts_wanted(lull__tiers_t *tiers, lull__history_row_t *newest) {
    uint64_t count = 0;
    pthread_mutex_lock(&tiers->lock);
    const lull__history_t *history = tiers->tiers[0].history;
    for (size_t i = 0; i < history->count; i++) {
        if (!history->rows[i].wanted)
            continue;
        *newest = history->rows[i];
        count++;
    }
    pthread_mutex_unlock(&tiers->lock);
    return count;
}
