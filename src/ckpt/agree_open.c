/* Opening with a callback: run id, places, locks, recovery. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "base/log.h"
#include "json.h"
#include "lock.h"
#include "note.h"
#include "parts.h"

typedef struct opening {
    lull_ckpt_t *ckpt;
    lull_status_t mine; /* a failure of this rank alone, to be told */
    uint32_t leader;    /* of this rank's place: the lowest that sees it */
    uint32_t *leaders;  /* rank 0: [world] */
    char **names;       /* rank 0: [world], of leaders */
    lull__recover_t recover;
} opening_t;

/* ---- text ---- */

/* The next line of *at, closed by a NUL instead of its end; NULL: no more. */
static char *next_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

static bool next_number(char **at, uint64_t *out) {
    char *line = next_line(at), *end;
    if (line == NULL || line[0] < '0' || line[0] > '9')
        return false;
    *out = strtoull(line, &end, 10);
    return *end == '\0';
}

static lull_status_t put_line(lull__memory_t *out, const char *text) {
    lull_status_t status = lull__out_to_memory(out, text, strlen(text));
    return status != LULL_OK ? status : lull__out_to_memory(out, "\n", 1);
}

static lull_status_t put_number(lull__memory_t *out, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return put_line(out, text);
}

static lull_status_t bad_message(void) {
    return lull__fail(LULL_ERR_MISMATCH, "agree: a message of another kind");
}

lull_status_t lull__agree_place_name(const lull__dir_t *dir, char **out) {
    char host[128] = "?", *real = realpath(dir->path, NULL);
    gethostname(host, sizeof host - 1);
    int n = asprintf(out, "%s:%s", host, real ? real : dir->path);
    free(real);
    if (n < 0)
        return lull__fail(LULL_ERR_NO_MEMORY, "the name of %s", dir->path);
    bool valid = lull__utf8_valid(*out, (size_t)n);
    for (char *at = *out; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (!valid && (unsigned char)*at > '~'))
            *at = '?';
    return LULL_OK;
}

/* ---- run id ---- */

static lull_status_t decide_run(void *ctx, lull__memory_t *answer) {
    lull_ckpt_t *ckpt = ((opening_t *)ctx)->ckpt;
    if (ckpt->run_id[0] == '\0')
        lull__run_id_make(ckpt->run_id);
    return put_line(answer, ckpt->run_id);
}

static lull_status_t take_world(void *ctx, uint32_t rank, char *body,
                                uint64_t bytes) {
    uint64_t world, tiers;
    (void)rank;
    (void)bytes;
    if (!next_number(&body, &world) || !next_number(&body, &tiers))
        return bad_message();
    if (tiers != ((opening_t *)ctx)->ckpt->options.tier_count)
        return lull__fail(LULL_ERR_MISMATCH,
                          "it says that there are %" PRIu64 " tiers", tiers);
    if (world != ((opening_t *)ctx)->ckpt->options.world)
        return lull__fail(LULL_ERR_MISMATCH,
                          "it says that there are %" PRIu64 " ranks", world);
    return LULL_OK;
}

static lull_status_t agree_run(opening_t *opening, lull_status_t mine) {
    lull_ckpt_t *ckpt = opening->ckpt;
    char body[32];
    int n = snprintf(body, sizeof body, "%" PRIu32 "\n%zu\n",
                     ckpt->options.world, ckpt->options.tier_count);
    lull__agree_round_t round = {.number = 0,
                                 .kind = "hello",
                                 .body = body,
                                 .bytes = (uint64_t)n,
                                 .take = take_world,
                                 .decide = decide_run,
                                 .ctx = opening};
    lull_status_t status = lull__agree_round(ckpt, &round, mine);
    if (status != LULL_OK)
        return status;
    char *at = round.answer.data, *run = next_line(&at);
    if (run == NULL || !lull__run_id_valid(run))
        status = bad_message();
    else
        strcpy(ckpt->run_id, run);
    free(round.answer.data);
    return status;
}

/* ---- places ---- */

static void name_probe(lull__entry_name_t out, const char *run_id,
                       uint32_t rank) {
    snprintf(out, LULL__ENTRY_MAX, "probe-%s-%" PRIu32, run_id, rank);
}

