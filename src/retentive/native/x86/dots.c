/* Dot products with AVX2, faster with VNNI or AMX. */

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#include "bert.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define AVX2 "avx2,fma"
#define AVX_VNNI AVX2 ",avxvnni"
#define AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"
#define AMX "amx-tile,amx-int8," AVX512

#define MOST_ROWS 12
#define UNROLL _Pragma("GCC unroll 12")

/* Two rows at a time. `ADD_DOTS(sum, bytes, weights)` adds the dot products of four bytes and four weights each. */
#define DEFINE_DOTS(name, instructions, ADD_DOTS) \
    __attribute__((target(instructions))) static void name(const Product *product, int32_t column, \
                                                           const uint8_t *input, int32_t stride, int32_t rows, \
                                                           int32_t *found) \
    { \
        const int8_t *weight = weights_of(product, column); \
        for (int row = 0; row < rows; row += 2) { \
            __m256i sum[2][4] = {{_mm256_setzero_si256()}}; \
            for (int at = 0; at < product->inputs; at += 4) { \
                const int8_t *tile = weight + at / STEP * 2 * TILE + at % STEP / 4 * 64; \
                for (int k = 0; k < 4; k++) { \
                    __m256i w = _mm256_loadu_si256((const __m256i *)(tile + k / 2 * TILE + k % 2 * 32)); \
                    for (int r = 0; r < 2; r++) { \
                        int32_t four; \
                        memcpy(&four, input + (size_t)(row + r) * stride + at, 4); \
                        sum[r][k] = ADD_DOTS(sum[r][k], _mm256_set1_epi32(four), w); \
                    } \
                } \
            } \
            for (int r = 0; r < 2; r++) \
                for (int k = 0; k < 4; k++) \
                    _mm256_storeu_si256((__m256i *)(found + (row + r) * COLUMNS + k * 8), sum[r][k]); \
        } \
    }

/* Two products are added in 16 bits, which has room for them: a weight is between -64 and 64, and 2 * 255 * 64 is less
   than 2^15. */
#define MULTIPLY_ADD(sum, bytes, weights) \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, weights), _mm256_set1_epi16(1)))

DEFINE_DOTS(dots_avx2, AVX2, MULTIPLY_ADD)
DEFINE_DOTS(dots_avx_vnni, AVX_VNNI, _mm256_dpbusd_avx_epi32)

/* Up to twelve rows: two sums for each row, two weights and a row of bytes fill 27 of 32 registers. The number of rows and
   their stride are constants, so that the sums stay in registers and one register addresses all rows. The instruction is
   written out, because GCC 12 copies the sums for its intrinsic. Weights are prefetched AHEAD bytes before they are
   read: without it, twelve rows take half as long again on a Zen 4. */
#define AHEAD 4096

__attribute__((target(AVX512), always_inline)) static inline void dots_rows(const uint8_t *input, const int8_t *weight,
                                                                            int32_t inputs, int32_t *found,
                                                                            const int stride, const int rows)
{
    __m512i left[MOST_ROWS], right[MOST_ROWS];
    UNROLL for (int row = 0; row < rows; row++)
        left[row] = right[row] = _mm512_setzero_si512();
    for (const uint8_t *end = input + inputs; input < end; weight += TILE)
        for (const int8_t *tile_end = weight + TILE; weight < tile_end; weight += 64, input += 4) {
            __m512i first = _mm512_loadu_si512(weight), second = _mm512_loadu_si512(weight + TILE);
            _mm_prefetch((const char *)weight + AHEAD, _MM_HINT_T0);
            _mm_prefetch((const char *)weight + TILE + AHEAD, _MM_HINT_T0);
            UNROLL for (int row = 0; row < rows; row++) {
                int32_t four;
                memcpy(&four, input + row * stride, 4);
                __m512i wide = _mm512_set1_epi32(four);
                __asm__("vpdpbusd %2, %1, %0" : "+v"(left[row]) : "v"(wide), "v"(first));
                __asm__("vpdpbusd %2, %1, %0" : "+v"(right[row]) : "v"(wide), "v"(second));
            }
        }
    UNROLL for (int row = 0; row < rows; row++) {
        _mm512_storeu_si512(found + row * COLUMNS, left[row]);
        _mm512_storeu_si512(found + row * COLUMNS + 16, right[row]);
    }
}

typedef void DotsRows(const uint8_t *input, const int8_t *weight, int32_t inputs, int32_t *found);

