/* Loading the CUDA driver, and the one place that turns its results into
 * statuses. */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define LIBRARY "libcuda.so.1"

static const struct {
    lull__cu_enum_t result;
    const char *name;
    lull_status_t status;
    const char *meaning;
} results[] = {
#define ROW(number, name, status, meaning) \
    {number, "CUDA_ERROR_" #name, LULL_ERR_##status, meaning},
    LULL__CUDA_RESULTS(ROW)
#undef ROW
};

lull_status_t lull__cuda_fail(const lull__cuda_t *cu, lull__cu_enum_t result,
                              const char *format, ...) {
    char what[LULL__SENTENCE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    lull_status_t status = LULL_ERR_DEVICE;
    const char *meaning = NULL, *name = NULL;
    char number[32];
    snprintf(number, sizeof number, "CUDA error %u", result);
    const char *known = number;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) {
            known = results[i].name;
            status = results[i].status;
            meaning = results[i].meaning;
        }
    if (cu->cuGetErrorName(result, &name) != LULL__CU_SUCCESS || name == NULL)
        name = known; /* as a stub, or an older driver, does */
    return lull__fail(status, "%s: %s%s%s", what, name, meaning ? ": " : "",
                      meaning ? meaning : "");
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lull__cuda_t driver;
static void *library;
static bool symbols, ready;
static pid_t ready_pid;

static lull_status_t find_symbols(void) {
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define ROW(name, parameters) {#name, offsetof(lull__cuda_t, name)},
        LULL__CUDA_TABLE(ROW)
#undef ROW
    };
    if (library == NULL)
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return lull__fail(LULL_ERR_UNSUPPORTED, "no CUDA driver: %s",
                          dlerror());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].name);
        if (symbol == NULL)
            return lull__fail(LULL_ERR_UNSUPPORTED, LIBRARY " has no %s: %s",
                              rows[i].name, LULL__CUDA_NEWER);
        memcpy((char *)&driver + rows[i].offset, &symbol, sizeof symbol);
    }
    symbols = true;
    return LULL_OK;
}

static lull_status_t initialise(void) {
    int version = 0;
    lull__cu_enum_t result = driver.cuDriverGetVersion(&version);
    if (result != 0)
        return lull__cuda_fail(&driver, result, "asking for CUDA's version");
    if (version < LULL__CU_VERSION_MIN)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "the driver's CUDA is %d.%d, lull needs %d.%d: %s",
                          version / 1000, version % 1000 / 10,
                          LULL__CU_VERSION_MIN / 1000,
                          LULL__CU_VERSION_MIN % 1000 / 10, LULL__CUDA_NEWER);
    result = driver.cuInit(0);
    if (result != 0)
        return lull__cuda_fail(&driver, result, "initialising CUDA");
    ready_pid = getpid();
    ready = true;
    return LULL_OK;
}

lull_status_t lull__cuda_load(const lull__cuda_t **out) {
    lull_status_t status = LULL_OK;
    pthread_mutex_lock(&lock);
    if (!symbols)
        status = find_symbols();
    if (status == LULL_OK && !ready)
        status = initialise();
    pid_t pid = ready_pid;
    pthread_mutex_unlock(&lock);
    if (status != LULL_OK)
        return status;
    if (pid != getpid())
        return lull__fail(LULL_ERR_FORKED,
                          "CUDA was initialised before fork: it does not "
                          "work in a child");
    *out = &driver;
    return LULL_OK;
}
