/* Parsing a vote and checking all that it says. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"
#include "json.h"
#include "names.h"
#include "naming.h"
#include "safetensors.h"
#include "vote.h"

typedef struct parser {
    lull__json_t json;
    const char *file;
    lull__vote_t vote;
    size_t file_room, shard_room, alias_room;
    size_t numbers, number_room;
    size_t times, time_room;
    lull__lists_t lists;
    lull_dtype_t dtype; /* of the last row */
    bool time_list;
    lull_status_t status; /* an error other than JSON's */
    unsigned has;
} parser_t;

static bool fail(parser_t *parser, const char *row, const char *why) {
    char shown[LULL__SHOWN_MAX];
    if (parser->status == LULL_OK && parser->json.error == NULL)
        parser->status =
            lull__fail(LULL_ERR_CORRUPT, "%s: %s: %s", parser->file,
                       row ? lull__name_shown(row, shown) : "vote", why);
    return false;
}

static bool grow(parser_t *parser, void **array, size_t count, size_t *room,
                 size_t size) {
    if (parser->status == LULL_OK)
        parser->status = lull__grow(array, count, room, size);
    return parser->status == LULL_OK;
}

/* Numbers of unknown count go to one pool. It may move while it grows, so a
 * row keeps its place in it (plus one) until the end. */
static const uint64_t *place(const parser_t *parser) {
    return (const uint64_t *)(uintptr_t)(parser->numbers + 1);
}

static bool keep_number(parser_t *parser, uint64_t value) {
    if (!grow(parser, (void **)&parser->vote.numbers, parser->numbers,
              &parser->number_room, sizeof value))
        return false;
    parser->vote.numbers[parser->numbers++] = value;
    return true;
}

static bool parse_numbers(parser_t *parser, const uint64_t **out,
                          uint64_t *count,
                          bool (*one)(lull__json_t *, uint64_t *)) {
    uint64_t value;
    *out = place(parser);
    *count = 0;
    lull__json_array(&parser->json);
    while (lull__json_item(&parser->json) && one(&parser->json, &value)) {
        if (!keep_number(parser, value))
            return false;
        ++*count;
    }
    return parser->json.error == NULL;
}

/* Notes that a key was met; false: a second time. */
static bool once(parser_t *parser, unsigned *has, unsigned bit) {
    if (*has & 1u << bit)
        return fail(parser, NULL, "a field is there twice");
    *has |= 1u << bit;
    return true;
}

/* Index of `key` in words[n]; n: not there. It is looked for from `from` on,
 * first: fields mostly come in one order. */
static unsigned word_of(const lull__text_t *key, const char *const *words,
                        unsigned n, unsigned from) {
    for (unsigned i = 0, at = from; i < n; i++, at = at + 1 < n ? at + 1 : 0)
        if (strcmp(key->data, words[at]) == 0)
            return at;
    return n;
}

static bool parse_file(parser_t *parser) {
    enum { NAME, BYTES, HEADER, HEADER_HASH, BLOCKS, KEYS };
    static const char *const keys[] = {"name", "bytes", "header", "header_hash",
                                       "blocks"};
    lull__json_t *json = &parser->json;
    lull__vote_file_t file = {0};
    lull__text_t key, text;
    unsigned has = 0, bit = 0;
    lull__json_object(json);
    while (lull__json_key(json, &key)) {
        bit = word_of(&key, keys, KEYS, bit);
        if (bit == KEYS || !once(parser, &has, bit))
            return fail(parser, key.data, "not a field of a file");
        if (bit == NAME && lull__json_string(json, &text))
            file.name = text.data;
        else if (bit == BYTES)
            lull__json_u64(json, &file.bytes);
        else if (bit == HEADER)
            lull__json_u64(json, &file.header_bytes);
        else if (bit == HEADER_HASH)
            lull__json_hash(json, &file.header_hash);
        else if (bit == BLOCKS &&
                 !parse_numbers(parser, &file.hashes, &file.hash_count,
                                lull__json_hash))
            return false;
    }
    if (json->error != NULL)
        return false;
    if (has != (1u << KEYS) - 1)
        return fail(parser, "a file", "fields are missing");
    lull__vote_t *vote = &parser->vote;
    if (!grow(parser, (void **)&vote->files, vote->file_count,
              &parser->file_room, sizeof file))
        return false;
    vote->files[vote->file_count++] = file;
    return true;
}

