/* The sim device's memory: each block is mapped twice, once without any
 * access, at the address that callers know. */
#include "sim_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

void lull__sim_memory_begin(lull__sim_memory_t *memory) {
    *memory = (lull__sim_memory_t){0};
    pthread_mutex_init(&memory->lock, NULL);
}

static void unmap(lull__sim_block_t *block) {
    munmap(block->device, block->bytes);
    munmap(block->alias, block->bytes);
    free(block);
}

void lull__sim_memory_end(lull__sim_memory_t *memory) {
    for (size_t i = 0; i < memory->count; i++)
        unmap(memory->blocks[i]);
    free(memory->blocks);
    pthread_mutex_destroy(&memory->lock);
}

/* Maps `bytes` of a new file at both addresses; 0, or an errno. */
static int map_twice(lull__sim_block_t *block) {
    int fd = memfd_create("lull-sim", MFD_CLOEXEC);
    if (fd < 0)
        return errno;
    void *device = MAP_FAILED, *alias = MAP_FAILED;
    int rc = ftruncate(fd, (off_t)block->bytes) == 0 ? 0 : errno;
    if (rc == 0) {
        device = mmap(NULL, block->bytes, PROT_NONE, MAP_SHARED, fd, 0);
        alias =
            mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (device == MAP_FAILED || alias == MAP_FAILED)
            rc = ENOMEM;
    }
    close(fd);
    if (rc != 0 && device != MAP_FAILED)
        munmap(device, block->bytes);
    if (rc != 0 && alias != MAP_FAILED)
        munmap(alias, block->bytes);
    block->device = device;
    block->alias = alias;
    return rc;
}

/* The first block that ends behind `device`. The lock is held. */
static size_t place_of(const lull__sim_memory_t *memory, const char *device) {
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const lull__sim_block_t *block = memory->blocks[middle];
        if (device < block->device + block->bytes)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int insert(lull__sim_memory_t *memory, lull__sim_block_t *block) {
    if (memory->count == memory->room) {
        size_t room = memory->room ? 2 * memory->room : 64;
        void *blocks = realloc(memory->blocks, room * sizeof *memory->blocks);
        if (blocks == NULL)
            return ENOMEM;
        memory->blocks = blocks;
        memory->room = room;
    }
    size_t at = place_of(memory, block->device);
    memmove(memory->blocks + at + 1, memory->blocks + at,
            (memory->count - at) * sizeof *memory->blocks);
    memory->blocks[at] = block;
    memory->count++;
    return 0;
}

lull_status_t lull__sim_memory_alloc(lull__sim_memory_t *memory, size_t bytes,
                                     void **out) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    lull__sim_block_t *block = calloc(1, sizeof *block);
    int rc = block == NULL || bytes > PTRDIFF_MAX - page ? ENOMEM : 0;
    if (rc == 0) {
        block->bytes = (bytes + (bytes == 0) + page - 1) / page * page;
        block->refs = 1;
        rc = map_twice(block);
    }
    if (rc != 0) {
        free(block);
        return lull__fail_errno(rc, "sim: allocating %zu bytes", bytes);
    }
    memset(block->alias, LULL__SIM_POISON, block->bytes);
    pthread_mutex_lock(&memory->lock);
    rc = insert(memory, block);
    pthread_mutex_unlock(&memory->lock);
    if (rc != 0) {
        unmap(block);
        return lull__fail_errno(rc, "sim: allocating %zu bytes", bytes);
    }
    *out = block->device;
    return LULL_OK;
}

void lull__sim_memory_free(lull__sim_memory_t *memory, void *device) {
    lull__sim_block_t *block = NULL;
    pthread_mutex_lock(&memory->lock);
    size_t at = place_of(memory, device);
    if (at < memory->count && memory->blocks[at]->device == device) {
        block = memory->blocks[at];
        memory->count--;
        memmove(memory->blocks + at, memory->blocks + at + 1,
                (memory->count - at) * sizeof *memory->blocks);
    }
    bool last = block != NULL && block->refs == 1;
    pthread_mutex_unlock(&memory->lock);
    if (block == NULL)
        return;
    /* Work that is still queued was to be done before: it finds this. */
    if (!last)
        memset(block->alias, LULL__SIM_FREED, block->bytes);
    lull__sim_memory_unref(memory, block);
}

lull__sim_block_t *lull__sim_memory_find(lull__sim_memory_t *memory,
                                         const void *device, size_t bytes,
                                         char **alias) {
    const char *begin = device;
    lull__sim_block_t *found = NULL;
    pthread_mutex_lock(&memory->lock);
    size_t at = place_of(memory, begin);
    if (at < memory->count) {
        lull__sim_block_t *block = memory->blocks[at];
        if (begin >= block->device &&
            bytes <= (size_t)(block->device + block->bytes - begin)) {
            found = block;
            found->refs++;
            *alias = block->alias + (begin - block->device);
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

void lull__sim_memory_unref(lull__sim_memory_t *memory,
                            lull__sim_block_t *block) {
    pthread_mutex_lock(&memory->lock);
    bool last = --block->refs == 0;
    pthread_mutex_unlock(&memory->lock);
    if (last)
        unmap(block);
}
