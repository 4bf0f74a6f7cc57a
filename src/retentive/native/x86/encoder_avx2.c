#define TARGET __attribute__((target("avx2,fma")))
#define VECTORS "x86/simd_avx2.h"
#define ENCODE encode_avx2
#define TOGETHER 4 /* tokens whose attention is computed at once */

#include "encoder.h"