static lull_status_t write_probe(lull_ckpt_t *ckpt) {
    lull__entry_name_t name;
    lull__note_t note = {.kind = "probe", .rank = ckpt->options.rank};
    strcpy(note.run_id, ckpt->run_id);
    name_probe(name, ckpt->run_id, note.rank);
    return lull__note_write(&ckpt->lull_dir, name, &note);
}

static int look_at_probe(void *ctx, const char *name) {
    opening_t *opening = ctx;
    lull__entry_name_t expected;
    const char *last = strrchr(name, '-');
    if (strncmp(name, "probe-", 6) != 0 || last == NULL)
        return 0;
    unsigned long rank = strtoul(last + 1, NULL, 10);
    if (rank >= opening->leader)
        return 0;
    name_probe(expected, opening->ckpt->run_id, (uint32_t)rank);
    if (strcmp(expected, name) == 0)
        opening->leader = (uint32_t)rank;
    return 0;
}

/* When every rank's probe is there: who sees this directory? Probes stay until
 * the end, others may not have looked yet. */
static lull_status_t find_leader(opening_t *opening) {
    lull_ckpt_t *ckpt = opening->ckpt;
    lull__agree_round_t round = {.number = 1, .kind = "probe"};
    lull_status_t status = lull__agree_round(ckpt, &round, write_probe(ckpt));
    free(round.answer.data);
    opening->leader = ckpt->options.rank;
    if (status == LULL_OK)
        opening->mine = lull__dir_list(&ckpt->lull_dir, look_at_probe, opening);
    ckpt->leads = opening->leader == ckpt->options.rank;
    return status;
}

/* A leader's: lock and list. */
static lull_status_t describe_place(opening_t *opening, lull__memory_t *body) {
    lull_ckpt_t *ckpt = opening->ckpt;
    char *name;
    lull_status_t status = put_number(body, opening->leader);
    if (status != LULL_OK || !ckpt->leads)
        return status;
    status = lull__agree_place_name(&ckpt->dir, &name);
    if (status != LULL_OK)
        return status;
    status = put_line(body, name);
    free(name);
    if (status == LULL_OK)
        status =
            lull__lock_take(&ckpt->lull_dir, ckpt->run_id, &ckpt->dir_lock);
    /* What is seen must be on disk before anything is deleted for it. */
    if (status == LULL_OK)
        status = lull__dir_sync(&ckpt->dir);
    if (status == LULL_OK)
        status = lull__recover_list(&ckpt->dir, body);
    return status;
}