enum {
    NAME,
    STORED,
    KIND,
    DTYPE,
    SHAPE,
    OFFSET,
    BOX,
    OWNER,
    FILE_,
    DATA,
    REPLICA,
    CODEC,
    FRAMES,
    SHARD_KEYS
};
static const char *const shard_keys[] = {
    "name", "stored", "kind", "dtype",   "shape", "offset", "box",
    "rank", "file",   "data", "replica", "codec", "frames"};

#define NO_RANK UINT32_MAX /* that of the vote */

/* A row, before its shapes have their place. */
typedef struct row {
    lull__shard_t shard;
    uint64_t global[LULL_MAX_DIMS];
    lull__box_t box;
    uint32_t dims[3]; /* lengths of shape, offset, box */
} row_t;

static bool pair(parser_t *parser, uint64_t *first, uint64_t *second) {
    uint64_t both[2];
    uint32_t n = 0;
    if (!lull__json_list(&parser->json, both, 2, &n))
        return false;
    if (n != 2)
        return fail(parser, "a shard", "a list is not two numbers");
    *first = both[0];
    *second = both[1];
    return true;
}

static bool parse_kind(parser_t *parser, const char *word, uint8_t *out) {
    for (uint8_t k = 0; k < LULL__SHARD_KINDS; k++)
        if (strcmp(word, lull__shard_kind_name((lull__shard_kind_t)k)) == 0) {
            *out = k;
            return true;
        }
    return fail(parser, word, "not a kind of shard");
}

/* Mostly that of the row before, spelt as it is written. */
static bool parse_dtype(parser_t *parser, const char *word, uint8_t *out) {
    const char *last = lull_dtype_name(parser->dtype);
    if (last == NULL || strcmp(word, last) != 0) {
        if (lull_dtype_parse(word, &parser->dtype) != LULL_OK)
            return fail(parser, word, "not a dtype");
    }
    *out = (uint8_t)parser->dtype;
    return true;
}

static bool parse_text_field(parser_t *parser, unsigned bit,
                             lull__shard_t *shard) {
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text))
        return false;
    switch (bit) {
    case NAME:
        shard->name = text.data;
        return true;
    case STORED:
        shard->stored = text.data;
        return true;
    case CODEC:
        shard->codec = text.data;
        return true;
    case KIND:
        return parse_kind(parser, text.data, &shard->kind);
    default:
        return parse_dtype(parser, text.data, &shard->dtype);
    }
}

static bool parse_replica(parser_t *parser, lull__shard_t *shard) {
    uint64_t replica = 0, replicas = 0;
    if (!pair(parser, &replica, &replicas))
        return false;
    if (replicas > UINT32_MAX || replica >= replicas)
        return fail(parser, "a shard", "a bad replica");
    shard->replica = (uint32_t)replica;
    shard->replicas = (uint32_t)replicas;
    return true;
}

static bool parse_frames(parser_t *parser, lull__shard_t *shard) {
    uint64_t count;
    if (!parse_numbers(parser, &shard->frames, &count, lull__json_u64))
        return false;
    if (count > UINT32_MAX)
        return fail(parser, "a shard", "too many frames");
    shard->frame_count = (uint32_t)count;
    return true;
}

