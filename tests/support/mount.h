/* A small file system of its own for a test. Needs root and mount. */
#ifndef TEST_MOUNT_H
#define TEST_MOUNT_H

/* A directory of the test; where in it something is to be mounted. */
extern char mount_base[256], mount_point[300];

/* Set-up and tear-down of a test: the directory; unmounts all of it. */
int mount_room_make(void **state);
int mount_room_drop(void **state);

/* `how` runs in mount_base, where it is to mount something at "disk"; where it
 * may not, the test is skipped. */
void mount_or_skip(const char *how);

#endif
