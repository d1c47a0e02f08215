/* Line ends, hashes and duplicates of columns, for harness/data/columns.py and harness/data/trec.py. */

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ONES UINT64_C(0x0101010101010101)

/* Number of line ends among the bytes. Counts in the eight bytes of a word, which hold up to 255 each. */
EXPORT int64_t harness_line_ends(const uint8_t *text, int64_t size) {
    int64_t at = 0, out = 0;
    while (at + 8 <= size) {
        int64_t words = (size - at) / 8 < 255 ? (size - at) / 8 : 255;
        uint64_t counts = 0;
        for (int64_t k = 0; k < words; k++) {
            uint64_t found;
            memcpy(&found, text + at + 8 * k, 8);
            found ^= 10 * ONES;
            counts += ~(((found & 0x7F * ONES) + 0x7F * ONES) | found | 0x7F * ONES) >> 7;
        }
        at += 8 * words;
        for (; counts; counts >>= 8) out += counts & 255;
    }
    for (; at < size; at++) out += text[at] == '\n';
    return out;
}

/* Hashes of (topic, document) as `hashes` computes them, from the hashes of the topics; -1 if a topic is out of range. */
EXPORT int64_t harness_pair_hashes(const uint64_t *doc, int64_t width, const int32_t *topic, int64_t rows,
                                   const uint64_t *of_topic, int64_t topics, uint64_t *out) {
    for (int64_t row = 0; row < rows; row++) {
        if (topic[row] < 0 || topic[row] >= topics) return -1;
        uint64_t hash = (of_topic[topic[row]] + 1) * UINT64_C(0x9E3779B97F4A7C15);
        for (int64_t k = 0; k < width; k++) {
            uint64_t part = doc[row * width + k];
            if (k && !part) continue;
            hash = (hash ^ part) * UINT64_C(0xFF51AFD7ED558CCD);
            hash ^= hash >> 32;
        }
        out[row] = hash;
    }
    return 0;
}

/* Whether keys are certain to be distinct: 1 if the rows of each topic follow each other and have distinct keys.

   table : working memory of `slots` words. Topics of more rows than half of it, and keys that crowd, are not decided. */
EXPORT int64_t harness_distinct(const uint64_t *key, const int32_t *topic, int64_t rows, uint64_t *table, int64_t slots) {
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        for (end = begin + 1; end < rows && topic[end] == topic[begin]; end++) continue;
        if (end < rows && topic[end] < topic[begin]) return 0;
        int64_t size = end - begin, bits = 1;
        while (((int64_t)1 << bits) < 2 * size) bits++;
        if (((int64_t)1 << bits) > slots) return 0;
        memset(table, 0, sizeof *table << bits);
        int64_t patience = 8 * size;
        for (int64_t row = begin; row < end; row++) {
            uint64_t mine = key[row] ? key[row] : 1, place = mine >> (64 - bits);
            for (; table[place]; place = (place + 1) & (((uint64_t)1 << bits) - 1))
                if (table[place] == mine || !patience--) return 0;
            table[place] = mine;
        }
    }
    return 1;
}

/* Whether ranks are certain to agree with scores: 1 if topics follow each other, and in each the ranks rise or stay, and
   the scores do not rise where the rank does. */
EXPORT int64_t harness_ranks_agree(const int32_t *topic, const double *score, const int32_t *rank, int64_t rows) {
    for (int64_t row = 1; row < rows; row++) {
        if (topic[row] < topic[row - 1]) return 0;
        if (topic[row] != topic[row - 1]) continue;
        if (rank[row] < rank[row - 1]) return 0;
        if (rank[row] != rank[row - 1] && score[row] > score[row - 1]) return 0;
    }
    return 1;
}
