/* Slots of one communicator: made with it, more only where more operations
 * are outstanding than that; kept until it goes. */
#include <stdlib.h>

#include "engine.h"

/* The largest message of any dtype that the policy may code. */
static size_t largest(const lull_comm_t *comm) {
    static const lull_dtype_t dtypes[] = {
        LULL_F32, LULL_F64, LULL_F16, LULL_BF16, LULL_I32, LULL_I64, LULL_U8};
    size_t most = LULL__CHUNK_BYTES;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        lull__coding_t both[2] = {comm->codings[dtypes[i]],
                                  lull__coding_raw(dtypes[i])};
        size_t n = lull__chunk_values(comm, dtypes[i]), bytes;
        for (unsigned k = 0; k < 2; k++)
            if (both[k].carries &&
                lull_frame_bound(&both[k].codec, n, &bytes) == LULL_OK &&
                bytes > most)
                most = bytes;
    }
    return (LULL__HEADER_BYTES + most + 63) / 64 * 64;
}

static bool room(lull__engine_t *engine, size_t n) {
    if (n <= engine->capacity)
        return true;
    lull__slot_t **owned = realloc(engine->owned, n * sizeof *owned);
    if (owned == NULL)
        return false;
    engine->owned = owned;
    lull__slot_t **idle = realloc(engine->idle, n * sizeof *idle);
    if (idle == NULL)
        return false;
    engine->idle = idle;
    engine->capacity = n;
    return true;
}

static bool add(lull__engine_t *engine) {
    if (!room(engine, engine->owned_count + 1))
        return false;
    lull__slot_t *slot = aligned_alloc(64, engine->slot_bytes);
    if (slot == NULL)
        return false;
    engine->owned[engine->owned_count++] = slot;
    engine->idle[engine->idle_count++] = slot;
    return true;
}

lull__slot_t *lull__slot_get(lull__engine_t *engine) {
    if (engine->idle_count == 0 && !add(engine))
        return NULL;
    return engine->idle[--engine->idle_count];
}

void lull__slot_put(lull__engine_t *engine, lull__slot_t *slot) {
    if (slot != NULL)
        engine->idle[engine->idle_count++] = slot;
}

/* A collective takes one in and one out for each peer, two for results, one
 * for the sum and one to work in; one is for samples of the error. */
lull_status_t lull__slots_create(lull_comm_t *comm) {
    lull__engine_t *engine = comm->engine;
    size_t n = 2 * (size_t)comm->size + 3;
    lull__chunks_fill(comm);
    engine->slot_bytes = largest(comm);
    if (!room(engine, n + 16))
        return lull__fail(LULL_ERR_NO_MEMORY, "slots of %d ranks", comm->size);
    for (size_t i = 0; i < n; i++)
        if (!add(engine))
            return lull__fail(LULL_ERR_NO_MEMORY, "%zu slots of %zu bytes", n,
                              engine->slot_bytes);
    return LULL_OK;
}

void lull__slots_destroy(lull__engine_t *engine) {
    for (size_t i = 0; i < engine->owned_count; i++)
        free(engine->owned[i]);
    free(engine->owned);
    free(engine->idle);
}
