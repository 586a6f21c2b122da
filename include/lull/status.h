/* Status codes, error sentences, the log callback and the version.
 *
 * Every call of the library that can fail returns a lull_status_t: 0 is
 * success, failures are negative and their values never change. A failing
 * call also leaves a sentence (what failed, on what, why) for its thread:
 * lull_last_error(). Outputs are written only on success unless a function
 * says otherwise. */
#ifndef LULL_STATUS_H
#define LULL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define LULL_API __attribute__((visibility("default")))

#define LULL_VERSION_MAJOR 0
#define LULL_VERSION_MINOR 1
#define LULL_VERSION_PATCH 0
#define LULL_VERSION_STRING "0.1.0"

/* X(name, value, text): the one list of statuses. Values are pinned for ever;
 * new ones are appended. */
#define LULL_STATUS_TABLE(X)                                                 \
    X(OK, 0, "success")                                                      \
    X(ERR_INVALID, -1, "invalid argument")                                   \
    X(ERR_NO_MEMORY, -2, "out of memory")                                    \
    X(ERR_IO, -3, "input or output failed")                                  \
    X(ERR_NO_SPACE, -4, "no space left or quota exceeded")                   \
    X(ERR_NOT_FOUND, -5, "not found")                                        \
    X(ERR_CORRUPT, -6, "data is corrupt")                                    \
    X(ERR_UNSUPPORTED, -7, "not supported")                                  \
    X(ERR_TIMEOUT, -8, "timed out")                                          \
    X(ERR_BUSY, -9, "in use by another run")                                 \
    X(ERR_CANCELLED, -10, "cancelled")                                       \
    X(ERR_MISMATCH, -11, "ranks, shapes or arguments disagree")              \
    X(ERR_OUTCOME_UNKNOWN, -12, "the outcome is not known to this rank")     \
    X(ERR_DURABILITY_UNKNOWN, -13, "published, but durability is not known") \
    X(ERR_ABORTED, -14, "aborted by the coordinator or another rank")        \
    X(ERR_FORKED, -15, "not usable in a forked child")                       \
    X(ERR_MPI, -16, "MPI failed")                                            \
    X(ERR_CAPACITY, -17, "the output buffer is too small")                   \
    X(ERR_VERSION, -18, "unknown format version")                            \
    X(ERR_STATE, -19, "not allowed in this state")                           \
    X(ERR_MUTATED, -20, "a tensor changed while it was being copied")        \
    X(ERR_DEVICE, -21, "the device failed")                                  \
    X(ERR_PERMISSION, -22, "permission denied")                              \
    X(ERR_PEER, -23, "a peer rank reported an error")                        \
    X(ERR_INTERNAL, -24, "internal error")

typedef enum lull_status {
#define LULL_STATUS_ENUM_(name, value, text) LULL_##name = (value),
    LULL_STATUS_TABLE(LULL_STATUS_ENUM_)
#undef LULL_STATUS_ENUM_
} lull_status_t;

/* The name ("LULL_ERR_IO") and the text ("input or output failed") of a
 * status; for a value that is none, "LULL_UNKNOWN" and "unknown status".
 * Static strings; any thread. */
LULL_API const char *lull_status_name(lull_status_t status);
LULL_API const char *lull_status_text(lull_status_t status);

/* The sentence of this thread's last failing call: what failed, on what, why,
 * with the path, rank, tensor or errno; "" before the first failure. Owned by
 * the library, valid until this thread's next call into it. */
LULL_API const char *lull_last_error(void);

/* Version of the library that runs, as "0.1.0" (LULL_VERSION_STRING is that
 * of the header). */
LULL_API const char *lull_version(void);

typedef enum lull_log_level {
    LULL_LOG_ERROR = 0,
    LULL_LOG_WARN = 1,
    LULL_LOG_INFO = 2,
    LULL_LOG_DEBUG = 3
} lull_log_level_t;

/* One line of log, without a newline, valid during the call. May be called
 * from any thread of the library, one call at a time. It must not call back
 * into the library except lull_status_*(). */
typedef void (*lull_log_fn)(void *ctx, lull_log_level_t level,
                            const char *line);

/* Sets where log lines up to `level` go, for the whole process; NULL (the
 * default) drops them. The library itself never prints. Any thread. */
LULL_API void lull_log_set(lull_log_fn fn, void *ctx, lull_log_level_t level);

/* One setting of the library (a row of its settings table). All strings are
 * static or owned by the library until the next lull_setting_set(). */
typedef struct lull_setting {
    const char *name;          /* "isa" */
    const char *env;           /* "LULL_ISA" */
    const char *value;         /* in force now */
    const char *default_value; /* built in */
    const char *source;        /* "default", "environment" or "program" */
    const char *help;          /* one line */
} lull_setting_t;

/* Row `index` of the settings, counted from 0; LULL_ERR_NOT_FOUND past the
 * last. Not safe beside lull_setting_set(). */
LULL_API lull_status_t lull_setting_at(unsigned index, lull_setting_t *out);

/* Sets a setting by name, over the environment. Call it before the first use
 * of what it governs. LULL_ERR_NOT_FOUND: no such setting. LULL_ERR_INVALID:
 * not a value for it. */
LULL_API lull_status_t lull_setting_set(const char *name, const char *value);

#ifdef __cplusplus
}
#endif

#endif
