/* Sixteen floats in one register. */

#include <immintrin.h>

typedef __m512 Vec;

INLINE Vec v_set(float value) { return _mm512_set1_ps(value); }
INLINE Vec v_load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void v_store(float *to, Vec a) { _mm512_storeu_ps(to, a); }
INLINE Vec v_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
INLINE Vec v_sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
INLINE Vec v_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
INLINE Vec v_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE Vec v_max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
INLINE Vec v_min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
INLINE __m256 v_low(Vec a) { return _mm512_castps512_ps256(a); }
INLINE __m256 v_high(Vec a) { return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1)); }

INLINE Vec v_from_integers(const int32_t *from) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(from)); }
INLINE Vec v_from_bytes(const int8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

/* 64 numbers, rounded to the nearest integers and cut at 0 and 255 */
INLINE void v_store_bytes(uint8_t *to, const Vec a[4])
{
    __m512i first = _mm512_packs_epi32(_mm512_cvtps_epi32(a[0]), _mm512_cvtps_epi32(a[1]));
    __m512i second = _mm512_packs_epi32(_mm512_cvtps_epi32(a[2]), _mm512_cvtps_epi32(a[3]));
    /* Packing works inside each 128 bits, so groups of four are out of order. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, second)));
}

/* a * 2^n for integers n that are stored as floats plus 1.5 * 2^23 */
INLINE Vec v_times_power(Vec a, Vec n)
{
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(a), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

#include "simd_both.h"
