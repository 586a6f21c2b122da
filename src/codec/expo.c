/* expo (lossless): exponents by their entropy, the rest as it is, in blocks
 * that stand alone. Stream, blocks and the codec's row; the coding of
 * exponents is in expo_encode.c and expo_decode.c. Format:
 * docs/formats/expo.md. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"
#include "codec/expo_plan.h"

#define MAGIC 0x6f707865u /* "expo" */
enum { VERSION = 2, HEADER = 16, BLOCK_HEADER = 4, BLOCK_MOST = 8192 };
enum { KIND_RAW = 0, KIND_CODED = 1 };

/* How a byte plane is stored: as it is; not, as it is all zero; only where
 * the symbol is not zero; coded in digits as symbols are. */
enum { PLANE_RAW = 0, PLANE_ZERO = 1, PLANE_SYMBOL = 2, PLANE_CODED = 3 };

/* What a dtype needs. */
typedef struct layout {
    lull_dtype_t dtype;
    unsigned kind; /* LULL__EXPO_F32 ... */
    unsigned size; /* bytes of a value */
    unsigned planes, bits;
    unsigned block; /* values */
    unsigned log2_block;
} layout_t;

static const layout_t layouts[] = {
    {LULL_F32, LULL__EXPO_F32, 4, 3, 0, 8192, 13},
    {LULL_F16, LULL__EXPO_F16, 2, 1, 3, 8192, 13},
    {LULL_BF16, LULL__EXPO_BF16, 2, 1, 0, 8192, 13},
    {LULL_F64, LULL__EXPO_F64, 8, 6, 5, 4096, 12},
};

static const layout_t *layout_of(lull_dtype_t dtype) {
    unsigned i = 0;
    while (layouts[i].dtype != dtype)
        i++;
    return layouts + i;
}

static const lull__expo_kernel_t *kernel_in_force(void) {
#ifdef __x86_64__
    static const lull__expo_kernel_t *const variants[LULL__ISA_COUNT] = {
        &lull__expo_portable, &lull__expo_avx2, &lull__expo_avx512};
    return variants[lull__isa()];
#else
    return &lull__expo_portable;
#endif
}

/* The caller's scratch, cut up for one block. */
typedef struct work {
    const layout_t *layout;
    lull__expo_room_t room;
    lull__expo_choice_t *choice; /* of symbols, kept from block to block */
    lull__expo_table_t *table;   /* the same when decoding */
    size_t nonzeros; /* symbols that are not 0, once they are counted */
    lull__expo_fields_t fields;
    uint8_t *plane[LULL__EXPO_PLANES], *bits[LULL__EXPO_BITS];
} work_t;

static uint8_t *take(uint8_t **free, size_t bytes) {
    uint8_t *at = *free;
    *free += (bytes + LULL__EXPO_SLACK + 63) / 64 * 64;
    return at;
}

#define TAKEN(bytes) (((bytes) + LULL__EXPO_SLACK + 63) / 64 * 64)
#define WORK(block, planes, bits, wide)                          \
    ((4 + (planes)) * TAKEN(block) + (bits)*TAKEN((block) / 8) + \
     (wide)*TAKEN(2 * (block)))
_Static_assert(WORK(8192, 3, 0, 0) <= LULL__SCRATCH_BYTES, "f32");
_Static_assert(WORK(8192, 1, 3, 0) <= LULL__SCRATCH_BYTES, "f16");
_Static_assert(WORK(4096, 6, 5, 1) <= LULL__SCRATCH_BYTES, "f64");

