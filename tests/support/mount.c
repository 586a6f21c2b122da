/* File systems that tests mount. */
#include "mount.h"

#include <stdlib.h>

#include "ckpt.h"
#include "test.h"

char mount_base[256], mount_point[300];

int mount_room_make(void **state) {
    (void)state;
    test_dir_make(mount_base);
    snprintf(mount_point, sizeof mount_point, "%s/disk", mount_base);
    return 0;
}

int mount_room_drop(void **state) {
    (void)state;
    char command[400];
    snprintf(command, sizeof command,
             "while umount '%s' 2>/dev/null; do :; done", mount_point);
    if (system(command) != 0)
        return 1;
    test_dir_drop(mount_base);
    return 0;
}

void mount_or_skip(const char *how) {
    char command[900];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir disk && { %s; } >/dev/null 2>&1", mount_base,
             how);
    if (system(command) != 0) {
        printf("[ NOTE ] mounting is not allowed here\n");
        skip();
    }
}
