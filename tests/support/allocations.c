/* Allocators that fail when told, and are counted. */
#include "allocations.h"

#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>

static uint64_t count, fail_at, held, most_held;

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

uint64_t allocations_held(uint64_t *most) {
    uint64_t now = __atomic_load_n(&held, __ATOMIC_SEQ_CST);
    *most = __atomic_exchange_n(&most_held, now, __ATOMIC_SEQ_CST);
    return now;
}

static uint64_t size_of(void *block) {
    return block ? malloc_usable_size(block) : 0;
}

static void hold(uint64_t more) {
    uint64_t now = __atomic_add_fetch(&held, more, __ATOMIC_SEQ_CST);
    uint64_t most = __atomic_load_n(&most_held, __ATOMIC_SEQ_CST);
    while (now > most &&
           !__atomic_compare_exchange_n(&most_held, &most, now, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

/* A block, in the place of one of `before` bytes. */
static void *took(uint64_t before, void *block) {
    if (block != NULL)
        hold(size_of(block) - before);
    return block;
}

#define WRAP(type, name, old, parameters, arguments)  \
    type __real_##name parameters;                    \
    type __wrap_##name parameters;                    \
    type __wrap_##name parameters {                   \
        uint64_t before = size_of(old);               \
        if (refuse())                                 \
            return NULL;                              \
        return took(before, __real_##name arguments); \
    }
WRAP(void *, malloc, NULL, (size_t bytes), (bytes))
WRAP(void *, calloc, NULL, (size_t number, size_t bytes), (number, bytes))
WRAP(void *, realloc, block, (void *block, size_t bytes), (block, bytes))
WRAP(void *, reallocarray, block, (void *block, size_t number, size_t bytes),
     (block, number, bytes))
WRAP(void *, aligned_alloc, NULL, (size_t align, size_t bytes), (align, bytes))
WRAP(char *, strdup, NULL, (const char *text), (text))
WRAP(char *, strndup, NULL, (const char *text, size_t most), (text, most))

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
    __atomic_sub_fetch(&held, size_of(block), __ATOMIC_SEQ_CST);
    __real_free(block);
}

/* No blocks of malloc's. */
void *__real_lull__pages_alloc(size_t bytes);
void *__wrap_lull__pages_alloc(size_t bytes);
void *__wrap_lull__pages_alloc(size_t bytes) {
    void *data = refuse() ? NULL : __real_lull__pages_alloc(bytes);
    hold(data != NULL ? bytes : 0);
    return data;
}

void __real_lull__pages_free(void *data, size_t bytes);
void __wrap_lull__pages_free(void *data, size_t bytes);
void __wrap_lull__pages_free(void *data, size_t bytes) {
    if (data != NULL)
        __atomic_sub_fetch(&held, bytes, __ATOMIC_SEQ_CST);
    __real_lull__pages_free(data, bytes);
}

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
    (void)took(0, n < 0 ? NULL : *out);
    return n;
}
