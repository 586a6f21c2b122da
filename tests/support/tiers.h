/* What tests of tiers share: a state of several ranks with everything in it
 * that a merged file has to tell apart, and its check. */
#ifndef TEST_TIERS_H
#define TEST_TIERS_H

#include <lull/ckpt.h>

#define TIERS_WORLD 4

/* Rows of the largest tensor; more than a block of 1 MiB a rank if large. */
#define TIERS_ROWS_MAX 1300001
extern uint32_t test_tiers_rows; /* 70001 */

/* Saves the state of `version` as `step` on all ranks: parts of tensors, two
 * shards of one name in a rank, an alias, host state of the run and of ranks.
 * Waits until it is committed. */
void test_tiers_save(lull_ckpt_t **ranks, uint32_t world, uint64_t step,
                     uint64_t version);
/* Verifies the checkpoint and loads it whole; gives its version. */
uint64_t test_tiers_version(const char *dir, lull_ckpt_id_t id);
/* Of the newest in a directory; 0: there is none. */
uint64_t test_tiers_newest(const char *dir);
/* Of the newest over two. */
uint64_t test_tiers_newest_of(const char *fast, const char *slow);
/* Every checkpoint that is listed is whole. Returns how many there are. */
size_t test_tiers_all_whole(const char *dir);

#endif
