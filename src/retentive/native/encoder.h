/* The encoder, from token ids to the states of first tokens. The files `encoder_*.c` include it: it is compiled once for
   each width of registers. Sums are made in the same order in all, so that all instruction sets give the same vectors. */

#include <math.h>
#include <string.h>

#include "bert.h"

#define INLINE TARGET __attribute__((always_inline)) static inline

#include VECTORS

_Static_assert(TOGETHER <= 8, "Scratch.attention has room for eight tokens");

/* e^x for x <= 0, to 2e-7 of its value */
INLINE Vec v_exp(Vec x)
{
    const Vec magic = v_set(12582912.0f);
    Vec scaled = v_mul(v_max(x, v_set(-87.0f)), v_set(1.44269504f));
    Vec shifted = v_add(scaled, magic);
    Vec rest = v_sub(scaled, v_sub(shifted, magic));
    Vec power = v_set(1.5403530e-4f);
    power = v_fma(power, rest, v_set(1.3333558e-3f));
    power = v_fma(power, rest, v_set(9.6181291e-3f));
    power = v_fma(power, rest, v_set(5.5504109e-2f));
    power = v_fma(power, rest, v_set(2.4022651e-1f));
    power = v_fma(power, rest, v_set(6.9314718e-1f));
    power = v_fma(power, rest, v_set(1.0f));
    return v_times_power(power, shifted);
}

/* GELU, with an error of at most 1.5e-5 up to 4.2 and of 1e-5 of x beyond. The results are rounded to bytes, in steps
   of at least 1/255 of the largest. */
INLINE Vec v_gelu(Vec x)
{
    Vec cut = v_min(v_max(x, v_set(-4.2f)), v_set(4.2f));
    Vec square = v_mul(cut, cut);
    Vec share = v_set(4.924300413e-11f);
    share = v_fma(share, square, v_set(-4.796039685e-9f));
    share = v_fma(share, square, v_set(2.072599080e-7f));
    share = v_fma(share, square, v_set(-5.289778040e-6f));
    share = v_fma(share, square, v_set(8.983810081e-5f));
    share = v_fma(share, square, v_set(-1.086471870e-3f));
    share = v_fma(share, square, v_set(9.740982475e-3f));
    share = v_fma(share, square, v_set(-6.622212640e-2f));
    share = v_fma(share, square, v_set(3.988344231e-1f));
    return v_mul(x, v_fma(share, cut, v_set(0.5f)));
}

/* Round a row to bytes with a scale and a zero point of its own; the zero point is stored negative. */
INLINE void quantise(const float *row, const float *smoothing, int size, uint8_t *bytes, float *scale, float *zero)
{
    Vec low = v_set(0), high = v_set(0);
    for (int at = 0; at < size; at += LANES) {
        Vec a = smoothing ? v_mul(v_load(row + at), v_load(smoothing + at)) : v_load(row + at);
        low = v_min(low, a);
        high = v_max(high, a);
    }
    float least = v_largest(v_sub(v_set(0), low)), range = least + v_largest(high);
    float step = range > 1e-20f ? range / 255 : 1, shift = (float)(int32_t)(least / step + 0.5f);
    *scale = step;
    *zero = -shift;
    Vec inverse = v_set(1 / step);
    for (int first = 0; first < size; first += 4 * LANES) {
        Vec found[4];
        for (int at = 0; at < 4; at++) {
            Vec a = v_load(row + first + at * LANES);
            if (smoothing)
                a = v_mul(a, v_load(smoothing + first + at * LANES));
            found[at] = v_fma(a, inverse, v_set(shift));
        }
        v_store_bytes(bytes + first, found);
    }
}

/* Normalise a row in place, in two passes over it. */
INLINE void normalise(float *row, Norm norm)
{
    Vec sum = v_set(0), squares = v_set(0);
    for (int at = 0; at < WIDTH; at += LANES)
        sum = v_add(sum, v_load(row + at));
    Vec mean = v_set(v_sum(sum) / WIDTH);
    for (int at = 0; at < WIDTH; at += LANES) {
        Vec centred = v_sub(v_load(row + at), mean);
        squares = v_fma(centred, centred, squares);
    }
    Vec scale = v_set(1 / sqrtf(v_sum(squares) / WIDTH + 1e-12f));
    for (int at = 0; at < WIDTH; at += LANES) {
        Vec centred = v_mul(v_sub(v_load(row + at), mean), scale);
        v_store(row + at, v_fma(centred, v_load(norm.weight + at), v_load(norm.bias + at)));
    }
}

/* What is done with a product: nothing, it is added to what is stored, or GELU. */
enum { PLAIN, ADD, GELU };

/* Scale the dot products of some rows and 32 columns, add the bias, and do what `kind` says. `smoothing` has the
   factors of the next product; results of GELU are multiplied by them here. */
