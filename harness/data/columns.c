/* Duplicates in columns, for harness/data/columns.py. */

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

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
