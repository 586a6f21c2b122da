/* lull codec compare: every codec on someone's own data, by class of tensors
 * and in all. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec.h"
#include "source.h"
#include "values.h"

#define SPECS_MOST 32
#define SPEC_BYTES 32

/* What a codec did on the tensors of a class. */
typedef struct tally {
    uint64_t bytes, coded; /* of raw values and of frames */
    double encode_s, decode_s;
    double sum_error, sum_size, max_error; /* sums of squares */
    bool numbers; /* values that are finite were compared */
} tally_t;

typedef struct class {
    char *name;
    lull_dtype_t dtype; /* of its first tensor */
    uint64_t tensors;
    tally_t tallies[SPECS_MOST];
} class_t;

typedef struct table {
    char specs[SPECS_MOST][SPEC_BYTES];
    size_t spec_count;
    class_t *classes; /* the last row is "all" once all is done */
    size_t class_count, class_room;
    uint8_t *raw, *coded, *back;
    size_t raw_room, coded_room;
    lull_codec_scratch_t *scratch;
} table_t;

static int out_of_memory(void) {
    cli_say("out of memory");
    return CLI_FAILED;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Which codecs ------------------------------------------------------ */

static bool add_spec(table_t *table, const char *spec, size_t n) {
    if (table->spec_count == SPECS_MOST || n == 0 || n >= SPEC_BYTES)
        return false;
    char *to = table->specs[table->spec_count++];
    memcpy(to, spec, n);
    to[n] = '\0';
    return true;
}

/* A spec that no dtype's arrays can have is the user's mistake. */
static int known(const char *spec) {
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16,
                                          LULL_BF16};
    lull_codec_t codec;
    for (int d = 0; d < 4; d++)
        if (lull_codec_parse(spec, dtypes[d], &codec) == LULL_OK)
            return CLI_OK;
    cli_say("%s", lull_last_error());
    return CLI_USAGE;
}

static int choose_specs(table_t *table, const char *list) {
    static const char *const rates[] = {"zfp:8", "zfp:16", "zfp:24"};
    lull_codec_info_t info;
    lull_codec_t codec;
    if (list == NULL) {
        for (unsigned i = 0; lull_codec_at(i, &info) == LULL_OK; i++)
            if (strcmp(info.name, "raw") != 0 &&
                lull_codec_parse(info.name, LULL_F32, &codec) == LULL_OK)
                add_spec(table, info.name, strlen(info.name));
        for (int i = 0; i < 3; i++)
            add_spec(table, rates[i], strlen(rates[i]));
        return CLI_OK;
    }
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (!add_spec(table, at, n)) {
            cli_say("--codec %s: too many, too long or empty", list);
            return CLI_USAGE;
        }
        int code = known(table->specs[table->spec_count - 1]);
        if (code != CLI_OK)
            return code;
        at += n + (at[n] == ',');
    }
    return CLI_OK;
}

/* ---- Measuring --------------------------------------------------------- */

static void add_errors(tally_t *tally, lull_dtype_t dtype, const uint8_t *a,
                       const uint8_t *b, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        double x = value_at(dtype, a, i),
               error = fabs(value_at(dtype, b, i) - x);
        if (!isfinite(x) || !isfinite(error))
            continue; /* stored raw: they come back as they are */
        tally->numbers = true;
        tally->sum_size += x * x;
        tally->sum_error += error * error;
        tally->max_error = fmax(tally->max_error, error);
    }
}

static int measure(table_t *table, const lull_codec_t *codec, uint64_t bytes,
                   tally_t *tally) {
    size_t bound;
    uint64_t count = bytes * 8 / lull_dtype_bits(codec->dtype);
    lull_status_t status = lull_frame_bound(codec, count, &bound);
    if (status != LULL_OK)
        return cli_fail(status);
    if (bound > table->coded_room) {
        free(table->coded);
        table->coded = calloc(1, bound);
        table->coded_room = table->coded != NULL ? bound : 0;
        if (table->coded == NULL)
            return out_of_memory();
    }
    lull_buffer_t out = {.data = table->coded, .capacity = bound};
    double begin = now();
    status =
        lull_frame_encode(codec, table->raw, count, 0, &out, table->scratch);
    double middle = now();
    if (status == LULL_OK)
        status = lull_frame_decode(out.data, out.bytes, 0, table->back, bytes,
                                   table->scratch);
    if (status != LULL_OK)
        return cli_fail(status);
    tally->decode_s += now() - middle;
    tally->encode_s += middle - begin;
    tally->bytes += bytes;
    tally->coded += out.bytes;
    if (value_known(codec->dtype))
        add_errors(tally, codec->dtype, table->raw, table->back, count);
    return CLI_OK;
}

