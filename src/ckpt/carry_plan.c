/* Which bytes of the old files make which new ones. Merged files hold the
 * shards of all their ranks, the widest elements first as in any other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "carry.h"
#include "grow.h"
#include "safetensors.h"

static lull_status_t no_memory(const lull__carry_t *carry) {
    return lull__fail(LULL_ERR_NO_MEMORY, "%s: the plan of a drain",
                      carry->info->dir.path);
}

static lull__carry_file_t *add_file(lull__carry_t *carry, uint32_t rank,
                                    uint32_t part) {
    if (lull__grow((void **)&carry->files, carry->file_count, &carry->file_room,
                   sizeof *carry->files) != LULL_OK)
        return NULL;
    lull__carry_file_t *file = &carry->files[carry->file_count++];
    *file = (lull__carry_file_t){.plain = LULL__FILE_CLOSED,
                                 .direct = LULL__FILE_CLOSED,
                                 .segment = carry->segment_count};
    lull__naming_data(file->name, rank, part);
    return file;
}

static lull_status_t add_segment(lull__carry_t *carry, lull__carry_file_t *file,
                                 const lull__carry_segment_t *segment) {
    lull__carry_segment_t *last =
        file->segments > 0 ? &carry->segments[carry->segment_count - 1] : NULL;
    if (segment->bytes == 0)
        return LULL_OK;
    if (last != NULL && last->source == segment->source &&
        last->from + last->bytes == segment->from) {
        last->bytes += segment->bytes;
        return LULL_OK;
    }
    lull_status_t status =
        lull__grow((void **)&carry->segments, carry->segment_count,
                   &carry->segment_room, sizeof *segment);
    if (status != LULL_OK)
        return status;
    carry->segments[carry->segment_count++] = *segment;
    file->segments++;
    return LULL_OK;
}

/* ---- copies ---- */

static lull_status_t copy_vote(lull__carry_t *carry, size_t index) {
    const lull__reader_rank_t *from = &carry->info->ranks[index];
    lull__carry_vote_t *vote = &carry->votes[index];
    const lull__vote_head_t *head = &from->vote.head;
    *vote = (lull__carry_vote_t){.rank = head->rank,
                                 .ranks = head->ranks,
                                 .source = index,
                                 .sources = 1,
                                 .file = carry->file_count,
                                 .files = from->vote.file_count};
    for (size_t i = 0; i < from->vote.file_count; i++) {
        const lull__vote_file_t *old = &from->vote.files[i];
        lull__carry_file_t *file = add_file(carry, head->rank, (uint32_t)i);
        if (file == NULL)
            return no_memory(carry);
        file->source = from->first_file + i;
        file->header_bytes = old->header_bytes;
        file->data_bytes = old->bytes - old->header_bytes;
        file->header_hash = old->header_hash;
        lull_status_t status = add_segment(
            carry, file,
            &(lull__carry_segment_t){file->source, 0, 0, file->data_bytes});
        if (status != LULL_OK)
            return status;
    }
    return LULL_OK;
}

/* ---- merged files ---- */

/* As in plan.c: nothing may stand behind what has odd lengths. */
static unsigned order_class(const lull__shard_t *shard) {
    static const unsigned widths[] = {64, 32, 16};
    unsigned bits = lull_dtype_bits(shard->dtype), class = 0;
    while (class < 3 && bits != widths[class])
        class ++;
    return shard->kind == LULL__SHARD_TENSOR && shard->codec == NULL ? class
                                                                     : 4;
}

/* Each place has whole replicas, of which the first ones are the tensor, and
 * the run's host state. */
static bool is_spare(const lull__carry_t *carry, uint32_t rank,
                     const lull__shard_t *shard) {
    if (!carry->part)
        return false;
    return shard->kind == LULL__SHARD_TENSOR
               ? shard->replica > 0
               : shard->kind == LULL__SHARD_STATE && rank > 0;
}

/* The rows of a new vote: by class, in each as the ranks have them. */
static void order_rows(lull__carry_t *carry, lull__carry_vote_t *vote) {
    size_t at[6] = {0};
    vote->row = carry->row_count;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t v = vote->source; v < vote->source + vote->sources; v++) {
            const lull__reader_rank_t *old = &carry->info->ranks[v];
            for (size_t i = 0; i < old->vote.shard_count; i++) {
                const lull__shard_t *shard = &old->vote.shards[i];
                unsigned class = order_class(shard);
                if (is_spare(carry, old->vote.head.rank, shard))
                    continue;
                if (pass == 0) {
                    at[class + 1]++;
                    continue;
                }
                carry->rows[vote->row + at[class]++] =
                    (lull__carry_row_t){.shard = shard,
                                        .source = old->first_file + shard->file,
                                        .stored = shard->stored};
            }
        }
        for (unsigned c = 1; pass == 0 && c < 6; c++)
            at[c] += at[c - 1];
    }
    vote->rows = at[4];
    carry->row_count += vote->rows;
}

