/* lull codec: arrays through the codecs, as files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "source.h"

/* Values of one frame: files of any size go through, and a reader of one
 * frame needs so much memory. */
#define FRAME_VALUES (UINT64_C(16) << 20)

static codec_options_t given;

/* Memory for one frame, and what decodes it. */
typedef struct work {
    uint8_t *raw, *coded;
    size_t raw_room, coded_room;
    lull_codec_scratch_t *scratch;
} work_t;

static int out_of_memory(void) {
    cli_say("out of memory");
    return CLI_FAILED;
}

static int work_open(work_t *work) {
    *work = (work_t){0};
    lull_status_t status = lull_codec_scratch_create(&work->scratch);
    return status == LULL_OK ? CLI_OK : cli_fail(status);
}

static void work_close(work_t *work) {
    free(work->raw);
    free(work->coded);
    lull_codec_scratch_destroy(work->scratch);
}

static int room_for(uint8_t **data, size_t *room, uint64_t bytes) {
    if (bytes <= *room && *data != NULL)
        return CLI_OK;
    free(*data);
    *data = malloc(bytes + 1);
    *room = *data != NULL ? bytes : 0;
    return *data != NULL ? CLI_OK : out_of_memory();
}

static unsigned codec_flags(const codec_options_t *options) {
    return (options->truncate ? (unsigned)LULL_CODEC_ZFP_TRUNCATE : 0) |
           (options->force ? (unsigned)LULL_CODEC_FORCE : 0);
}

static int parse_codec(const codec_options_t *options, lull_codec_t *out) {
    lull_dtype_t dtype;
    if (options->codec == NULL || options->dtype == NULL)
        return cli_usage(&command_codec, "%s is missing",
                         options->codec ? "--dtype" : "--codec");
    if (lull_dtype_parse(options->dtype, &dtype) != LULL_OK ||
        lull_codec_parse(options->codec, dtype, out) != LULL_OK) {
        cli_say("%s", lull_last_error());
        return CLI_USAGE;
    }
    out->flags = (uint16_t)codec_flags(options);
    return CLI_OK;
}

/* ---- Encoding ---------------------------------------------------------- */

static int encode_piece(const codec_options_t *options,
                        const lull_codec_t *codec, work_t *work, uint64_t count,
                        file_t *to) {
    size_t bound;
    lull_status_t status = options->bare
                               ? lull_codec_bound(codec, count, &bound)
                               : lull_frame_bound(codec, count, &bound);
    if (status != LULL_OK)
        return cli_fail(status);
    int code = room_for(&work->coded, &work->coded_room, bound);
    if (code != CLI_OK)
        return code;
    lull_buffer_t out = {.data = work->coded, .capacity = bound};
    unsigned flags = options->no_checksum ? 0 : LULL_FRAME_CHECKSUM;
    if (options->bare)
        status =
            lull_codec_encode(codec, work->raw, count, &out, work->scratch);
    else
        status = lull_frame_encode(codec, work->raw, count, flags, &out,
                                   work->scratch);
    return status == LULL_OK ? file_put(to, out.data, out.bytes)
                             : cli_fail(status);
}

static int encode_stream(const codec_options_t *options,
                         const lull_codec_t *codec, file_t *from, work_t *work,
                         file_t *to) {
    unsigned bits = lull_dtype_bits(codec->dtype);
    if (from->bytes * 8 % bits != 0) {
        cli_say("%s: its %" PRIu64 " bytes are no whole number of %s values",
                from->path, from->bytes, lull_dtype_name(codec->dtype));
        return CLI_FAILED;
    }
    uint64_t count = from->bytes * 8 / bits;
    /* A bare stream is one, however long. */
    uint64_t most = options->bare ? count : FRAME_VALUES;
    for (uint64_t at = 0; at == 0 || at < count; at += most) {
        uint64_t n = count - at < most ? count - at : most;
        int code = room_for(&work->raw, &work->raw_room, n * bits / 8);
        if (code == CLI_OK)
            code = file_get(from, work->raw, n * bits / 8);
        if (code == CLI_OK)
            code = encode_piece(options, codec, work, n, to);
        if (code != CLI_OK || count == 0)
            return code;
    }
    return CLI_OK;
}

