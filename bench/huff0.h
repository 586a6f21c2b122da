/* The yardstick of expo on bf16: exponents coded by Huff0, zstd's Huffman, all
 * else as it is. Only where bench/CMakeLists.txt found it (BENCH_HUFF0). */
#ifndef BENCH_HUFF0_H
#define BENCH_HUFF0_H

#include <stddef.h>
#include <stdint.h>

/* Most bytes that count values take. */
size_t huff0_bound(size_t count);

/* Returns the bytes of the stream, 0: failed. */
size_t huff0_encode(const uint8_t *values, size_t count, uint8_t *stream);

/* Returns the bytes that were read, 0: failed. */
size_t huff0_decode(const uint8_t *stream, uint8_t *values, size_t count);

#endif