INLINE void finish(const Product *product, const int32_t *dots, int rows, int column, const float *scale,
                   const float *zero, const float *smoothing, int kind, float *to)
{
    for (int at = 0; at < COLUMNS; at += LANES) {
        const Vec sums = v_load(product->sums + column + at), bias = v_load(product->bias + column + at);
        const Vec column_scale = v_load(product->scale + column + at);
        const Vec after = smoothing ? v_load(smoothing + column + at) : v_set(1);
        for (int row = 0; row < rows; row++) {
            float *out = to + (size_t)row * product->outputs + column + at;
            Vec value = v_fma(v_set(zero[row]), sums, v_from_integers(dots + row * COLUMNS + at));
            value = v_fma(value, v_mul(column_scale, v_set(scale[row])), bias);
            if (kind == ADD)
                value = v_add(value, v_load(out));
            if (kind == GELU)
                value = v_mul(v_gelu(value), after);
            v_store(out, value);
        }
    }
}

/* Multiply rows of bytes, which are `stride` apart, with their scales and zero points, by a weight. */
INLINE void multiply(const Product *product, Scratch *scratch, Dots *dots, int rows, const uint8_t *bytes,
                     const int stride, const float *scale, const float *zero, const float *smoothing, int kind, float *to)
{
    /* The bytes of a block of rows stay in the first-level cache while all weights pass. */
    for (int start = 0; start < rows; start += BLOCK)
        for (int column = 0; column < product->outputs; column += COLUMNS)
            for (int first = start; first < rows && first < start + BLOCK; first += ROWS) {
                int some = rows - first < ROWS ? rows - first : ROWS;
                dots(product, column, bytes + (size_t)first * stride, stride, some, scratch->dots);
                finish(product, scratch->dots, some, column, scale + first, zero + first, smoothing, kind,
                       to + (size_t)first * product->outputs);
            }
}

/* Round row `at` of some states to bytes, as the input of a product. */
INLINE void quantise_row(Scratch *scratch, const float *states, const float *smoothing, int at)
{
    quantise(states + (size_t)at * WIDTH, smoothing, WIDTH, scratch->bytes + (size_t)at * WIDTH, scratch->scale + at,
             scratch->zero + at);
}

/* The keys of one head, one row for each dimension, with zeros behind the last token. */
INLINE void transpose_keys(const float *key, int size, int padded, float *keys)
{
    const int row = 3 * WIDTH;
    int at = 0;
    for (; at + 4 <= size; at += 4)
        for (int d = 0; d < HEAD; d += 4)
            transpose_four(key + (size_t)at * row + d, row, keys + d * padded + at, padded);
    for (; at < padded; at++)
        for (int d = 0; d < HEAD; d++)
            keys[d * padded + at] = at < size ? key[(size_t)at * row + d] : 0;
}

/* Replace the scores of one token by their exponentials; return one divided by their sum. */
INLINE float exponentiate(float *scores, int padded)
{
    Vec most = v_load(scores), sum = v_set(0);
    for (int at = LANES; at < padded; at += LANES)
        most = v_max(most, v_load(scores + at));
    most = v_set(v_largest(most));
    for (int at = 0; at < padded; at += LANES) {
        Vec power = v_exp(v_sub(v_load(scores + at), most));
        v_store(scores + at, power);
        sum = v_add(sum, power);
    }
    return 1 / v_sum(sum);
}

/* Upper limits of sixteen scores, of which the last n are padding, begin at the n-th number: limits of scores change
   nothing, and those of padding make its attention zero. */
static const float limits[2 * LANES] = {
    3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f,
    -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f,
    -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f,
};

/* Attention of the first `queries` tokens of one text of `size` tokens, one head. */
INLINE void attend(Scratch *scratch, int start, int size, int queries, int head, float *attended)
{
    const int row = 3 * WIDTH, padded = (size + LANES - 1) / LANES * LANES;
    const float *query = scratch->qkv + (size_t)start * row + head * HEAD, *value = query + 2 * WIDTH;
    const Vec scale = v_set(0.17677669529663687f); /* 1 / sqrt(HEAD) */
    float *attention = scratch->attention, total[TOGETHER];
    transpose_keys(query + WIDTH, size, padded, scratch->keys);
    for (int first = 0; first < queries; first += TOGETHER) {
        int some = queries - first < TOGETHER ? queries - first : TOGETHER;
        /* Behind the last token are those of the next text, or what an earlier run left; their results are not used. */
        const float *q = query + (size_t)first * row;
        for (int column = 0; column < padded; column += LANES) {
            Vec sum[TOGETHER];
            for (int at = 0; at < TOGETHER; at++)
                sum[at] = v_set(0);
            for (int d = 0; d < HEAD; d++) {
                Vec key = v_load(scratch->keys + d * padded + column);
                for (int at = 0; at < TOGETHER; at++)
                    sum[at] = v_fma(v_set(q[at * row + d]), key, sum[at]);
            }
            Vec limit = v_load(limits + (column + LANES > size ? column + LANES - size : 0));
            for (int at = 0; at < TOGETHER; at++)
                v_store(attention + at * padded + column, v_min(v_mul(sum[at], scale), limit));
        }
        for (int at = 0; at < some; at++)
            total[at] = exponentiate(attention + at * padded, padded);
        Vec found[TOGETHER][2];
        for (int at = 0; at < TOGETHER; at++)
            found[at][0] = found[at][1] = v_set(0);
        for (int token = 0; token < size; token++) {
            Vec left = v_load(value + (size_t)token * row), right = v_load(value + (size_t)token * row + LANES);
            for (int at = 0; at < TOGETHER; at++) {
                Vec share = v_set(attention[at * padded + token]);
                found[at][0] = v_fma(share, left, found[at][0]);
                found[at][1] = v_fma(share, right, found[at][1]);
            }
        }
        for (int at = 0; at < some; at++) {
            float *to = attended + (size_t)(first + at) * WIDTH + head * HEAD;
            v_store(to, v_mul(found[at][0], v_set(total[at])));
            v_store(to + LANES, v_mul(found[at][1], v_set(total[at])));
        }
    }
}