/* Rows are kept with the leader's rank as their place: numbers come later. */
static lull_status_t take_place(void *ctx, uint32_t rank, char *body,
                                uint64_t bytes) {
    opening_t *opening = ctx;
    const char *end = body + bytes, *name;
    uint64_t leader;
    if (!next_number(&body, &leader) || leader > rank)
        return bad_message();
    opening->leaders[rank] = (uint32_t)leader;
    if (leader != rank)
        return LULL_OK;
    name = next_line(&body);
    if (name == NULL || !lull__utf8_valid(name, strlen(name)))
        return bad_message();
    opening->names[rank] = strdup(name);
    if (opening->names[rank] == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the name of a place");
    return lull__recover_add(&opening->recover, rank, body,
                             (size_t)(end - body));
}

static lull_status_t put_places(opening_t *opening, uint32_t count,
                                uint32_t *index, lull__memory_t *answer) {
    uint32_t world = opening->ckpt->options.world;
    uint64_t last = 0;
    for (size_t i = 0; i < opening->recover.count; i++)
        if (opening->recover.rows[i].seq > last)
            last = opening->recover.rows[i].seq;
    lull_status_t status = put_number(answer, last);
    if (status == LULL_OK)
        status = put_number(answer, count);
    for (uint32_t r = 0; status == LULL_OK && r < world; r++)
        if (opening->leaders[r] == r)
            status = put_line(answer, opening->names[r]);
    for (uint32_t r = 0; status == LULL_OK && r < world; r++)
        status = put_number(answer, index[opening->leaders[r]]);
    lull__recover_complete(&opening->recover, count);
    if (status == LULL_OK)
        status = lull__recover_print(&opening->recover, answer);
    return status;
}

static lull_status_t decide_places(void *ctx, lull__memory_t *answer) {
    opening_t *opening = ctx;
    uint32_t world = opening->ckpt->options.world, count = 0;
    uint32_t *index = calloc(world, sizeof *index);
    if (index == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "places of %" PRIu32 " ranks",
                          world);
    lull_status_t status = LULL_OK;
    for (uint32_t r = 0; r < world; r++) {
        uint32_t leader = opening->leaders[r];
        if (leader == r)
            index[r] = count++;
        else if (opening->leaders[leader] != leader && status == LULL_OK)
            status = lull__fail(LULL_ERR_MISMATCH,
                                "agree: rank %" PRIu32
                                " sees the directory of rank %" PRIu32
                                ", which sees that of rank %" PRIu32
                                "; rank %" PRIu32 " does not",
                                r, leader, opening->leaders[leader], r);
    }
    if (status == LULL_OK)
        status = put_places(opening, count, index, answer);
    free(index);
    return status;
}

/* What rank 0 made of it. */
static lull_status_t read_places(opening_t *opening, lull__memory_t *answer) {
    lull_ckpt_t *ckpt = opening->ckpt;
    uint32_t world = ckpt->options.world;
    char *at = answer->data;
    const char *end = answer->data + answer->bytes;
    uint64_t last, count, place;
    if (!next_number(&at, &last) || !next_number(&at, &count) || count == 0 ||
        count > world)
        return bad_message();
    lull__history_taken(&ckpt->history, last);
    ckpt->place_names = calloc(count, sizeof *ckpt->place_names);
    ckpt->place_of = calloc(world, sizeof *ckpt->place_of);
    if (ckpt->place_names == NULL || ckpt->place_of == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%" PRIu64 " places", count);
    for (uint64_t i = 0; i < count; i++) {
        const char *name = next_line(&at);
        if (name == NULL)
            return bad_message();
        ckpt->place_names[i] = strdup(name);
        if (ckpt->place_names[i] == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "the name of a place");
        ckpt->place_count++;
    }
    for (uint32_t r = 0; r < world; r++) {
        if (!next_number(&at, &place) || place >= count)
            return bad_message();
        ckpt->place_of[r] = (uint32_t)place;
    }
    lull__recover_free(&opening->recover);
    return lull__recover_add(&opening->recover, 0, at, (size_t)(end - at));
}

static lull_status_t agree_places(opening_t *opening) {
    lull_ckpt_t *ckpt = opening->ckpt;
    lull__memory_t body = {0};
    lull_status_t status = opening->mine;
    if (status == LULL_OK)
        status = describe_place(opening, &body);
    if (ckpt->options.rank == 0) {
        uint32_t world = ckpt->options.world;
        opening->leaders = calloc(world, sizeof *opening->leaders);
        opening->names = calloc(world, sizeof *opening->names);
        if (opening->leaders == NULL || opening->names == NULL)
            status = lull__fail(LULL_ERR_NO_MEMORY, "%" PRIu32 " ranks", world);
    }
    lull__agree_round_t round = {.number = 2,
                                 .kind = "place",
                                 .body = body.data,
                                 .bytes = body.bytes,
                                 .ctx = opening};
    if (opening->leaders != NULL && opening->names != NULL) {
        round.take = take_place;
        round.decide = decide_places;
    }
    status = lull__agree_round(ckpt, &round, status);
    free(body.data);
    if (status == LULL_OK)
        opening->mine = read_places(opening, &round.answer);
    free(round.answer.data);
    return status;
}

static void tell_places(const lull_ckpt_t *ckpt) {
    if (ckpt->options.rank == 0 && ckpt->place_count > 1)
        lull__log(LULL_LOG_INFO,
                  "checkpoints of %" PRIu32 " ranks in %" PRIu32
                  " places, the first is %s",
                  ckpt->options.world, ckpt->place_count, ckpt->place_names[0]);
}

/* Rank 0: what slower tiers want. */
static lull_status_t decide_begin(void *ctx, lull__memory_t *answer) {
    const lull_ckpt_t *ckpt = ((opening_t *)ctx)->ckpt;
    return ckpt->tiers != NULL
               ? lull__parts_wanted_print(ckpt->tiers, NULL, answer)
               : LULL_OK;
}

/* All but rank 0, which has opened the tiers. */
static lull_status_t follow_tiers(lull_ckpt_t *ckpt, char *wanted) {
    lull_status_t status = lull__tiers_probe(ckpt);
    if (status == LULL_OK && ckpt->leads)
        status = lull__tiers_follow(ckpt);
    return status == LULL_OK && ckpt->leads
               ? lull__parts_wanted_take(ckpt->tiers, wanted)
               : status;
}

static lull_status_t agree_tiers(lull_ckpt_t *ckpt, char *wanted) {
    if (ckpt->options.tier_count == 0)
        return LULL_OK;
    lull__agree_round_t round = {.number = 4, .kind = "tiers"};
    lull_status_t status = lull__agree_round(
        ckpt, &round,
        ckpt->options.rank > 0 ? follow_tiers(ckpt, wanted) : LULL_OK);
    free(round.answer.data);
    return status;
}

static lull_status_t begin(opening_t *opening) {
    lull_ckpt_t *ckpt = opening->ckpt;
    lull_status_t status = opening->mine;
    if (status == LULL_OK && ckpt->leads)
        status =
            lull__recover_apply(&opening->recover, &ckpt->dir, &ckpt->history);
    if (status == LULL_OK && ckpt->leads)
        status = lull__sweep(&ckpt->dir, &ckpt->lull_dir, ckpt->run_id, true);
    if (status == LULL_OK && ckpt->leads)
        lull__spares_make(&ckpt->lull_dir, ckpt->run_id);
    if (status == LULL_OK && ckpt->options.rank == 0 &&
        ckpt->options.tier_count > 0)
        status = lull__tiers_open(ckpt);
    lull__agree_round_t round = {.number = 3, .kind = "begin", .ctx = opening};
    if (ckpt->options.rank == 0)
        round.decide = decide_begin;
    status = lull__agree_round(ckpt, &round, status);
    if (status == LULL_OK)
        status = agree_tiers(ckpt, round.answer.data);
    free(round.answer.data);
    if (status == LULL_OK)
        tell_places(ckpt);
    return status;
}

static lull_status_t open_dirs(lull_ckpt_t *ckpt) {
    lull_status_t status = lull__dir_create_path(ckpt->io, ckpt->dir_path);
    if (status == LULL_OK)
        status = lull__dir_open(ckpt->io, ckpt->dir_path, &ckpt->dir);
    if (status == LULL_OK)
        status = lull__dir_create(&ckpt->dir, LULL__LULL_DIR, true);
    return status != LULL_OK ? status : lull__engine_dirs(ckpt);
}

/* Whatever became of the open; what it said of that is kept. */
static void drop_probe(lull_ckpt_t *ckpt) {
    lull__entry_name_t name;
    char why[LULL__SENTENCE_MAX];
    snprintf(why, sizeof why, "%s", lull_last_error());
    name_probe(name, ckpt->run_id, ckpt->options.rank);
    if (ckpt->run_id[0] != '\0' && ckpt->lull_dir.fd >= 0)
        (void)lull__dir_unlink(&ckpt->lull_dir, name);
    lull__error_set(why);
}

lull_status_t lull__agree_open(lull_ckpt_t *ckpt) {
    opening_t opening = {.ckpt = ckpt};
    lull_status_t status = agree_run(&opening, open_dirs(ckpt));
    if (status == LULL_OK)
        status = find_leader(&opening);
    if (status == LULL_OK)
        status = agree_places(&opening);
    if (status == LULL_OK)
        status = begin(&opening);
    drop_probe(ckpt);
    for (uint32_t r = 0; opening.names && r < ckpt->options.world; r++)
        free(opening.names[r]);
    free(opening.names);
    free(opening.leaders);
    lull__recover_free(&opening.recover);
    return status;
}
