/* Writing and parsing manifest.json. */
#include "manifest.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "grow.h"
#include "json.h"
#include "names.h"
#include "naming.h"

/* The last bytes of the file: this, 16 digits, and the tail. */
#define HASH_HEAD "\"hash\":\""
#define HASH_TAIL "\"}\n"
#define HASH_BYTES (sizeof HASH_HEAD - 1 + 16 + sizeof HASH_TAIL - 1)

static void member_u64(lull__out_t *out, const char *head, uint64_t value) {
    lull__out_text(out, head);
    lull__out_u64(out, value);
}

static void write_meta(const lull__manifest_t *manifest, lull__out_t *out) {
    lull__out_text(out, ",\n\"meta\":{");
    for (size_t i = 0; i < manifest->meta_count; i++) {
        lull__out_text(out, i > 0 ? ",\n" : "\n");
        lull__out_string(out, manifest->meta[i].key);
        lull__out_text(out, ":");
        lull__out_string(out, manifest->meta[i].value);
    }
    lull__out_text(out, "}");
}

static void write_rows(const lull__manifest_t *manifest, lull__out_t *out) {
    lull__out_text(out, ",\n\"files\":[");
    for (size_t i = 0; i < manifest->file_count; i++) {
        const lull__manifest_file_t *file = &manifest->files[i];
        lull__out_text(out, i > 0 ? ",\n{\"name\":" : "\n{\"name\":");
        lull__out_string(out, file->name);
        member_u64(out, ",\"rank\":", file->rank);
        member_u64(out, ",\"bytes\":", file->bytes);
        lull__out_text(out, ",\"hash\":");
        lull__out_hash(out, file->digest);
        lull__out_text(out, "}");
    }
    lull__out_text(out, "],\n\"votes\":[");
    size_t votes =
        manifest->vote_count ? manifest->vote_count : manifest->world;
    for (size_t i = 0; i < votes; i++) {
        lull__out_text(out, i > 0 ? ",\n" : "\n");
        member_u64(out, "{\"bytes\":", manifest->votes[i].bytes);
        if (manifest->votes[i].ranks > 1)
            member_u64(out, ",\"ranks\":", manifest->votes[i].ranks);
        lull__out_text(out, ",\"hash\":");
        lull__out_hash(out, manifest->votes[i].hash);
        if (manifest->place_count > 0)
            member_u64(out, ",\"place\":", manifest->votes[i].place);
        lull__out_text(out, "}");
    }
    lull__out_text(out, "],\n");
}

static void write_places(const lull__manifest_t *manifest, lull__out_t *out) {
    if (manifest->place_count == 0)
        return;
    member_u64(out, ",\n\"here\":", manifest->here);
    lull__out_text(out, ",\"places\":[");
    for (size_t i = 0; i < manifest->place_count; i++) {
        lull__out_text(out, i > 0 ? ",\n" : "\n");
        lull__out_string(out, manifest->places[i]);
    }
    lull__out_text(out, "]");
}

void lull__manifest_write(const lull__manifest_t *manifest, lull__out_t *out) {
    lull__out_text(out, "{\"format\":\"lull-checkpoint\"");
    member_u64(out, ",\"version\":",
               manifest->place_count > 0 ? LULL__FORMAT_VERSION_PLACES
                                         : LULL__FORMAT_VERSION);
    member_u64(out, ",\"seq\":", manifest->seq);
    member_u64(out, ",\"parent\":", manifest->parent);
    member_u64(out, ",\"step\":", manifest->step);
    member_u64(out, ",\"save\":", manifest->save);
    member_u64(out,
               ",\"time\":", manifest->time > 0 ? (uint64_t)manifest->time : 0);
    member_u64(out, ",\"world\":", manifest->world);
    lull__out_text(out, ",\"run\":");
    lull__out_string(out, manifest->run_id);
    write_meta(manifest, out);
    write_places(manifest, out);
    write_rows(manifest, out);
    uint64_t hash = lull__out_digest(out);
    lull__out_text(out, "\"hash\":");
    lull__out_hash(out, hash);
    lull__out_text(out, "}\n");
}

/* ---- Parsing ---- */

