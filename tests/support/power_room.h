/* Two directories for tests that lose power: where it runs, and what of it is
 * there after the restart. */
#ifndef TEST_POWER_ROOM_H
#define TEST_POWER_ROOM_H

#include "io/io.h"

/* The live one exists, the image not yet. */
extern char power_live[300], power_image[300];

/* Set-up and tear-down of a test. The latter makes the system's calls the
 * default ones again. */
int power_room_make(void **state);
int power_room_drop(void **state);

/* The system's calls without fsync: restarts are real but need not survive
 * anything. */
const lull__io_t *power_unsynced(void);

#endif
