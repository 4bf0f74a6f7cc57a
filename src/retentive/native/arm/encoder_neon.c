#define TARGET
#define VECTORS "arm/simd_neon.h"
#define ENCODE encode_neon
#define TOGETHER 2 /* tokens whose attention is computed at once */

#include "encoder.h"
