/* Notes between ranks: text with a hash, published whole. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "naming.h"
#include "note.h"

lull_status_t lull__note_format(const lull__note_t *note,
                                char text[LULL__NOTE_MAX], size_t *bytes) {
    char hex[LULL__HASH_HEX];
    int n = snprintf(text, LULL__NOTE_MAX - 32,
                     "lull-note 1\n%s %s %" PRIu64 " %" PRIu32 " %d %" PRIu64
                     "\n%s\n",
                     note->kind, note->run_id, note->number, note->rank,
                     (int)note->status, note->seq, note->text);
    if (n < 0 || (size_t)n >= LULL__NOTE_MAX - 32)
        return lull__fail(LULL_ERR_INTERNAL, "a note is too long");
    lull__hash_format(lull__hash_of(text, (size_t)n), hex);
    n += sprintf(text + n, "%s\n", hex);
    *bytes = (size_t)n;
    return LULL_OK;
}

static lull_status_t publish(const lull__dir_t *lull, const char *name,
                             const lull__note_t *note, bool sync) {
    char text[LULL__NOTE_MAX], temp[LULL__ENTRY_MAX + 8];
    size_t n;
    lull_status_t status = lull__note_format(note, text, &n);
    if (status != LULL_OK)
        return status;
    snprintf(temp, sizeof temp, "tmp-%s", name);
    lull__publish_t what = {temp, name, text, n, sync};
    return lull__file_publish(lull, &what);
}

lull_status_t lull__note_write(const lull__dir_t *lull, const char *name,
                               const lull__note_t *note) {
    return publish(lull, name, note, false);
}

lull_status_t lull__note_keep(const lull__dir_t *lull, const char *name,
                              const lull__note_t *note) {
    return publish(lull, name, note, true);
}

/* ---- spares ---- */

#define SPARES 4u

static void name_spare(lull__entry_name_t out, const char *run_id, unsigned i) {
    snprintf(out, LULL__ENTRY_MAX, "spare-%s-%u", run_id, i);
}

void lull__spares_make(const lull__dir_t *lull, const char *run_id) {
    static const char zeros[LULL__NOTE_MAX];
    lull__entry_name_t name;
    lull__file_t file;
    for (unsigned i = 0; i < SPARES; i++) {
        name_spare(name, run_id, i);
        if (lull__dir_has(lull, name))
            continue;
        if (lull__file_open(lull, name, O_WRONLY | O_CREAT | O_TRUNC, &file) !=
            LULL_OK)
            return;
        lull_status_t status = lull__file_write(&file, zeros, sizeof zeros, 0);
        (void)lull__file_close(&file);
        if (status != LULL_OK) {
            (void)lull__dir_unlink(lull, name);
            return;
        }
    }
}

void lull__spares_drop(const lull__dir_t *lull, const char *run_id) {
    lull__entry_name_t name;
    for (unsigned i = 0; i < SPARES; i++) {
        name_spare(name, run_id, i);
        (void)lull__dir_unlink(lull, name);
    }
}

/* Its blocks are there: overwriting them takes none, on most file systems. */
static lull_status_t write_into(const lull__dir_t *lull, const char *spare,
                                const char *name, const lull__note_t *note) {
    char text[LULL__NOTE_MAX];
    lull__file_t file;
    size_t n;
    lull_status_t status = lull__note_format(note, text, &n);
    if (status == LULL_OK)
        status = lull__file_open(lull, spare, O_WRONLY, &file);
    if (status != LULL_OK)
        return status;
    status = lull__file_write(&file, text, n, 0);
    if (status == LULL_OK)
        status = lull__file_truncate(&file, n);
    (void)lull__file_close(&file);
    if (status == LULL_OK)
        status = lull__dir_rename(lull, spare, NULL, name, 0);
    return status;
}

lull_status_t lull__note_write_spare(const lull__dir_t *lull, const char *name,
                                     const lull__note_t *note) {
    lull__entry_name_t spare;
    lull_status_t status = lull__note_write(lull, name, note);
    for (unsigned i = 0; status == LULL_ERR_NO_SPACE && i < SPARES; i++) {
        name_spare(spare, note->run_id, i);
        if (lull__dir_has(lull, spare) &&
            write_into(lull, spare, name, note) == LULL_OK)
            status = LULL_OK;
    }
    return status;
}

