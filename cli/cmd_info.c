/* lull info: this library on this machine. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli.h"

static bool json;

static void print_codecs(void) {
    lull_codec_info_t codec;
    if (!json)
        puts("\ncodecs");
    else
        fputs(",\n\"codecs\":[", stdout);
    for (unsigned i = 0; lull_codec_at(i, &codec) == LULL_OK; i++) {
        if (!json) {
            printf("  %-12s %-9s %s\n", codec.usage,
                   codec.lossy ? "lossy" : "lossless", codec.help);
            continue;
        }
        printf("%s{\"name\":\"%s\",\"usage\":", i > 0 ? ",\n" : "\n",
               codec.name);
        cli_json_string(stdout, codec.usage);
        printf(",\"lossy\":%s}", codec.lossy ? "true" : "false");
    }
    if (json)
        putchar(']');
}

static void print_devices(void) {
    lull_device_info_t device = {.size = sizeof device};
    if (!json)
        puts("\ndevices");
    else
        fputs(",\n\"devices\":[", stdout);
    for (unsigned i = 0; lull_device_at(i, &device) == LULL_OK; i++) {
        if (!json) {
            printf("  %-16s %s%s\n", device.name,
                   device.status == LULL_OK ? "" : "not usable: ", device.text);
            continue;
        }
        fputs(i > 0 ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        cli_json_string(stdout, device.name);
        printf(",\"state\":\"%s\",\"text\":", lull_status_name(device.status));
        cli_json_string(stdout, device.text);
        putchar('}');
    }
    if (json)
        putchar(']');
}

static void print_settings(void) {
    lull_setting_t s;
    if (!json)
        puts("\nsettings");
    else
        fputs(",\n\"settings\":[", stdout);
    for (unsigned i = 0; lull_setting_at(i, &s) == LULL_OK; i++) {
        if (!json) {
            printf("  %-8s %-12s from %s (%s): %s\n", s.name, s.value, s.source,
                   s.env, s.help);
            continue;
        }
        printf("%s{\"name\":\"%s\",\"env\":\"%s\",\"value\":",
               i > 0 ? ",\n" : "\n", s.name, s.env);
        cli_json_string(stdout, s.value);
        cli_json_key(stdout, false, "default");
        cli_json_string(stdout, s.default_value);
        printf(",\"source\":\"%s\"}", s.source);
    }
    if (json)
        putchar(']');
}

static const struct {
    const char *name, *text;
    size_t offset;
} traits[] = {
    {"registered", "buffers are registered",
     offsetof(lull_ckpt_io_t, registered)},
    {"direct_writes", "writes pass by the page cache",
     offsetof(lull_ckpt_io_t, direct_writes)},
    {"direct_reads", "reads pass by the page cache",
     offsetof(lull_ckpt_io_t, direct_reads)},
    {"reserves", "blocks are reserved before writing",
     offsetof(lull_ckpt_io_t, reserves)},
    {"exchanges", "a step saved again is replaced at once",
     offsetof(lull_ckpt_io_t, exchanges)},
};
#define TRAITS (sizeof traits / sizeof *traits)

static bool has(const lull_ckpt_io_t *io, size_t i) {
    return *(const bool *)((const char *)io + traits[i].offset);
}

/* Without a directory only the first trait is known. */
static void print_storage(const char *dir, const lull_ckpt_io_t *io) {
    size_t count = dir != NULL ? TRAITS : 1;
    printf("\nstorage%s%s\n", dir != NULL ? " in " : "",
           dir != NULL ? dir : " (lull info DIR tries one out)");
    printf("  checkpoints are written by %s\n", io->writer);
    for (size_t i = 0; i < count; i++)
        printf("  %-3s  %s\n", has(io, i) ? "yes" : "no", traits[i].text);
    if (dir != NULL)
        printf("  %s free\n", cli_bytes(io->free_bytes));
    for (const char *at = io->why; *at != '\0';) {
        size_t n = strcspn(at, "\n");
        printf("  reason: %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static void json_storage(const char *dir, const lull_ckpt_io_t *io) {
    size_t count = dir != NULL ? TRAITS : 1;
    fputs(",\n\"storage\":{\"writer\":", stdout);
    cli_json_string(stdout, io->writer);
    for (size_t i = 0; i < count; i++)
        printf(",\"%s\":%s", traits[i].name, has(io, i) ? "true" : "false");
    if (dir != NULL)
        printf(",\"free_bytes\":%" PRIu64, io->free_bytes);
    cli_json_key(stdout, false, "why");
    cli_json_string(stdout, io->why);
    putchar('}');
}

static int run(int count, char **args) {
    const char *dir = count > 0 ? args[0] : NULL;
    lull_ckpt_io_t io = {.size = sizeof io};
    lull_status_t status = lull_ckpt_probe(dir, &io);
    if (status != LULL_OK)
        return cli_fail(status);
    if (json)
        printf("{\"version\":\"%s\",\"header\":\"%s\",\"isa\":\"%s\"",
               lull_version(), LULL_VERSION_STRING, lull_codec_isa());
    else
        printf("lull %s\ncodecs run on %s\n", lull_version(), lull_codec_isa());
    print_codecs();
    print_devices();
    print_settings();
    (json ? json_storage : print_storage)(dir, &io);
    if (json)
        puts("}");
    return CLI_OK;
}

static const option_t options[] = {
    {"--json", OPTION_FLAG, &json, NULL, "one object"},
    {0},
};

const command_t command_info = {
    .name = "info",
    .arguments = "[DIR]",
    .summary = "Show the version, codecs, devices and settings of this machine",
    .help =
        "A setting's value comes from its default, its environment variable\n"
        "or the program. With DIR also how checkpoints are written there and\n"
        "read, tried out with two small files that are removed again.",
    .options = options,
    .most = 1,
    .run = run,
};
