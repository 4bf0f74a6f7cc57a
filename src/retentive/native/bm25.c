/* Scores the texts of many memories for the terms of a query; see retentive/text/bm25.py, whose sums these are. */

#include <stdint.h>
#include <string.h>

#include "export.h"

enum {
    MOST_TERMS = 1024,
    SLOT_BITS = 10,
    PREFIX = 8, /* bytes by which words are found in the table, before they are compared whole */
};

typedef struct {
    const char *word;
    int64_t size;
    double weight;
    int32_t next; /* the next term in the same slot; -1 behind the last */
    int32_t count;
} Term;

/* Fibonacci hashing of the first bytes of a word: the upper bits of the product with 2^64 divided by the golden ratio.
   Eight bytes may be read, whatever the size. */
static inline uint32_t slot_of(const char *word, int64_t size)
{
    uint64_t prefix;
    memcpy(&prefix, word, PREFIX);
    if (size < PREFIX)
        prefix &= ((uint64_t)1 << 8 * size) - 1;
    return (uint32_t)(prefix * 0x9E3779B97F4A7C15u >> (64 - SLOT_BITS));
}

/* Count a word of a text if it is a term. */
static inline void count_word(Term *terms, const int32_t *slots, const char *word, int64_t size)
{
    for (int32_t at = slots[slot_of(word, size)]; at >= 0; at = terms[at].next)
        if (terms[at].size == size && memcmp(terms[at].word, word, (size_t)size) == 0)
            terms[at].count++;
}

/* Store the BM25 scores of texts, each of words with single spaces between them and a line break behind the last. The
   terms of the query are written in the same way, one in each line. Eight bytes behind both may be read. `extra_length` is
   added to the number of words of each text. Return 0, or 1 if there are too many terms. */
EXPORT int32_t bm25_scores(const char *words, const double *weights, int32_t term_count, const char *texts,
                           int64_t text_count, double k1, double b, double mean_length, int64_t extra_length,
                           double *scores)
{
    Term terms[MOST_TERMS];
    int32_t slots[1 << SLOT_BITS];
    if (term_count > MOST_TERMS)
        return 1;
    memset(slots, -1, sizeof slots);
    for (int32_t at = 0; at < term_count; at++) {
        const char *end = words;
        while (*end != '\n')
            end++;
        uint32_t slot = slot_of(words, end - words);
        terms[at] = (Term){words, end - words, weights[at], slots[slot], 0};
        slots[slot] = at;
        words = end + 1;
    }
    for (int64_t text = 0; text < text_count; text++) {
        int64_t length = extra_length;
        for (int more = 1; more; length++) {
            const char *end = texts;
            while (*end != ' ' && *end != '\n')
                end++;
            count_word(terms, slots, texts, end - texts);
            more = *end == ' ';
            texts = end + 1;
        }
        double damping = k1 * (1 - b + b * (double)length / mean_length), score = 0;
        for (int32_t at = 0; at < term_count; at++) {
            double count = terms[at].count;
            if (terms[at].count)
                score += terms[at].weight * count * (k1 + 1) / (count + damping);
            terms[at].count = 0;
        }
        scores[text] = score;
    }
    return 0;
}