static void set_up(work_t *w, lull_dtype_t dtype,
                   lull_codec_scratch_t *scratch) {
    const layout_t *layout = layout_of(dtype);
    uint8_t *free = scratch->bytes;
    memset(w, 0, sizeof *w);
    w->room.kernel = kernel_in_force();
    w->layout = layout;
    w->room.a = take(&free, layout->block);
    w->room.b = take(&free, layout->block);
    w->room.c = take(&free, layout->block);
    w->room.out = take(&free, layout->block);
    for (unsigned k = 0; k < layout->planes; k++)
        w->fields.plane[k] = w->plane[k] = take(&free, layout->block);
    for (unsigned k = 0; k < layout->bits; k++)
        w->fields.bits[k] = w->bits[k] = take(&free, layout->block / 8);
    w->fields.past = scratch->past;
    if (dtype == LULL_F64)
        w->fields.exponents = (uint16_t *)take(&free, 2 * layout->block);
}

/* So that all has been asked for when the n symbols of a block have passed a
 * level. */
static void set_ahead(const work_t *w, lull__expo_ahead_t *ahead,
                      const uint8_t *at, size_t bytes, size_t n) {
    ahead->at = at;
    ahead->end = at + bytes;
    ahead->step = (bytes * w->room.kernel->piece / n + 63) / 64 * 64;
}

static size_t blocks_of(const layout_t *layout, size_t count) {
    return count / layout->block + (count % layout->block != 0);
}

static size_t bound(const lull_codec_t *codec, size_t count) {
    const layout_t *layout = layout_of(codec->dtype);
    return HEADER + blocks_of(layout, count) + count * layout->size;
}

/* ---- Encoding a block -------------------------------------------------- */

/* Where a block is written: never at or past end. Once something had no room
 * `full` says so, and the rest is dropped. */
typedef struct writer {
    uint8_t *at, *end;
    bool full;
    /* Past the caches; NULL: not. */
    void (*copy)(uint8_t *dst, const uint8_t *src, size_t bytes);
} writer_t;

static void put(writer_t *to, const void *from, size_t bytes) {
    if (bytes > (size_t)(to->end - to->at))
        to->full = true;
    if (to->full)
        return;
    if (to->copy != NULL && bytes >= 1024)
        to->copy(to->at, from, bytes);
    else
        memcpy(to->at, from, bytes);
    to->at += bytes;
}

static void put16(writer_t *to, unsigned value) {
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    put(to, bytes, 2);
}

static void put_coded(writer_t *to, const lull__expo_coded_t *coded) {
    put(to, coded->head, coded->head_bytes);
    put(to, coded->digits, coded->digit_bytes);
}

/* What the symbols' flags are made by, as digits of a table. */
static const lull__expo_level_t flags_level = {.width = 1, .last = 1};

/* To room.b. */
static void make_flags(work_t *w, const uint8_t *symbols, size_t n) {
    lull__expo_digits_t of;
    const uint8_t zero = 0;
    lull__expo_set_digits(&of, &zero, 1, 1);
    (void)w->room.kernel->digits(symbols, n, &of, 255, w->room.b, NULL);
}

/* Symbols to room.a; f64: also the base. Returns how many are far. */
static size_t make_symbols(work_t *w, const uint8_t *src, size_t n,
                           unsigned *base) {
    w->fields.symbols = w->room.a;
    w->room.kernel->cut->scatter[w->layout->kind](src, n, &w->fields);
    if (w->fields.exponents == NULL)
        return 0;
    *base = lull__expo_base(w->fields.exponents, n);
    return lull__expo_narrow(w->fields.exponents, n, *base, w->room.a);
}

static void put_symbols(work_t *w, const uint8_t *src, size_t n, writer_t *to) {
    lull__expo_coded_t coded;
    unsigned base = 0;
    size_t far = make_symbols(w, src, n, &base);
    w->nonzeros = 0;
    if (!lull__expo_encode(&w->room, w->room.a, n, w->choice, &coded))
        lull__expo_literal(w->room.a, n, &coded);
    if (w->fields.exponents != NULL)
        put16(to, base);
    put_coded(to, &coded);
    for (size_t i = 0; i < n && far != 0; i++) {
        unsigned e = w->fields.exponents[i];
        if (!lull__expo_is_far(e, base))
            continue;
        put16(to, e);
        far--;
    }
}

/* What 64 bytes say of a plane. */
typedef struct glance {
    unsigned zeros;
    unsigned values; /* different ones: of random bytes about 57 */
} glance_t;

