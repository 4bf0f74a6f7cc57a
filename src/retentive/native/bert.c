/* Computes the models of this package; see retentive/inference/bert.py. What depends on the processor is in x86 and arm:
   the dot products, and one compilation of `encoder.h` for each width of registers. */

#include "bert.h"
#include "export.h"

/* Store a weight in the order in which it is read: groups of 32 columns one after another; in a group, blocks of 64
   inputs; in a block, two tiles of 16 columns. A line of a tile has the weights of four inputs for each column. Also
   store the sum of each column. */
EXPORT void bert_pack(const int8_t *weight, int32_t inputs, int32_t outputs, int8_t *packed, float *sums)
{
    for (int32_t first = 0; first < outputs; first += 16) {
        int32_t sum[16] = {0};
        for (int32_t input = 0; input < inputs; input += 4) {
            int8_t *line = packed + (size_t)(first / COLUMNS) * inputs * COLUMNS + (size_t)(input / STEP) * 2 * TILE +
                           first % COLUMNS / 16 * TILE + input % STEP / 4 * 64;
            for (int four = 0; four < 4; four++) {
                const int8_t *row = weight + (size_t)(input + four) * outputs + first;
                for (int column = 0; column < 16; column++) {
                    line[column * 4 + four] = row[column];
                    sum[column] += row[column];
                }
            }
        }
        for (int column = 0; column < 16; column++)
            sums[first + column] = (float)sum[column];
    }
}

/* To be raised, here and in __init__.py, with every change of the structures in bert.h or of what Python calls. */
EXPORT int32_t library_version(void)
{
    return 4;
}

static const InstructionSet *find(int32_t number)
{
    const InstructionSet *set = instruction_sets;
    while (set->number && set->number != number)
        set++;
    return set->number ? set : NULL;
}

/* Whether this processor and its kernel have an instruction set. */
EXPORT int32_t bert_supports(int32_t number)
{
    const InstructionSet *set = find(number);
    return set && set->is_supported();
}

EXPORT int64_t bert_scratch_bytes(void)
{
    return sizeof(Scratch);
}

/* Store the last state of the first token of each text. Text t has the tokens starts[t] to starts[t + 1]; those from
   second[t] on are of the second type. Return 0, or 1 if the texts are not within the limits. */
EXPORT int32_t bert_run(const Model *model, int32_t number, const int32_t *ids, const int32_t *starts,
                        const int32_t *second, int32_t texts, Scratch *scratch, float *found)
{
    const InstructionSet *set = find(number);
    if (!set || texts < 1 || starts[0] != 0)
        return 1;
    for (int32_t text = 0; text < texts; text++)
        if (starts[text + 1] <= starts[text] || starts[text + 1] > TOKENS)
            return 1;
    for (int32_t at = 0; at < starts[texts]; at++)
        if (ids[at] < 0 || ids[at] >= model->word_count)
            return 1;
    set->encode(model, ids, starts, second, texts, scratch, set->dots, found);
    return 0;
}
