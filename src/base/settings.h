/* The one table of settings: name, environment variable, default, help. */
#ifndef LULL__SETTINGS_H
#define LULL__SETTINGS_H

#include "error.h"

/* X(id, name, environment variable, default, values, help). `values`: the
 * words allowed, separated by '|', or NULL for any text. */
#define LULL__SETTINGS_TABLE(X)                                    \
    X(ISA, "isa", "LULL_ISA", "auto", "auto|portable|avx2|avx512", \
      "instruction set of the codecs")                             \
    X(IO, "io", "LULL_IO", "auto", "auto|threads|uring",           \
      "how checkpoints are read and written")                      \
    X(HOST_RANKS, "host-ranks", "LULL_HOST_RANKS", "0", NULL,      \
      "hier=1 takes so many ranks for a host; 0 asks MPI")         \
    X(DOUBT_MS, "doubt-ms", "LULL_DOUBT_MS", "10000", NULL,        \
      "ranks that wait compare their calls after so long; 0: never")

typedef enum lull__setting_id {
#define LULL__SETTING_ENUM(id, name, env, def, values, help) LULL__SETTING_##id,
    LULL__SETTINGS_TABLE(LULL__SETTING_ENUM)
#undef LULL__SETTING_ENUM
        LULL__SETTING_COUNT
} lull__setting_id_t;

/* The value in force: the program's, else the environment's, else the
 * default. A value of the environment that is not allowed is logged once and
 * counts as unset. Never NULL; valid until lull_setting_set. */
LULL_PRIVATE const char *lull__setting(lull__setting_id_t id);

/* Rises with each lull_setting_set(), so that what was resolved from settings
 * can be cached. Starts at 0. */
LULL_PRIVATE unsigned lull__setting_generation(void);

#endif
