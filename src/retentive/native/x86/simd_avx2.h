/* Sixteen floats in two registers. */

#include <immintrin.h>

typedef struct {
    __m256 low, high;
} Vec;

INLINE Vec v_set(float value) { return (Vec){_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
INLINE Vec v_load(const float *from) { return (Vec){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
INLINE void v_store(float *to, Vec a) { _mm256_storeu_ps(to, a.low), _mm256_storeu_ps(to + 8, a.high); }
INLINE Vec v_add(Vec a, Vec b) { return (Vec){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
INLINE Vec v_sub(Vec a, Vec b) { return (Vec){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
INLINE Vec v_mul(Vec a, Vec b) { return (Vec){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
INLINE Vec v_max(Vec a, Vec b) { return (Vec){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
INLINE Vec v_min(Vec a, Vec b) { return (Vec){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
INLINE Vec v_fma(Vec a, Vec b, Vec c)
{
    return (Vec){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
INLINE __m256 v_low(Vec a) { return a.low; }
INLINE __m256 v_high(Vec a) { return a.high; }

INLINE Vec v_from_integers(const int32_t *from)
{
    return (Vec){
        _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)from)),
        _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(from + 8))),
    };
}
INLINE Vec v_from_bytes(const int8_t *from)
{
    return (Vec){
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from))),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(from + 8)))),
    };
}

/* 64 numbers, rounded to the nearest integers and cut at 0 and 255 */
INLINE void v_store_bytes(uint8_t *to, const Vec a[4])
{
    /* Packing works inside each 128 bits, so groups of four are out of order. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int half = 0; half < 2; half++) {
        const Vec *from = a + 2 * half;
        __m256i first = _mm256_packs_epi32(_mm256_cvtps_epi32(from[0].low), _mm256_cvtps_epi32(from[0].high));
        __m256i second = _mm256_packs_epi32(_mm256_cvtps_epi32(from[1].low), _mm256_cvtps_epi32(from[1].high));
        __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
        _mm256_storeu_si256((__m256i *)(to + 32 * half), bytes);
    }
}

/* a * 2^n for integers n that are stored as floats plus 1.5 * 2^23 */
INLINE __m256 v_times_power_half(__m256 a, __m256 n)
{
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
}
INLINE Vec v_times_power(Vec a, Vec n)
{
    return (Vec){v_times_power_half(a.low, n.low), v_times_power_half(a.high, n.high)};
}

#include "simd_both.h"