static bool parse_shard_field(parser_t *parser, unsigned bit, row_t *row) {
    lull__json_t *json = &parser->json;
    lull__shard_t *shard = &row->shard;
    switch (bit) {
    case SHAPE:
        return lull__json_list(json, row->global, LULL_MAX_DIMS, &row->dims[0]);
    case OFFSET:
        return lull__json_list(json, row->box.offset, LULL_MAX_DIMS,
                               &row->dims[1]);
    case BOX:
        return lull__json_list(json, row->box.shape, LULL_MAX_DIMS,
                               &row->dims[2]);
    case FILE_:
        return lull__json_u32(json, &shard->file);
    case OWNER:
        return lull__json_u32(json, &shard->rank);
    case DATA:
        return pair(parser, &shard->begin, &shard->end);
    case REPLICA:
        return parse_replica(parser, shard);
    case FRAMES:
        return parse_frames(parser, shard);
    default:
        return parse_text_field(parser, bit, shard);
    }
}

static bool finish_shard(parser_t *parser, row_t *row, unsigned has) {
    const unsigned needed =
        1u << NAME | 1u << DTYPE | 1u << SHAPE | 1u << FILE_ | 1u << DATA;
    const unsigned part = 1u << OFFSET | 1u << BOX;
    const unsigned coded = 1u << CODEC | 1u << FRAMES;
    lull__shard_t *shard = &row->shard;
    if ((has & needed) != needed)
        return fail(parser, "a shard", "fields are missing");
    if (((has & part) != 0 && (has & part) != part) ||
        ((has & coded) != 0 && (has & coded) != coded))
        return fail(parser, shard->name, "half of a pair of fields");
    shard->ndim = (uint8_t)row->dims[0];
    if ((has & part) == 0)
        memcpy(row->box.shape, row->global, sizeof row->global);
    else if (row->dims[1] != row->dims[0] || row->dims[2] != row->dims[0])
        return fail(parser, shard->name, "dimensions differ");
    if (shard->stored == NULL)
        shard->stored = shard->name;
    lull__vote_t *vote = &parser->vote;
    parser->status = lull__shard_place(shard, row->global, &row->box,
                                       &parser->lists, &vote->arena);
    if (!grow(parser, (void **)&vote->shards, vote->shard_count,
              &parser->shard_room, sizeof *shard))
        return false;
    vote->shards[vote->shard_count++] = *shard;
    return true;
}

static bool parse_shard(parser_t *parser) {
    row_t row = {.shard.rank = NO_RANK};
    lull__text_t key;
    unsigned has = 0, bit = 0;
    lull__json_object(&parser->json);
    while (lull__json_key(&parser->json, &key)) {
        bit = word_of(&key, shard_keys, SHARD_KEYS, bit);
        if (bit == SHARD_KEYS || !once(parser, &has, bit))
            return fail(parser, key.data, "not a field of a shard");
        if (!parse_shard_field(parser, bit, &row))
            return false;
    }
    if (parser->json.error != NULL)
        return false;
    return finish_shard(parser, &row, has);
}

static bool parse_alias(parser_t *parser) {
    lull__json_t *json = &parser->json;
    lull_ckpt_meta_t alias = {NULL, NULL};
    lull__text_t key, text;
    lull__json_object(json);
    while (lull__json_key(json, &key) && lull__json_string(json, &text)) {
        if (strcmp(key.data, "name") == 0 && alias.key == NULL)
            alias.key = text.data;
        else if (strcmp(key.data, "of") == 0 && alias.value == NULL)
            alias.value = text.data;
        else
            return fail(parser, key.data, "not a field of an alias");
    }
    if (json->error != NULL)
        return false;
    if (alias.key == NULL || alias.value == NULL ||
        lull__name_check(alias.key) != LULL_OK ||
        lull__name_check(alias.value) != LULL_OK)
        return fail(parser, "an alias", "bad or missing names");
    lull__vote_t *vote = &parser->vote;
    if (!grow(parser, (void **)&vote->aliases, vote->alias_count,
              &parser->alias_room, sizeof alias))
        return false;
    vote->aliases[vote->alias_count++] = alias;
    return true;
}

