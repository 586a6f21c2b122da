/* A storage table that records what changes a directory, so that a test can
 * rebuild what would be on the disk had the power failed after any call: what
 * was synced is there; what was not is dropped, kept, or some of both. Writes
 * to a file are lost one by one, and may be torn; names of a directory are
 * lost from the last one backwards, as a journal does. */
#ifndef TEST_POWERIO_H
#define TEST_POWERIO_H

#include "io/io.h"

typedef enum power_loss {
    POWER_DROP, /* nothing that was not synced is there */
    POWER_KEEP, /* all is there: a crash of the process alone */
    POWER_MIX   /* some of it, by the seed */
} power_loss_t;

typedef struct powerio powerio_t;

/* Records below the existing, empty directory `root`. exchange false: refuses
 * RENAME_EXCHANGE. */
powerio_t *powerio_create(const char *root, bool exchange);
void powerio_destroy(powerio_t *power);
const lull__io_t *powerio_io(powerio_t *power);

/* The run died after its first `calls` calls and the machine goes on: makes
 * what it left in the directory `image` (missing so far), and records what
 * happens there from now on behind those calls. What was not synced by then is
 * still not. */
powerio_t *powerio_resume(powerio_t *power, size_t calls, const char *image);

/* Calls recorded so far. */
size_t powerio_count(powerio_t *power);
/* What call number `i` was, for messages. */
const char *powerio_describe(powerio_t *power, size_t i);
/* Makes the directory `image` (missing so far) as it would be after the first
 * `calls` calls. */
void powerio_rebuild(powerio_t *power, size_t calls, power_loss_t loss,
                     uint64_t seed, const char *image);

#endif
