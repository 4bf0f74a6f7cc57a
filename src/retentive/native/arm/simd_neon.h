/* Sixteen floats in four registers. */

#include <arm_neon.h>

typedef struct {
    float32x4_t part[4];
} Vec;

#define EACH_PART for (int at = 0; at < 4; at++)
#define DEFINE_OPERATION(name, instruction) \
    INLINE Vec name(Vec a, Vec b) \
    { \
        EACH_PART a.part[at] = instruction(a.part[at], b.part[at]); \
        return a; \
    }

DEFINE_OPERATION(v_add, vaddq_f32)
DEFINE_OPERATION(v_sub, vsubq_f32)
DEFINE_OPERATION(v_mul, vmulq_f32)
DEFINE_OPERATION(v_max, vmaxq_f32)
DEFINE_OPERATION(v_min, vminq_f32)

INLINE Vec v_fma(Vec a, Vec b, Vec c)
{
    EACH_PART c.part[at] = vfmaq_f32(c.part[at], a.part[at], b.part[at]);
    return c;
}
INLINE Vec v_set(float value)
{
    Vec a;
    EACH_PART a.part[at] = vdupq_n_f32(value);
    return a;
}
INLINE Vec v_load(const float *from)
{
    Vec a;
    EACH_PART a.part[at] = vld1q_f32(from + 4 * at);
    return a;
}
INLINE void v_store(float *to, Vec a)
{
    EACH_PART vst1q_f32(to + 4 * at, a.part[at]);
}
INLINE Vec v_from_integers(const int32_t *from)
{
    Vec a;
    EACH_PART a.part[at] = vcvtq_f32_s32(vld1q_s32(from + 4 * at));
    return a;
}
INLINE Vec v_from_bytes(const int8_t *from)
{
    int8x16_t bytes = vld1q_s8(from);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return (Vec){{
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
        vcvtq_f32_s32(vmovl_high_s16(low)),
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
        vcvtq_f32_s32(vmovl_high_s16(high)),
    }};
}

/* 64 numbers, rounded to the nearest integers and cut at 0 and 255 */
INLINE void v_store_bytes(uint8_t *to, const Vec a[4])
{
    for (int number = 0; number < 4; number++) {
        int16x4_t part[4];
        EACH_PART part[at] = vqmovn_s32(vcvtnq_s32_f32(a[number].part[at]));
        uint8x8_t low = vqmovun_s16(vcombine_s16(part[0], part[1])), high = vqmovun_s16(vcombine_s16(part[2], part[3]));
        vst1q_u8(to + 16 * number, vcombine_u8(low, high));
    }
}

/* a * 2^n for integers n that are stored as floats plus 1.5 * 2^23 */
INLINE Vec v_times_power(Vec a, Vec n)
{
    EACH_PART a.part[at] = vreinterpretq_f32_s32(
        vaddq_s32(vreinterpretq_s32_f32(a.part[at]), vshlq_n_s32(vreinterpretq_s32_f32(n.part[at]), 23)));
    return a;
}

INLINE float v_sum(Vec a)
{
    float32x4_t quarter = vaddq_f32(vaddq_f32(a.part[0], a.part[2]), vaddq_f32(a.part[1], a.part[3]));
    float32x2_t eighth = vadd_f32(vget_low_f32(quarter), vget_high_f32(quarter));
    return vget_lane_f32(eighth, 0) + vget_lane_f32(eighth, 1);
}

INLINE float v_largest(Vec a)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.part[0], a.part[1]), vmaxq_f32(a.part[2], a.part[3])));
}

/* Four rows of four floats, transposed */
INLINE void transpose_four(const float *from, int from_row, float *to, int to_row)
{
    float32x4x2_t first = vtrnq_f32(vld1q_f32(from), vld1q_f32(from + from_row));
    float32x4x2_t second = vtrnq_f32(vld1q_f32(from + 2 * from_row), vld1q_f32(from + 3 * from_row));
    for (int odd = 0; odd < 2; odd++) {
        vst1q_f32(to + odd * to_row, vcombine_f32(vget_low_f32(first.val[odd]), vget_low_f32(second.val[odd])));
        vst1q_f32(to + (2 + odd) * to_row, vcombine_f32(vget_high_f32(first.val[odd]), vget_high_f32(second.val[odd])));
    }
}
