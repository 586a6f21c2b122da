/* Messages of lull's own algorithms: docs/formats/comm-message.md. */
#ifndef LULL__MESSAGE_H
#define LULL__MESSAGE_H

#include "internal.h"

#define LULL__ERROR_TEXT 256 /* most bytes of an error's sentence */

typedef enum lull__message_kind {
    LULL__MESSAGE_DATA = 1,  /* a frame follows */
    LULL__MESSAGE_ERROR = 2, /* a sentence follows */
    LULL__MESSAGE_EMPTY = 3  /* nothing is owed, but arguments are compared */
} lull__message_kind_t;

typedef struct lull__message {
    lull__message_kind_t kind;
    lull__kind_t call;
    int dtype, op, root;
    int rank;     /* the sender; of an error: where it happened first */
    int status;   /* of an error */
    int gather;   /* of the second half of an all-reduce */
    uint64_t seq; /* of the call */
    uint64_t count;
    uint32_t chunk; /* its number in its part */
    uint32_t step;  /* values of a chunk, so that its sender's can be counted */
    uint32_t bytes; /* that follow the header */
} lull__message_t;

void lull__message_pack(const lull__message_t *message,
                        unsigned char to[LULL__HEADER_BYTES]);
/* LULL_ERR_CORRUPT: not a message, or not of `bytes` bytes. */
lull_status_t lull__message_unpack(const unsigned char *from, size_t bytes,
                                   lull__message_t *out);

const char *lull__call_name(lull__kind_t kind);
/* "allreduce of 100 F32, sum" */
void lull__message_describe(const lull__message_t *m, char text[160]);
/* Do they tell of the same call? */
bool lull__message_same(const lull__message_t *a, const lull__message_t *b);

#endif