/* One tensor of a safetensors file or checkpoint: a frame for each piece. */
static int encode_tensor(const codec_options_t *options, const char *in,
                         work_t *work, file_t *to) {
    source_t source;
    tensor_t tensor;
    cut_t cut;
    lull_codec_t codec;
    int code = source_open(in, LULL_LATEST, &source);
    if (code == CLI_OK && !source_find(&source, options->tensor, &tensor)) {
        cli_say("%s: it has no tensor '%s'", in, options->tensor);
        code = CLI_FAILED;
    }
    if (code == CLI_OK) {
        codec_options_t own = *options;
        own.dtype = lull_dtype_name(tensor.dtype);
        code = parse_codec(&own, &codec);
    }
    if (code == CLI_OK) {
        source_cut(&tensor, &cut);
        code = room_for(&work->raw, &work->raw_room, cut.piece_bytes);
    }
    if (code == CLI_OK && options->bare && cut.pieces > 1) {
        cli_say("%s: tensor '%s' is too large for --bare", in, options->tensor);
        code = CLI_FAILED;
    }
    for (uint64_t i = 0; code == CLI_OK && i < cut.pieces; i++) {
        uint64_t bytes;
        lull_status_t status =
            source_read(&source, &tensor, i, work->raw, &bytes);
        if (status != LULL_OK)
            code = cli_fail(status);
        else
            code = encode_piece(options, &codec, work,
                                bytes * 8 / lull_dtype_bits(tensor.dtype), to);
    }
    source_close(&source);
    return code;
}

int codec_encode(const codec_options_t *options, const char *in,
                 const char *out) {
    work_t work;
    lull_codec_t codec;
    file_t from = {0}, to = {0};
    int code = options->tensor == NULL ? parse_codec(options, &codec) : CLI_OK;
    if (code != CLI_OK)
        return code;
    code = work_open(&work);
    if (code == CLI_OK && options->tensor == NULL)
        code = file_read(in, &from);
    if (code == CLI_OK) {
        code = file_create(out, in, &to);
        if (code == CLI_OK && options->tensor == NULL)
            code = encode_stream(options, &codec, &from, &work, &to);
        else if (code == CLI_OK)
            code = encode_tensor(options, in, &work, &to);
        code = file_finish(&to, code);
    }
    file_close(&from);
    work_close(&work);
    return code;
}

/* ---- Decoding ---------------------------------------------------------- */

/* The next frame of a file; its length is checked against the file's before
 * anything is allocated. */
static int decode_frame(const codec_options_t *options, file_t *from,
                        uint64_t left, work_t *work, file_t *to,
                        uint64_t *taken) {
    uint8_t header[LULL_FRAME_HEADER_BYTES];
    lull_frame_info_t info;
    uint64_t raw = 0;
    size_t have = left < sizeof header ? (size_t)left : sizeof header;
    int code = file_get(from, header, have);
    if (code != CLI_OK)
        return code;
    lull_status_t status = lull_frame_peek(header, have, &info);
    if (status == LULL_OK)
        status = lull_dtype_bytes(info.codec.dtype, info.count, &raw);
    if (status == LULL_OK && info.bytes > left) {
        cli_say("%s: a frame of %" PRIu64 " bytes is cut off after %" PRIu64,
                from->path, info.bytes, left);
        return CLI_CORRUPT;
    }
    if (status == LULL_OK) {
        code = room_for(&work->coded, &work->coded_room, info.bytes);
        if (code == CLI_OK)
            code = room_for(&work->raw, &work->raw_room, raw);
        if (code == CLI_OK)
            code = file_get(from, work->coded + have, info.bytes - have);
        if (code != CLI_OK)
            return code;
        memcpy(work->coded, header, have);
        status = lull_frame_decode(work->coded, info.bytes,
                                   LULL_FRAME_DECODE(codec_flags(options)),
                                   work->raw, raw, work->scratch);
    }
    if (status != LULL_OK) {
        cli_say("%s: %s", from->path, lull_last_error());
        return status == LULL_ERR_CORRUPT ? CLI_CORRUPT : CLI_FAILED;
    }
    *taken = info.bytes;
    return file_put(to, work->raw, raw);
}

static int decode_bare(const codec_options_t *options, file_t *from,
                       work_t *work, file_t *to) {
    lull_codec_t codec;
    uint64_t raw;
    int code = parse_codec(options, &codec);
    if (code != CLI_OK)
        return code;
    lull_status_t status = lull_dtype_bytes(codec.dtype, options->count, &raw);
    if (status != LULL_OK)
        return cli_fail(status);
    code = room_for(&work->coded, &work->coded_room, from->bytes);
    if (code == CLI_OK)
        code = room_for(&work->raw, &work->raw_room, raw);
    if (code == CLI_OK)
        code = file_get(from, work->coded, from->bytes);
    if (code != CLI_OK)
        return code;
    status = lull_codec_decode(&codec, work->coded, from->bytes, work->raw,
                               options->count, work->scratch);
    if (status != LULL_OK) {
        cli_say("%s: %s%s", from->path, lull_last_error(),
                options->count == 0 ? " (no --count is given)" : "");
        return status == LULL_ERR_CORRUPT ? CLI_CORRUPT : CLI_FAILED;
    }
    return file_put(to, work->raw, raw);
}

