/* Rounds of agreement: messages of a head (a note), and a body. */
#include "agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/log.h"
#include "note.h"

/* What rank 0 gathers, or what another rank is told. */
typedef struct hearing {
    lull_ckpt_t *ckpt;
    lull__agree_round_t *round;
    uint32_t missing;
    lull_status_t status; /* of the first rank that failed, or of rank 0 */
    uint32_t failed;      /* that rank; UINT32_MAX: none */
    bool spoken;          /* by rank 0, of a spread */
    char text[LULL__SENTENCE_MAX];
} hearing_t;

/* ---- messages ---- */

/* One without a body needs no memory: so a rank that found none says so. */
typedef struct message {
    const void *data;
    uint64_t bytes;
    char *owned; /* all of it, where there is a body */
    char head[4 + LULL__NOTE_MAX];
} message_t;

static lull_status_t put_message(const lull_ckpt_t *ckpt,
                                 const lull__agree_round_t *round,
                                 const lull__note_t *note,
                                 const lull__memory_t *body, message_t *out) {
    size_t n;
    lull__note_t full = *note;
    snprintf(full.kind, sizeof full.kind, "%s", round->kind);
    snprintf(full.run_id, sizeof full.run_id, "%s",
             ckpt->run_id[0] ? ckpt->run_id : "-");
    full.number = round->number;
    full.rank = ckpt->options.rank;
    full.seq = lull__hash_of(body->data, body->bytes);
    lull_status_t status = lull__note_format(&full, out->head + 4, &n);
    if (status != LULL_OK)
        return status;
    for (unsigned i = 0; i < 4; i++)
        out->head[i] = (char)(n >> 8 * i);
    out->bytes = 4 + n;
    out->data = out->head;
    out->owned = NULL;
    if (body->bytes == 0)
        return LULL_OK;
    out->owned = malloc(out->bytes + body->bytes);
    if (out->owned == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a message of %" PRIu64 " bytes",
                          out->bytes + body->bytes);
    memcpy(out->owned, out->head, out->bytes);
    memcpy(out->owned + out->bytes, body->data, body->bytes);
    out->data = out->owned;
    out->bytes += body->bytes;
    return LULL_OK;
}

/* Parses message[n], checks whose it is. *body: what is behind the head. */
static bool get_message(const hearing_t *hearing, uint32_t rank,
                        const unsigned char *message, uint64_t n,
                        lull__note_t *note, const unsigned char **body) {
    const lull__agree_round_t *round = hearing->round;
    const char *run = hearing->ckpt->run_id;
    char head[LULL__NOTE_MAX];
    if (message == NULL || n < 4)
        return false;
    uint64_t length = message[0] | message[1] << 8 | message[2] << 16 |
                      (uint64_t)message[3] << 24;
    if (length > sizeof head || length > n - 4)
        return false;
    memcpy(head, message + 4, length);
    *body = message + 4 + length;
    return lull__note_parse(head, length, note) &&
           strcmp(note->kind, round->kind) == 0 && note->rank == rank &&
           note->number == round->number &&
           (run[0] == '\0' || strcmp(note->run_id, "-") == 0 ||
            strcmp(note->run_id, run) == 0) &&
           note->seq == lull__hash_of(*body, n - 4 - length);
}

/* ---- hearing ---- */

static void keep_failure(hearing_t *hearing, uint32_t rank,
                         lull_status_t status, const char *text) {
    if (rank > hearing->failed ||
        (rank == hearing->failed && hearing->status != LULL_OK))
        return;
    hearing->failed = rank;
    hearing->status = status;
    snprintf(hearing->text, sizeof hearing->text, "%s", text);
}

static lull_status_t take_body(hearing_t *hearing, uint32_t rank,
                               const void *data, uint64_t bytes) {
    lull__agree_round_t *round = hearing->round;
    if (round->take == NULL)
        return LULL_OK;
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a message of %" PRIu64 " bytes",
                          bytes);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    lull_status_t status = round->take(round->ctx, rank, copy, bytes);
    free(copy);
    return status;
}

static void hear_rank(const lull_ckpt_agree_t *call, uint32_t rank,
                      const void *data, uint64_t bytes) {
    hearing_t *hearing = call->engine;
    const unsigned char *body;
    char said[LULL__SENTENCE_MAX]; /* by the callback, so far */
    lull__note_t note;
    bool *heard = hearing->ckpt->heard;
    if (rank >= call->world || heard[rank])
        return;
    heard[rank] = true;
    hearing->missing--;
    if (!get_message(hearing, rank, data, bytes, &note, &body)) {
        keep_failure(hearing, rank, LULL_ERR_MISMATCH,
                     "its message is not one of this run and round");
        return;
    }
    if (note.status != LULL_OK) {
        keep_failure(hearing, rank, note.status, note.text);
        return;
    }
    uint64_t n = bytes - (uint64_t)(body - (const unsigned char *)data);
    strcpy(said, lull_last_error());
    lull_status_t status = take_body(hearing, rank, body, n);
    if (status != LULL_OK)
        keep_failure(hearing, rank, status, lull_last_error());
    lull__error_set(said);
}

