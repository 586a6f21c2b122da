/* Slots of one communicator: made with it, more only where more operations
 * are outstanding than that; kept until it goes. */
#include <stdlib.h>

#include "engine.h"

size_t lull__message_room(const lull__coding_t *coding) {
    size_t bytes = 0;
    if (lull_frame_bound(&coding->codec, coding->step, &bytes) != LULL_OK ||
        bytes < LULL__ERROR_TEXT)
        bytes = LULL__ERROR_TEXT;
    return (LULL__HEADER_BYTES + bytes + 63) / 64 * 64;
}

/* A slot holds the largest message of any dtype that the policy may code, a
 * chunk of sums, or two messages of a 16-bit dtype. */
static void measure(const lull_comm_t *comm, lull__engine_t *engine) {
    size_t most = 0, half = 0;
    for (unsigned i = 0; i < LULL__DTYPES; i++) {
        const lull__choices_t *choices = &comm->choices[i];
        lull__coding_t raw = lull__coding_raw(lull__dtypes[i]);
        size_t here = lull__message_room(&raw);
        for (unsigned k = 0; k < choices->count; k++)
            if (choices->coding[k].carries) {
                size_t room = lull__message_room(&choices->coding[k]);
                here = room > here ? room : here;
            }
        most = here > most ? here : most;
        if (lull__is_half(lull__dtypes[i]) && here > half)
            half = here;
    }
    engine->message_bytes = most;
    most = 2 * half > most ? 2 * half : most;
    engine->slot_bytes = most > LULL__CHUNK_BYTES ? most : LULL__CHUNK_BYTES;
}

size_t lull__slots_of(int ranks) {
    size_t peers = (size_t)ranks - 1;
    return peers < 5 ? 3 * peers : 2 * peers + 5;
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

/* A collective takes one in and one out for each peer, one or two for results
 * and at most one for the sum and one to work in: direct.c. */
lull_status_t lull__slots_create(lull_comm_t *comm) {
    lull__engine_t *engine = comm->engine;
    size_t n = lull__slots_of(comm->size);
    measure(comm, engine);
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
