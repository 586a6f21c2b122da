/* What the AVX-512 encoders of ZFP share: codes of planes, eight blocks a
 * register. Included by zfp_*encode_avx512.c only. */
#ifndef LULL__ZFP_ENCODE_AVX512_H
#define LULL__ZFP_ENCODE_AVX512_H

#include "zfp_avx512.h"

/* Code and its length by nibble | state << 4. States are two bits of masks:
 * 0: n = 1; 1: n = 2; 2: n = 0; 3: n >= 3, where the code is the nibble. */
static const uint8_t plane_code[64] = {
    0, 1, 6, 7,  10, 11, 30, 31, 2, 3, 14, 15, 26, 27, 62, 63,
    0, 1, 2, 3,  12, 13, 14, 15, 4, 5, 6,  7,  28, 29, 30, 31,
    0, 3, 5, 15, 9,  23, 29, 63, 1, 7, 13, 31, 25, 55, 61, 127,
    0, 1, 2, 3,  4,  5,  6,  7,  8, 9, 10, 11, 12, 13, 14, 15,
};
static const uint8_t plane_length[64] = {
    2, 2, 4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 5, 5, 6, 6, 3, 3, 3, 3, 5, 5,
    5, 5, 4, 4, 4, 4, 5, 5, 5, 5, 1, 3, 4, 5, 5, 6, 6, 7, 4, 5, 5, 6,
    5, 6, 6, 7, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
};

/* (a & b) | c. */
static INLINE v and_or(v a, v b, v c) {
    return _mm512_ternarylogic_epi64(a, b, c, 0xea);
}

/* Eight bytes of up to 7 bits in each 64-bit lane, joined to one code; *length
 * in: of each byte, out: of the lane's code. */
static INLINE v join(v code, v *length) {
    v low = _mm512_set1_epi16(0xff), l = *length;
    v high = _mm512_srli_epi16(code, 8);
    high = _mm512_sllv_epi16(high, _mm512_and_si512(l, low));
    code = and_or(code, low, high);
    l = _mm512_maddubs_epi16(l, _mm512_set1_epi8(1));

    low = SET32(0xffff);
    high = _mm512_srli_epi32(code, 16);
    high = _mm512_sllv_epi32(high, _mm512_and_si512(l, low));
    code = and_or(code, low, high);
    l = _mm512_madd_epi16(l, _mm512_set1_epi16(1));

    low = SET64(0xffffffff);
    high = _mm512_srli_epi64(code, 32);
    v first = _mm512_and_si512(l, low);
    high = _mm512_sllv_epi64(high, first);
    code = and_or(code, low, high);
    *length = _mm512_add_epi64(first, _mm512_srli_epi64(l, 32));
    return code;
}

/* Codes of the next eight planes of a half; offset moves past them. */
static INLINE v code_planes(v matrix, v *offset) {
    v columns = SET64(0x0102040810204080);
    v index = _mm512_gf2p8affine_epi64_epi8(columns, matrix, 0);
    v code = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(plane_code));
    v length = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(plane_length));
    code = join(code, &length);
    *offset = _mm512_add_epi64(*offset, length);
    return code;
}

/* Eight codes of `bits` (up to 64) bits, from number `first` on; `before`: of
 * each the one before it, whose last bits are in the byte where it begins.
 * What is shifted out of a word the next store begins with. */
static INLINE void store_codes(uint8_t *dst, v codes, v before, unsigned bits,
                               unsigned first) {
    uint64_t words[8];
    v number = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    v begin =
        _mm512_mullo_epi32(_mm512_add_epi64(number, SET64(first)), SET64(bits));
    v shift = _mm512_and_si512(begin, SET64(7));
    v carry = _mm512_srlv_epi64(before, _mm512_sub_epi64(SET64(bits), shift));
    codes = _mm512_or_si512(_mm512_sllv_epi64(codes, shift), carry);
    _mm512_storeu_si512(words, codes);
    for (unsigned i = 0; i < 8; i++)
        lull__store64(dst + (first + i) * bits / 8, words[i]);
}

#endif
