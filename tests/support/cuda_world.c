/* Loading the driver that tests drive, and what they do with it. */
#include "cuda_world.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test.h"

static cuda_world_t world;
static void *library;

static void leave_skipped(const char *why) {
    printf("skipped: %s\n", why);
    fflush(stdout);
    exit(77);
}

static void check(unsigned result, const char *what) {
    if (result != 0)
        fail_msg("%s: CUDA error %u", what, result);
}
#define CHECK(call) check(world.call, #call)

static void find_symbols(void) {
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define ROW(name, parameters) {#name, offsetof(cuda_world_t, name)},
        CUDA_WORLD_TABLE(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].name);
        if (symbol == NULL) {
            fprintf(stderr, "libcuda.so.1 has no %s\n", rows[i].name);
            exit(1);
        }
        memcpy((char *)&world + rows[i].offset, &symbol, sizeof symbol);
    }
}

static void find_fake(bool real) {
    void *symbol = dlsym(library, FAKE_CUDA_CONTROL);
    if (symbol == NULL && !real) {
        fprintf(stderr, "the fake driver is not on LD_LIBRARY_PATH\n");
        exit(1);
    }
    if (symbol == NULL)
        return;
    if (real)
        leave_skipped("this libcuda.so.1 is the one that tests play");
    fake_cuda_control_fn control;
    memcpy(&control, &symbol, sizeof control);
    world.fake = control();
}

cuda_world_t *cuda_world_begin(void) {
    const char *mode = getenv("LULL_TEST_CUDA");
    bool real = mode != NULL && strcmp(mode, "real") == 0;
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && real)
        leave_skipped(dlerror());
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    find_fake(real);
    find_symbols();
    unsigned result = world.cuInit(0);
    if (result == 0)
        result = world.cuDeviceGetCount(&world.count);
    if (real && (result != 0 || world.count == 0)) {
        char why[80];
        snprintf(why, sizeof why, "no CUDA device (error %u)", result);
        leave_skipped(why);
    }
    if (result != 0 || world.cuDevicePrimaryCtxRetain(&world.context, 0) != 0 ||
        world.cuCtxPushCurrent_v2(world.context) != 0) {
        fprintf(stderr, "device 0 does not work: CUDA error %u\n", result);
        exit(1);
    }
    return &world;
}

void cuda_world_end(void) {
    lull__cu_context_t popped;
    CHECK(cuCtxPopCurrent_v2(&popped));
    assert_ptr_equal(popped, world.context);
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

void *cuda_world_alloc(size_t bytes) {
    lull__cu_pointer_t data = 0;
    CHECK(cuMemAlloc_v2(&data, bytes));
    return (void *)(uintptr_t)data;
}

void cuda_world_free(void *data) {
    CHECK(cuMemFree_v2((uintptr_t)data));
}

lull_stream_t cuda_world_stream(bool blocking) {
    lull__cu_stream_t stream = NULL;
    CHECK(cuStreamCreate(&stream, blocking ? 0 : 1));
    return (lull_stream_t){stream};
}

void cuda_world_stream_destroy(lull_stream_t stream) {
    CHECK(cuStreamDestroy_v2(stream.handle));
}

static void sleep_ms(void *ms) {
    long n = (long)(intptr_t)ms;
    struct timespec left = {n / 1000, n % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

void cuda_world_late_fill(lull_stream_t stream, double seconds, void *data,
                          unsigned char value, size_t bytes) {
    intptr_t ms = (intptr_t)(1e3 * seconds);
    CHECK(cuLaunchHostFunc(stream.handle, sleep_ms, (void *)ms));
    if (data != NULL)
        CHECK(cuMemsetD8Async((uintptr_t)data, value, bytes, stream.handle));
}

static void await(void *go) {
    while (!__atomic_load_n((bool *)go, __ATOMIC_SEQ_CST))
        sleep_ms((void *)1);
}

void cuda_world_hold(lull_stream_t stream, bool *go) {
    CHECK(cuLaunchHostFunc(stream.handle, await, go));
}

void cuda_world_assert_empty(void) {
    fake_cuda_live_t live;
    world.fake->live(&live);
    assert_int_equal(live.contexts, 1);
    assert_int_equal(live.blocks, 0);
}

void cuda_world_sync(lull_stream_t stream) {
    CHECK(cuStreamSynchronize(stream.handle));
}

void cuda_world_write(void *to, const void *from, size_t bytes) {
    CHECK(cuMemcpyHtoD_v2((uintptr_t)to, from, bytes));
}

void cuda_world_read(void *to, const void *from, size_t bytes) {
    CHECK(cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes));
}