typedef struct parser {
    lull__json_t json;
    const char *file;
    lull__manifest_t manifest;
    size_t file_room, vote_room, meta_room, place_room, placed;
    uint64_t version;
    lull_status_t status;
    unsigned has;
} parser_t;

static bool fail(parser_t *parser, const char *why) {
    if (parser->status == LULL_OK && parser->json.error == NULL)
        parser->status =
            lull__fail(LULL_ERR_CORRUPT, "%s: %s", parser->file, why);
    return false;
}

static bool grow(parser_t *parser, void **array, size_t count, size_t *room,
                 size_t size) {
    parser->status = lull__grow(array, count, room, size);
    return parser->status == LULL_OK;
}

static bool parse_file(parser_t *parser) {
    lull__json_t *json = &parser->json;
    lull__manifest_t *m = &parser->manifest;
    lull__manifest_file_t file = {0};
    lull__text_t key, text;
    unsigned has = 0;
    lull__json_object(json);
    while (lull__json_key(json, &key)) {
        unsigned bit = 0;
        if (strcmp(key.data, "name") == 0 && lull__json_string(json, &text)) {
            bit = 1;
            file.name = text.data;
        } else if (strcmp(key.data, "rank") == 0) {
            bit = 2;
            lull__json_u32(json, &file.rank);
        } else if (strcmp(key.data, "bytes") == 0) {
            bit = 4;
            lull__json_u64(json, &file.bytes);
        } else if (strcmp(key.data, "hash") == 0) {
            bit = 8;
            lull__json_hash(json, &file.digest);
        }
        if (bit == 0 || (has & bit) != 0)
            return fail(parser, "a bad field in a row of files");
        has |= bit;
    }
    if (json->error != NULL || has != 15)
        return fail(parser, "a row of files lacks a field");
    if (!grow(parser, (void **)&m->files, m->file_count, &parser->file_room,
              sizeof file))
        return false;
    m->files[m->file_count++] = file;
    return true;
}

static bool parse_vote(parser_t *parser) {
    lull__json_t *json = &parser->json;
    lull__manifest_t *m = &parser->manifest;
    lull__manifest_vote_t vote = {.ranks = 1};
    lull__text_t key;
    unsigned has = 0;
    lull__json_object(json);
    while (lull__json_key(json, &key)) {
        unsigned bit = 0;
        if (strcmp(key.data, "bytes") == 0) {
            bit = 1;
            lull__json_u64(json, &vote.bytes);
        } else if (strcmp(key.data, "hash") == 0) {
            bit = 2;
            lull__json_hash(json, &vote.hash);
        } else if (strcmp(key.data, "place") == 0) {
            bit = 4;
            lull__json_u32(json, &vote.place);
        } else if (strcmp(key.data, "ranks") == 0) {
            bit = 8;
            lull__json_u32(json, &vote.ranks);
        }
        if (bit == 0 || (has & bit) != 0)
            return fail(parser, "a bad field in a row of votes");
        has |= bit;
    }
    if (json->error != NULL || (has & 3) != 3)
        return fail(parser, "a row of votes lacks a field");
    parser->placed += (has & 4) != 0;
    if (!grow(parser, (void **)&m->votes, m->vote_count, &parser->vote_room,
              sizeof vote))
        return false;
    m->votes[m->vote_count++] = vote;
    return true;
}

static bool parse_rows(parser_t *parser, bool (*one)(parser_t *)) {
    lull__json_array(&parser->json);
    while (lull__json_item(&parser->json))
        if (!one(parser))
            return false;
    return parser->json.error == NULL;
}

static bool parse_meta(parser_t *parser) {
    lull__json_t *json = &parser->json;
    lull__manifest_t *m = &parser->manifest;
    lull__names_t seen = {0};
    lull__text_t key, value;
    lull__json_object(json);
    while (lull__json_key(json, &key) && lull__json_string(json, &value)) {
        size_t old = SIZE_MAX;
        if (!grow(parser, (void **)&m->meta, m->meta_count, &parser->meta_room,
                  sizeof *m->meta))
            break;
        m->meta[m->meta_count++] = (lull_ckpt_meta_t){key.data, value.data};
        parser->status = lull__names_add(&seen, key.data, 0, &old);
        if (parser->status == LULL_OK && old != SIZE_MAX)
            fail(parser, "a key of the metadata is there twice");
        if (parser->status != LULL_OK)
            break;
    }
    lull__names_free(&seen);
    return parser->status == LULL_OK && json->error == NULL;
}

