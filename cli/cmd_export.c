/* lull export: one model out of all shards, as Hugging Face lays it out. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export.h"
#include "source.h"

static const char *out;
static bool everything;
static uint64_t step = LULL_LATEST;
static uint64_t shard_bytes = UINT64_C(5000000000);

typedef struct exporter {
    source_t source;
    tensor_t *tensors; /* of the model */
    size_t count;
    uint64_t bytes, done;
    size_t *first; /* [files + 1]: where each file's tensors begin */
    size_t files;
    export_dir_t dir;
    char *data;
    uint64_t room;
    progress_t progress;
} exporter_t;

static bool is_model(const char *name) {
    return everything || strncmp(name, "optimizer.", 10) != 0;
}

static lull_status_t choose_tensors(exporter_t *e) {
    size_t n = source_count(&e->source);
    e->tensors = calloc(n + 1, sizeof *e->tensors);
    e->first = calloc(n + 2, sizeof *e->first);
    if (e->tensors == NULL || e->first == NULL)
        return LULL_ERR_NO_MEMORY;
    tensor_t tensor;
    for (size_t i = 0; source_at(&e->source, i, &tensor); i++)
        if (is_model(tensor.name)) {
            e->tensors[e->count++] = tensor;
            e->bytes += tensor.bytes;
        }
    return LULL_OK;
}

/* Files of at most shard_bytes, unless one tensor alone is larger. */
static void choose_files(exporter_t *e) {
    uint64_t in_file = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (i > 0 && in_file + e->tensors[i].bytes > shard_bytes) {
            e->first[++e->files] = i;
            in_file = 0;
        }
        in_file += e->tensors[i].bytes;
    }
    e->first[++e->files] = e->count;
}

static void file_name(const exporter_t *e, size_t file, char name[64]) {
    if (e->files == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05zu-of-%05zu.safetensors", file + 1,
                 e->files);
}

static lull_status_t write_tensor(exporter_t *e,
                                  lull_safetensors_writer_t *writer,
                                  const tensor_t *tensor) {
    cut_t cut;
    source_cut(tensor, &cut);
    if (cut.piece_bytes > e->room) {
        free(e->data);
        e->data = malloc(cut.piece_bytes);
        e->room = cut.piece_bytes;
        if (e->data == NULL) {
            e->room = 0;
            return LULL_ERR_NO_MEMORY;
        }
    }
    for (uint64_t i = 0; i < cut.pieces; i++) {
        uint64_t bytes;
        lull_status_t status =
            source_read(&e->source, tensor, i, e->data, &bytes);
        if (status == LULL_OK)
            status = lull_safetensors_write(writer, e->data, bytes);
        if (status != LULL_OK)
            return status;
        e->done += bytes;
        cli_progress(&e->progress, e->done, e->bytes);
    }
    return LULL_OK;
}

static lull_status_t write_file(exporter_t *e, size_t file) {
    lull_safetensors_writer_t *writer;
    char name[64], *path;
    size_t begin = e->first[file], end = e->first[file + 1];
    file_name(e, file, name);
    path = export_path(&e->dir, name);
    if (path == NULL)
        return LULL_ERR_NO_MEMORY;
    lull_status_t status = lull_safetensors_create(
        path, e->tensors + begin, end - begin, NULL, 0, &writer);
    free(path);
    if (status != LULL_OK)
        return status;
    for (size_t i = begin; status == LULL_OK && i < end; i++)
        status = write_tensor(e, writer, &e->tensors[i]);
    if (status == LULL_OK)
        status = lull_safetensors_close(writer);
    lull_safetensors_writer_destroy(writer);
    return status;
}

