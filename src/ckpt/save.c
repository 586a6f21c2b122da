/* The caller's part of a save: checks, and copies of all but the tensors. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "json.h"
#include "names.h"

#define STATE_MAX ((size_t)1 << 20) /* bytes of host state a save */

#define TAKEN (LULL__NAMES_MAX - 1)

/* What describe needs while it runs. */
typedef struct describing {
    lull_ckpt_request_t *save;
    lull__names_t names; /* as they will be in the files: to an index into
                            shards for a tensor's own name, else to TAKEN */
    uint32_t *shards;    /* of the name: how many more than one there are */
    size_t shard_names;
    lull__lists_t lists;
} describing_t;

static lull_status_t no_memory(void) {
    return lull__fail(LULL_ERR_NO_MEMORY, "describing a save");
}

static lull_status_t bad(const char *name, const char *why) {
    char shown[LULL__SHOWN_MAX];
    return lull__fail(LULL_ERR_INVALID, "tensor '%s': %s",
                      lull__name_shown(name, shown), why);
}

static lull_status_t check_tensor(const lull_ckpt_tensor_t *tensor,
                                  uint64_t *bytes) {
    lull__box_t box;
    uint64_t global_bytes;
    if (tensor->size < sizeof *tensor)
        return lull__fail(LULL_ERR_INVALID,
                          "a tensor's size is %zu, LULL_CKPT_TENSOR_INIT "
                          "makes it %zu",
                          tensor->size, sizeof *tensor);
    if (tensor->name == NULL)
        return lull__fail(LULL_ERR_INVALID, "a tensor has no name");
    lull_status_t status = lull__name_check(tensor->name);
    if (status != LULL_OK)
        return status;
    if (tensor->alias_of != NULL)
        return tensor->data == NULL
                   ? lull__name_check(tensor->alias_of)
                   : bad(tensor->name, "is an alias and has data");
    if (lull_dtype_name(tensor->dtype) == NULL)
        return bad(tensor->name, "its dtype is none");
    if (tensor->ndim > LULL_MAX_DIMS)
        return bad(tensor->name, "has more than 8 dimensions");
    memcpy(box.offset, tensor->offset, sizeof box.offset);
    memcpy(box.shape, tensor->shape, sizeof box.shape);
    if (!lull__box_inside(tensor->ndim, tensor->global_shape, &box))
        return bad(tensor->name, "its box is not inside its global shape");
    if (lull__shape_bytes(tensor->dtype, tensor->ndim, tensor->shape, bytes) !=
            LULL_OK ||
        lull__shape_bytes(tensor->dtype, tensor->ndim, tensor->global_shape,
                          &global_bytes) != LULL_OK ||
        global_bytes > INT64_MAX)
        return bad(tensor->name, "its shape has no size in whole bytes");
    if (*bytes > 0 && tensor->data == NULL)
        return bad(tensor->name, "has no data");
    if (tensor->replicas > 0 ? tensor->replica >= tensor->replicas
                             : tensor->replica != 0)
        return bad(tensor->name, "replica is not below replicas");
    return LULL_OK;
}

/* The next free item. */
static lull__item_t *new_item(lull_ckpt_request_t *save) {
    lull__item_t *item = &save->items[save->item_count++];
    memset(item, 0, sizeof *item);
    return item;
}

/* Takes a name that is no tensor's own. */
static lull_status_t take_name(describing_t *d, const char *name) {
    size_t old;
    lull_status_t status = lull__names_add(&d->names, name, TAKEN, &old);
    if (status == LULL_OK && old != SIZE_MAX)
        status = bad(name, "two things would be stored under this name");
    return status;
}

/* The k-th further shard of `name` is stored as "name#k". */
static lull_status_t name_further(describing_t *d, lull__shard_t *shard,
                                  uint32_t k) {
    char *made;
    lull_status_t status = lull__name_stored(shard->name, k, &made);
    if (status != LULL_OK)
        return status;
    shard->stored = lull__arena_text(&d->save->arena, made);
    free(made);
    return shard->stored ? take_name(d, shard->stored) : no_memory();
}