static bool parse_format(parser_t *parser) {
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text))
        return false;
    return strcmp(text.data, "lull-checkpoint") == 0 ||
           fail(parser, "not a checkpoint's manifest");
}

static bool parse_version(parser_t *parser) {
    if (!lull__json_u64(&parser->json, &parser->version))
        return false;
    if (parser->version == LULL__FORMAT_VERSION ||
        parser->version == LULL__FORMAT_VERSION_PLACES)
        return true;
    parser->status = lull__fail(
        LULL_ERR_VERSION, "%s: format version %llu, this library knows %u",
        parser->file, (unsigned long long)parser->version,
        LULL__FORMAT_VERSION_PLACES);
    return false;
}

static bool parse_run(parser_t *parser) {
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text))
        return false;
    if (!lull__run_id_valid(text.data))
        return fail(parser, "a bad run id");
    memcpy(parser->manifest.run_id, text.data, text.bytes + 1);
    return true;
}

static bool parse_time(parser_t *parser) {
    uint64_t value;
    if (!lull__json_u64(&parser->json, &value))
        return false;
    if (value > INT64_MAX)
        return fail(parser, "a bad time");
    parser->manifest.time = (int64_t)value;
    return true;
}

static bool parse_files(parser_t *parser) {
    return parse_rows(parser, parse_file);
}

static bool parse_votes(parser_t *parser) {
    return parse_rows(parser, parse_vote);
}

static bool parse_seq(parser_t *parser) {
    return lull__json_u64(&parser->json, &parser->manifest.seq);
}

static bool parse_parent(parser_t *parser) {
    return lull__json_u64(&parser->json, &parser->manifest.parent);
}

static bool parse_step(parser_t *parser) {
    return lull__json_u64(&parser->json, &parser->manifest.step);
}

static bool parse_save(parser_t *parser) {
    return lull__json_u64(&parser->json, &parser->manifest.save);
}

static bool parse_world(parser_t *parser) {
    return lull__json_u32(&parser->json, &parser->manifest.world);
}

static bool parse_here(parser_t *parser) {
    return lull__json_u32(&parser->json, &parser->manifest.here);
}

static bool parse_place(parser_t *parser) {
    lull__manifest_t *m = &parser->manifest;
    lull__text_t text;
    if (!lull__json_string(&parser->json, &text) ||
        !grow(parser, (void **)&m->places, m->place_count, &parser->place_room,
              sizeof *m->places))
        return false;
    m->places[m->place_count++] = text.data;
    return true;
}

static bool parse_places(parser_t *parser) {
    return parse_rows(parser, parse_place);
}

static const struct {
    const char *key;
    bool (*parse)(parser_t *);
} members[] = {
    {"format", parse_format}, {"version", parse_version},
    {"seq", parse_seq},       {"parent", parse_parent},
    {"step", parse_step},     {"save", parse_save},
    {"time", parse_time},     {"world", parse_world},
    {"run", parse_run},       {"meta", parse_meta},
    {"files", parse_files},   {"votes", parse_votes},
    {"here", parse_here},     {"places", parse_places},
};
#define MEMBERS (sizeof members / sizeof *members)
#define HAS_PLACES (3u << (MEMBERS - 2)) /* its last two */
#define HAS_HASH (1u << MEMBERS)
#define HAS_REST (HAS_PLACES / 3u - 1u)

static void parse(parser_t *parser) {
    lull__text_t key;
    uint64_t hash;
    lull__json_object(&parser->json);
    while (lull__json_key(&parser->json, &key)) {
        unsigned i = 0;
        while (i < MEMBERS && strcmp(key.data, members[i].key) != 0)
            i++;
        if (i == MEMBERS && strcmp(key.data, "hash") != 0)
            fail(parser, "a field that no manifest has");
        else if (parser->has & 1u << i)
            fail(parser, "a field is there twice");
        else if (i < MEMBERS)
            members[i].parse(parser);
        else
            lull__json_hash(&parser->json, &hash);
        parser->has |= 1u << i;
        if (parser->status != LULL_OK)
            return;
    }
}