/* Which file holds which tensor; only for more than one. */
static int write_index(exporter_t *e) {
    char name[64];
    FILE *to = export_begin(&e->dir, "model.safetensors.index.json");
    if (to == NULL)
        return CLI_FAILED;
    fprintf(to,
            "{\n  \"metadata\": {\"total_size\": %" PRIu64
            "},\n  \"weight_map\": {",
            e->bytes);
    for (size_t f = 0; f < e->files; f++) {
        file_name(e, f, name);
        for (size_t i = e->first[f]; i < e->first[f + 1]; i++) {
            fputs(i > 0 ? ",\n    " : "\n    ", to);
            cli_json_string(to, e->tensors[i].name);
            fprintf(to, ": \"%s\"", name);
        }
    }
    fputs("\n  }\n}\n", to);
    return export_end(&e->dir, "model.safetensors.index.json", to);
}

static int write_model(exporter_t *e) {
    int code = CLI_OK;
    cli_progress_begin(&e->progress, "exporting");
    for (size_t f = 0; code == CLI_OK && f < e->files; f++) {
        lull_status_t status = write_file(e, f);
        if (status == LULL_ERR_NO_MEMORY) {
            cli_say("out of memory");
            code = CLI_FAILED;
        } else if (status != LULL_OK) {
            code = cli_fail(status);
        }
    }
    cli_progress_end(&e->progress);
    if (code == CLI_OK && e->files > 1)
        code = write_index(e);
    return code;
}

static int export_all(exporter_t *e, const char *from) {
    if (choose_tensors(e) != LULL_OK) {
        cli_say("out of memory");
        return CLI_FAILED;
    }
    if (e->count == 0) {
        cli_say("%s: no tensor of a model in it", from);
        return CLI_FAILED;
    }
    choose_files(e);
    int code = export_open(&e->dir, out);
    if (code == CLI_OK)
        code = write_model(e);
    if (code == CLI_OK)
        code = export_config(&e->dir, e->source.info);
    if (code == CLI_OK)
        code = export_tokenizer(&e->dir, e->source.info);
    if (code == CLI_OK)
        code = export_readme(&e->dir, e->source.info, from);
    if (code == CLI_OK)
        code = export_publish(&e->dir);
    export_close(&e->dir);
    if (code == CLI_OK)
        printf("%s: %zu tensors, %s in %zu file%s\n", out, e->count,
               cli_bytes(e->bytes), e->files, e->files == 1 ? "" : "s");
    return code;
}

static int run(int count, char **args) {
    exporter_t e = {0};
    (void)count;
    if (out == NULL)
        return cli_usage(&command_export, "-o OUT is needed");
    if (shard_bytes == 0)
        return cli_usage(&command_export, "--shard must be above 0");
    if (access(out, F_OK) == 0) {
        cli_say("%s: it exists; export does not overwrite", out);
        return CLI_FAILED;
    }
    int code = cli_open(args[0], step, &e.source.info);
    if (code == CLI_OK)
        code = export_all(&e, args[0]);
    source_close(&e.source);
    free(e.tensors);
    free(e.first);
    free(e.data);
    return code;
}

static const option_t options[] = {
    {"-o", OPTION_TEXT, &out, "OUT", "the directory to make"},
    {"--out", OPTION_TEXT, &out, "OUT", "the same"},
    {"--step", OPTION_NUMBER, &step, "N", "this step instead of the newest"},
    {"--all", OPTION_FLAG, &everything, NULL, "the optimizer's tensors too"},
    {"--shard", OPTION_BYTES, &shard_bytes, "BYTES",
     "most bytes of tensors in a file (5GB)"},
    {0},
};

const command_t command_export = {
    .name = "export",
    .arguments = "DIR[/STEP] -o OUT",
    .summary = "Make one model out of all shards, as a Hugging Face directory",
    .help =
        "Writes model.safetensors (several files and an index above --shard\n"
        "bytes) with every tensor whose name does not begin with\n"
        "'optimizer.', config.json from the checkpoint's metadata, tokenizer\n"
        "files for byte-level models, and a README. OUT must not exist; it\n"
        "appears whole or not at all. Every byte read is verified.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
