#include <arm_neon.h>

#define POPCNT
#define FMA

static int can_scan(void)
{
    return 1;
}

static int counts_vectors(void)
{
    return 1;
}

/* Store the distances of all codes but the last ones, which do not fill a register; return their number. */
static int64_t distances_of_vectors(const uint64_t *codes, int64_t stride, int32_t words, const uint64_t *code,
                                    const uint8_t *inside, int64_t count, uint16_t *distances)
{
    int64_t at = 0;
    for (; at + 8 <= count; at += 8) {
        uint16x8_t pairs[4] = {vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0)};
        for (int32_t word = 0; word < words; word++)
            for (int pair = 0; pair < 4; pair++) {
                uint64x2_t two = vld1q_u64(codes + word * stride + at + 2 * pair);
                uint8x16_t bits = vreinterpretq_u8_u64(veorq_u64(two, vdupq_n_u64(code[word])));
                pairs[pair] = vpadalq_u8(pairs[pair], vcntq_u8(bits));
            }
        uint16x8_t sums = vpaddq_u16(vpaddq_u16(pairs[0], pairs[1]), vpaddq_u16(pairs[2], pairs[3]));
        uint16x8_t outside = vceqzq_u16(vmovl_u8(vld1_u8(inside + at)));
        vst1q_u16(distances + at, vbslq_u16(outside, vdupq_n_u16((uint16_t)OUTSIDE(words)), sums));
    }
    return at;
}

typedef struct {
    float32x4_t low, high;
} Eight;

static inline Eight multiply_add(const int8_t *bytes, const float *floats, Eight sum)
{
    int16x8_t wide = vmovl_s8(vld1_s8(bytes));
    sum.low = vfmaq_f32(sum.low, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vld1q_f32(floats));
    sum.high = vfmaq_f32(sum.high, vcvtq_f32_s32(vmovl_high_s16(wide)), vld1q_f32(floats + 4));
    return sum;
}

static inline Eight add(Eight a, Eight b)
{
    return (Eight){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}

static inline void store_eight(float *to, Eight a)
{
    vst1q_f32(to, a.low);
    vst1q_f32(to + 4, a.high);
}
