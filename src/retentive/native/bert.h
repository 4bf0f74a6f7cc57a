/* A quantised BERT encoder of one width: the values that the Python side fills in (see retentive/inference/bert.py).

   Weights are int8 with a scale for each column. The inputs of a product are rounded to unsigned bytes with a scale and
   a zero point for each row, so the vector of a text does not depend on the texts that are computed with it. */

#ifndef RETENTIVE_BERT_H
#define RETENTIVE_BERT_H

#include <stddef.h>
#include <stdint.h>

enum {
    WIDTH = 384,      /* of a state */
    HIDDEN = 1536,    /* units of a feed-forward network at most; a multiple of STEP, as the units of each */
    HEADS = 12,
    HEAD = WIDTH / HEADS,
    LANES = 16,       /* floats that are computed at once */
    STEP = 64,        /* inputs in one block of a packed weight */
    COLUMNS = 32,     /* outputs that one call of `dots` computes */
    TILE = STEP * 16, /* bytes of the weights of a block of inputs for sixteen columns */
    ROWS = 32,        /* rows that one call of `dots` computes at most */
    TOKENS = 512,     /* the most tokens of one call of `bert_run` */
    BLOCK = 64,       /* rows that pass through a product together */
};

typedef struct {
    const int8_t *weight;    /* packed by `bert_pack` */
    const float *sums;       /* of each column of the weight */
    const float *scale;      /* of each column */
    const float *bias;
    const float *smoothing;  /* a factor for each input, or NULL */
    int32_t inputs, outputs;
} Product;

typedef struct {
    const float *weight, *bias;
} Norm;

typedef struct {
    Product qkv, out, up, down;
    Norm between, after;
} Layer;

typedef struct {
    const int8_t *words;      /* one row for each token */
    const float *word_scale;  /* of each row */
    const float *positions;   /* one row for each position */
    const float *types;       /* two rows */
    Norm norm;
    const Layer *layers;
    int32_t layer_count, word_count;
} Model;

typedef struct {
    float states[(TOKENS + ROWS) * WIDTH];
    float qkv[(TOKENS + ROWS) * 3 * WIDTH];
    float attended[(TOKENS + ROWS) * WIDTH];
    float hidden[BLOCK * HIDDEN];
    float keys[HEAD * TOKENS];      /* of one head, transposed */
    float attention[8 * TOKENS];    /* attention of up to eight tokens (TOGETHER) to all */
    float scale[TOKENS + ROWS];     /* of each row of `bytes` */
    float zero[TOKENS + ROWS];      /* its zero point, negative */
    int32_t dots[ROWS * COLUMNS];
    uint8_t bytes[(TOKENS + ROWS) * WIDTH];
    uint8_t hidden_bytes[BLOCK * HIDDEN];
    float hidden_scale[BLOCK];
    float hidden_zero[BLOCK];
} __attribute__((aligned(64))) Scratch;

/* The packed weights of 32 columns from `column` on. */
static inline const int8_t *weights_of(const Product *product, int32_t column)
{
    return product->weight + (size_t)column * product->inputs;
}

/* Dot products of `rows` rows of bytes with 32 columns of a weight. The rows are `stride` bytes apart: WIDTH or HIDDEN.
   Up to 15 rows behind them may be read, and `found` has room for all of ROWS. */
typedef void Dots(const Product *product, int32_t column, const uint8_t *input, int32_t stride, int32_t rows,
                  int32_t *found);

typedef void Encode(const Model *model, const int32_t *ids, const int32_t *starts, const int32_t *second, int32_t texts,
                    Scratch *scratch, Dots *dots, float *found);

Encode encode_avx2, encode_avx512, encode_neon;

typedef struct {
    int32_t number; /* from 1 on, as in __init__.py */
    int (*is_supported)(void);
    Encode *encode;
    Dots *dots;
} InstructionSet;

/* Those of the processor that the library is compiled for; the last has no number. */
extern const InstructionSet instruction_sets[];

#endif