/* Names in one vote, and the next number to try for each. */
typedef struct namer {
    lull__carry_t *carry;
    lull__names_t names;
    uint32_t *next;
    size_t count, room;
} namer_t;

/* True in *taken: another row has the name. */
static lull_status_t take_name(namer_t *namer, const char *name, size_t *old) {
    lull_status_t status = lull__grow((void **)&namer->next, namer->count,
                                      &namer->room, sizeof *namer->next);
    if (status == LULL_OK)
        status = lull__names_add(&namer->names, name, namer->count, old);
    if (status == LULL_OK && *old == SIZE_MAX)
        namer->next[namer->count++] = 1;
    return status;
}

static const char *base_name(namer_t *namer, const lull__shard_t *shard) {
    if (shard->kind == LULL__SHARD_TENSOR)
        return shard->name;
    size_t n = sizeof LULL__STATE_PREFIX + strlen(shard->name);
    char *name = lull__arena_alloc(&namer->carry->arena, n);
    if (name != NULL)
        snprintf(name, n, LULL__STATE_PREFIX "%s", shard->name);
    return name;
}

/* Several ranks have a shard of that name: "w", "w#1", "w#2"... */
static lull_status_t name_row(namer_t *namer, lull__carry_row_t *row) {
    size_t old = SIZE_MAX;
    lull_status_t status = take_name(namer, row->stored, &old);
    if (status != LULL_OK || old == SIZE_MAX)
        return status;
    const char *base = base_name(namer, row->shard);
    if (base == NULL)
        return no_memory(namer->carry);
    size_t of = lull__names_find(&namer->names, base);
    of = of == SIZE_MAX ? old : of;
    while (status == LULL_OK && old != SIZE_MAX) {
        char *made;
        status = lull__name_stored(base, namer->next[of]++, &made);
        if (status != LULL_OK)
            return status;
        row->stored = lull__arena_text(&namer->carry->arena, made);
        free(made);
        if (row->stored == NULL)
            return no_memory(namer->carry);
        status = take_name(namer, row->stored, &old);
    }
    return status;
}

static lull_status_t name_rows(lull__carry_t *carry,
                               const lull__carry_vote_t *vote) {
    namer_t namer = {.carry = carry};
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < vote->rows; i++)
        status = name_row(&namer, &carry->rows[vote->row + i]);
    lull__names_free(&namer.names);
    free(namer.next);
    return status;
}

static void put_meta(const lull__carry_t *carry, lull__st_writer_t *writer) {
    char number[24];
    lull__st_meta(writer, "format", "pt");
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)carry->info->manifest.step);
    lull__st_meta(writer, "lull.step", number);
}

static lull__st_entry_t entry_of(const lull__carry_row_t *row) {
    lull__st_entry_t entry = {.name = row->stored,
                              .dtype = row->shard->dtype,
                              .ndim = row->shard->ndim,
                              .begin = row->begin,
                              .end = row->end};
    memcpy(entry.shape, lull__shard_shape(row->shard),
           entry.ndim * sizeof *entry.shape);
    return entry;
}

static void put_codec(lull__st_writer_t *writer, const lull__carry_row_t *row) {
    lull__st_entry_t entry = entry_of(row);
    if (row->shard->codec != NULL)
        lull__st_codec_meta(writer, row->shard->codec, &entry);
}

static void put_row(lull__st_writer_t *writer, const lull__carry_row_t *row) {
    lull__st_entry_t entry = entry_of(row);
    if (row->shard->codec != NULL) {
        entry.dtype = LULL_U8;
        entry.ndim = 1;
        entry.shape[0] = row->end - row->begin;
    }
    lull__st_tensor(writer, &entry);
}

/* Begins a new file of a vote; `writer` measures its header. */
static lull__carry_file_t *begin_file(lull__carry_t *carry,
                                      lull__carry_vote_t *vote, size_t row,
                                      lull__st_writer_t *writer) {
    lull__carry_file_t *file =
        add_file(carry, vote->rank, (uint32_t)vote->files);
    if (file == NULL)
        return NULL;
    file->row = row;
    vote->files++;
    lull__st_measure(writer);
    put_meta(carry, writer);
    return file;
}

