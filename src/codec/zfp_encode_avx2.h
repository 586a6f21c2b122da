/* What the AVX2 encoders of ZFP share: codes of planes, four blocks a register.
 * Included by zfp_*encode_avx2.c only. */
#ifndef LULL__ZFP_ENCODE_AVX2_H
#define LULL__ZFP_ENCODE_AVX2_H

#include "zfp_avx2.h"

static INLINE v bytes16(const uint8_t table[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
}

/* Leading zeros, at most 31: without bit 0, and with the second of two set
 * bits in a row cleared so that the conversion does not round up. */
static INLINE v leading_zeros(v x) {
    v half = _mm256_srli_epi32(x, 1);
    v high = _mm256_andnot_si256(_mm256_srli_epi32(half, 1), half);
    v exponent =
        _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(high)), 23);
    return _mm256_min_epi32(_mm256_sub_epi32(SET32(157), exponent), SET32(31));
}

/* Exchanges the bits of mask with those `shift` above them. */
static INLINE v exchange(v x, uint64_t mask, int shift) {
    v t = _mm256_xor_si256(x, _mm256_srli_epi64(x, shift));
    t = _mm256_and_si256(t, SET64(mask));
    return _mm256_xor_si256(_mm256_xor_si256(x, t),
                            _mm256_slli_epi64(t, shift));
}

/* Bit j of byte i to bit i of byte 7 - j of each 64-bit lane. */
static INLINE v transpose_bits(v x) {
    x = exchange(x, 0x00aa00aa00aa00aa, 7);
    x = exchange(x, 0x0000cccc0000cccc, 14);
    x = exchange(x, 0x00000000f0f0f0f0, 28);
    return _mm256_shuffle_epi8(x, _mm256_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15,
                                                   14, 13, 12, 11, 10, 9, 8, 7,
                                                   6, 5, 4, 3, 2, 1, 0, 15, 14,
                                                   13, 12, 11, 10, 9, 8));
}

/* By nibble and state: rows of the tables in zfp_encode_avx512.h; where n >= 3
 * the code is the nibble and takes 4 bits. */
static INLINE v look_up(const uint8_t table[3][16], v nibble, v index,
                        v verbatim) {
    v state0 = _mm256_slli_epi16(index, 3),
      state1 = _mm256_slli_epi16(index, 2);
    v low = _mm256_blendv_epi8(_mm256_shuffle_epi8(bytes16(table[0]), nibble),
                               _mm256_shuffle_epi8(bytes16(table[1]), nibble),
                               state0);
    v high = _mm256_blendv_epi8(_mm256_shuffle_epi8(bytes16(table[2]), nibble),
                                verbatim, state0);
    return _mm256_blendv_epi8(low, high, state1);
}

static const uint8_t plane_code[3][16] = {
    {0, 1, 6, 7, 10, 11, 30, 31, 2, 3, 14, 15, 26, 27, 62, 63},
    {0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 28, 29, 30, 31},
    {0, 3, 5, 15, 9, 23, 29, 63, 1, 7, 13, 31, 25, 55, 61, 127},
};
static const uint8_t plane_length[3][16] = {
    {2, 2, 4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 5, 5, 6, 6},
    {3, 3, 3, 3, 5, 5, 5, 5, 4, 4, 4, 4, 5, 5, 5, 5},
    {1, 3, 4, 5, 5, 6, 6, 7, 4, 5, 5, 6, 5, 6, 6, 7},
};

/* Eight bytes of up to 7 bits in each 64-bit lane, joined to one code; *length
 * in: of each byte, out: of the lane's code. */
static INLINE v join(v code, v *length) {
    static const uint8_t powers[16] = {1, 2, 4, 8, 16, 32, 64, 128};
    v l = *length;
    v power = _mm256_shuffle_epi8(bytes16(powers), l);
    v factors =
        _mm256_or_si256(_mm256_slli_epi16(power, 8), _mm256_set1_epi16(1));
    code = _mm256_maddubs_epi16(factors, code);
    l = _mm256_maddubs_epi16(l, _mm256_set1_epi8(1));

    v low = SET32(0xffff);
    v high = _mm256_srli_epi32(code, 16);
    high = _mm256_sllv_epi32(high, _mm256_and_si256(l, low));
    code = _mm256_or_si256(_mm256_and_si256(code, low), high);
    l = _mm256_madd_epi16(l, _mm256_set1_epi16(1));

    low = SET64(0xffffffff);
    high = _mm256_srli_epi64(code, 32);
    v first = _mm256_and_si256(l, low);
    high = _mm256_sllv_epi64(high, first);
    code = _mm256_or_si256(_mm256_and_si256(code, low), high);
    *length = _mm256_add_epi64(first, _mm256_srli_epi64(l, 32));
    return code;
}

/* Codes of the next eight planes of four blocks; offset moves past them. */
static INLINE v code_planes(v rows, v *offset) {
    v index = transpose_bits(rows);
    v nibble = _mm256_and_si256(index, _mm256_set1_epi8(15));
    v code = look_up(plane_code, nibble, index, nibble);
    v length = look_up(plane_length, nibble, index, _mm256_set1_epi8(4));
    code = join(code, &length);
    *offset = _mm256_add_epi64(*offset, length);
    return code;
}

/* The highest byte of each word of `width` bytes to its byte `to`. */
static INLINE v top_byte(v x, int width, int to) {
    char map[16];
    for (int i = 0; i < 16; i++)
        map[i] = (char)(i % width == to ? i - to + width - 1 : -1);
    return _mm256_shuffle_epi8(
        x, _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)map)));
}

#endif
