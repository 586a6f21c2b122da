/* A CUDA driver that tests play: libcuda.so.1 with the entry points that lull
 * and its tests use. Device memory cannot be touched by the CPU except through
 * it, streams are threads, copies take the time of a settable bandwidth, and
 * every call can be made to fail. It is stricter than CUDA where CUDA is only
 * undefined: dead handles, ranges past an allocation, host memory that is
 * pinned in part are errors.
 *
 * Environment, read at the first call: FAKE_CUDA_DEVICES (1), _VERSION (12080),
 * _GBPS (20), _INIT (the result of cuInit: 0), _KERNEL_MS (2: what any kernel
 * takes). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>

/* What exists now. */
typedef struct fake_cuda_live {
    int contexts; /* retained */
    int streams, events, pins, blocks;
} fake_cuda_live_t;

typedef struct fake_cuda_control {
    /* Injections, broken devices, limits and the log go; settings are those
     * of the environment. What lives stays. */
    void (*reset)(void);
    /* The nth call from now (counted from 1) of the entry point `name` ("*":
     * any) fails with `result`. What releases something does so still. */
    void (*inject)(const char *name, unsigned nth, unsigned result);
    /* Has it happened? */
    int (*injected)(void);
    /* From now on all fails on this device, as after a sticky error. */
    void (*break_device)(int ordinal, unsigned result);
    /* As a kernel that fails when the stream gets to it. */
    void (*break_in_stream)(void *stream, unsigned result);
    /* Largest pin in one call and of all together, in bytes. */
    void (*pin_limits)(size_t one, size_t all);
    void (*set_gbps)(double gbps);
    void (*set_devices)(int count);
    void (*set_version)(int version);
    /* Calls of an entry point ("*": all) since reset. */
    unsigned (*calls)(const char *name);
    /* The index-th call since reset; NULL past the last (65536 are kept). */
    const char *(*log_at)(unsigned index);
    void (*live)(fake_cuda_live_t *out);
    /* Waits on events without CU_EVENT_BLOCKING_SYNC, which spin. */
    unsigned (*spins)(void);
} fake_cuda_control_t;

/* The one symbol that a real driver does not have. */
#define FAKE_CUDA_CONTROL "fake_cuda_control"
typedef const fake_cuda_control_t *(*fake_cuda_control_fn)(void);

#endif
