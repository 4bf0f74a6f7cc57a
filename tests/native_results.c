/* Prints digests of what the library computes from made-up numbers: for each case and instruction set of this
   processor one line, the number of the set last. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bert.h"

void bert_pack(const int8_t *, int32_t, int32_t, int8_t *, float *);
int32_t bert_supports(int32_t);
int32_t bert_run(const Model *, int32_t, const int32_t *, const int32_t *, const int32_t *, int32_t, Scratch *, float *);
int32_t bm25_scores(const char *, const double *, int32_t, const char *, int64_t, double, double, double, int64_t, double *);
void scan_distances(const uint64_t *, int64_t, int32_t, const uint64_t *, const uint8_t *, int64_t, uint16_t *);
void scan_signs(const uint64_t *, int64_t, int32_t, const uint64_t *, const float *, int32_t, const int64_t *, int64_t, float *);
void scan_bytes(const int8_t *, int64_t, const int32_t *, int64_t, const float *, float *);

enum { WORDS = 50, LAYERS = 2, SETS = 6 };

static uint64_t state; /* set before random bits are taken: compilers call functions in different orders */

static uint32_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void *memory(size_t size)
{
    void *found = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!found)
        exit(1);
    return found;
}

/* Floats between two limits */
static float *floats(size_t count, float from, float to)
{
    float *found = memory(count * sizeof(float));
    state = count;
    for (size_t at = 0; at < count; at++)
        found[at] = from + (to - from) * (float)(random_bits() >> 8) / 16777216;
    return found;
}

/* Bytes between -most and most */
static int8_t *bytes(size_t count, int most)
{
    int8_t *found = memory(count);
    state = count;
    for (size_t at = 0; at < count; at++)
        found[at] = (int8_t)((int)(random_bits() % (2 * most + 1)) - most);
    return found;
}

static void print_digest(const char *what, int number, const void *data, size_t size, int set)
{
    uint64_t digest = 14695981039346656037u; /* FNV-1a */
    for (size_t at = 0; at < size; at++)
        digest = (digest ^ ((const uint8_t *)data)[at]) * 1099511628211u;
    printf("%s %d %016llx %d\n", what, number, (unsigned long long)digest, set);
}

static Product product(int inputs, int outputs, int smoothed)
{
    size_t size = (size_t)inputs * outputs;
    int8_t *packed = memory(size);
    float *sums = memory(outputs * sizeof(float));
    bert_pack(bytes(size, 64), inputs, outputs, packed, sums);
    return (Product){packed, sums, floats(outputs, .0005f, .002f), floats(outputs, -.2f, .2f),
                     smoothed ? floats(inputs, .5f, 2) : NULL, inputs, outputs};
}

static Norm norm(void)
{
    return (Norm){floats(WIDTH, .5f, 1.5f), floats(WIDTH, -.2f, .2f)};
}

static Layer layer(int hidden, int smoothed)
{
    return (Layer){product(WIDTH, 3 * WIDTH, smoothed), product(WIDTH, WIDTH, smoothed), product(WIDTH, hidden, smoothed),
                   product(hidden, WIDTH, smoothed), norm(), norm()};
}

static void check_bert(void)
{
    static const int sizes[][5] = {{1}, {130}, {17, 33, 64, 13}};
    const Layer layers[LAYERS] = {layer(HIDDEN, 1), layer(STEP, 0)};
    const Model model = {bytes(WORDS * WIDTH, 127), floats(WORDS, .001f, .01f), floats(TOKENS * WIDTH, -.2f, .2f),
                         floats(2 * WIDTH, -.2f, .2f), norm(), layers, LAYERS, WORDS};
    Scratch *scratch = memory(sizeof *scratch);
    memset(scratch, 0xFF, sizeof *scratch);
    for (int number = 0; number < 3; number++) {
        int32_t texts = 0, ids[TOKENS], starts[5] = {0}, second[4];
        for (; texts < 4 && sizes[number][texts]; texts++) {
            starts[texts + 1] = starts[texts] + sizes[number][texts];
            second[texts] = sizes[number][texts] / 2;
        }
        state = 1;
        for (int at = 0; at < starts[texts]; at++)
            ids[at] = (int32_t)(random_bits() % WORDS);
        float found[4 * WIDTH];
        for (int32_t set = 1; set <= SETS; set++) {
            if (!bert_supports(set))
                continue;
            if (bert_run(&model, set, ids, starts, second, texts, scratch, found))
                exit(1);
            print_digest("bert", number, found, (size_t)texts * WIDTH * sizeof(float), set);
        }
    }
}

static void check_scans(void)
{
    static const int words[] = {1, 6, 48}, counts[] = {1, 15, 33, 1000};
    for (int number = 0; number < 12; number++) {
        int32_t size = words[number / 4], count = counts[number % 4];
        uint64_t *codes = (uint64_t *)bytes((size_t)count * size * 8, 127), *planes = (uint64_t *)bytes(5 * size * 8, 127);
        uint8_t *inside = (uint8_t *)bytes(count, 1);
        int64_t *places = memory(count * sizeof(int64_t));
        state = 1;
        for (int at = 0; at < count; at++)
            places[at] = random_bits() % count;
        uint16_t *distances = memory(count * sizeof(uint16_t));
        float *products = memory(count * sizeof(float));
        scan_distances(codes, count, size, planes, inside, count, distances);
        print_digest("distances", number, distances, count * sizeof(uint16_t), 0);
        scan_signs(codes, count, size, planes, floats(5, -1, 1), 5, places, count, products);
        print_digest("signs", number, products, count * sizeof(float), 0);
    }
    static const int dimensions[] = {1, 31, 32, 100, 384};
    for (int number = 0; number < 5; number++) {
        int32_t rows[40];
        float products[40];
        state = 1;
        for (int at = 0; at < 40; at++)
            rows[at] = (int32_t)(random_bits() % 100);
        scan_bytes(bytes(100 * (size_t)dimensions[number], 127), dimensions[number], rows, 40,
                   floats(dimensions[number], -1, 1), products);
        print_digest("bytes", number, products, sizeof products, 0);
    }
}

static void check_bm25(void)
{
    static const char terms[] = "longer_than_eight\na\nb\n\0\0\0\0\0\0\0", texts[] = "a x b a\n\nlonger_than_eight y\n\0\0\0\0\0\0\0";
    const double weights[] = {1.25, 0.3, 2};
    double scores[3];
    if (bm25_scores(terms, weights, 3, texts, 3, 1.2, .75, 2.5, 1, scores))
        exit(1);
    print_digest("bm25", 0, scores, sizeof scores, 0);
}

int main(void)
{
    check_bert();
    check_scans();
    check_bm25();
    return 0;
}