/* A NUL that does not count. */
static lull_status_t close_answer(lull__memory_t *answer) {
    lull_status_t status = lull__out_to_memory(answer, "", 1);
    answer->bytes -= status == LULL_OK;
    return status;
}

static void hear_rank0(const lull_ckpt_agree_t *call, uint32_t rank,
                       const void *data, uint64_t bytes) {
    hearing_t *hearing = call->engine;
    lull__agree_round_t *round = hearing->round;
    const unsigned char *body;
    lull__note_t note;
    if (rank != 0 || hearing->spoken ||
        !get_message(hearing, 0, data, bytes, &note, &body))
        return;
    hearing->spoken = true;
    hearing->status = note.status;
    snprintf(hearing->text, sizeof hearing->text, "%s", note.text);
    uint64_t n = bytes - (uint64_t)(body - (const unsigned char *)data);
    if (note.status == LULL_OK) {
        round->agreed = true;
        hearing->status = lull__out_to_memory(&round->answer, body, n);
        if (hearing->status == LULL_OK)
            hearing->status = close_answer(&round->answer);
        if (hearing->status != LULL_OK)
            snprintf(hearing->text, sizeof hearing->text, "%s",
                     lull_last_error());
    }
}

static bool is_cancelled(const lull_ckpt_agree_t *call) {
    hearing_t *hearing = call->engine;
    lull_ckpt_t *ckpt = hearing->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    bool cancelled = ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    return cancelled;
}

/* Ranks wait for rank 0's answer a little longer than rank 0 for them: its
 * time runs from its own message. */
static lull_status_t call_back(hearing_t *hearing, lull_ckpt_agree_op_t op,
                               const message_t *message) {
    const lull_ckpt_options_t *options = &hearing->ckpt->options;
    lull_ckpt_agree_t call = {.size = sizeof call,
                              .op = op,
                              .round = hearing->round->number,
                              .rank = options->rank,
                              .world = options->world,
                              .data = message ? message->data : NULL,
                              .bytes = message ? message->bytes : 0,
                              .timeout_s = options->commit_timeout_s,
                              .take = op == LULL_CKPT_GATHER ? hear_rank
                                                             : hear_rank0,
                              .cancelled = is_cancelled,
                              .engine = hearing};
    if (op == LULL_CKPT_SPREAD)
        call.timeout_s = 1.25 * call.timeout_s + 1;
    lull__error_set("");
    return options->agree(options->agree_ctx, &call);
}

/* What a call that ended so says of it: its own sentence, if it left one. A
 * message that did not come though all went well is a peer's. */
static void quote(lull_status_t called, char why[LULL__SENTENCE_MAX]) {
    const char *said = called == LULL_OK ? "" : lull_last_error();
    lull_status_t status = called == LULL_OK ? LULL_ERR_PEER : called;
    snprintf(why, LULL__SENTENCE_MAX, "%.700s",
             said[0] != '\0' ? said : lull_status_text(status));
}

/* ---- rank 0 ---- */

static void tell_missing(hearing_t *hearing, lull_status_t called) {
    uint32_t rank = 0;
    char why[LULL__SENTENCE_MAX], text[LULL__SENTENCE_MAX];
    quote(called, why);
    if (called == LULL_OK)
        called = LULL_ERR_PEER;
    while (hearing->missing > 0 && hearing->ckpt->heard[rank])
        rank++;
    if (hearing->missing == 0)
        snprintf(text, sizeof text, "%.700s, though all ranks answered (%s)",
                 why, hearing->round->kind);
    else
        snprintf(text, sizeof text,
                 "%.700s; %" PRIu32 " of %" PRIu32
                 " ranks did not answer, the first is rank %" PRIu32 " (%s)",
                 why, hearing->missing, hearing->ckpt->options.world, rank,
                 hearing->round->kind);
    /* A rank that said why comes before those that said nothing. */
    keep_failure(hearing, UINT32_MAX, called, text);
}

static lull_status_t spread(hearing_t *hearing, const message_t *message) {
    lull_status_t status = call_back(hearing, LULL_CKPT_SPREAD, message);
    if (status != LULL_OK && lull_last_error()[0] == '\0')
        status = lull__fail(status,
                            "agree: rank 0 could not tell the others "
                            "(%s): %s",
                            hearing->round->kind, lull_status_text(status));
    return status;
}