static lull_status_t name_shard(describing_t *d, const lull_ckpt_tensor_t *from,
                                lull__shard_t *shard) {
    size_t old;
    char *name = lull__arena_text(&d->save->arena, from->name);
    if (name == NULL)
        return no_memory();
    shard->name = shard->stored = name;
    lull_status_t status =
        lull__names_add(&d->names, name, d->shard_names, &old);
    if (status != LULL_OK)
        return status;
    if (old == TAKEN)
        return bad(name, "two things would be stored under this name");
    if (old != SIZE_MAX)
        return name_further(d, shard, ++d->shards[old]);
    d->shard_names++;
    return LULL_OK;
}

/* Which part of a tensor this rank writes. A place, of several, is to hold
 * all that its ranks saved: there replicas do not share the writing. */
static bool share(const lull_ckpt_t *ckpt, const lull_ckpt_tensor_t *tensor,
                  uint64_t bytes, lull__box_t *box, uint64_t *skip) {
    if (ckpt->place_count < 2)
        return lull__plan_share(tensor, bytes, box, skip);
    memcpy(box->offset, tensor->offset, sizeof box->offset);
    memcpy(box->shape, tensor->shape, sizeof box->shape);
    *skip = 0;
    return true;
}

static lull_status_t add_alias(describing_t *d,
                               const lull_ckpt_tensor_t *tensor) {
    lull_ckpt_request_t *save = d->save;
    lull__box_t box;
    uint64_t skip;
    char *name = lull__arena_text(&save->arena, tensor->name);
    char *of = lull__arena_text(&save->arena, tensor->alias_of);
    if (name == NULL || of == NULL)
        return no_memory();
    lull_status_t status = take_name(d, name);
    /* Listed by one of the replicas. */
    if (status == LULL_OK && share(save->ckpt, tensor, 0, &box, &skip))
        save->aliases[save->alias_count++] = (lull_ckpt_meta_t){name, of};
    return status;
}

static lull_status_t add_tensor(describing_t *d,
                                const lull_ckpt_tensor_t *tensor) {
    uint64_t bytes = 0, skip;
    lull__box_t box;
    lull_status_t status = check_tensor(tensor, &bytes);
    if (status != LULL_OK)
        return status;
    if (tensor->alias_of != NULL)
        return add_alias(d, tensor);
    if (!share(d->save->ckpt, tensor, bytes, &box, &skip))
        return LULL_OK;
    lull__item_t *item = new_item(d->save);
    lull__shard_t *shard = &item->shard;
    shard->kind = LULL__SHARD_TENSOR;
    shard->dtype = (uint8_t)tensor->dtype;
    shard->ndim = (uint8_t)tensor->ndim;
    shard->replica = tensor->replica;
    shard->replicas = tensor->replicas;
    status = lull__shard_place(shard, tensor->global_shape, &box, &d->lists,
                               &d->save->arena);
    if (status == LULL_OK)
        status = lull__shape_bytes(shard->dtype, shard->ndim, box.shape,
                                   &item->bytes);
    if (status != LULL_OK)
        return status;
    item->data = tensor->data ? (const char *)tensor->data + skip : NULL;
    return name_shard(d, tensor, shard);
}

static lull_status_t add_state(describing_t *d, const lull_ckpt_state_t *state,
                               size_t *room) {
    lull_ckpt_request_t *save = d->save;
    lull__arena_t *arena = &save->arena;
    if (state->name == NULL || (state->data == NULL && state->bytes > 0))
        return lull__fail(LULL_ERR_INVALID, "a state has no name or no data");
    lull_status_t status = lull__name_check(state->name);
    if (status != LULL_OK)
        return status;
    if (state->bytes > *room)
        return lull__fail(LULL_ERR_INVALID,
                          "state '%.80s': more than 1 MiB of host state",
                          state->name);
    *room -= state->bytes;
    size_t n = strlen(state->name) + 1, prefix = strlen(LULL__STATE_PREFIX);
    char *stored = lull__arena_alloc(arena, prefix + n);
    char *data = lull__arena_copy(arena, state->data, state->bytes);
    if (stored == NULL || data == NULL)
        return no_memory();
    memcpy(stored, LULL__STATE_PREFIX, prefix);
    memcpy(stored + prefix, state->name, n);
    status = take_name(d, stored);
    if (status != LULL_OK || (!state->per_rank && !save->ckpt->leads))
        return status; /* one writes what is global */
    lull__item_t *item = new_item(save);
    item->shard.name = stored + prefix;
    item->shard.stored = stored;
    item->shard.kind =
        state->per_rank ? LULL__SHARD_STATE_RANK : LULL__SHARD_STATE;
    item->shard.dtype = LULL_U8;
    item->shard.ndim = 1;
    item->bytes = state->bytes;
    item->data = data;
    item->host = true;
    lull__box_t box = {.shape = {state->bytes}};
    return lull__shard_place(&item->shard, box.shape, &box, &d->lists, arena);
}