static int all_codecs(table_t *table, class_t *class, lull_dtype_t dtype,
                      uint64_t bytes) {
    for (size_t s = 0; s < table->spec_count; s++) {
        lull_codec_t codec;
        if (lull_codec_parse(table->specs[s], dtype, &codec) != LULL_OK)
            continue; /* not for this dtype */
        int code = measure(table, &codec, bytes, &class->tallies[s]);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int room_for(table_t *table, uint64_t bytes) {
    if (bytes <= table->raw_room)
        return CLI_OK;
    free(table->raw);
    free(table->back);
    table->raw = calloc(1, bytes);
    table->back = calloc(1, bytes);
    table->raw_room = bytes;
    return table->raw != NULL && table->back != NULL ? CLI_OK : out_of_memory();
}

/* ---- Classes ----------------------------------------------------------- */

/* "layers.3.weight" to "layers.*.weight". */
static char *class_name(const char *name) {
    char *out = malloc(strlen(name) + 1), *to = out;
    for (; out != NULL && *name != '\0'; name++) {
        bool digit = *name >= '0' && *name <= '9';
        if (digit && to > out && to[-1] == '*')
            continue;
        *to++ = digit ? '*' : *name;
    }
    if (out != NULL)
        *to = '\0';
    return out;
}

/* The class of a name and dtype, added if it is new; takes the name over.
 * NULL: no memory. */
static class_t *class_of(table_t *table, char *name, lull_dtype_t dtype) {
    if (name == NULL)
        return NULL;
    for (size_t i = 0; i < table->class_count; i++)
        if (table->classes[i].dtype == dtype &&
            strcmp(table->classes[i].name, name) == 0) {
            free(name);
            return &table->classes[i];
        }
    if (table->class_count == table->class_room) {
        size_t room = table->class_room * 2 + 8;
        class_t *more = realloc(table->classes, room * sizeof *more);
        if (more == NULL) {
            free(name);
            return NULL;
        }
        table->classes = more;
        table->class_room = room;
    }
    class_t *class = &table->classes[table->class_count++];
    *class = (class_t){.name = name, .dtype = dtype};
    return class;
}

static int add_all(table_t *table) {
    class_t *all = class_of(table, strdup("all"), 0);
    if (all == NULL)
        return out_of_memory();
    for (size_t i = 0; i + 1 < table->class_count; i++) {
        const class_t *one = &table->classes[i];
        all->tensors += one->tensors;
        for (size_t s = 0; s < table->spec_count; s++) {
            tally_t *to = &all->tallies[s];
            const tally_t *from = &one->tallies[s];
            to->bytes += from->bytes;
            to->coded += from->coded;
            to->encode_s += from->encode_s;
            to->decode_s += from->decode_s;
            to->sum_error += from->sum_error;
            to->sum_size += from->sum_size;
            to->max_error = fmax(to->max_error, from->max_error);
            to->numbers |= from->numbers;
        }
    }
    return CLI_OK;
}

/* ---- Files ------------------------------------------------------------- */

static int one_tensor(table_t *table, const source_t *source,
                      const tensor_t *tensor) {
    cut_t cut;
    source_cut(tensor, &cut);
    class_t *class = class_of(table, class_name(tensor->name), tensor->dtype);
    int code =
        class == NULL ? out_of_memory() : room_for(table, cut.piece_bytes);
    for (uint64_t i = 0; code == CLI_OK && i < cut.pieces; i++) {
        uint64_t bytes;
        lull_status_t status =
            source_read(source, tensor, i, table->raw, &bytes);
        code = status != LULL_OK
                   ? cli_fail(status)
                   : all_codecs(table, class, tensor->dtype, bytes);
    }
    if (code == CLI_OK)
        class->tensors++;
    return code;
}

static int source_file(table_t *table, const char *path) {
    source_t source;
    tensor_t tensor;
    progress_t progress;
    int code = source_open(path, LULL_LATEST, &source);
    if (code == CLI_OK) {
        size_t count = source_count(&source);
        cli_progress_begin(&progress, "comparing");
        for (size_t i = 0; code == CLI_OK && source_at(&source, i, &tensor);
             i++) {
            code = one_tensor(table, &source, &tensor);
            cli_progress(&progress, i, count);
        }
        cli_progress_end(&progress);
    }
    source_close(&source);
    return code;
}

static int raw_file(table_t *table, const char *path, lull_dtype_t dtype) {
    file_t file;
    int code = file_read(path, &file);
    unsigned bits = lull_dtype_bits(dtype);
    if (code == CLI_OK && file.bytes * 8 % bits != 0) {
        cli_say("%s: its %" PRIu64 " bytes are no whole number of %s values",
                path, file.bytes, lull_dtype_name(dtype));
        code = CLI_FAILED;
    }
    class_t *class = NULL;
    if (code == CLI_OK) {
        class = class_of(table, strdup(path), dtype);
        code = class == NULL ? out_of_memory() : room_for(table, SOURCE_PIECE);
    }
    for (uint64_t at = 0; code == CLI_OK && at < file.bytes;) {
        uint64_t left = file.bytes - at;
        uint64_t n = left < SOURCE_PIECE ? left : SOURCE_PIECE;
        code = file_get(&file, table->raw, n);
        if (code == CLI_OK)
            code = all_codecs(table, class, dtype, n);
        at += n;
    }
    if (code == CLI_OK)
        class->tensors++;
    file_close(&file);
    return code;
}

/* ---- Printing ---------------------------------------------------------- */

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

static double relative_l2(const tally_t *t) {
    return t->sum_error > 0 ? sqrt(t->sum_error) / sqrt(t->sum_size) : 0;
}

static void print_class(const table_t *table, const class_t *class) {
    printf("%s", class->dtype != 0 ? lull_dtype_name(class->dtype) : "");
    printf("%s", class->dtype != 0 ? " " : "");
    cli_print_name(stdout, class->name);
    printf(" (%" PRIu64 " tensor%s)\n", class->tensors,
           class->tensors == 1 ? "" : "s");
    for (size_t s = 0; s < table->spec_count; s++) {
        const tally_t *t = &class->tallies[s];
        if (t->bytes == 0)
            continue;
        printf("  %-10s %10s %8.3f %10.3g %10.3g %8.2f %8.2f\n",
               table->specs[s], cli_bytes(t->bytes),
               over((double)t->bytes, (double)t->coded), relative_l2(t),
               t->max_error, 1e-9 * over((double)t->bytes, t->encode_s),
               1e-9 * over((double)t->bytes, t->decode_s));
    }
}

static void print_json(const table_t *table) {
    bool first = true;
    putchar('[');
    for (size_t c = 0; c < table->class_count; c++) {
        const class_t *class = &table->classes[c];
        for (size_t s = 0; s < table->spec_count; s++) {
            const tally_t *t = &class->tallies[s];
            if (t->bytes == 0)
                continue;
            fputs(first ? "\n{\"class\":" : ",\n{\"class\":", stdout);
            first = false;
            cli_json_string(stdout, class->name);
            if (class->dtype != 0)
                printf(",\"dtype\":\"%s\"", lull_dtype_name(class->dtype));
            else
                fputs(",\"dtype\":null", stdout);
            printf(",\"tensors\":%" PRIu64 ",\"codec\":\"%s\"", class->tensors,
                   table->specs[s]);
            printf(",\"bytes\":%" PRIu64 ",\"coded_bytes\":%" PRIu64, t->bytes,
                   t->coded);
            printf(",\"ratio\":%.6g,\"rel_l2\":%.6g,\"max_error\":%.6g",
                   over((double)t->bytes, (double)t->coded), relative_l2(t),
                   t->max_error);
            printf(",\"encode_GBps\":%.4g,\"decode_GBps\":%.4g}",
                   1e-9 * over((double)t->bytes, t->encode_s),
                   1e-9 * over((double)t->bytes, t->decode_s));
        }
    }
    puts("]");
}

static void print(const table_t *table, bool json) {
    if (json) {
        print_json(table);
        return;
    }
    printf("%-12s %10s %8s %10s %10s %8s %8s   (GB/s, one core, %s)\n", "codec",
           "size", "ratio", "rel. L2", "max error", "encode", "decode",
           lull_codec_isa());
    for (size_t c = 0; c < table->class_count; c++)
        print_class(table, &table->classes[c]);
}

int codec_compare(const codec_options_t *options, int count, char **files) {
    static table_t table;
    lull_dtype_t dtype = 0;
    int code = choose_specs(&table, options->codec);
    if (code == CLI_OK && options->dtype != NULL &&
        lull_dtype_parse(options->dtype, &dtype) != LULL_OK) {
        cli_say("%s", lull_last_error());
        code = CLI_USAGE;
    }
    if (code == CLI_OK && lull_codec_scratch_create(&table.scratch) != LULL_OK)
        code = out_of_memory();
    for (int i = 0; code == CLI_OK && i < count; i++)
        code = options->dtype != NULL ? raw_file(&table, files[i], dtype)
                                      : source_file(&table, files[i]);
    if (code == CLI_OK)
        code = add_all(&table);
    if (code == CLI_OK)
        print(&table, options->json);
    for (size_t c = 0; c < table.class_count; c++)
        free(table.classes[c].name);
    free(table.classes);
    free(table.raw);
    free(table.coded);
    free(table.back);
    lull_codec_scratch_destroy(table.scratch);
    return code;
}
