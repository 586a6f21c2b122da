/* The tables of commands and options as lines of fields with tabs between
 * them. tools/make_man makes the man page of it, tools/make_completion what
 * the shell completes. */
#include "cli.h"

/* Lines of a text; an empty one is between paragraphs. */
static void print_text(const char *text) {
    bool fresh = true;
    for (; text != NULL && *text != '\0'; text++) {
        if (fresh)
            fputs("text\t", stdout);
        putchar(*text);
        fresh = *text == '\n';
    }
    if (!fresh)
        putchar('\n');
}

static void print_command(const command_t *command) {
    printf("command\t%s\t%s\t%s\n", command->name, command->arguments,
           command->summary);
    print_text(command->help);
    for (const option_t *o = command->options; o != NULL && o->name != NULL;
         o++)
        printf("option\t%s\t%s\t%s\n", o->name, o->word != NULL ? o->word : "",
               o->help);
}

static void print_values(void) {
    lull_codec_info_t codec;
    fputs("values\tSPEC\t", stdout);
    for (unsigned i = 0; lull_codec_at(i, &codec) == LULL_OK; i++)
        printf("%s%s", i > 0 ? " " : "", codec.name);
    puts("\nvalues\tT\tf32 f64 f16 bf16");
}

static void print_environment(void) {
    lull_setting_t s;
    for (unsigned i = 0; lull_setting_at(i, &s) == LULL_OK; i++)
        printf("environment\t%s\t%s; \"%s\" by default\n", s.env, s.help,
               s.default_value);
    puts("environment\tLULL_MPIRUN\tthe launcher that `lull train` starts");
}

void cli_print_table(const command_t *const *commands) {
    printf("program\tlull\t%s\tlook into, check and convert checkpoints of "
           "training\nusage\tlull COMMAND [ARGUMENT...]\n",
           lull_version());
    print_text("A checkpoint is named by the directory that holds it and a\n"
               "step, DIR/100 or DIR/step-00000100; DIR alone means its\n"
               "newest whole one.");
    for (; *commands != NULL; commands++)
        print_command(*commands);
    puts("status\t0\tsuccess\n"
         "status\t1\tfailure, or what was compared differs\n"
         "status\t2\ta wrong option or argument\n"
         "status\t3\tdata is corrupt");
    print_environment();
    print_values();
    puts("see\tlull-train(1)\nsee\tlull(3)");
}
