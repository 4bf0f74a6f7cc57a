#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define VECTORS "x86/simd_avx512.h"
#define ENCODE encode_avx512
#define TOGETHER 8 /* tokens whose attention is computed at once */

#include "encoder.h"
