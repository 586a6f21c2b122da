/* Directories of tests that lose power. */
#include "power_room.h"

#include <stdlib.h>
#include <unistd.h>

#include "ckpt.h"
#include "test.h"

char power_live[300], power_image[300];
static char base[256];

static int no_sync(const lull__io_t *io, int fd) {
    (void)io, (void)fd;
    return 0;
}

const lull__io_t *power_unsynced(void) {
    static lull__io_ops_t ops;
    static const lull__io_t io = {.ops = &ops};
    ops = *lull__io_system.ops;
    ops.sync = no_sync;
    return &io;
}

int power_room_make(void **state) {
    (void)state;
    /* Memory is enough to lose. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    test_dir_make(base);
    snprintf(power_live, sizeof power_live, "%s/live", base);
    snprintf(power_image, sizeof power_image, "%s/image", base);
    char command[400];
    snprintf(command, sizeof command, "mkdir '%s'", power_live);
    return system(command);
}

int power_room_drop(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(base);
    return 0;
}
