/* Compares the vectors of many memories with that of a query. `retentive.stores.sqlite.vector_codes` describes the
   steps, and does the same with numpy where this library cannot be used. */

#include <immintrin.h>
#include <stdint.h>

#include "export.h"

#define POPCNT __attribute__((target("popcnt")))
#define AVX2 __attribute__((target("avx2,fma")))
#define VPOPCNT __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt")))

#define OUTSIDE(words) (64 * (words) + 1) /* larger than any distance */
#define ROWS_AHEAD 8

/* Whether this processor has what all of these functions need. */
EXPORT int32_t scan_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_vector_popcnt(void)
{
    return __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

POPCNT static void distances_popcnt(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                                    const uint8_t *inside, int64_t first, int64_t count, uint16_t *distances)
{
    for (int64_t at = first; at < count; at++) {
        int64_t sum = 0;
        for (int32_t word = 0; word < words; word++)
            sum += __builtin_popcountll(codes[word * stride + at] ^ code[word]);
        distances[at] = inside[at] ? (uint16_t)sum : (uint16_t)OUTSIDE(words);
    }
}

VPOPCNT static void distances_vector(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                                     const uint8_t *inside, int64_t count, uint16_t *distances)
{
    int64_t at = 0;
    for (; at + 16 <= count; at += 16) {
        __m512i low = _mm512_setzero_si512(), high = low;
        for (int32_t word = 0; word < words; word++) {
            const __m512i query = _mm512_set1_epi64((int64_t)code[word]);
            const uint64_t *from = codes + word * stride + at;
            low = _mm512_add_epi64(low, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(from), query)));
            high = _mm512_add_epi64(high, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(from + 8), query)));
        }
        __m256i sums = _mm256_set_m128i(_mm512_cvtepi64_epi16(high), _mm512_cvtepi64_epi16(low));
        __m128i flags = _mm_loadu_si128((const __m128i *)(inside + at));
        __mmask16 outside = _mm_cmpeq_epi8_mask(flags, _mm_setzero_si128());
        _mm256_storeu_si256((__m256i *)(distances + at),
                            _mm256_mask_mov_epi16(sums, outside, _mm256_set1_epi16((int16_t)OUTSIDE(words))));
    }
    distances_popcnt(codes, stride, words, code, inside, at, count, distances);
}

/* The Hamming distance of each code to one; word w of code c is codes[w * stride + c]. One
   that is larger than any other where `inside` is 0. */
EXPORT void scan_distances(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                           const uint8_t *inside, int64_t count, uint16_t *distances)
{
    if (has_vector_popcnt())
        distances_vector(codes, stride, words, code, inside, count, distances);
    else
        distances_popcnt(codes, stride, words, code, inside, 0, count, distances);
}

/* The dot products of a vector with the signs of some codes, less a constant. The vector is given as bit planes of its
   rounded numbers, with the weight of each plane; plane p has the words planes[p * words] and following. The sums are
   made in the order of the planes, as numpy makes them. */
POPCNT EXPORT void scan_signs(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *planes,
                              const float *weights, int32_t plane_count, const int64_t *places, int64_t count,
                              float *products)
{
    for (int64_t at = 0; at < count; at++) {
        const uint64_t *code = codes + places[at];
        if (at + ROWS_AHEAD < count)
            for (int32_t word = 0; word < words; word++)
                _mm_prefetch((const char *)(codes + word * stride + places[at + ROWS_AHEAD]), _MM_HINT_T0);
        float product = 0;
        for (int32_t plane = 0; plane < plane_count; plane++) {
            int64_t common = 0;
            for (int32_t word = 0; word < words; word++)
                common += __builtin_popcountll(code[word * stride] & planes[plane * words + word]);
            product += weights[plane] * (float)common;
        }
        products[at] = product;
    }
}

AVX2 static inline __m256 eight_bytes(const int8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}

/* The dot products of some rows of bytes with a vector. */
AVX2 EXPORT void scan_bytes(const int8_t *rows, int64_t dimension, const int32_t *numbers, int64_t count,
                            const float *vector, float *products)
{
    for (int64_t at = 0; at < count; at++) {
        const int8_t *row = rows + numbers[at] * dimension;
        if (at + ROWS_AHEAD < count)
            for (int64_t byte = 0; byte < dimension; byte += 64)
                _mm_prefetch((const char *)rows + numbers[at + ROWS_AHEAD] * dimension + byte, _MM_HINT_T0);
        __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
        int64_t d = 0;
        for (; d + 32 <= dimension; d += 32)
            for (int part = 0; part < 4; part++)
                sums[part] = _mm256_fmadd_ps(eight_bytes(row + d + 8 * part), _mm256_loadu_ps(vector + d + 8 * part),
                                             sums[part]);
        float lanes[8], product = 0;
        _mm256_storeu_ps(lanes, _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
        for (int lane = 0; lane < 8; lane++)
            product += lanes[lane];
        for (; d < dimension; d++)
            product += (float)row[d] * vector[d];
        products[at] = product;
    }
}
