/* Storage tables for tests: one that makes the n-th call fail, be short, be
 * slow or run a hook, over any other; counted over all threads. */
#ifndef TEST_FAULTIO_H
#define TEST_FAULTIO_H

#include <stdbool.h>
#include <stdint.h>

#include "io/io.h"

typedef enum fault_op {
    FAULT_OPEN = 1 << 0,
    FAULT_CLOSE = 1 << 1,
    FAULT_READ = 1 << 2,
    FAULT_WRITE = 1 << 3,
    FAULT_SYNC = 1 << 4,
    FAULT_TRUNCATE = 1 << 5,
    FAULT_RENAME = 1 << 6,
    FAULT_MKDIR = 1 << 7,
    FAULT_UNLINK = 1 << 8,
    FAULT_STAT = 1 << 9,
    FAULT_LIST = 1 << 10,
    FAULT_LOCK = 1 << 11,
    FAULT_SPACE = 1 << 12,
    FAULT_ALLOCATE = 1 << 13,
    FAULT_ANY = (1 << 14) - 1,
    /* What changes the disk: how far a run got, for kills and power loss. */
    FAULT_CHANGES = FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_RENAME |
                    FAULT_MKDIR | FAULT_UNLINK
} fault_op_t;

typedef struct faultio {
    lull__io_t io; /* use this one; ctx is the faultio itself */
    const lull__io_t *below;
    unsigned ops;      /* which calls count */
    uint64_t at;       /* the call, from 1, that fails; 0: none */
    bool from_then_on; /* and all later ones */
    int error;         /* errno of it; 0: a short transfer of 1 byte, where
                          there are transfers; atomic */
    double slow_s;     /* every counted write takes so long */
    void (*hook)(struct faultio *fault, fault_op_t op); /* at `at`, before */
    void *hook_ctx;
    uint64_t calls; /* so far; atomic */
    uint64_t hits;  /* calls that failed; read by faultio_hit */
} faultio_t;

/* Over the system's calls; counts everything, fails nothing. */
void faultio_init(faultio_t *fault);
/* Begins counting anew. */
void faultio_arm(faultio_t *fault, uint64_t at, int error);
/* Whether a call failed since; threads may still be making calls. */
bool faultio_hit(const faultio_t *fault);

#endif