static glance_t glance_at(const uint8_t *plane, size_t n) {
    uint8_t seen[256] = {0};
    glance_t glance = {0, 0};
    for (size_t i = 0; i < n; i += n / 64 + 1) {
        glance.zeros += plane[i] == 0;
        glance.values += seen[plane[i]] == 0;
        seen[plane[i]] = 1;
    }
    return glance;
}

static bool looks_random(const uint8_t *plane, size_t n) {
    glance_t glance = glance_at(plane, n);
    return n >= 256 && glance.values > 40 && glance.zeros < 4;
}

/* Of a plane, to room.c, the bytes of the symbols that are not zero. */
static void keep_nonzero(work_t *w, const uint8_t *plane, size_t n) {
    make_flags(w, w->room.a, n);
    w->room.kernel->keep(plane, n, w->room.b, w->room.c);
}

/* Writes a byte plane in its shortest mode, which it returns. */
static unsigned put_plane(work_t *w, const uint8_t *plane, size_t n,
                          writer_t *to) {
    lull__expo_coded_t coded;
    const uint8_t *stored = plane;
    unsigned mode = PLANE_RAW;
    size_t bytes = n;
    bool random = looks_random(plane, n);
    if (random && !w->choice->zero) { /* mantissas as they mostly are */
        put(to, plane, n);
        return PLANE_RAW;
    }
    if (w->nonzeros == 0)
        w->nonzeros = w->room.kernel->nonzeros(w->room.a, n);
    if (random && w->nonzeros == n) {
        put(to, plane, n);
        return PLANE_RAW;
    }
    size_t full = w->room.kernel->nonzeros(plane, n);
    if (full == 0)
        return PLANE_ZERO;
    if (full <= w->nonzeros && w->nonzeros < n) {
        keep_nonzero(w, plane, n);
        if (w->room.kernel->nonzeros(w->room.c, w->nonzeros) == full) {
            mode = PLANE_SYMBOL;
            stored = w->room.c;
            bytes = w->nonzeros;
            random = looks_random(stored, bytes);
        }
    }
    if (!random) {
        lull__expo_choice_t choice;
        lull__expo_choice_begin(&choice);
        if (lull__expo_encode(&w->room, plane, n, &choice, &coded) &&
            coded.head_bytes + coded.digit_bytes < bytes) {
            put_coded(to, &coded);
            return PLANE_CODED;
        }
        if (mode == PLANE_SYMBOL) /* others came there */
            keep_nonzero(w, plane, n);
    }
    put(to, stored, bytes);
    return mode;
}

static bool all_zero(const uint8_t *at, size_t bytes) {
    size_t i = 0;
    uint64_t any = 0;
    for (; i + 8 <= bytes; i += 8)
        any |= lull__load64(at + i);
    for (; i < bytes; i++)
        any |= at[i];
    return any == 0;
}

static void put_block(work_t *w, const uint8_t *src, size_t n, writer_t *to) {
    uint8_t head[BLOCK_HEADER] = {KIND_CODED}, *at = to->at;
    unsigned modes = 0;
    put(to, head, sizeof head);
    put_symbols(w, src, n, to);
    for (unsigned k = 0; k < w->layout->planes; k++)
        modes |= put_plane(w, w->plane[k], n, to) << (2 * k);
    for (unsigned k = 0; k < w->layout->bits; k++) {
        if (all_zero(w->bits[k], (n + 7) / 8))
            head[3] |= (uint8_t)(1u << k);
        else
            put(to, w->bits[k], (n + 7) / 8);
    }
    head[1] = (uint8_t)modes;
    head[2] = (uint8_t)(modes >> 8);
    if (!to->full)
        memcpy(at, head, sizeof head);
}

/* Past the caches pays where a block is long: each part has two ends that
 * share their lines with others, and those wait for memory. */
