/* lull info: this library on this machine. */
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

static int run(int count, char **args) {
    (void)count;
    (void)args;
    if (json)
        printf("{\"version\":\"%s\",\"header\":\"%s\",\"isa\":\"%s\"",
               lull_version(), LULL_VERSION_STRING, lull_codec_isa());
    else
        printf("lull %s\ncodecs run on %s\n", lull_version(), lull_codec_isa());
    print_codecs();
    print_devices();
    print_settings();
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
    .arguments = "",
    .summary = "Show the version, codecs, devices and settings of this machine",
    .help =
        "A setting's value comes from its default, its environment variable\n"
        "or the program.",
    .options = options,
    .run = run,
};
