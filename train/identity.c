/* A run's identity in metadata: made for saving, compared on resume. */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree.h"

/* The auto policy that run.comm was measured for. */
#define ASKED "run.comm-asked"

enum { META_MOST = 96, FINGERPRINT_MAX = 64, PIECE = 1 << 20 };

/* ---- Making ------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static lull_status_t
add(identity_t *identity, const char *key, const char *format, ...) {
    char *value = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&value, format, arguments);
    va_end(arguments);
    char *name = strdup(key);
    if (length < 0 || name == NULL || identity->count == META_MOST) {
        free(length < 0 ? NULL : value);
        free(name);
        return train_fail(LULL_ERR_NO_MEMORY, "checkpoint: out of memory");
    }
    identity->meta[identity->count].key = name;
    identity->meta[identity->count++].value = value;
    return LULL_OK;
}

/* Keys and values of Hugging Face's GPTNeoXConfig. */
static lull_status_t add_model(const config_t *config, identity_t *out) {
    const struct {
        const char *key;
        int value;
    } numbers[] = {
        {"model.vocab_size", VOCABULARY},
        {"model.hidden_size", config->hidden},
        {"model.num_hidden_layers", config->layers},
        {"model.num_attention_heads", config->heads},
        {"model.intermediate_size", 4 * config->hidden},
        {"model.max_position_embeddings", config->seq},
        {"model.rotary_emb_base", 10000},
    };
    static const char *const texts[][2] = {
        {"model.architectures", "GPTNeoXForCausalLM"},
        {"model.model_type", "gpt_neox"},
        {"model.hidden_act", "gelu"},
        {"model.rotary_pct", "0.25"},
        {"model.layer_norm_eps", "1e-05"},
        {"model.use_parallel_residual", "true"},
        {"model.tie_word_embeddings", "false"},
        {"model.attention_bias", "true"},
        {"model.initializer_range", "0.02"},
        {"model.torch_dtype", "float32"},
    };
    lull_status_t status = LULL_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        if (status == LULL_OK)
            status = add(out, numbers[i].key, "%d", numbers[i].value);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        if (status == LULL_OK)
            status = add(out, texts[i][0], "%s", texts[i][1]);
    }
    return status;
}

static lull_status_t add_options(const options_t *asked, identity_t *out) {
    option_row_t row;
    lull_status_t status = LULL_OK;
    for (size_t i = 0; options_row(asked, i, &row); ++i) {
        char key[64];
        snprintf(key, sizeof key, "run.%s", row.name);
        if (row.bond != OPTION_FREE && status == LULL_OK)
            status = add(out, key, "%s", row.value);
    }
    return status;
}

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t mix(uint64_t hash, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; ++i)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool mix_piece(int file, off_t at, uint8_t *piece, uint64_t *hash) {
    ssize_t got = pread(file, piece, PIECE, at);
    if (got >= 0)
        *hash = mix(*hash, piece, (size_t)got);
    return got >= 0;
}

/* Size and hash of the first and the last MiB: tells texts apart, at no cost
 * for a large one. */
static lull_status_t fingerprint(const char *path, char *out) {
    struct stat about;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    lull_status_t status = LULL_OK;
    uint8_t *piece = malloc(PIECE);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (piece == NULL || file < 0 || fstat(file, &about) != 0 ||
        !mix_piece(file, 0, piece, &hash) ||
        !mix_piece(file, about.st_size > PIECE ? about.st_size - PIECE : 0,
                   piece, &hash))
        status = train_fail(LULL_ERR_IO, "--data %s: cannot be read: %s", path,
                            strerror(errno));
    else
        snprintf(out, FINGERPRINT_MAX, "%lld bytes, %016" PRIx64,
                 (long long)about.st_size, hash);
    if (file >= 0)
        close(file);
    free(piece);
    return status;
}

static lull_status_t add_run(const options_t *asked, const groups_t *groups,
                             const data_t *data, identity_t *out) {
    char text[FINGERPRINT_MAX];
    (void)data;
    lull_status_t status = fingerprint(asked->config.data, text);
    if (status == LULL_OK)
        status = add(out, "run.program", "lull-train %s", lull_version());
    if (status == LULL_OK)
        status = add(out, "run.text", "%s", text);
    if (status == LULL_OK)
        status = add(out, "run.data", "%s", asked->config.data);
    if (status == LULL_OK && asked->config.comm_asked[0] != '\0')
        status = add(out, ASKED, "%s", asked->config.comm_asked);
    if (status == LULL_OK)
        status = add(out, "run.world", "%d", groups->world);
    if (status == LULL_OK)
        status = add(out, "run.dp", "%d", groups->dp);
    return status;
}

lull_status_t identity_make(const options_t *asked, const groups_t *groups,
                            const data_t *data, identity_t *out) {
    *out = (identity_t){.meta = calloc(META_MOST, sizeof *out->meta)};
    if (out->meta == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "checkpoint: out of memory");
    lull_status_t status = add_model(&asked->config, out);
    if (status == LULL_OK)
        status = add_options(asked, out);
    if (status == LULL_OK)
        status = add_run(asked, groups, data, out);
    return status;
}

