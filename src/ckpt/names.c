/* Names of tensors: rules and the hash index. */
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/pages.h"
#include "json.h"

struct lull__names_slot {
    const char *name; /* NULL: free */
    uint32_t hash;    /* its low half, which also says where the slot is */
    uint32_t number;
};

void lull__text_copy(char *to, size_t room, const char *from) {
    size_t n = strnlen(from, room - 1);
    while (n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80)
        n--; /* not inside a UTF-8 sequence */
    memcpy(to, from, n);
    to[n] = '\0';
}

const char *lull__name_shown(const char *name, char shown[LULL__SHOWN_MAX]) {
    size_t i;
    for (i = 0; i < 80 && name[i] != '\0'; i++) {
        unsigned char c = (unsigned char)name[i];
        shown[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    if (name[i] != '\0') {
        /* Do not cut a UTF-8 sequence. */
        while (i > 0 && ((unsigned char)name[i] & 0xc0) == 0x80)
            i--;
        memcpy(shown + i, "...", 3);
        i += 3;
    }
    shown[i] = '\0';
    return shown;
}

lull_status_t lull__name_check(const char *name) {
    char shown[LULL__SHOWN_MAX];
    const char *why = NULL;
    if (name == NULL)
        return lull__fail(LULL_ERR_INVALID, "a tensor has no name");
    size_t n = strnlen(name, LULL__NAME_MAX + 1);
    if (n == 0)
        why = "it is empty";
    else if (n > LULL__NAME_MAX)
        why = "it is longer than 65536 bytes";
    else if (!lull__utf8_valid(name, n))
        why = "it is not UTF-8";
    else if (strcmp(name, "__metadata__") == 0)
        why = "the file format reserves it";
    else if (strncmp(name, LULL__STATE_PREFIX, strlen(LULL__STATE_PREFIX)) == 0)
        why = "'" LULL__STATE_PREFIX "' is reserved for host state";
    if (why == NULL)
        return LULL_OK;
    return lull__fail(LULL_ERR_INVALID, "tensor name '%s': %s",
                      lull__name_shown(name, shown), why);
}

lull_status_t lull__name_stored(const char *name, uint32_t k, char **out) {
    size_t room = strlen(name) + 12;
    char *stored = malloc(room);
    if (stored == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a name of %zu bytes", room);
    if (k == 0)
        memcpy(stored, name, strlen(name) + 1);
    else
        snprintf(stored, room, "%s#%u", name, k);
    *out = stored;
    return LULL_OK;
}

/* Seeded anew in each process, so that no file can be made of names that
 * collide. */
static uint32_t hash_of(const char *name) {
    static uint64_t seed;
    if (__atomic_load_n(&seed, __ATOMIC_RELAXED) == 0) {
        uint64_t fresh = 1;
        const void *random = (const void *)getauxval(AT_RANDOM);
        if (random != NULL)
            memcpy(&fresh, random, sizeof fresh);
        __atomic_store_n(&seed, fresh | 1, __ATOMIC_RELAXED);
    }
    return (uint32_t)XXH3_64bits_withSeed(
        name, strlen(name), __atomic_load_n(&seed, __ATOMIC_RELAXED));
}

/* The slot of the name, or the free one where it would go. */
static struct lull__names_slot *slot_of(const lull__names_t *names,
                                        uint32_t hash, const char *name) {
    size_t i = hash & names->mask;
    for (;; i = (i + 1) & names->mask) {
        struct lull__names_slot *slot = &names->slots[i];
        if (slot->name == NULL ||
            (slot->hash == hash && strcmp(slot->name, name) == 0))
            return slot;
    }
}

/* A large index is met everywhere: in small pages each look at it would walk
 * their tables, too. */
#define LARGE_BYTES ((size_t)2 << 20)

static struct lull__names_slot *alloc_slots(size_t room) {
    size_t bytes = room * sizeof(struct lull__names_slot);
    return bytes < LARGE_BYTES ? calloc(1, bytes) : lull__pages_alloc(bytes);
}

static void free_slots(lull__names_t *names) {
    size_t bytes = (names->mask + 1) * sizeof *names->slots;
    if (names->slots == NULL || bytes < LARGE_BYTES)
        free(names->slots);
    else
        lull__pages_free(names->slots, bytes);
}

static lull_status_t grow(lull__names_t *names, size_t room) {
    lull__names_t grown = {.count = names->count, .mask = room - 1};
    grown.slots = alloc_slots(room);
    if (grown.slots == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "an index of %zu names",
                          names->count);
    for (size_t i = 0; names->slots != NULL && i <= names->mask; i++) {
        struct lull__names_slot *from = &names->slots[i];
        if (from->name == NULL)
            continue;
        size_t to = from->hash & grown.mask;
        while (grown.slots[to].name != NULL)
            to = (to + 1) & grown.mask;
        grown.slots[to] = *from;
    }
    free_slots(names);
    *names = grown;
    return LULL_OK;
}

static bool fits(const lull__names_t *names, size_t count) {
    return names->slots != NULL && count * 3 <= names->mask * 2;
}

lull_status_t lull__names_reserve(lull__names_t *names, size_t count) {
    size_t room = 16;
    if (fits(names, count))
        return LULL_OK;
    while (count * 3 > (room - 1) * 2)
        room *= 2;
    return grow(names, room);
}

lull_status_t lull__names_add(lull__names_t *names, const char *name,
                              size_t number, size_t *found) {
    if (!fits(names, names->count + 1)) {
        lull_status_t status = lull__names_reserve(names, names->count + 1);
        if (status != LULL_OK)
            return status;
    }
    if (number >= LULL__NAMES_MAX)
        return lull__fail(LULL_ERR_NO_MEMORY, "an index of more than %u names",
                          LULL__NAMES_MAX);
    uint32_t hash = hash_of(name);
    struct lull__names_slot *slot = slot_of(names, hash, name);
    size_t old = slot->name != NULL ? slot->number : SIZE_MAX;
    if (slot->name == NULL) {
        *slot = (struct lull__names_slot){name, hash, (uint32_t)number};
        names->count++;
    }
    if (found != NULL)
        *found = old;
    return LULL_OK;
}

size_t lull__names_find(const lull__names_t *names, const char *name) {
    if (names->slots == NULL)
        return SIZE_MAX;
    struct lull__names_slot *slot = slot_of(names, hash_of(name), name);
    return slot->name != NULL ? slot->number : SIZE_MAX;
}

void lull__names_expect(const lull__names_t *names, const char *name) {
    if (names->slots != NULL)
        __builtin_prefetch(&names->slots[hash_of(name) & names->mask], 1);
}

void lull__names_renumber(lull__names_t *names, const uint32_t *map) {
    for (size_t i = 0; names->slots != NULL && i <= names->mask; i++)
        if (names->slots[i].name != NULL)
            names->slots[i].number = map[names->slots[i].number];
}

void lull__names_free(lull__names_t *names) {
    free_slots(names);
    *names = (lull__names_t){0};
}