static bool parse_rank_times(parser_t *parser) {
    lull__vote_times_t times = {0};
    static const char *const keys[] = {"queued", "copy", "flush", "fsync"};
    double *const fields[] = {&times.queued_s, &times.copy_s, &times.flush_s,
                              &times.fsync_s};
    lull__text_t key;
    uint64_t value;
    lull__json_object(&parser->json);
    while (lull__json_key(&parser->json, &key) &&
           lull__json_u64(&parser->json, &value)) {
        unsigned i = word_of(&key, keys, 4, 0);
        if (i < 4)
            *fields[i] = (double)value * 1e-6;
    }
    if (parser->json.error != NULL ||
        !grow(parser, (void **)&parser->vote.times, parser->times,
              &parser->time_room, sizeof times))
        return false;
    parser->vote.times[parser->times++] = times;
    return true;
}

static bool parse_rows(parser_t *parser, bool (*one)(parser_t *)) {
    lull__json_array(&parser->json);
    while (lull__json_item(&parser->json))
        if (!one(parser))
            return false;
    return parser->json.error == NULL;
}

enum {
    FORMAT,
    VERSION,
    RUN,
    SAVE,
    STEP,
    WORLD,
    RANK,
    HEAD_KEYS, /* what comes before the rows */
    FILES = HEAD_KEYS,
    SHARDS,
    ALIASES,
    TIMES,
    VOTE_KEYS, /* what each has */
    RANKS = VOTE_KEYS,
    ALL_KEYS
};
static const char *const vote_keys[] = {
    "format", "version", "run",    "save",    "step",     "world",
    "rank",   "files",   "shards", "aliases", "times_us", "ranks"};

/* One rank's, or a list of those of merged ranks. */
static bool parse_times(parser_t *parser) {
    const char *at = parser->json.at;
    while (at < parser->json.end && strchr(" \t\r\n", *at) != NULL && *at)
        at++;
    parser->time_list = at < parser->json.end && *at == '[';
    return parser->time_list ? parse_rows(parser, parse_rank_times)
                             : parse_rank_times(parser);
}

static bool parse_run(parser_t *parser) {
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text))
        return false;
    if (!lull__run_id_valid(text.data))
        return fail(parser, NULL, "a bad run id");
    memcpy(parser->vote.head.run_id, text.data, text.bytes + 1);
    return true;
}

static bool parse_format(parser_t *parser) {
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text))
        return false;
    return strcmp(text.data, "lull-vote") == 0 ||
           fail(parser, text.data, "not the format of a vote");
}

static bool parse_version(parser_t *parser) {
    uint64_t version;
    if (!lull__json_u64(&parser->json, &version))
        return false;
    if (version == 1)
        return true;
    parser->status = lull__fail(LULL_ERR_VERSION,
                                "%s: format version %llu, this library knows 1",
                                parser->file, (unsigned long long)version);
    return false;
}

static bool parse_member(parser_t *parser, unsigned bit) {
    lull__vote_head_t *head = &parser->vote.head;
    switch (bit) {
    case FORMAT:
        return parse_format(parser);
    case VERSION:
        return parse_version(parser);
    case RUN:
        return parse_run(parser);
    case SAVE:
        return lull__json_u64(&parser->json, &head->save);
    case STEP:
        return lull__json_u64(&parser->json, &head->step);
    case WORLD:
        return lull__json_u32(&parser->json, &head->world);
    case RANK:
        return lull__json_u32(&parser->json, &head->rank);
    case FILES:
        return parse_rows(parser, parse_file);
    case SHARDS:
        return parse_rows(parser, parse_shard);
    case ALIASES:
        return parse_rows(parser, parse_alias);
    case RANKS:
        return lull__json_u32(&parser->json, &head->ranks);
    default:
        return parse_times(parser);
    }
}

/* Members until the end, or until the rows begin. */
static void parse(parser_t *parser, bool head_only) {
    lull__text_t key;
    lull__json_object(&parser->json);
    while (lull__json_key(&parser->json, &key)) {
        unsigned bit = word_of(&key, vote_keys, ALL_KEYS, 0);
        if (head_only && bit >= HEAD_KEYS)
            return;
        if (bit == ALL_KEYS) {
            fail(parser, key.data, "not a field of a vote");
            return;
        }
        if (!once(parser, &parser->has, bit) || !parse_member(parser, bit))
            return;
    }
}

