/* The header of messages: packed, unpacked, never trusted; compared and put in
 * words. */
#include "message.h"

#include <stdio.h>
#include <string.h>

#include <lull/codec.h>

#include "base/checksum.h"

#define MAGIC 0x4d4c554cu /* "LULM" */
#define VERSION 2

static void put32(unsigned char *at, uint32_t x) {
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(x >> 8 * i);
}

static void put64(unsigned char *at, uint64_t x) {
    put32(at, (uint32_t)x);
    put32(at + 4, (uint32_t)(x >> 32));
}

static uint32_t get32(const unsigned char *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static uint64_t get64(const unsigned char *at) {
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

void lull__message_pack(const lull__message_t *m,
                        unsigned char to[LULL__HEADER_BYTES]) {
    memset(to, 0, LULL__HEADER_BYTES);
    put32(to, MAGIC);
    to[4] = VERSION;
    to[5] = (unsigned char)m->kind;
    to[6] = (unsigned char)m->call;
    to[7] = (unsigned char)m->dtype;
    to[8] = (unsigned char)m->op;
    to[9] = (unsigned char)m->gather;
    put32(to + 12, (uint32_t)m->rank);
    put64(to + 16, m->seq);
    put64(to + 24, m->count);
    put32(to + 32, m->chunk);
    put32(to + 36, m->bytes);
    put32(to + 40, (uint32_t)m->root);
    put32(to + 44, (uint32_t)m->status);
    put32(to + 48, m->step);
    put64(to + 56, lull__hash_of(to, 56));
}

lull_status_t lull__message_unpack(const unsigned char *from, size_t bytes,
                                   lull__message_t *out) {
    const char *wrong = NULL;
    if (bytes < LULL__HEADER_BYTES)
        wrong = "it is shorter than a header";
    else if (get32(from) != MAGIC)
        wrong = "the magic is another";
    else if (get64(from + 56) != lull__hash_of(from, 56))
        wrong = "the header's checksum is another";
    else if (from[4] != VERSION)
        wrong = "the version is another";
    else if (from[5] < LULL__MESSAGE_DATA || from[5] > LULL__MESSAGE_EMPTY)
        wrong = "the kind is none";
    else if (from[6] >= LULL__KIND_COUNT)
        wrong = "the call is none";
    else if (get32(from + 36) != bytes - LULL__HEADER_BYTES)
        wrong = "its length is another than the header's";
    else if (get64(from + 24) > (uint64_t)1 << 60)
        wrong = "the count is too large";
    else if (get32(from + 48) == 0 || get32(from + 48) > LULL_UNIT)
        wrong = "the size of its chunks is none";
    if (wrong != NULL)
        return lull__fail(LULL_ERR_CORRUPT, "a message of %zu bytes: %s", bytes,
                          wrong);
    *out = (lull__message_t){
        .kind = (lull__message_kind_t)from[5],
        .call = (lull__kind_t)from[6],
        .dtype = from[7],
        .op = from[8],
        .rank = (int)get32(from + 12),
        .seq = get64(from + 16),
        .count = get64(from + 24),
        .gather = from[9],
        .chunk = get32(from + 32),
        .bytes = get32(from + 36),
        .root = (int)get32(from + 40),
        .status = (int)get32(from + 44),
        .step = get32(from + 48),
    };
    return LULL_OK;
}

static const char *const calls[LULL__KIND_COUNT] = {
    "allreduce", "reduce_scatter_block",
    "allgather", "bcast",
    "send/recv", "send/recv",
    "barrier"};
static const char *const ops[] = {"sum", "avg", "min", "max"};

const char *lull__call_name(lull__kind_t kind) {
    return calls[kind];
}

void lull__message_describe(const lull__message_t *m, char text[160]) {
    const char *dtype = lull_dtype_name((lull_dtype_t)m->dtype);
    bool reduces = lull__reduces(m->call);
    snprintf(text, 160, "%s of %llu %s%s%s%s", calls[m->call],
             (unsigned long long)m->count, dtype ? dtype : "(no dtype)",
             reduces ? ", " : "", reduces ? ops[m->op & 3] : "", "");
    if (m->call == LULL__BCAST)
        snprintf(text + strlen(text), 40, ", root %d", m->root);
}

bool lull__message_same(const lull__message_t *a, const lull__message_t *b) {
    return a->call == b->call && a->dtype == b->dtype && a->op == b->op &&
           a->root == b->root && a->count == b->count;
}
