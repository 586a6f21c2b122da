/* Names of tensors: which are allowed, and an index from name to number. */
#ifndef LULL__CKPT_NAMES_H
#define LULL__CKPT_NAMES_H

#include <lull/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LULL__NAME_MAX 65536             /* bytes of a tensor's name */
#define LULL__STATE_PREFIX "lull.state/" /* stored names of host state */

/* LULL_ERR_INVALID unless a tensor or a state may have this name: not empty,
 * at most LULL__NAME_MAX bytes of UTF-8, not `__metadata__`, and not under
 * LULL__STATE_PREFIX. The sentence shows it, shortened. */
lull_status_t lull__name_check(const char *name);

/* The stored name of a rank's k-th shard (from 0) of `name`: "w", "w#1", ...;
 * malloc'ed. Collisions ("w#1" is also a tensor) are found by adding every
 * stored name to one index. */
lull_status_t lull__name_stored(const char *name, uint32_t k, char **out);

/* A hash index. It keeps pointers, not copies: names outlive it. Zeros are
 * an empty index. One thread while adding, any number while looking up. */
typedef struct lull__names {
    struct lull__names_slot *slots;
    size_t count, mask;
} lull__names_t;

#define LULL__NAMES_MAX UINT32_MAX /* numbers are less */

/* Room for `count` names, so that it need not grow. LULL_ERR_NO_MEMORY. */
lull_status_t lull__names_reserve(lull__names_t *names, size_t count);
/* *found (may be NULL) is the number the name already had, SIZE_MAX if it is
 * new; an old name keeps its number. LULL_ERR_NO_MEMORY. */
lull_status_t lull__names_add(lull__names_t *names, const char *name,
                              size_t number, size_t *found);
/* The name is added or looked up soon: for loops over many, which else wait
 * for memory at each. LULL__NAMES_AHEAD of them before is good. */
#define LULL__NAMES_AHEAD 8
void lull__names_expect(const lull__names_t *names, const char *name);
/* Each name's number becomes map[number]. */
void lull__names_renumber(lull__names_t *names, const uint32_t *map);
/* SIZE_MAX: not there. */
size_t lull__names_find(const lull__names_t *names, const char *name);
void lull__names_free(lull__names_t *names);

/* Copies a text, cut to room - 1 bytes. */
void lull__text_copy(char *to, size_t room, const char *from);

/* `name` for a sentence: control characters as '?', at most 80 bytes. The
 * buffer is the caller's. */
#define LULL__SHOWN_MAX 96
const char *lull__name_shown(const char *name, char shown[LULL__SHOWN_MAX]);

#endif
