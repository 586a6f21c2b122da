/* `lull train`: starts lull-train under MPI on this host, with the flags that
 * one host wants, and turns SIGTERM into the signal that ranks can get. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { WORDS_MOST = 16 };

/* An MPI: its library, its launchers by preference, and their flags for ranks
 * that share the cores of one host. */
typedef struct flavour {
    const char *name, *library;
    const char *launchers[WORDS_MOST], *flags[WORDS_MOST];
} flavour_t;

static const flavour_t flavours[] = {
    {"MPICH",
     "libmpich.so",
     {"mpiexec.mpich", "mpiexec.hydra", "mpiexec"},
     {NULL}},
    {"Open MPI",
     "libmpi.so",
     {"mpirun.openmpi", "mpirun", "mpiexec"},
     /* -q: a failure is told by the program, once, and by no timeout, at once.
      * No binding: threads write checkpoints beside the computation. */
     {"-q", "--oversubscribe", "--bind-to", "none", "--mca",
      "mpi_yield_when_idle", "1", "--mca", "odls_base_sigkill_timeout", "0"}},
};
enum { FLAVOURS = sizeof flavours / sizeof flavours[0] };

static volatile sig_atomic_t launcher_pid;

static void forward(int number) {
    (void)number;
    int kept = errno;
    if (launcher_pid > 0)
        kill((pid_t)launcher_pid, SIGUSR1);
    errno = kept;
}

/* A program by its name on PATH; `out` holds PATH_MAX bytes. */
static bool on_path(const char *name, char *out) {
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        int written =
            snprintf(out, PATH_MAX, "%.*s/%s", (int)length, path, name);
        if (written < PATH_MAX && access(out, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

/* lull-train beside this program, else on PATH. */
static bool find_trainer(char *out) {
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (length > 0) {
        out[length] = '\0';
        char *name = strrchr(out, '/') + 1;
        size_t room = (size_t)(out + PATH_MAX - name);
        if ((size_t)snprintf(name, room, "lull-train") < room &&
            access(out, X_OK) == 0)
            return true;
    }
    return on_path("lull-train", out);
}

/* Which MPI a program was built with: the library it names. */
static const flavour_t *flavour_of(const char *program) {
    const flavour_t *found = NULL;
    FILE *file = fopen(program, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = size > 0 ? malloc((size_t)size) : NULL;
    if (bytes != NULL && fread(bytes, 1, (size_t)size, file) == (size_t)size) {
        for (size_t i = 0; i < FLAVOURS && found == NULL; ++i) {
            const char *library = flavours[i].library;
            if (memmem(bytes, (size_t)size, library, strlen(library)) != NULL)
                found = &flavours[i];
        }
    }
    free(bytes);
    fclose(file);
    return found;
}

static bool find_launcher(const flavour_t *flavour, char *out) {
    const char *chosen = getenv("LULL_MPIRUN");
    if (chosen != NULL && *chosen != '\0')
        return snprintf(out, PATH_MAX, "%s", chosen) < PATH_MAX;
    for (size_t i = 0; flavour->launchers[i] != NULL; ++i) {
        if (on_path(flavour->launchers[i], out))
            return true;
    }
    return false;
}

/* What ranks of one host want from the environment, unless it says else. */
static void set_environment(void) {
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
}

static void catch_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = forward;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    /* A terminal's interrupt reaches the launcher by itself. */
    signal(SIGINT, SIG_IGN);
}

/* Runs the launcher to its end; its exit status, 128 + n for signal n. */
static int run_launcher(char **words) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execv(words[0], words);
        execvp(words[0], words);
        cli_say("%s: cannot be started: %s", words[0], strerror(errno));
        _exit(CLI_FAILED);
    }
    if (child < 0) {
        cli_say("no process for the launcher: %s", strerror(errno));
        return CLI_FAILED;
    }
    launcher_pid = child;
    catch_signals();
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return CLI_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A rank that a signal ended said nothing, and the launcher is kept quiet. */
static void tell_signal(int status) {
    const char *name = status > 128 ? sigabbrev_np(status - 128) : NULL;
    if (name != NULL)
        cli_say("lull-train: ended by SIG%s; what was committed stays: go on "
                "with --resume auto",
                name);
}

/* LAUNCHER FLAGS -n RANKS TRAINER OPTIONS */
static int launch(const char *trainer, const char *ranks, int count,
                  char **options) {
    char launcher[PATH_MAX];
    const flavour_t *flavour = flavour_of(trainer);
    if (flavour == NULL) {
        cli_say("%s: built with no MPI that lull knows", trainer);
        return CLI_FAILED;
    }
    if (!find_launcher(flavour, launcher)) {
        cli_say("%s: no launcher of %s on PATH: install it, or name one in "
                "LULL_MPIRUN",
                trainer, flavour->name);
        return CLI_FAILED;
    }
    char **words = calloc((size_t)count + WORDS_MOST + 8, sizeof *words);
    if (words == NULL) {
        cli_say("out of memory");
        return CLI_FAILED;
    }
    size_t used = 0;
    words[used++] = launcher;
    for (size_t i = 0; flavour->flags[i] != NULL; ++i)
        words[used++] = (char *)flavour->flags[i];
    words[used++] = (char *)"-n";
    words[used++] = (char *)ranks;
    words[used++] = (char *)trainer;
    for (int i = 0; i < count; ++i)
        words[used++] = options[i];
    set_environment();
    int status = run_launcher(words);
    tell_signal(status);
    free(words);
    return status;
}

static bool is_count(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    return end != text && *end == '\0' && value > 0 && value <= INT_MAX;
}

static int run(int argc, char **argv) {
    char trainer[PATH_MAX];
    const char *ranks = "1";
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        cli_print_help(&command_train);
        return CLI_OK;
    }
    while (first < argc && (strcmp(argv[first], "-n") == 0 ||
                            strcmp(argv[first], "--np") == 0)) {
        if (first + 1 == argc || !is_count(argv[first + 1]))
            return cli_usage(&command_train,
                             "%s: give a number of ranks from 1", argv[first]);
        ranks = argv[first + 1];
        first += 2;
    }
    if (!find_trainer(trainer)) {
        cli_say("lull-train: neither beside lull nor on PATH");
        return CLI_FAILED;
    }
    return launch(trainer, ranks, argc - first, argv + first);
}

const command_t command_train = {
    "train",
    "[-n RANKS] OPTION...",
    "Start lull-train under MPI on this host",
    "Starts lull-train beside this program, or on PATH, on RANKS ranks (1)\n"
    "with the launcher of the MPI it was built with; LULL_MPIRUN names\n"
    "another. SIGTERM and SIGUSR1 let the ranks finish their step,\n"
    "checkpoint and exit. The exit status is the launcher's. The options\n"
    "are lull-train's: lull-train --help lists them.",
    NULL,
    0,
    0,
    run,
};