static void (*copy_of(const work_t *w))(uint8_t *, const uint8_t *, size_t) {
    return w->fields.past && w->layout->planes > 1 ? w->room.kernel->cut->copy
                                                   : NULL;
}

static lull_status_t encode_block(work_t *w, const uint8_t *src, size_t n,
                                  lull__out_t *out) {
    size_t raw = 1 + n * w->layout->size;
    size_t room = out->capacity - out->bytes;
    uint8_t *at = out->data + out->bytes;
    writer_t to = {at, at + (room < raw ? room : raw - 1), false, copy_of(w)};
    put_block(w, src, n, &to);
    if (to.full) { /* not smaller than the values themselves, or no room */
        if (room < raw)
            return lull__fail(LULL_ERR_CAPACITY,
                              "expo: the stream does not fit in capacity, %zu "
                              "bytes",
                              out->capacity);
        *at = KIND_RAW;
        memcpy(at + 1, src, raw - 1);
        w->choice->blocks = 0; /* a decoder has not seen its table */
        to.at = at + raw;
    }
    out->bytes = (size_t)(to.at - out->data);
    return LULL_OK;
}

static lull_status_t encode(const lull_codec_t *codec, const void *src,
                            size_t count, lull__out_t *out,
                            lull_codec_scratch_t *scratch) {
    work_t w;
    lull__expo_choice_t choice;
    set_up(&w, codec->dtype, scratch);
    lull__expo_choice_begin(&choice);
    w.choice = &choice;
    if (out->capacity < HEADER)
        return lull__fail(LULL_ERR_CAPACITY,
                          "expo: capacity %zu is under the header's %d bytes",
                          out->capacity, HEADER);
    const uint8_t head[8] = {MAGIC & 255,
                             MAGIC >> 8 & 255,
                             MAGIC >> 16 & 255,
                             MAGIC >> 24,
                             VERSION,
                             (uint8_t)codec->dtype,
                             (uint8_t)w.layout->log2_block,
                             0};
    memcpy(out->data, head, 8);
    lull__store64(out->data + 8, count);
    out->bytes = HEADER;
    const uint8_t *values = src;
    size_t last = w.layout->block * w.layout->size;
    for (size_t done = 0; done < count;) {
        size_t n = count - done;
        n = n < w.layout->block ? n : w.layout->block;
        /* The next block's values, and where this one will be written. */
        size_t bytes = n * w.layout->size, room = out->capacity - out->bytes;
        size_t left = (count - done - n) * w.layout->size + scratch->follows;
        set_ahead(&w, &w.room.read, values + bytes, left < bytes ? left : bytes,
                  n);
        size_t size = last < room ? last : room; /* likely */
        if (copy_of(&w) == NULL)
            set_ahead(&w, &w.room.write, out->data + out->bytes, size, n);
        lull_status_t status = encode_block(&w, values, n, out);
        last = out->bytes - (out->capacity - room);
        if (status != LULL_OK)
            return status;
        values += bytes;
        done += n;
    }
    return LULL_OK;
}

/* ---- Decoding a block -------------------------------------------------- */

static const uint8_t zeros[BLOCK_MOST];

/* A plane of which only the bytes are stored whose symbol is not zero. */
static void spread(work_t *w, size_t n, const uint8_t *from, uint8_t *plane) {
    memcpy(w->room.a, from, w->nonzeros);
    w->room.kernel->join(w->room.b, n, &flags_level, w->room.a, plane);
}

static const char *get_plane(work_t *w, unsigned mode, unsigned k, size_t n,
                             const uint8_t **at, const uint8_t *end) {
    const uint8_t *from = *at;
    size_t stored = n;
    w->fields.plane[k] = w->plane[k];
    if (mode == PLANE_ZERO) {
        w->fields.plane[k] = zeros;
        return NULL;
    }
    if (mode == PLANE_CODED) {
        lull__expo_table_t table = {.levels = 0};
        return lull__expo_decode(&w->room, n, at, end, &table, w->plane[k]);
    }
    if (mode == PLANE_SYMBOL) {
        make_flags(w, w->fields.symbols, n);
        stored = w->nonzeros = w->room.kernel->nonzeros(w->fields.symbols, n);
    }
    if ((size_t)(end - from) < stored)
        return "cut off in a plane";
    *at += stored;
    if (mode == PLANE_RAW)
        w->fields.plane[k] = from;
    else
        spread(w, n, from, w->plane[k]);
    return NULL;
}