static lull_status_t decide(hearing_t *hearing) {
    lull__agree_round_t *round = hearing->round;
    lull_status_t status = LULL_OK;
    if (round->decide != NULL)
        status = round->decide(round->ctx, &round->answer);
    return status == LULL_OK ? close_answer(&round->answer) : status;
}

/* Decides, and puts into words what goes to all. */
static lull_status_t answer(hearing_t *hearing, message_t *message) {
    lull__note_t note = {.status = hearing->status};
    lull__memory_t none = {0};
    if (note.status == LULL_OK) {
        note.status = decide(hearing);
        if (note.status == LULL_OK)
            note.status = put_message(hearing->ckpt, hearing->round, &note,
                                      &hearing->round->answer, message);
        if (note.status == LULL_OK)
            return LULL_OK;
        snprintf(hearing->text, sizeof hearing->text, "%s", lull_last_error());
    }
    snprintf(note.text, sizeof note.text, "%s", hearing->text);
    (void)put_message(hearing->ckpt, hearing->round, &note, &none, message);
    return note.status;
}

static void name_rank(hearing_t *hearing) {
    char text[LULL__SENTENCE_MAX];
    if (hearing->status == LULL_OK || hearing->failed == UINT32_MAX)
        return;
    snprintf(text, sizeof text, "rank %" PRIu32 ": %.950s", hearing->failed,
             hearing->text);
    snprintf(hearing->text, sizeof hearing->text, "%s", text);
}

static lull_status_t lead(hearing_t *hearing, const message_t *message,
                          lull_status_t mine) {
    uint32_t world = hearing->ckpt->options.world;
    char own[LULL__SENTENCE_MAX];
    message_t to_all;
    snprintf(own, sizeof own, "%s", lull_last_error());
    memset(hearing->ckpt->heard, 0, world * sizeof *hearing->ckpt->heard);
    hearing->missing = world;
    lull_status_t called = call_back(hearing, LULL_CKPT_GATHER, message);
    if (called != LULL_OK || hearing->missing > 0)
        tell_missing(hearing, called);
    name_rank(hearing);
    lull_status_t status = answer(hearing, &to_all);
    hearing->round->own = mine != LULL_OK || status != hearing->status;
    hearing->round->agreed = status == LULL_OK;
    lull_status_t told = spread(hearing, &to_all);
    free(to_all.owned);
    if (mine != LULL_OK) {
        lull__error_set(own);
        return mine;
    }
    if (status != LULL_OK)
        return lull__fail(status, "%s", hearing->text);
    return told;
}

/* ---- the others ---- */

static lull_status_t follow(hearing_t *hearing, const message_t *message,
                            lull_status_t mine) {
    char own[LULL__SENTENCE_MAX], why[LULL__SENTENCE_MAX];
    snprintf(own, sizeof own, "%s", lull_last_error());
    lull_status_t called = call_back(hearing, LULL_CKPT_GATHER, message);
    if (called == LULL_OK)
        called = call_back(hearing, LULL_CKPT_SPREAD, NULL);
    quote(called, why);
    if (mine != LULL_OK) {
        lull__error_set(own);
        return mine;
    }
    if (!hearing->spoken)
        return lull__fail(called == LULL_ERR_CANCELLED
                              ? LULL_ERR_CANCELLED
                              : LULL_ERR_OUTCOME_UNKNOWN,
                          "agree: rank 0 gave no answer (%s): %.700s",
                          hearing->round->kind, why);
    if (hearing->status != LULL_OK)
        return lull__fail(hearing->status, "%s", hearing->text);
    return LULL_OK;
}

lull_status_t lull__agree_round(lull_ckpt_t *ckpt, lull__agree_round_t *round,
                                lull_status_t mine) {
    hearing_t hearing = {
        .ckpt = ckpt, .round = round, .failed = UINT32_MAX, .status = LULL_OK};
    lull__note_t note = {.status = mine};
    lull__memory_t body = {(char *)round->body, round->bytes, 0}, none = {0};
    message_t message;
    round->answer = (lull__memory_t){0};
    round->agreed = false;
    if (mine == LULL_OK)
        mine = put_message(ckpt, round, &note, &body, &message);
    if (mine != LULL_OK) {
        note.status = mine;
        snprintf(note.text, sizeof note.text, "%s", lull_last_error());
        (void)put_message(ckpt, round, &note, &none, &message);
        lull__error_set(note.text);
    }
    round->own = mine != LULL_OK;
    lull_status_t status = ckpt->options.rank == 0
                               ? lead(&hearing, &message, mine)
                               : follow(&hearing, &message, mine);
    free(message.owned);
    if (status != LULL_OK) {
        free(round->answer.data);
        round->answer = (lull__memory_t){0};
    }
    return status;
}
