/* config.json, the byte-level tokenizer and the README of an export. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"

#define PREFIX "model."

static const char *model_key(const char *key) {
    size_t n = strlen(PREFIX);
    return strncmp(key, PREFIX, n) == 0 ? key + n : NULL;
}

/* A number as JSON writes it: 12, -0.5, 1e-05. */
static bool is_number(const char *s) {
    if (*s == '-')
        s++;
    if (!isdigit((unsigned char)*s) ||
        (*s == '0' && isdigit((unsigned char)s[1])))
        return false;
    while (isdigit((unsigned char)*s))
        s++;
    if (*s == '.') {
        if (!isdigit((unsigned char)*++s))
            return false;
        while (isdigit((unsigned char)*s))
            s++;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-')
            s++;
        if (!isdigit((unsigned char)*s))
            return false;
        while (isdigit((unsigned char)*s))
            s++;
    }
    return *s == '\0';
}

/* Metadata is text; config.json has numbers, truths and one list. */
static void put_value(FILE *to, const char *key, const char *value) {
    bool bare = is_number(value) || strcmp(value, "true") == 0 ||
                strcmp(value, "false") == 0 || strcmp(value, "null") == 0;
    bool list = strcmp(key, "architectures") == 0;
    if (bare && !list) {
        fputs(value, to);
        return;
    }
    fputs(list ? "[" : "", to);
    cli_json_string(to, value);
    fputs(list ? "]" : "", to);
}

int export_config(const export_dir_t *dir, const lull_ckpt_info_t *info) {
    /* Bytes have no special tokens; without these transformers assumes 0. */
    static const char *const absent[] = {"bos_token_id", "eos_token_id"};
    lull_ckpt_meta_t meta;
    bool first = true;
    if (lull_ckpt_info_meta(info, PREFIX "model_type") == NULL) {
        cli_say("no config.json: the checkpoint's metadata has no "
                "'" PREFIX "model_type'");
        return CLI_OK;
    }
    FILE *to = export_begin(dir, "config.json");
    if (to == NULL)
        return CLI_FAILED;
    fputs("{", to);
    for (size_t i = 0; lull_ckpt_info_meta_at(info, i, &meta); i++) {
        const char *key = model_key(meta.key);
        if (key == NULL)
            continue;
        fputs(first ? "\n  " : ",\n  ", to);
        first = false;
        cli_json_string(to, key);
        fputs(": ", to);
        put_value(to, key, meta.value);
    }
    for (size_t i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, PREFIX "%s", absent[i]);
        if (lull_ckpt_info_meta(info, key) == NULL)
            fprintf(to, ",\n  \"%s\": null", absent[i]);
    }
    fputs("\n}\n", to);
    return export_end(dir, "config.json", to);
}

static bool is_byte_level(const lull_ckpt_info_t *info) {
    const char *vocabulary = lull_ckpt_info_meta(info, PREFIX "vocab_size");
    return vocabulary != NULL && strcmp(vocabulary, "256") == 0;
}

/* The character that byte-level tokenizers show a byte as: itself where it is
 * printable Latin-1, else U+0100 and on, in order.
 * Source: bytes_to_unicode() of GPT-2,
 * https://github.com/openai/gpt-2/blob/master/src/encoder.py */
static void put_byte(FILE *to, unsigned byte) {
    unsigned next = 0x100, c = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool shown =
            (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        c = shown ? b : next++;
    }
    if (c == '"' || c == '\\')
        fprintf(to, "\\%c", (int)c);
    else if (c < 0x80)
        fputc((int)c, to);
    else
        fprintf(to, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
}

/* Pairs of bytes are never merged, so a token is a byte and its id its
 * value. */
static int put_tokenizer(const export_dir_t *dir) {
    FILE *to = export_begin(dir, "tokenizer.json");
    if (to == NULL)
        return CLI_FAILED;
    fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
          "  \"padding\": null,\n  \"added_tokens\": [],\n"
          "  \"normalizer\": null,\n"
          "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
          "\"add_prefix_space\": false, \"trim_offsets\": false, "
          "\"use_regex\": false},\n"
          "  \"post_processor\": null,\n"
          "  \"decoder\": {\"type\": \"ByteLevel\", "
          "\"add_prefix_space\": false, \"trim_offsets\": false, "
          "\"use_regex\": false},\n"
          "  \"model\": {\"type\": \"BPE\", \"dropout\": null, "
          "\"unk_token\": null,\n    \"continuing_subword_prefix\": null, "
          "\"end_of_word_suffix\": null,\n    \"fuse_unk\": false, "
          "\"byte_fallback\": false,\n    \"vocab\": {",
          to);
    for (unsigned b = 0; b < 256; b++) {
        fputs(b % 8 == 0 ? (b > 0 ? ",\n      \"" : "\n      \"") : ", \"", to);
        put_byte(to, b);
        fprintf(to, "\": %u", b);
    }
    fputs("},\n    \"merges\": []}\n}\n", to);
    return export_end(dir, "tokenizer.json", to);
}

int export_tokenizer(const export_dir_t *dir, const lull_ckpt_info_t *info) {
    const char *most =
        lull_ckpt_info_meta(info, PREFIX "max_position_embeddings");
    if (!is_byte_level(info))
        return CLI_OK;
    int code = put_tokenizer(dir);
    if (code != CLI_OK)
        return code;
    FILE *to = export_begin(dir, "tokenizer_config.json");
    if (to == NULL)
        return CLI_FAILED;
    fprintf(to,
            "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
            "  \"clean_up_tokenization_spaces\": false%s%s\n}\n",
            most != NULL && is_number(most) ? ",\n  \"model_max_length\": "
                                            : "",
            most != NULL && is_number(most) ? most : "");
    return export_end(dir, "tokenizer_config.json", to);
}

int export_readme(const export_dir_t *dir, const lull_ckpt_info_t *info,
                  const char *from) {
    lull_ckpt_entry_t entry;
    FILE *to = export_begin(dir, "README.md");
    if (to == NULL)
        return CLI_FAILED;
    lull_ckpt_info_entry(info, &entry);
    fprintf(to,
            "# Exported model\n\nMade by `lull export` (lull %s) from %s, "
            "step %" PRIu64 " (seq %" PRIu64 "), committed %s UTC.\n\n",
            lull_version(), from, entry.id.step, entry.id.seq,
            cli_time(entry.time));
    if (is_byte_level(info))
        fputs("The vocabulary is the 256 bytes: a token is a byte of UTF-8, "
              "its id the byte's value.\nThere are no special tokens; "
              "tokenizer.json says just that.\n",
              to);
    else
        fputs("No tokenizer files: the checkpoint does not say how text "
              "becomes tokens.\n",
              to);
    return export_end(dir, "README.md", to);
}
