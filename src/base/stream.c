/* Copies past the cache: SSE2's stores, which every x86-64 has. */
#include "stream.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

static void stream_line(char *to, const char *from) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
}

void lull__stream_copy(void *to, const void *from, size_t bytes) {
    char *out = to;
    const char *in = from;
    size_t lines = (uintptr_t)to % 16 == 0 ? bytes / 64 : 0;
    for (size_t i = 0; i < lines; i++)
        stream_line(out + 64 * i, in + 64 * i);
    memcpy(out + 64 * lines, in + 64 * lines, bytes - 64 * lines);
}

void lull__stream_fence(void) {
    _mm_sfence();
}

#else

void lull__stream_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

void lull__stream_fence(void) {
}

#endif