/* The feed-forward network and its normalisation, for some rows at a time. */
INLINE void feed_forward(const Layer *layer, Scratch *scratch, Dots *dots, int count)
{
    const int hidden = layer->up.outputs;
    for (int first = 0; first < count; first += BLOCK) {
        int some = count - first < BLOCK ? count - first : BLOCK;
        float *states = scratch->states + (size_t)first * WIDTH;
        multiply(&layer->up, scratch, dots, some, scratch->bytes + (size_t)first * WIDTH, WIDTH,
                 scratch->scale + first, scratch->zero + first, layer->down.smoothing, GELU, scratch->hidden);
        for (int row = 0; row < some; row++)
            quantise(scratch->hidden + (size_t)row * hidden, 0, hidden, scratch->hidden_bytes + (size_t)row * HIDDEN,
                     scratch->hidden_scale + row, scratch->hidden_zero + row);
        multiply(&layer->down, scratch, dots, some, scratch->hidden_bytes, HIDDEN, scratch->hidden_scale,
                 scratch->hidden_zero, 0, ADD, states);
        for (int row = 0; row < some; row++)
            normalise(states + (size_t)row * WIDTH, layer->after);
    }
}

/* The states of all tokens of a text before the first layer. */
INLINE void embed(const Model *model, const int32_t *ids, int size, int second, float *states)
{
    for (int at = 0; at < size; at++) {
        const int8_t *word = model->words + (size_t)ids[at] * WIDTH;
        const float *position = model->positions + (size_t)at * WIDTH;
        const float *type = model->types + (at >= second ? WIDTH : 0);
        float *row = states + (size_t)at * WIDTH;
        Vec scale = v_set(model->word_scale[ids[at]]);
        for (int d = 0; d < WIDTH; d += LANES) {
            Vec sum = v_fma(v_from_bytes(word + d), scale, v_load(position + d));
            v_store(row + d, v_add(sum, v_load(type + d)));
        }
        normalise(row, model->norm);
    }
}

/* One layer. The last one computes only the first token of each text; their states move to the front. */
INLINE void encode_layer(const Layer *layer, const int32_t *starts, int texts, int last, Scratch *scratch, Dots *dots)
{
    int count = starts[texts], rows = last ? texts : count;
    for (int row = 0; row < count; row++)
        quantise_row(scratch, scratch->states, layer->qkv.smoothing, row);
    multiply(&layer->qkv, scratch, dots, count, scratch->bytes, WIDTH, scratch->scale, scratch->zero, 0, PLAIN,
             scratch->qkv);
    for (int text = 0; text < texts; text++) {
        int start = starts[text], size = starts[text + 1] - start;
        float *attended = scratch->attended + (size_t)(last ? text : start) * WIDTH;
        for (int head = 0; head < HEADS; head++)
            attend(scratch, start, size, last ? 1 : size, head, attended);
        if (last)
            memmove(scratch->states + (size_t)text * WIDTH, scratch->states + (size_t)start * WIDTH,
                    WIDTH * sizeof(float));
    }
    for (int row = 0; row < rows; row++)
        quantise_row(scratch, scratch->attended, layer->out.smoothing, row);
    multiply(&layer->out, scratch, dots, rows, scratch->bytes, WIDTH, scratch->scale, scratch->zero, 0, ADD,
             scratch->states);
    for (int row = 0; row < rows; row++) {
        normalise(scratch->states + (size_t)row * WIDTH, layer->between);
        quantise_row(scratch, scratch->states, layer->up.smoothing, row);
    }
    feed_forward(layer, scratch, dots, rows);
}

TARGET void ENCODE(const Model *model, const int32_t *ids, const int32_t *starts, const int32_t *second, int32_t texts,
                   Scratch *scratch, Dots *dots, float *found)
{
    for (int text = 0; text < texts; text++)
        embed(model, ids + starts[text], starts[text + 1] - starts[text], second[text],
              scratch->states + (size_t)starts[text] * WIDTH);
    for (int number = 0; number < model->layer_count; number++)
        encode_layer(model->layers + number, starts, texts, number == model->layer_count - 1, scratch, dots);
    memcpy(found, scratch->states, (size_t)texts * WIDTH * sizeof(float));
}