static lull_status_t check_head(parser_t *parser, unsigned keys) {
    lull__vote_head_t *head = &parser->vote.head;
    unsigned needed = (1u << keys) - 1;
    if (parser->status == LULL_OK && parser->json.error != NULL)
        return lull__json_done(&parser->json, parser->file);
    if (parser->status == LULL_OK && (parser->has & needed) != needed)
        fail(parser, NULL, "fields are missing");
    if (parser->status == LULL_OK &&
        (head->world == 0 || head->rank >= head->world ||
         head->step >= LULL_LATEST || head->ranks == 0 ||
         head->ranks > head->world - head->rank))
        fail(parser, NULL, "a bad rank, world or step");
    return parser->status;
}

lull_status_t lull__vote_peek(char *text, size_t n, const char *file,
                              lull__vote_head_t *out) {
    parser_t parser = {.file = file, .vote.head.ranks = 1};
    lull__json_begin(&parser.json, text, n < 4096 ? n : 4096);
    parse(&parser, true);
    lull_status_t status = check_head(&parser, HEAD_KEYS);
    if (status == LULL_OK)
        *out = parser.vote.head;
    lull__vote_free(&parser.vote);
    return status;
}

/* What shards grew ahead is not needed. */
static void trim(lull__vote_t *vote) {
    size_t bytes = vote->shard_count * sizeof *vote->shards;
    void *shards = bytes > 0 ? realloc(vote->shards, bytes) : NULL;
    if (shards != NULL)
        vote->shards = shards;
}

/* The pool has stopped moving. */
static const uint64_t *pointer(const lull__vote_t *vote, const uint64_t *at) {
    return vote->numbers == NULL ? NULL : vote->numbers + ((uintptr_t)at - 1);
}

static void places_to_pointers(lull__vote_t *vote) {
    for (size_t i = 0; i < vote->file_count; i++)
        vote->files[i].hashes = pointer(vote, vote->files[i].hashes);
    for (size_t i = 0; i < vote->shard_count; i++)
        if (vote->shards[i].codec != NULL)
            vote->shards[i].frames = pointer(vote, vote->shards[i].frames);
}

/* Whose each shard is, and one row of times for each. */
static lull_status_t check_owners(parser_t *parser) {
    lull__vote_t *vote = &parser->vote;
    const lull__vote_head_t *head = &vote->head;
    for (size_t i = 0; i < vote->shard_count; i++) {
        lull__shard_t *shard = &vote->shards[i];
        if (shard->rank == NO_RANK)
            shard->rank = head->rank;
        if (shard->rank < head->rank || shard->rank - head->rank >= head->ranks)
            fail(parser, shard->name, "of a rank that is not in this vote");
    }
    if (parser->times != head->ranks || parser->time_list != (head->ranks > 1))
        fail(parser, "times_us", "not those of its ranks");
    return parser->status;
}

lull_status_t lull__vote_parse(char *text, size_t n, const char *file,
                               lull__vote_t *out) {
    parser_t parser = {.file = file, .vote.head.ranks = 1};
    lull__vote_t *vote = &parser.vote;
    lull__json_begin(&parser.json, text, n);
    parse(&parser, false);
    lull_status_t status = check_head(&parser, VOTE_KEYS);
    if (status == LULL_OK)
        status = lull__json_done(&parser.json, file);
    trim(vote);
    places_to_pointers(vote);
    if (status == LULL_OK)
        status = check_owners(&parser);
    if (status == LULL_OK)
        status = lull__vote_check(vote, file);
    if (status != LULL_OK)
        lull__vote_free(vote);
    else
        *out = *vote;
    return status;
}

void lull__vote_free(lull__vote_t *vote) {
    free(vote->files);
    free(vote->shards);
    free(vote->aliases);
    free(vote->numbers);
    free(vote->times);
    lull__arena_free(&vote->arena);
    *vote = (lull__vote_t){0};
}
