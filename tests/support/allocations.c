/* Allocators that fail when told. */
#include "allocations.h"

#include <stdarg.h>
#include <stddef.h>

static uint64_t count, fail_at;

bool allocations_arm(uint64_t n) {
    bool reached =
        allocations_count() >= __atomic_load_n(&fail_at, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fail_at, n, __ATOMIC_SEQ_CST);
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
    return reached;
}

uint64_t allocations_count(void) {
    return __atomic_load_n(&count, __ATOMIC_SEQ_CST);
}

static bool refuse(void) {
    return __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) ==
           __atomic_load_n(&fail_at, __ATOMIC_SEQ_CST);
}

/* Weak: a program links to no more of these than its linker was told of. */
#define WRAP(type, name, parameters, arguments)                 \
    type __real_##name parameters __attribute__((weak));        \
    type __wrap_##name parameters;                              \
    type __wrap_##name parameters {                             \
        return refuse() ? (type)NULL : __real_##name arguments; \
    }
WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t number, size_t bytes), (number, bytes))
WRAP(void *, realloc, (void *old, size_t bytes), (old, bytes))
WRAP(void *, reallocarray, (void *old, size_t number, size_t bytes),
     (old, number, bytes))
WRAP(void *, aligned_alloc, (size_t align, size_t bytes), (align, bytes))
WRAP(void *, lull__pages_alloc, (size_t bytes), (bytes))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t most), (text, most))

/* An asprintf() is a vasprintf(). */
int vasprintf(char **out, const char *format, va_list list);
int __wrap_asprintf(char **out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...) {
    va_list list;
    if (refuse())
        return -1;
    va_start(list, format);
    int n = vasprintf(out, format, list);
    va_end(list);
    return n;
}
