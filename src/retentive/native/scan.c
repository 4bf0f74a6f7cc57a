/* Compares the vectors of many memories with that of a query. `retentive.stores.sqlite.vector_codes` describes the
   steps, and does the same with numpy where this library cannot be used. */

#include <stdint.h>

#include "export.h"

#define OUTSIDE(words) (64 * (words) + 1) /* larger than any distance */
#define ROWS_AHEAD 8

#ifdef __x86_64__
#include "x86/scan.h"
#else
#include "arm/scan.h"
#endif

/* Whether this processor has what all of these functions need. */
EXPORT int32_t scan_supported(void)
{
    return can_scan();
}

POPCNT static void distances_from(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                                  const uint8_t *inside, int64_t first, int64_t count, uint16_t *distances)
{
    for (int64_t at = first; at < count; at++) {
        int64_t sum = 0;
        for (int32_t word = 0; word < words; word++)
            sum += __builtin_popcountll(codes[word * stride + at] ^ code[word]);
        distances[at] = inside[at] ? (uint16_t)sum : (uint16_t)OUTSIDE(words);
    }
}

/* The Hamming distance of each code to one; word w of code c is codes[w * stride + c]. One
   that is larger than any other where `inside` is 0. */
EXPORT void scan_distances(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                           const uint8_t *inside, int64_t count, uint16_t *distances)
{
    int64_t done = counts_vectors() ? distances_of_vectors(codes, stride, words, code, inside, count, distances) : 0;
    distances_from(codes, stride, words, code, inside, done, count, distances);
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
                __builtin_prefetch(codes + word * stride + places[at + ROWS_AHEAD]);
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

/* The dot products of some rows of bytes with a vector. The sums are made in the same order on every processor. */
FMA EXPORT void scan_bytes(const int8_t *rows, int64_t dimension, const int32_t *numbers, int64_t count,
                           const float *vector, float *products)
{
    for (int64_t at = 0; at < count; at++) {
        const int8_t *row = rows + numbers[at] * dimension;
        if (at + ROWS_AHEAD < count)
            for (int64_t byte = 0; byte < dimension; byte += 64)
                __builtin_prefetch(rows + numbers[at + ROWS_AHEAD] * dimension + byte);
        const Eight zero = {0};
        Eight sums[4] = {zero, zero, zero, zero};
        int64_t d = 0;
        for (; d + 32 <= dimension; d += 32)
            for (int part = 0; part < 4; part++)
                sums[part] = multiply_add(row + d + 8 * part, vector + d + 8 * part, sums[part]);
        float lanes[8], product = 0;
        store_eight(lanes, add(add(sums[0], sums[1]), add(sums[2], sums[3])));
        for (int lane = 0; lane < 8; lane++)
            product += lanes[lane];
        for (; d < dimension; d++)
            product += (float)row[d] * vector[d];
        products[at] = product;
    }
}
