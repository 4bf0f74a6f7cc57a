#include <immintrin.h>

#define POPCNT __attribute__((target("popcnt")))
#define FMA __attribute__((target("avx2,fma")))
#define VPOPCNT __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt")))

static int can_scan(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int counts_vectors(void)
{
    return __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

/* Store the distances of all codes but the last ones, which do not fill a register; return their number. */
VPOPCNT static int64_t distances_of_vectors(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
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
    return at;
}

typedef __m256 Eight;

FMA static inline Eight multiply_add(const int8_t *bytes, const float *floats, Eight sum)
{
    __m256 converted = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)bytes)));
    return _mm256_fmadd_ps(converted, _mm256_loadu_ps(floats), sum);
}

FMA static inline Eight add(Eight a, Eight b)
{
    return _mm256_add_ps(a, b);
}

FMA static inline void store_eight(float *to, Eight a)
{
    _mm256_storeu_ps(to, a);
}
