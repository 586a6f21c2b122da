/* A stream played by a thread: operations run in the order they were pushed.
 * Under the sim device, and under the driver that tests play CUDA with; so it
 * needs nothing but POSIX threads. */
#ifndef LULL__LANE_H
#define LULL__LANE_H

#include <stddef.h>
#include <stdint.h>

typedef struct lull__lane lull__lane_t;

#define LULL__LANE_ARG 72 /* bytes of an operation's argument at most */

/* 0, or an errno. */
int lull__lane_create(lull__lane_t **out);
/* Runs what was pushed, ends the thread and drops the creator's reference.
 * Nothing may be pushed any more. */
void lull__lane_end(lull__lane_t *lane);
/* A reference keeps a lane's numbers readable. */
void lull__lane_ref(lull__lane_t *lane);
void lull__lane_unref(lull__lane_t *lane);

/* Queues fn(copy of arg); returns its number, counted from 1. Waits while 256
 * operations wait. Any thread. */
uint64_t lull__lane_push(lull__lane_t *lane, void (*fn)(void *arg),
                         const void *arg, size_t bytes);
/* The number of the last operation pushed. */
uint64_t lull__lane_issued(lull__lane_t *lane);
/* Blocks until operation `number` has run. */
void lull__lane_wait(lull__lane_t *lane, uint64_t number);

#endif