/* text[n] without its hash line; false: not a note. */
static bool parse(char *text, size_t n, lull__note_t *out) {
    int used = 0, status;
    memset(out, 0, sizeof *out);
    int fields = sscanf(
        text, "lull-note 1\n%15s %63s %" SCNu64 " %" SCNu32 " %d %" SCNu64 "%n",
        out->kind, out->run_id, &out->number, &out->rank, &status, &out->seq,
        &used);
    if (fields != 6 || text[used] != '\n' || !lull__run_id_valid(out->run_id))
        return false;
    out->status = (lull_status_t)status;
    size_t length = n - (size_t)used - 2; /* both newlines around the text */
    if (n < (size_t)used + 2 || length >= sizeof out->text)
        return false;
    memcpy(out->text, text + used + 1, length);
    return true;
}

bool lull__note_parse(char *text, size_t n, lull__note_t *out) {
    uint64_t hash;
    if (n <= LULL__HASH_HEX || text[n - 1] != '\n')
        return false;
    text[n - 1] = '\0';
    n -= LULL__HASH_HEX;
    if (!lull__hash_parse(text + n, &hash) || lull__hash_of(text, n) != hash)
        return false;
    text[n] = '\0';
    return parse(text, n, out);
}

lull_status_t lull__note_read(const lull__dir_t *lull, const char *name,
                              lull__note_t *out) {
    char *text;
    uint64_t n;
    lull_status_t status =
        lull__file_slurp(lull, name, LULL__NOTE_MAX, &text, &n);
    if (status != LULL_OK)
        return status;
    bool ok = lull__note_parse(text, n, out);
    free(text);
    if (!ok)
        return lull__fail(LULL_ERR_CORRUPT, "%s/%s: not a note of lull",
                          lull->path, name);
    return LULL_OK;
}

void lull__note_verdict(lull__entry_name_t out, const char *run_id,
                        uint64_t number) {
    snprintf(out, LULL__ENTRY_MAX, "verdict-%s-%" PRIu64, run_id, number);
}

void lull__note_abort(lull__entry_name_t out, const char *run_id,
                      uint64_t number, uint32_t rank) {
    snprintf(out, LULL__ENTRY_MAX, "abort-%s-%" PRIu64 "-%" PRIu32, run_id,
             number, rank);
}

void lull__note_tier(lull__entry_name_t out, const char *run_id, size_t index) {
    snprintf(out, LULL__ENTRY_MAX, "tier-%s-%zu", run_id, index);
}

void lull__note_behind(lull__entry_name_t out, size_t index) {
    snprintf(out, LULL__ENTRY_MAX, "behind-%zu", index);
}

void lull__note_drain(lull__entry_name_t out, const char *run_id) {
    snprintf(out, LULL__ENTRY_MAX, "drain-%s-1", run_id);
}

void lull__note_part(lull__entry_name_t out, const char *run_id,
                     uint32_t place) {
    snprintf(out, LULL__ENTRY_MAX, "part-%s-%" PRIu32, run_id, place);
}

bool lull__note_is_abort(const char *name, const char *run_id, uint64_t number,
                         uint32_t *rank) {
    lull__entry_name_t expected;
    const char *last = strrchr(name, '-');
    if (strncmp(name, "abort-", 6) != 0 || last == NULL)
        return false;
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(last + 1, &end, 10);
    if (errno != 0 || end == last + 1 || *end != '\0' || parsed > UINT32_MAX)
        return false;
    lull__note_abort(expected, run_id, number, (uint32_t)parsed);
    *rank = (uint32_t)parsed;
    return strcmp(name, expected) == 0;
}

/* After "kind-": is the rest "RUN-..." of this run? */
static bool of_run(const char *rest, const char *run_id) {
    size_t n = strlen(run_id);
    return strncmp(rest, run_id, n) == 0 && rest[n] == '-';
}

bool lull__note_is_stale(const char *name, const char *run_id) {
    static const char *const kinds[] = {"verdict-", "abort-", "joined-",
                                        "probe-",   "tier-",  "spare-",
                                        "drain-",   "part-"};
    if (strncmp(name, "tmp-", 4) == 0)
        name += 4;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return !of_run(name + strlen(kinds[i]), run_id);
    /* A reply is only for one nonce; a fresh hello may be waiting. */
    return strncmp(name, "reply-", 6) == 0;
}

lull_status_t lull__note_fail(lull_status_t status, uint64_t step,
                              const char *said) {
    char name[40];
    int n = snprintf(name, sizeof name, "step %" PRIu64 ": ", step);
    if (strncmp(said, name, (size_t)n) == 0)
        said += n;
    return lull__fail(status, "%s%.980s", name, said);
}
