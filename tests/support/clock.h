/* A clock for the timeouts of engines that runs as fast as a test says: what
 * waits for nobody has all the time there is on any machine, and a rank that is
 * waited for in vain is given up soon. For programs whose linker sends what
 * reads the library's clock here first (see tests/CMakeLists.txt). */
#ifndef TEST_CLOCK_H
#define TEST_CLOCK_H

#include <stdbool.h>

/* From now on its time runs so many times as fast as time does; 1 at first. */
void test_clock_speed(double speed);

/* A commit timeout, in seconds, that no machine needs, and the speed at which
 * it is over after a fifth of a second. */
#define TEST_CLOCK_TIMEOUT 1000.0
#define TEST_CLOCK_HURRY 5000.0

/* For what fails at some time in some thread: from then on it runs at that
 * speed, if a test has said that it may, until the test says no more. */
void test_clock_may_hurry(bool may);
void test_clock_hurry(void);

#endif