void identity_free(identity_t *identity) {
    for (size_t i = 0; i < identity->count; ++i) {
        free((void *)identity->meta[i].key);
        free((void *)identity->meta[i].value);
    }
    free(identity->meta);
    *identity = (identity_t){0};
}

/* ---- Comparing --------------------------------------------------------- */

static lull_status_t adopt_row(const lull_ckpt_info_t *info, const char *where,
                               size_t index, options_t *options) {
    option_row_t row;
    char key[64];
    options_row(options, index, &row);
    if (row.bond == OPTION_FREE || (row.bond == OPTION_LAYOUT && row.given))
        return LULL_OK;
    snprintf(key, sizeof key, "run.%s", row.name);
    const char *saved = lull_ckpt_info_meta(info, key);
    if (saved == NULL)
        return train_fail(LULL_ERR_MISMATCH,
                          "%s: not a checkpoint of lull-train: its metadata "
                          "have no %s",
                          where, key);
    if (row.given && strcmp(row.value, saved) != 0)
        return train_fail(LULL_ERR_MISMATCH,
                          "--%s %s: %s has %s: a resumed run keeps it: leave "
                          "the option out",
                          row.name, row.value, where, saved);
    if (row.given)
        return LULL_OK;
    if (options_adopt(options, index, saved) != LULL_OK)
        return train_fail(LULL_ERR_CORRUPT,
                          "%s: '%.100s' cannot be the %s of a run", where,
                          saved, key);
    return LULL_OK;
}

static bool given(const options_t *options, const char *name) {
    option_row_t row;
    for (size_t i = 0; options_row(options, i, &row); ++i) {
        if (strcmp(row.name, name) == 0)
            return row.given;
    }
    return false;
}

static int saved_number(const lull_ckpt_info_t *info, const char *key) {
    const char *text = lull_ckpt_info_meta(info, key);
    return text != NULL ? atoi(text) : 0;
}

/* On another number of ranks a layout that was not asked for may not fit: no
 * tensor and no pipeline parallelism always does. On another layout the size
 * of a pass is chosen anew. True: it is the same. */
static bool fit_layout(const lull_ckpt_info_t *info, int world,
                       options_t *options) {
    config_t *config = &options->config;
    bool open = !given(options, "tp") && !given(options, "pp");
    if (open && world % ((int64_t)config->tp * config->pp) != 0)
        config->tp = config->pp = 1;
    bool same = saved_number(info, "run.tp") == config->tp &&
                saved_number(info, "run.pp") == config->pp &&
                saved_number(info, "run.world") == world;
    if (!same && !given(options, "micro-batch"))
        config->micro_batch = 0;
    return same;
}

/* The policy that was measured for the same request is not measured again. */
static lull_status_t adopt_measured(const lull_ckpt_info_t *info, size_t index,
                                    options_t *options) {
    const char *asked = lull_ckpt_info_meta(info, ASKED);
    const char *measured = lull_ckpt_info_meta(info, "run.comm");
    option_row_t row;
    options_row(options, index, &row);
    if (strcmp(row.name, "comm") != 0 || asked == NULL || measured == NULL ||
        strlen(asked) >= sizeof options->config.comm_asked ||
        (row.given && strcmp(row.value, asked) != 0))
        return LULL_OK;
    snprintf(options->config.comm_asked, sizeof options->config.comm_asked,
             "%s", asked);
    return options_adopt(options, index, measured);
}

/* What was measured tells nothing of groups of another size: a role that had
 * one rank has none. So it is asked for again. */
static lull_status_t forget_measured(options_t *options) {
    char asked[sizeof options->config.comm_asked];
    option_row_t row;
    size_t i = 0;
    memcpy(asked, options->config.comm_asked, sizeof asked);
    options->config.comm_asked[0] = '\0';
    while (options_row(options, i, &row) && strcmp(row.name, "comm") != 0)
        ++i;
    return asked[0] != '\0' ? options_adopt(options, i, asked) : LULL_OK;
}

lull_status_t identity_adopt(const lull_ckpt_info_t *info, const char *where,
                             int world, options_t *options) {
    option_row_t row;
    for (size_t i = 0; options_row(options, i, &row); ++i) {
        lull_status_t status = adopt_row(info, where, i, options);
        if (status == LULL_OK)
            status = adopt_measured(info, i, options);
        if (status != LULL_OK)
            return status;
    }
    bool same = fit_layout(info, world, options);
    return same ? LULL_OK : forget_measured(options);
}

lull_status_t identity_check_data(const lull_ckpt_info_t *info,
                                  const char *where, const options_t *options) {
    char text[FINGERPRINT_MAX];
    const char *saved = lull_ckpt_info_meta(info, "run.text");
    lull_status_t status = fingerprint(options->config.data, text);
    if (status != LULL_OK)
        return status;
    if (saved == NULL || strcmp(saved, text) != 0)
        return train_fail(LULL_ERR_MISMATCH,
                          "--data %s: has %s: %s learnt a text of %s: give "
                          "that",
                          options->config.data, text, where,
                          saved != NULL ? saved : "none");
    return LULL_OK;
}
