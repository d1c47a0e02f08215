/* Judgments of results, for harness/scoring/lookup.py. */

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Whether two ids are equal; the shorter one counts as padded with zeros. */
static int same(const uint64_t *a, int64_t length, const uint64_t *b, int64_t other) {
    for (int64_t k = 0; k < length || k < other; k++)
        if ((k < length ? a[k] : 0) != (k < other ? b[k] : 0)) return 0;
    return 1;
}

/* Finds the index of each result's judgment in an open hash table, or -1.

   key, doc, topic : of each result: hash, id as words, and index into `of_run`, which has a judgment's topic, or -1.
   slots : shape (2^bits,). Indices of judgments by the highest bits of their hash, or -1; at least one is -1.
   its_doc, its_topic : of each judgment. */
EXPORT int64_t harness_lookup(const uint64_t *key, const uint64_t *doc, int64_t width, const int32_t *topic,
                              const int64_t *of_run, int64_t rows, const int32_t *slots, int64_t bits,
                              const uint64_t *its_doc, int64_t its_width, const int32_t *its_topic, int64_t *out) {
    for (int64_t row = 0; row < rows; row++) {
        uint64_t place = key[row] >> (64 - bits);
        int64_t found, wanted = of_run[topic[row]];
        for (; (found = slots[place]) >= 0; place = (place + 1) & (((uint64_t)1 << bits) - 1))
            if (its_topic[found] == wanted && same(doc + row * width, width, its_doc + found * its_width, its_width)) break;
        out[row] = found;
    }
    return 0;
}