#define EACH(X, stride) \
    X(stride, 1) X(stride, 2) X(stride, 3) X(stride, 4) X(stride, 5) X(stride, 6) \
    X(stride, 7) X(stride, 8) X(stride, 9) X(stride, 10) X(stride, 11) X(stride, 12)
#define DEFINE(stride, rows) \
    __attribute__((target(AVX512))) static void dots_##stride##_##rows(const uint8_t *input, const int8_t *weight, \
                                                                       int32_t inputs, int32_t *found) \
    { \
        dots_rows(input, weight, inputs, found, stride, rows); \
    }
#define NAME(stride, rows) dots_##stride##_##rows,

EACH(DEFINE, WIDTH)
EACH(DEFINE, HIDDEN)

static DotsRows *const dots_of_width[] = {EACH(NAME, WIDTH)}, *const dots_of_hidden[] = {EACH(NAME, HIDDEN)};

static void dots_avx512(const Product *product, int32_t column, const uint8_t *input, int32_t stride, int32_t rows,
                        int32_t *found)
{
    const int8_t *weight = weights_of(product, column);
    DotsRows *const *dots = stride == WIDTH ? dots_of_width : dots_of_hidden;
    for (int groups = (rows + MOST_ROWS - 1) / MOST_ROWS; groups > 0; groups--) {
        int some = (rows + groups - 1) / groups; /* groups of about equal size */
        dots[some - 1](input, weight, product->inputs, found);
        input += (size_t)some * stride;
        found += some * COLUMNS;
        rows -= some;
    }
}

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) TileConfig;

/* Tiles 0 to 3 are sums, 4 and 5 rows of bytes, 6 and 7 weights. `both`: there are more than sixteen rows. It is a
   constant, so that the loop has no branch. */
__attribute__((target(AMX), always_inline)) static inline void dots_tiles(const uint8_t *input, int32_t stride,
                                                                          int32_t inputs, const int8_t *weight,
                                                                          int32_t *found, const int both)
{
    const int line = COLUMNS * sizeof(int32_t);
    /* GCC does not know that loading a tile reads memory: the rows must be stored before. */
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    if (both) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int at = 0; at < inputs; at += STEP, weight += 2 * TILE) {
        _tile_loadd(6, weight, 64);
        _tile_loadd(4, input + at, stride);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, weight + TILE, 64);
        _tile_dpbusd(1, 4, 7);
        if (both) {
            _tile_loadd(5, input + (size_t)16 * stride + at, stride);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
    }
    _tile_stored(0, found, line);
    _tile_stored(1, found + 16, line);
    if (both) {
        _tile_stored(2, found + 16 * COLUMNS, line);
        _tile_stored(3, found + 16 * COLUMNS + 16, line);
    }
}

__attribute__((target(AMX))) static void dots_amx(const Product *product, int32_t column, const uint8_t *input,
                                                  int32_t stride, int32_t rows, int32_t *found)
{
    const int8_t *weight = weights_of(product, column);
    if (rows > 16)
        dots_tiles(input, stride, product->inputs, weight, found, 1);
    else
        dots_tiles(input, stride, product->inputs, weight, found, 0);
}

__attribute__((target(AMX))) static void encode_amx(const Model *model, const int32_t *ids, const int32_t *starts,
                                                    const int32_t *second, int32_t texts, Scratch *scratch,
                                                    Dots *dots, float *found)
{
    /* A constant: GCC would not store all of a variable, because the intrinsic claims to read eight bytes. */
    static const TileConfig all = {
        .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
    encode_avx512(model, ids, starts, second, texts, scratch, dots, found);
    _tile_release();
}

/* Linux grants the registers of AMX to a process that asks; no other system has been tried. */
static int amx_is_granted(void)
{
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return 0;
#endif
}

enum { EAX, EBX, ECX, EDX };

/* Whether a bit of what CPUID returns is set. */
static int has(uint32_t leaf, uint32_t part, int at, int bit)
{
    uint32_t found[4];
    return __get_cpuid_count(leaf, part, found, found + 1, found + 2, found + 3) && found[at] >> bit & 1;
}

static int has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_avx_vnni(void)
{
    return has_avx2() && has(7, 1, EAX, 4);
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_amx(void)
{
    return has_avx512() && has(7, 0, EDX, 24) && has(7, 0, EDX, 25) && amx_is_granted();
}

const InstructionSet instruction_sets[] = {
    {1, has_avx2, encode_avx2, dots_avx2},
    {2, has_avx_vnni, encode_avx2, dots_avx_vnni},
    {3, has_avx512, encode_avx512, dots_avx512},
    {4, has_amx, encode_amx, dots_amx},
    {0},
};
