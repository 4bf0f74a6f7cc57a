/* Dot products on 64-bit ARM: with NEON, which every such processor has, and faster with its instruction for them. */

#include <arm_neon.h>

#include "bert.h"

#ifdef __linux__
#include <sys/auxv.h>
#endif

#ifdef __ARM_FEATURE_DOTPROD /* all code is compiled for it */
#define DOTPROD
#else
#define DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

/* Four rows and sixteen columns at a time. The instructions multiply signed bytes: 128 is subtracted from each byte of a
   row, and 128 times the sum of each column is what a product begins with. `ADD_DOTS(sum, weights, bytes, four)` adds to
   four columns the dot products of their weights and the four bytes with this number. */
#define DEFINE_DOTS(name, target, ADD_DOTS) \
    target static void name(const Product *product, int32_t column, const uint8_t *input, int32_t stride, int32_t rows, \
                            int32_t *found) \
    { \
        for (int row = 0; row < rows; row += 4) \
            for (int half = 0; half < 2; half++) { \
                const int8_t *tile = weights_of(product, column) + half * TILE; \
                int32x4_t sum[4][4]; \
                for (int k = 0; k < 4; k++) { \
                    float32x4_t sums = vld1q_f32(product->sums + column + half * 16 + k * 4); \
                    for (int r = 0; r < 4; r++) \
                        sum[r][k] = vmulq_n_s32(vcvtq_s32_f32(sums), 128); \
                } \
                for (int at = 0; at < product->inputs; at += 16) { \
                    const int8_t *lines = tile + at / STEP * 2 * TILE + at % STEP / 4 * 64; \
                    int8x16_t bytes[4]; \
                    for (int r = 0; r < 4; r++) \
                        bytes[r] = vreinterpretq_s8_u8( \
                            veorq_u8(vld1q_u8(input + (size_t)(row + r) * stride + at), vdupq_n_u8(128))); \
                    for (int k = 0; k < 4; k++) \
                        for (int r = 0; r < 4; r++) { \
                            sum[r][k] = ADD_DOTS(sum[r][k], vld1q_s8(lines + k * 16), bytes[r], 0); \
                            sum[r][k] = ADD_DOTS(sum[r][k], vld1q_s8(lines + 64 + k * 16), bytes[r], 1); \
                            sum[r][k] = ADD_DOTS(sum[r][k], vld1q_s8(lines + 128 + k * 16), bytes[r], 2); \
                            sum[r][k] = ADD_DOTS(sum[r][k], vld1q_s8(lines + 192 + k * 16), bytes[r], 3); \
                        } \
                } \
                for (int r = 0; r < 4; r++) \
                    for (int k = 0; k < 4; k++) \
                        vst1q_s32(found + (row + r) * COLUMNS + half * 16 + k * 4, sum[r][k]); \
            } \
    }

/* Two products are added in 16 bits, which has room for them: 2 * 128 * 127 is less than 2^15. */
static inline int32x4_t multiply_add(int32x4_t sum, int8x16_t weights, int8x16_t bytes)
{
    int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(bytes)), high = vmull_high_s8(weights, bytes);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

#define MULTIPLY_ADD(sum, weights, bytes, four) \
    multiply_add(sum, weights, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(bytes), four)))

DEFINE_DOTS(dots_neon, , MULTIPLY_ADD)
DEFINE_DOTS(dots_dotprod, DOTPROD, vdotq_laneq_s32)

static int has_neon(void)
{
    return 1;
}

static int has_dotprod(void)
{
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
    return 1;
#else
    return 0;
#endif
}

const InstructionSet instruction_sets[] = {
    {5, has_neon, encode_neon, dots_neon},
    {6, has_dotprod, encode_neon, dots_dotprod},
    {0},
};