static lull_status_t add_meta(lull_ckpt_request_t *save,
                              const lull_ckpt_meta_t *meta) {
    if (meta->key == NULL || meta->value == NULL ||
        !lull__utf8_valid(meta->key, strlen(meta->key)) ||
        !lull__utf8_valid(meta->value, strlen(meta->value)))
        return lull__fail(LULL_ERR_INVALID,
                          "metadata must be pairs of UTF-8 strings");
    char *key = lull__arena_text(&save->meta_arena, meta->key);
    char *value = lull__arena_text(&save->meta_arena, meta->value);
    if (key == NULL || value == NULL)
        return no_memory();
    for (size_t i = 0; i < save->meta_count; i++)
        if (strcmp(save->meta[i].key, key) == 0)
            return lull__fail(LULL_ERR_INVALID,
                              "metadata '%.80s' is given twice", key);
    save->meta[save->meta_count++] = (lull_ckpt_meta_t){key, value};
    return LULL_OK;
}

/* Rows of tensors may be longer than we know. */
static const lull_ckpt_tensor_t *tensor_at(const lull_ckpt_save_t *from,
                                           size_t i) {
    const char *row = (const char *)from->tensors;
    return (const void *)(row + i * from->tensors->size);
}

static lull_status_t describe_rows(describing_t *d,
                                   const lull_ckpt_save_t *from) {
    size_t count = from->tensor_count, room = STATE_MAX;
    lull_status_t status =
        lull__names_reserve(&d->names, count + from->state_count);
    for (size_t i = 0; status == LULL_OK && i < count; i++) {
        size_t next = i + LULL__NAMES_AHEAD;
        status = add_tensor(d, tensor_at(from, i)); /* the first: the stride */
        if (status == LULL_OK && next < count &&
            tensor_at(from, next)->name != NULL)
            lull__names_expect(&d->names, tensor_at(from, next)->name);
    }
    for (size_t i = 0; status == LULL_OK && i < from->state_count; i++)
        status = add_state(d, &from->states[i], &room);
    for (size_t i = 0; status == LULL_OK && i < from->meta_count; i++)
        status = add_meta(d->save, &from->meta[i]);
    for (size_t i = 0; i < d->save->item_count; i++)
        d->save->bytes += d->save->items[i].bytes;
    return status;
}

static lull_status_t check_count(const char *field, size_t count,
                                 const void *array) {
    if (count > 0 && array == NULL)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_ckpt_save: %s is %zu, the "
                          "array is NULL",
                          field, count);
    if (count >= LULL__NAMES_MAX)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_ckpt_save: %s is %zu: too "
                          "many",
                          field, count);
    return LULL_OK;
}

static lull_status_t check_save(const lull_ckpt_save_t *save) {
    if (save->parent_seq == LULL_LATEST)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_ckpt_save: parent_seq is LULL_LATEST");
    if (save->step == LULL_LATEST)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_save: the step is "
                                            "LULL_LATEST");
    lull_status_t status =
        check_count("tensor_count", save->tensor_count, save->tensors);
    if (status == LULL_OK)
        status = check_count("state_count", save->state_count, save->states);
    if (status == LULL_OK)
        status = check_count("meta_count", save->meta_count, save->meta);
    return status;
}

static lull_status_t describe(lull_ckpt_request_t *save,
                              const lull_ckpt_save_t *from) {
    size_t tensors = from->tensor_count, rows = tensors + from->state_count;
    describing_t d = {.save = save};
    lull_status_t status = check_save(from);
    if (status != LULL_OK)
        return status;
    save->items = malloc((rows + 1) * sizeof *save->items);
    save->aliases = malloc((tensors + 1) * sizeof *save->aliases);
    save->meta = malloc((from->meta_count + 1) * sizeof *save->meta);
    d.shards = calloc(tensors + 1, sizeof *d.shards);
    if (save->items && save->aliases && save->meta && d.shards)
        status = describe_rows(&d, from);
    else
        status = no_memory();
    if (status == LULL_OK)
        status = save->ckpt->device->exec->event_record(
            save->ckpt->device, from->stream, &save->event);
    if (status == LULL_OK && save->ckpt->options.detect_mutation)
        status = lull__mutation_note(save);
    lull__names_free(&d.names);
    free(d.shards);
    return status;
}