/* Offsets, and as many rows to a file as its header takes. */
static lull_status_t lay_out(lull__carry_t *carry, lull__carry_vote_t *vote) {
    lull__st_writer_t writer;
    vote->file = carry->file_count;
    lull__carry_file_t *file = begin_file(carry, vote, vote->row, &writer);
    lull_status_t status = file == NULL ? no_memory(carry) : LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < vote->rows; i++) {
        lull__carry_row_t *row = &carry->rows[vote->row + i];
        if (lull__st_size(&writer) > LULL__ST_SPLIT) {
            (void)lull__st_end(&writer, &file->header_bytes);
            file = begin_file(carry, vote, vote->row + i, &writer);
            if (file == NULL)
                return no_memory(carry);
        }
        uint64_t bytes = row->shard->end - row->shard->begin;
        row->file = (uint32_t)vote->files - 1;
        row->begin = file->data_bytes;
        row->end = file->data_bytes + bytes;
        status =
            add_segment(carry, file,
                        &(lull__carry_segment_t){row->source, row->shard->begin,
                                                 row->begin, bytes});
        file->data_bytes += bytes;
        file->rows++;
        put_codec(&writer, row);
        put_row(&writer, row);
    }
    if (status == LULL_OK)
        status = lull__st_end(&writer, &file->header_bytes);
    return status;
}

static lull_status_t alloc_hashes(lull__carry_t *carry) {
    for (size_t i = 0; i < carry->file_count; i++) {
        lull__carry_file_t *file = &carry->files[i];
        uint64_t blocks =
            (file->data_bytes + LULL__BLOCK_BYTES - 1) / LULL__BLOCK_BYTES;
        file->hashes = calloc(blocks + 1, sizeof *file->hashes);
        if (file->hashes == NULL)
            return no_memory(carry);
    }
    return LULL_OK;
}

/* New votes [at, at + n) are of old ones [first, first + count). */
static void share_out(lull__carry_t *carry, size_t n, size_t first,
                      size_t count) {
    for (size_t i = 0; i < n; i++) {
        lull__carry_vote_t *vote = &carry->votes[carry->vote_count++];
        vote->source = first + count * i / n;
        vote->sources = first + count * (i + 1) / n - vote->source;
    }
}

/* Of a place: a file is of ranks that follow each other. */
static void share_out_part(lull__carry_t *carry) {
    const lull__manifest_t *m = &carry->info->manifest;
    size_t end, count = carry->info->rank_count;
    for (size_t i = 0; i < count; i = end + 1) {
        for (end = i; end < count && m->votes[end].place == m->here; end++)
            ;
        size_t n =
            carry->merge == 0 ? end - i : (end - i) * carry->merge / count;
        n = n < end - i ? n : end - i;
        if (end > i)
            share_out(carry, n > 0 ? n : 1, i, end - i);
    }
}

/* Neighbouring ranks share a file. */
static lull_status_t merge_votes(lull__carry_t *carry) {
    const lull_ckpt_info_t *info = carry->info;
    size_t rows = 0;
    for (size_t i = 0; i < info->rank_count; i++)
        rows += info->ranks[i].vote.shard_count;
    carry->rows = calloc(rows + 1, sizeof *carry->rows);
    if (carry->rows == NULL)
        return no_memory(carry);
    for (size_t i = 0; i < carry->vote_count; i++) {
        lull__carry_vote_t *vote = &carry->votes[i];
        vote->rank = info->ranks[vote->source].vote.head.rank;
        for (size_t v = 0; v < vote->sources; v++)
            vote->ranks += info->ranks[vote->source + v].vote.head.ranks;
        order_rows(carry, vote);
        lull_status_t status = name_rows(carry, vote);
        if (status == LULL_OK)
            status = lay_out(carry, vote);
        if (status != LULL_OK)
            return status;
    }
    return alloc_hashes(carry);
}

lull_status_t lull__carry_plan(lull__carry_t *carry) {
    const lull_ckpt_info_t *info = carry->info;
    size_t votes = info->rank_count;
    if (info->elsewhere > 0 && !carry->part)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "%s: files of it are in other places",
                          info->dir.path);
    carry->made = carry->part || (carry->merge > 0 && carry->merge < votes &&
                                  info->manifest.place_count == 0);
    carry->votes = calloc(votes, sizeof *carry->votes);
    if (carry->votes == NULL)
        return no_memory(carry);
    if (carry->part)
        share_out_part(carry);
    else
        share_out(carry, carry->made ? carry->merge : votes, 0, votes);
    if (carry->made)
        return merge_votes(carry);
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < votes; i++)
        status = copy_vote(carry, i);
    return status;
}

lull_status_t lull__carry_header(const lull__carry_t *carry,
                                 const lull__carry_file_t *file,
                                 lull__out_t *out) {
    lull__st_writer_t writer;
    lull__st_begin(&writer, out, file->header_bytes);
    put_meta(carry, &writer);
    for (size_t i = 0; i < file->rows; i++)
        put_codec(&writer, &carry->rows[file->row + i]);
    for (size_t i = 0; i < file->rows; i++)
        put_row(&writer, &carry->rows[file->row + i]);
    return lull__st_end(&writer, NULL);
}