static const char *get_fields(work_t *w, size_t n, const uint8_t **at,
                              const uint8_t *end) {
    unsigned base = 0, wide = w->fields.exponents != NULL ? 2 : 0;
    if ((size_t)(end - *at) < BLOCK_HEADER - 1 + wide)
        return "cut off in the block's header";
    unsigned modes = lull__load16(*at), zero_bits = (*at)[2];
    *at += BLOCK_HEADER - 1;
    if (modes >> (2 * w->layout->planes) != 0 ||
        zero_bits >> w->layout->bits != 0)
        return "modes of planes that there are not";
    if (wide != 0) {
        base = lull__load16(*at);
        *at += wide;
        if (base > LULL__EXPO_BASE_MOST)
            return "the base of exponents";
    }
    w->fields.symbols = w->room.out;
    const char *wrong =
        lull__expo_decode(&w->room, n, at, end, w->table, w->fields.symbols);
    if (wrong == NULL && wide != 0)
        wrong = lull__expo_widen(w->fields.symbols, n, base, at, end,
                                 w->fields.exponents);
    for (unsigned k = 0; k < w->layout->planes && wrong == NULL; k++)
        wrong = get_plane(w, modes >> (2 * k) & 3, k, n, at, end);
    for (unsigned k = 0; k < w->layout->bits && wrong == NULL; k++) {
        size_t bytes = (n + 7) / 8;
        w->fields.bits[k] = zeros;
        if (zero_bits >> k & 1)
            continue;
        if ((size_t)(end - *at) < bytes)
            return "cut off in a plane of bits";
        w->fields.bits[k] = *at;
        *at += bytes;
    }
    return wrong;
}

/* Where values go: into an array, or added to sums. */
typedef struct sink {
    uint8_t *values, *sum; /* one of the two */
} sink_t;

/* In pieces that stay in the nearest cache until they are added. */
static void add_fields(const work_t *w, size_t n, sink_t *sink) {
    enum { PIECE = 512 };
    uint8_t piece[PIECE * 8];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t part = n - i < PIECE ? n - i : PIECE;
        lull__expo_fields_t fields = lull__expo_fields_at(&w->fields, i);
        w->room.kernel->cut->gather[w->layout->kind](&fields, part, piece);
        lull__add(w->layout->dtype, piece, sink->sum, part);
        sink->sum += part * (w->layout->size == 8 ? 8 : 4);
    }
}

static const char *decode_block(work_t *w, size_t n, const uint8_t **at,
                                const uint8_t *end, sink_t *sink) {
    size_t bytes = n * w->layout->size;
    if (*at == end)
        return "cut off before the block";
    unsigned kind = *(*at)++;
    if (kind == KIND_RAW) {
        if ((size_t)(end - *at) < bytes)
            return "cut off in a raw block";
        if (sink->values != NULL) {
            memcpy(sink->values, *at, bytes);
            sink->values += bytes;
        } else {
            lull__add(w->layout->dtype, *at, sink->sum, n);
            sink->sum += n * (w->layout->size == 8 ? 8 : 4);
        }
        *at += bytes;
        return NULL;
    }
    if (kind != KIND_CODED)
        return "the kind of block";
    const char *wrong = get_fields(w, n, at, end);
    if (wrong != NULL)
        return wrong;
    if (sink->values != NULL) {
        w->room.kernel->cut->gather[w->layout->kind](&w->fields, n,
                                                     sink->values);
        sink->values += bytes;
    } else {
        add_fields(w, n, sink);
    }
    return NULL;
}

