/* Orders results by topic and score, for harness/scoring/ordering.py. */

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OUT_OF_RANGE = -1, SHORT = 16 };

static double key(double score, int64_t single) { return single ? (double)(float)score : score; }

/* Sorts rows by key, descending, equal ones in their order; `keys` and `rows` are one half of working memory each. */
static void sort(double *keys, int64_t *rows, int64_t size, double *other_keys, int64_t *other_rows) {
    if (size <= SHORT) {
        for (int64_t k = 1; k < size; k++) {
            double mine = keys[k];
            int64_t row = rows[k], at = k;
            for (; at && keys[at - 1] < mine; at--) keys[at] = keys[at - 1], rows[at] = rows[at - 1];
            keys[at] = mine, rows[at] = row;
        }
        return;
    }
    int64_t half = size / 2, left = 0, right = half;
    sort(keys, rows, half, other_keys, other_rows);
    sort(keys + half, rows + half, size - half, other_keys, other_rows);
    if (keys[half - 1] >= keys[half]) return;
    for (int64_t k = 0; k < size; k++) {
        int64_t next = right == size || (left < half && keys[left] >= keys[right]) ? left++ : right++;
        other_keys[k] = keys[next], other_rows[k] = rows[next];
    }
    memcpy(keys, other_keys, sizeof *keys * (size_t)size);
    memcpy(rows, other_rows, sizeof *rows * (size_t)size);
}

/* Orders the results of judged topics.

   topic, score : of the results, shape (size,). of_run : topics of the run as indices below `judged`, or -1, shape
   (topics,). single : compares scores as 32-bit floats. starts : zeros, shape (judged + 1,). rows, places, keys, other_keys,
   other_rows : working memory, shape (size,). Writes the results' rows by topic and score, tied ones in the order given, and
   the places in them of tied results; `tied` is how many. Returns how many rows; OUT_OF_RANGE if a topic is. */
EXPORT int64_t harness_by_score(const int32_t *topic, const double *score, int64_t size, const int64_t *of_run,
                                int64_t topics, int64_t *starts, int64_t judged, int64_t single, int64_t *rows,
                                int64_t *places, double *keys, double *other_keys, int64_t *other_rows, int64_t *tied) {
    int64_t ties = 0, total = 0;
    for (int64_t row = 0; row < size; row++) {
        if (topic[row] < 0 || topic[row] >= topics) return OUT_OF_RANGE;
        int64_t of = of_run[topic[row]];
        if (of >= judged) return OUT_OF_RANGE;
        if (of >= 0) starts[of]++;
    }
    for (int64_t k = 0; k <= judged; k++) {
        int64_t count = starts[k];
        starts[k] = total;
        total += count;
    }
    for (int64_t row = 0; row < size; row++) {
        int64_t of = of_run[topic[row]];
        if (of >= 0) rows[starts[of]++] = row; /* `starts` are the ends then */
    }
    for (int64_t k = 0, begin = 0; k < judged; begin = starts[k++]) {
        int64_t end = starts[k], at = begin + 1, before = ties;
        while (at < end && key(score[rows[at - 1]], single) >= key(score[rows[at]], single)) at++;
        if (at < end) {
            for (int64_t i = begin; i < end; i++) keys[i - begin] = key(score[rows[i]], single);
            sort(keys, rows + begin, end - begin, other_keys, other_rows);
        }
        for (int64_t i = begin + 1; i < end; i++) {
            if (key(score[rows[i - 1]], single) != key(score[rows[i]], single)) continue;
            if (ties == before || places[ties - 1] != i - 1) places[ties++] = i - 1;
            places[ties++] = i;
        }
    }
    *tied = ties;
    return total;
}