/* With the lock held: waits while too many saves are pending. */
static void wait_for_room(lull_ckpt_t *ckpt) {
    double from = lull__now();
    while (ckpt->pending_count >= ckpt->options.max_pending)
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    ckpt->stats.pending_s += lull__now() - from;
}

/* Gives the save its number and its place. `status` is that of describing
 * it: one that failed takes part, so that the others learn of it. */
static void enqueue(lull_ckpt_t *ckpt, lull_ckpt_request_t *save) {
    pthread_mutex_lock(&ckpt->lock);
    if (ckpt->pending_count >= ckpt->options.max_pending)
        wait_for_room(ckpt);
    save->number = ckpt->next_number++;
    save->next = NULL;
    *ckpt->pending_tail = save;
    ckpt->pending_tail = &save->next;
    ckpt->pending_count++;
    ckpt->stats.saves++;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

/* A request; the spare one where there is no memory, so that the others learn
 * of it as they do of any failure. */
static lull_ckpt_request_t *new_request(lull_ckpt_t *ckpt,
                                        lull_status_t *status) {
    lull_ckpt_request_t *save = calloc(1, sizeof *save);
    *status = LULL_OK;
    if (save != NULL)
        return save;
    pthread_mutex_lock(&ckpt->lock);
    while (ckpt->spare == NULL) /* until that save is over */
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    save = ckpt->spare;
    ckpt->spare = NULL;
    pthread_mutex_unlock(&ckpt->lock);
    *status = lull__fail(LULL_ERR_NO_MEMORY, "lull_ckpt_save: no memory to "
                                             "begin a save");
    return save;
}

static lull_status_t queue_save(lull_ckpt_t *ckpt, const lull_ckpt_save_t *from,
                                lull_ckpt_request_t **out) {
    lull_status_t status;
    lull_ckpt_request_t *save = new_request(ckpt, &status);
    save->ckpt = ckpt;
    save->refs = 2; /* the engine's and the caller's */
    save->dir = (lull__dir_t)LULL__DIR_CLOSED;
    save->step = from->step;
    save->parent_seq = from->parent_seq;
    save->at.queued_s = lull__now();
    if (status == LULL_OK)
        status = describe(save, from);
    if (status != LULL_OK) {
        save->reported = true; /* by this very call */
        lull__save_fail(save, status);
    }
    enqueue(ckpt, save);
    *out = save;
    return status;
}

static lull_status_t wait_for_mode(lull_ckpt_t *ckpt,
                                   lull_ckpt_request_t *save) {
    switch (ckpt->options.mode) {
    case LULL_CKPT_SYNC:
        return lull_ckpt_wait_committed(ckpt, save, LULL_FOREVER);
    case LULL_CKPT_EAGER:
        return lull_ckpt_wait_snapshot(ckpt, save, LULL_FOREVER);
    default:
        return LULL_OK;
    }
}

lull_status_t lull_ckpt_save(lull_ckpt_t *ckpt, const lull_ckpt_save_t *from,
                             lull_ckpt_request_t **request) {
    double begin = lull__now();
    lull_ckpt_request_t *save = NULL;
    lull_status_t status = lull__engine_check(ckpt, "lull_ckpt_save", false);
    if (status == LULL_OK && (from == NULL || from->size < sizeof *from))
        status = lull__fail(LULL_ERR_INVALID,
                            "lull_ckpt_save: begin with LULL_CKPT_SAVE_INIT");
    if (status != LULL_OK)
        return status;
    /* Else a full queue could wait for a comparison that nobody makes. */
    lull__mutation_check(ckpt);
    status = queue_save(ckpt, from, &save);
    if (status == LULL_OK)
        status = wait_for_mode(ckpt, save);
    double spent = lull__now() - begin;
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.save_s += spent;
    if (save != NULL) {
        save->at.blocked_s += spent;
        if (status != LULL_OK || request == NULL)
            lull__save_unref(save);
    }
    pthread_mutex_unlock(&ckpt->lock);
    if (status == LULL_OK && request != NULL)
        *request = save;
    return status;
}