int codec_decode(const codec_options_t *options, const char *in,
                 const char *out) {
    work_t work;
    file_t from = {0}, to = {0};
    int code = work_open(&work);
    if (code == CLI_OK)
        code = file_read(in, &from);
    if (code == CLI_OK) {
        code = file_create(out, in, &to);
        if (code == CLI_OK && options->bare)
            code = decode_bare(options, &from, &work, &to);
        uint64_t at = 0, taken = 0;
        while (code == CLI_OK && !options->bare &&
               (at == 0 || at < from.bytes)) {
            code = decode_frame(options, &from, from.bytes - at, &work, &to,
                                &taken);
            at += taken;
        }
        code = file_finish(&to, code);
    }
    file_close(&from);
    work_close(&work);
    return code;
}

/* ---- The command ------------------------------------------------------- */

enum { ENCODE = 1, DECODE = 2, COMPARE = 4, BARE = 8 };

static unsigned action_of(const char *name) {
    static const char *const names[] = {"encode", "decode", "compare"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return 1U << i;
    return 0;
}

/* An option that would be ignored is refused: it was given for a reason. */
static int check_options(const char *name, unsigned action) {
    const struct {
        const char *option;
        bool given;
        unsigned actions; /* BARE: only with --bare, where it decodes */
    } rows[] = {
        {"--codec", given.codec != NULL, ENCODE | DECODE | COMPARE | BARE},
        {"--dtype", given.dtype != NULL, ENCODE | DECODE | COMPARE | BARE},
        {"--tensor", given.tensor != NULL, ENCODE},
        {"--bare", given.bare, ENCODE | DECODE},
        {"--count", given.count != 0, DECODE | BARE},
        {"--truncate", given.truncate, DECODE},
        {"--force", given.force, ENCODE},
        {"--no-checksum", given.no_checksum, ENCODE},
        {"--json", given.json, COMPARE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].given)
            continue;
        if ((rows[i].actions & action) == 0)
            return cli_usage(&command_codec, "%s is not for %s", rows[i].option,
                             name);
        if (action == DECODE && (rows[i].actions & BARE) != 0 && !given.bare)
            return cli_usage(&command_codec,
                             "%s is for decode --bare only: a frame tells its "
                             "own",
                             rows[i].option);
    }
    if (given.tensor != NULL && given.dtype != NULL)
        return cli_usage(&command_codec,
                         "--tensor and --dtype exclude each other");
    if (given.force && !given.bare)
        return cli_usage(&command_codec, "--force is for --bare only");
    if (given.no_checksum && given.bare)
        return cli_usage(&command_codec,
                         "--no-checksum is for frames: --bare has none");
    return CLI_OK;
}

static int run(int count, char **args) {
    unsigned action = action_of(args[0]);
    if (action == 0)
        return cli_usage(&command_codec,
                         "%s: not one of encode, decode and compare", args[0]);
    if (action != COMPARE && count != 3)
        return cli_usage(&command_codec, "%s takes IN and OUT", args[0]);
    int code = check_options(args[0], action);
    if (code != CLI_OK)
        return code;
    if (action == COMPARE)
        return codec_compare(&given, count - 1, args + 1);
    return action == ENCODE ? codec_encode(&given, args[1], args[2])
                            : codec_decode(&given, args[1], args[2]);
}

static const option_t options[] = {
    {"--codec", OPTION_TEXT, &given.codec, "SPEC",
     "zfp:8, mpc, ...; compare: several, with commas"},
    {"--dtype", OPTION_TEXT, &given.dtype, "T",
     "of a raw array: f32, f64, f16, bf16, ..."},
    {"--tensor", OPTION_TEXT, &given.tensor, "NAME",
     "encode: this tensor of a safetensors file"},
    {"--bare", OPTION_FLAG, &given.bare, NULL,
     "the codec's own stream, without a frame"},
    {"--count", OPTION_NUMBER, &given.count, "N",
     "decode --bare: values of the array"},
    {"--truncate", OPTION_FLAG, &given.truncate, NULL,
     "decode zfp as libzfp does by default, with bias"},
    {"--force", OPTION_FLAG, &given.force, NULL,
     "encode --bare: also what the codec cannot bring back"},
    {"--no-checksum", OPTION_FLAG, &given.no_checksum, NULL,
     "encode: frames without a checksum"},
    {"--json", OPTION_FLAG, &given.json, NULL, "compare: an array of objects"},
    {0},
};

const command_t command_codec = {
    .name = "codec",
    .arguments = "encode|decode|compare FILE...",
    .summary = "Encode and decode arrays, or compare the codecs on them",
    .help =
        "encode IN OUT reads a raw array (--dtype) or one tensor (--tensor)\n"
        "and writes frames, or with --bare the stream that the zfp program\n"
        "or MPC would write; decode IN OUT writes the raw array. --bare needs\n"
        "--codec and --dtype, to decode also --count.\n"
        "\n"
        "compare FILE... shows what every codec would do with raw arrays\n"
        "(--dtype), safetensors files or checkpoints: ratio, relative L2\n"
        "error, largest error and speed on one core, for each class of\n"
        "tensors (names that differ in numbers only) and in all.",
    .options = options,
    .least = 2,
    .most = 10000,
    .run = run,
};
