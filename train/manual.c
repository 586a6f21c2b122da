/* What lull-train says of its own options: --help, and the table of which the
 * man page and the shell's completion are made. */
#include "manual.h"

#include <lull/lull.h>
#include <stdio.h>

#include "options.h"

static const char about[] =
    "Trains a GPT-NeoX language model on the bytes of a file, in\n"
    "parallel over MPI, and checkpoints it without stopping.\n";

static const char resuming[] =
    "On resuming, an option that is not given is as in the checkpoint;\n"
    "layout, communication, checkpoints and --stop-at may change.\n";

void manual_help(void) {
    option_text_t row;
    printf("usage: mpirun -np RANKS lull-train --data FILE [OPTION VALUE]...\n"
           "       lull train -n RANKS --data FILE [OPTION VALUE]...\n\n"
           "%sSIGUSR1 or SIGTERM: finish the step, checkpoint, exit 0.\n\n",
           about);
    for (size_t i = 0; options_text(i, &row); ++i) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", row.name, row.argument);
        printf("  %-30s %s", left, row.help);
        if (row.fallback != NULL)
            printf(" (%s)", row.fallback);
        putchar('\n');
    }
    printf("  %-30s this text\n  %-30s the version\n\n%s", "--help",
           "--version", resuming);
}

static void print_text(const char *text) {
    fputs("text\t", stdout);
    for (; *text != '\0'; ++text) {
        putchar(*text);
        if (*text == '\n' && text[1] != '\0')
            fputs("text\t", stdout);
    }
}

void manual_table(void) {
    option_text_t row;
    printf("program\tlull-train\t%s\ttrain a language model in parallel, with "
           "lazy checkpoints\n"
           "usage\tmpirun -np RANKS lull-train --data FILE [OPTION VALUE]...\n"
           "usage\tlull train -n RANKS --data FILE [OPTION VALUE]...\n",
           lull_version());
    print_text(about);
    puts("text\t");
    print_text(resuming);
    for (size_t i = 0; options_text(i, &row); ++i)
        printf("option\t--%s\t%s\t%s%s%s%s\n", row.name, row.argument, row.help,
               row.fallback != NULL ? " (" : "",
               row.fallback != NULL ? row.fallback : "",
               row.fallback != NULL ? ")" : "");
    puts("option\t--help\t\tthe options\noption\t--version\t\tthe version\n"
         "signal\tSIGTERM, SIGUSR1\tfinish the step, checkpoint, exit 0\n"
         "example\tOn 8 ranks, a checkpoint every 50 steps; started again, it "
         "goes on:\tlull train -n 8 --data bible.txt --tp 2 --pp 2 \\\t"
         "    --comm zhybrid --ckpt-dir ckpt --ckpt-every 50 --resume auto\n"
         "status\t0\tthe run is complete, or a signal stopped it after a "
         "checkpoint\n"
         "status\t1\tfailure; what was committed stays\n"
         "status\t2\ta wrong option");
    puts("see\tlull(1)\nsee\tmpirun(1)");
}