static lull_status_t check_header(const layout_t *layout, const uint8_t *src,
                                  size_t bytes, size_t count) {
    if (bytes < HEADER)
        return lull__fail(LULL_ERR_CORRUPT, "expo: %zu bytes end in the header",
                          bytes);
    if (lull__load32(src) != MAGIC)
        return lull__fail(LULL_ERR_CORRUPT, "expo: magic 0x%08x, not 0x%08x",
                          lull__load32(src), MAGIC);
    if (src[4] != VERSION)
        return lull__fail(LULL_ERR_VERSION, "expo: version %u, expected %u",
                          src[4], VERSION);
    if (src[5] != layout->dtype)
        return lull__fail(LULL_ERR_CORRUPT,
                          "expo: dtype %u in the header, expected %u", src[5],
                          layout->dtype);
    if (src[6] != layout->log2_block || src[7] != 0)
        return lull__fail(LULL_ERR_CORRUPT, "expo: block size %u, expected %u",
                          src[6], layout->log2_block);
    if (lull__load64(src + 8) != count)
        return lull__fail(LULL_ERR_CORRUPT,
                          "expo: count %llu in the header, expected %zu",
                          (unsigned long long)lull__load64(src + 8), count);
    return LULL_OK;
}

static lull_status_t decode_to(const lull_codec_t *codec, const uint8_t *src,
                               size_t bytes, sink_t sink,
                               lull_codec_scratch_t *scratch, size_t count) {
    work_t w;
    lull__expo_table_t table = {.levels = 0};
    set_up(&w, codec->dtype, scratch);
    w.table = &table;
    w.fields.past &= w.room.kernel->cut->past[w.layout->kind];
    lull_status_t status = check_header(w.layout, src, bytes, count);
    if (status != LULL_OK)
        return status;
    const uint8_t *at = src + HEADER, *end = src + bytes;
    size_t size = bytes / (blocks_of(w.layout, count) + (count == 0));
    for (size_t done = 0; done < count;) {
        size_t n = count - done, left = (size_t)(end - at) + scratch->follows;
        n = n < w.layout->block ? n : w.layout->block;
        /* The next block, if this one is as long as the last was. */
        size = size < left ? size : left;
        set_ahead(&w, &w.room.read, at + size,
                  size < left - size ? size : left - size, n);
        uint8_t *to = sink.values != NULL ? sink.values : sink.sum;
        if (!w.fields.past)
            set_ahead(&w, &w.room.write, to, n * w.layout->size, n);
        else /* the end, that is no whole line */
            __builtin_prefetch(to + n * w.layout->size - 1, 1, 2);
        const uint8_t *begin = at;
        const char *wrong = decode_block(&w, n, &at, end, &sink);
        size = (size_t)(at - begin);
        if (wrong != NULL)
            return lull__fail(LULL_ERR_CORRUPT,
                              "expo: block of the values from %zu on: %s", done,
                              wrong);
        done += n;
    }
    if (at != end)
        return lull__fail(LULL_ERR_CORRUPT,
                          "expo: %zu bytes follow the last block",
                          (size_t)(end - at));
    return LULL_OK;
}

static lull_status_t decode(const lull_codec_t *codec, const uint8_t *src,
                            size_t bytes, void *dst, size_t count,
                            lull_codec_scratch_t *scratch) {
    uint8_t none; /* an empty array may be NULL */
    return decode_to(codec, src, bytes, (sink_t){.values = dst ? dst : &none},
                     scratch, count);
}

static lull_status_t decode_add(const lull_codec_t *codec, const uint8_t *src,
                                size_t bytes, void *sum, size_t count,
                                lull_codec_scratch_t *scratch) {
    return decode_to(codec, src, bytes, (sink_t){.sum = sum}, scratch, count);
}

const lull__codec_row_t lull__codec_expo = {
    .id = LULL__ID_EXPO,
    .name = "expo",
    .usage = "expo",
    .help = "lossless; codes exponents by their entropy",
    .dtypes = LULL__FLOATS,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .decode_add = decode_add,
};