/* The own hash, over every byte before it. */
static lull_status_t check_hash(const char *text, size_t n, const char *file) {
    char wanted[HASH_BYTES + 1] = HASH_HEAD;
    if (n < HASH_BYTES)
        return lull__fail(LULL_ERR_CORRUPT, "%s: only %zu bytes", file, n);
    uint64_t hash = XXH3_64bits(text, n - HASH_BYTES);
    char *to = wanted + sizeof HASH_HEAD - 1;
    for (int i = 0; i < 16; i++)
        *to++ = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
    memcpy(to, HASH_TAIL, sizeof HASH_TAIL);
    if (memcmp(text + n - HASH_BYTES, wanted, HASH_BYTES) != 0)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: its hash is not that of its bytes", file);
    return LULL_OK;
}

/* Places, where there are some, and a place of each rank. */
static bool check_places(parser_t *parser) {
    const lull__manifest_t *m = &parser->manifest;
    bool wanted = parser->version == LULL__FORMAT_VERSION_PLACES;
    if ((parser->has & HAS_PLACES) != (wanted ? HAS_PLACES : 0) ||
        parser->placed != (wanted ? m->vote_count : 0) ||
        (wanted && (m->place_count < 2 || m->here >= m->place_count)))
        return fail(parser, "places where none belong, or none");
    for (size_t i = 0; wanted && i < m->vote_count; i++)
        if (m->votes[i].place >= m->place_count)
            return fail(parser, "a vote of no place");
        else if (m->votes[i].ranks != 1)
            return fail(parser, "merged votes of places");
    return true;
}

/* One vote a rank, or a merged one of several. */
static bool votes_are_all(const lull__manifest_t *m) {
    uint64_t ranks = 0;
    for (size_t i = 0; i < m->vote_count; i++) {
        if (m->votes[i].ranks == 0)
            return false;
        ranks += m->votes[i].ranks; /* of fewer than 2^32 rows */
    }
    return ranks == m->world;
}

/* Files of ranks that there are, by rank and part. */
static void check(parser_t *parser) {
    lull__manifest_t *m = &parser->manifest;
    if (!check_places(parser))
        return;
    /* A run may have been resumed from another directory, whose seq is higher
     * than any here. */
    if (m->seq == 0 || m->seq >= LULL_LATEST || m->parent >= LULL_LATEST ||
        m->step >= LULL_LATEST || m->world == 0) {
        fail(parser, "a bad seq, parent, step or world");
        return;
    }
    if (!votes_are_all(m)) {
        fail(parser, "not one vote a rank");
        return;
    }
    uint32_t part = 0;
    for (size_t i = 0; i < m->file_count; i++) {
        const lull__manifest_file_t *file = &m->files[i];
        uint32_t before = i > 0 ? m->files[i - 1].rank : 0;
        part = i > 0 && before == file->rank ? part + 1 : 0;
        lull__entry_name_t name;
        lull__naming_data(name, file->rank, part);
        if (file->rank >= m->world || before > file->rank ||
            strcmp(name, file->name) != 0) {
            fail(parser, "a file of a wrong name or rank");
            return;
        }
    }
}

lull_status_t lull__manifest_parse(char *text, size_t n, const char *file,
                                   lull__manifest_t *out) {
    parser_t parser = {.file = file};
    lull_status_t status = check_hash(text, n, file);
    if (status != LULL_OK)
        return status;
    lull__json_begin(&parser.json, text, n);
    parse(&parser);
    status = parser.status;
    if (status == LULL_OK)
        status = lull__json_done(&parser.json, file);
    if (status == LULL_OK &&
        (parser.has | HAS_PLACES) != (HAS_REST | HAS_PLACES | HAS_HASH))
        fail(&parser, "fields are missing");
    if (status == LULL_OK && parser.status == LULL_OK)
        check(&parser);
    if (status == LULL_OK)
        status = parser.status;
    if (status != LULL_OK)
        lull__manifest_free(&parser.manifest);
    else
        *out = parser.manifest;
    return status;
}

void lull__manifest_free(lull__manifest_t *manifest) {
    free(manifest->files);
    free(manifest->votes);
    free(manifest->meta);
    free(manifest->places);
    *manifest = (lull__manifest_t){0};
}
