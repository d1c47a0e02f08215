/* Looks up judgments in an open hash table, for harness/scoring/lookup.py. */

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { BATCH = 64, OUT_OF_RANGE = -1 };

typedef struct {
    const int32_t *slots, *topic;
    const uint64_t *doc;
    uint64_t last; /* slot */
    int64_t width;
} Table;

static int equal(const Table *table, int64_t judgment, int64_t topic, const uint64_t *doc, int64_t width) {
    if (table->topic[judgment] != topic) return 0;
    const uint64_t *known = table->doc + judgment * table->width;
    int64_t k = 0, both = width < table->width ? width : table->width;
    for (; k < both; k++)
        if (known[k] != doc[k]) return 0;
    for (; k < width; k++)
        if (doc[k]) return 0;
    for (; k < table->width; k++)
        if (known[k]) return 0;
    return 1;
}

/* Finds the judgment of each result, -1 if there is none.

   slots : judgments (below `judgments`) or -1, shape (2^bits,), at least one -1. known_topic, known_doc : the judgments',
   known_doc of shape (judgments, known_width). key, topic, doc, out : of the results. of_run : topics of the run as
   indices into the judgments' topics, or -1. Returns 0, or OUT_OF_RANGE if a topic or a slot is. */
EXPORT int64_t harness_find(const int32_t *slots, int64_t bits, const int32_t *known_topic, const uint64_t *known_doc,
                            int64_t known_width, int64_t judgments, const uint64_t *key, const int32_t *topic,
                            const uint64_t *doc, int64_t width, int64_t rows, const int64_t *of_run, int64_t topics,
                            int64_t *out) {
    Table table = {slots, known_topic, known_doc, (UINT64_C(1) << bits) - 1, known_width};
    uint64_t place[BATCH];
    for (int64_t begin = 0; begin < rows; begin += BATCH) { /* in steps, so that memory is asked for ahead */
        int64_t size = rows - begin < BATCH ? rows - begin : BATCH;
        for (int64_t k = 0; k < size; k++) {
            place[k] = key[begin + k] >> (64 - bits);
            __builtin_prefetch(slots + place[k]);
        }
        for (int64_t k = 0; k < size; k++) {
            int32_t found = slots[place[k]];
            if (found >= judgments) return OUT_OF_RANGE;
            if (found < 0) continue;
            __builtin_prefetch(known_topic + found);
            __builtin_prefetch(known_doc + found * known_width);
        }
        for (int64_t k = 0; k < size; k++) {
            int64_t row = begin + k, found = slots[place[k]];
            if (topic[row] < 0 || topic[row] >= topics) return OUT_OF_RANGE;
            int64_t of = of_run[topic[row]];
            if (of < 0) found = -1;
            while (found >= 0 && !equal(&table, found, of, doc + row * width, width)) {
                place[k] = (place[k] + 1) & table.last;
                found = slots[place[k]];
                if (found >= judgments) return OUT_OF_RANGE;
            }
            out[row] = found < 0 ? -1 : found;
        }
    }
    return 0;
}
