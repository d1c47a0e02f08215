/* Counts of words, and the top documents of a query over weighted postings, for harness/systems/lexical/postings.py.

   Documents are scored range by range, so that the sums stay in the cache. Once k documents are known, lists whose upper
   bounds together cannot reach the k-th score are left out (MaxScore: Turtle and Flood 1995), and only documents of the
   other lists that can reach it are looked up in them. The score of every document that is compared is the sum over the
   lists in their order, as in the NumPy code. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define WIDTH 8192 /* documents of a range: 64 KiB of sums */
#define SLACK 1e-8 /* far above the rounding of any sum, so that bounds are safe */
#define LOOKUP 4   /* finding an entry takes about so many times as long as adding one */

typedef struct {
    int64_t key;
    int64_t row;
} Found;

typedef struct {
    const int32_t *doc;
    const double *weight;
    int64_t documents, lists;
    const int64_t *end;
    const double *factor;
    int64_t *from;       /* of each list: its entries in the present range begin here */
    int64_t *at;         /* of each list: its entries behind the present range begin here, or earlier if it is left out */
    int64_t *look;       /* of each list: where the next document is looked for */
    int64_t *left_out;   /* of each list: whether its bound is too low, so that its documents are not looked at */
    const int64_t *rank; /* lists by ascending bound */
    const double *rest;  /* sum of the bounds of the first lists of `rank` */
    const int64_t *place;
    double floor, cut;   /* sums up to `cut` cannot be among the best */
    int64_t least;       /* nor can keys up to this */
    int64_t k, found;
    Found *best;
} Search;

/* ---- the best so far: up to 2 k documents, of which the better k stay when there are so many ---- */

/* Orders by score, then place: a score above zero orders like the bits of it. */
static int64_t key_of(float score, int64_t place) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return (int64_t)bits << 32 | place;
}

static float score_of(int64_t key) {
    uint32_t bits = (uint32_t)(key >> 32);
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static void swap(Found *a, Found *b) {
    Found c = *a;
    *a = *b, *b = c;
}

/* Moves the k largest keys to the front, the least of them to k - 1 (quickselect; keys are distinct). */
static void select_best(Found *found, int64_t count, int64_t k) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (found[middle].key > found[low].key) swap(&found[middle], &found[low]);
        if (found[high].key > found[low].key) swap(&found[high], &found[low]);
        if (found[high].key > found[middle].key) swap(&found[high], &found[middle]);
        int64_t pivot = found[middle].key;
        int64_t i = low, j = high;
        while (i <= j) {
            while (found[i].key > pivot) i++;
            while (found[j].key < pivot) j--;
            if (i <= j) swap(&found[i++], &found[j--]);
        }
        if (k - 1 <= j) high = j;
        else if (k - 1 >= i) low = i;
        else return;
    }
}

static void offer(Search *s, int64_t row, double above) {
    float score = (float)(above + s->floor);
    int64_t key = key_of(score, s->place[row]);
    if (key <= s->least) return;
    s->best[s->found++] = (Found){key, row};
    if (s->found < 2 * s->k) return;
    select_best(s->best, s->found, s->k);
    s->found = s->k;
    s->least = s->best[s->k - 1].key;
    double below = nextafterf(score_of(s->least), -INFINITY);
    s->cut = fmax(0, below - s->floor - SLACK * (fabs(below) + s->floor));
}

/* ---- lists ---- */

/* The first entry from `at` on whose document is not below `target`: steps that double, then halve. */
static int64_t seek(const int32_t *doc, int64_t at, int64_t end, int64_t target) {
    int64_t step = 1;
    if (at >= end || doc[at] >= target) return at;
    while (step < end - at && doc[at + step] < target) at += step, step *= 2;
    int64_t high = step < end - at ? at + step : end; /* doc[at] < target <= doc[high] */
    while (high - at > 1) {
        int64_t middle = at + (high - at) / 2;
        if (doc[middle] < target) at = middle;
        else high = middle;
    }
    return high;
}

/* Adds the entries of list i in a range to the sums; returns -1 if its documents are not those of the index, ascending. */
static int64_t add(Search *s, int64_t i, int64_t low, int64_t width, double *sums) {
    const int32_t *doc = s->doc;
    const double *weight = s->weight, factor = s->factor[i];
    int64_t at = s->from[i], end = s->end[i];
    for (; at < end; at++) {
        uint32_t d = (uint32_t)doc[at] - (uint32_t)low;
        if (d >= (uint32_t)width) break;
        sums[d] += factor * weight[at];
    }
    s->at[i] = at;
    return at < end && (doc[at] < low || doc[at] >= s->documents) ? -1 : 0;
}

/* Scores all documents of a range. */
static int64_t all(Search *s, int64_t low, int64_t width, double *sums) {
    for (int64_t i = 0; i < s->lists; i++)
        if (add(s, i, low, width, sums) < 0) return -1;
    for (int64_t d = 0; d < width; d += 8) {
        int any = 0;
        for (int64_t n = 0; n < 8; n++) any |= sums[d + n] > s->cut;
        if (!any) continue;
        for (int64_t n = d; n < d + 8; n++)
            if (sums[n] > s->cut) offer(s, low + n, sums[n]);
    }
    memset(sums, 0, sizeof(double) * WIDTH);
    return 0;
}

/* Scores a document whose sum over the lists from `first` on (in `rank`) is `sum`, if it may be among the best. */
static void one(Search *s, int64_t row, int64_t first, double sum, double *part) {
    double least = s->cut * (1 - SLACK);
    for (int64_t n = first - 1; n >= -s->lists + first; n--) {
        int64_t i = s->rank[n >= 0 ? n : s->lists + n]; /* first the lists that are left out, by descending bound */
        if (n >= 0 && sum + s->rest[n + 1] < least) return;
        int64_t at = s->look[i] = seek(s->doc, s->look[i], s->end[i], row);
        part[i] = at < s->end[i] && s->doc[at] == row ? s->factor[i] * s->weight[at] : 0.0;
        if (n >= 0) sum += part[i];
    }
    sum = 0.0;
    for (int64_t i = 0; i < s->lists; i++) sum += part[i];
    if (sum > s->cut) offer(s, row, sum);
}

/* Scores the documents of a range that may be among the best, as the lists from `first` on (in `rank`) tell. */
static int64_t some(Search *s, int64_t low, int64_t width, int64_t first, double *sums, double *part) {
    uint64_t marks[WIDTH / 64] = {0};
    int64_t touched = 0, count = 0, others = 0;
    double least = s->cut * (1 - SLACK) - s->rest[first];
    for (int64_t i = 0; i < s->lists; i++) {
        if (s->left_out[i]) {
            others += s->end[i] - s->at[i];
            continue;
        }
        if (add(s, i, low, width, sums) < 0) return -1;
        touched += s->at[i] - s->from[i];
        s->look[i] = s->from[i];
    }
    for (int64_t n = first; n < s->lists; n++)
        for (int64_t at = s->from[s->rank[n]]; at < s->at[s->rank[n]]; at++) {
            int64_t d = s->doc[at] - low;
            uint64_t mark = (uint64_t)(sums[d] >= least) << (d & 63);
            count += (mark & ~marks[d >> 6]) != 0;
            marks[d >> 6] |= mark;
        }
    others /= (s->documents - low + WIDTH - 1) / WIDTH; /* about so many of their entries are in the range */
    if (count * LOOKUP * s->lists > others + touched + WIDTH / 4) { /* adding all is faster */
        memset(sums, 0, sizeof(double) * WIDTH);
        for (int64_t n = 0; n < first; n++) {
            int64_t i = s->rank[n];
            s->from[i] = seek(s->doc, s->at[i], s->end[i], low);
        }
        if (all(s, low, width, sums) < 0) return -1;
        for (int64_t n = 0; n < first; n++) s->look[s->rank[n]] = s->at[s->rank[n]];
        return 0;
    }
    for (int64_t word = 0; count && word < WIDTH / 64; word++)
        for (uint64_t left = marks[word]; left; left &= left - 1) {
            int64_t d = word * 64 + __builtin_ctzll(left);
            one(s, low + d, first, sums[d], part);
        }
    for (int64_t n = 0; n < first; n++) s->at[s->rank[n]] = s->look[s->rank[n]];
    if (touched > WIDTH / 4) {
        memset(sums, 0, sizeof(double) * WIDTH);
        return 0;
    }
    for (int64_t n = first; n < s->lists; n++)
        for (int64_t at = s->from[s->rank[n]]; at < s->at[s->rank[n]]; at++) sums[s->doc[at] - low] = 0.0;
    return 0;
}

/* The next document of the lists that are not left out; `documents` if there is none, -1 if it is behind `low`. */
static int64_t next(const Search *s, int64_t low) {
    int64_t found = s->documents;
    for (int64_t i = 0; i < s->lists; i++)
        if (!s->left_out[i] && s->at[i] < s->end[i]) {
            int64_t doc = s->doc[s->at[i]];
            if (doc < low || doc >= s->documents) return -1;
            if (doc < found) found = doc;
        }
    return found;
}

/* Finds the k documents with the highest scores, in no order; ties by `place`, descending. Returns their number, or -1
   if the NumPy code has to do, as the postings are damaged. A sum above zero is needed.

   entries       length of doc and weight
   begin, end    of each list: where its entries are; begin is changed
   factor        of each list: what its weights are multiplied by
   rank, rest    lists by ascending bound, and sums of the bounds of the first 0, 1, ... of them, shape (lists + 1,); all
                 bounds infinite where a product may be negative
   sums          8,192 zeros
   room          shape (3 * lists,), overwritten; part likewise, shape (lists,)
   best          shape (2 * k, 2): the bits of the score and the place, and the document */
EXPORT int64_t harness_best(const int32_t *doc, const double *weight, int64_t entries, int64_t documents, int64_t lists,
                            int64_t *begin, const int64_t *end, const double *factor, const int64_t *rank,
                            const double *rest, const int64_t *place, double floor, int64_t k, double *sums,
                            int64_t *room, double *part, Found *best) {
    Search s = {.doc = doc, .weight = weight, .documents = documents, .lists = lists, .end = end, .factor = factor,
                .rank = rank, .rest = rest, .place = place, .floor = floor, .k = k, .best = best, .least = -1,
                .at = begin, .from = room, .look = room + lists, .left_out = room + 2 * lists};
    if (k < 1 || documents > INT32_MAX || !isfinite(floor) || floor < 0) return -1;
    for (int64_t i = 0; i < lists; i++) {
        if (begin[i] < 0 || begin[i] > end[i] || end[i] > entries) return -1;
        s.look[i] = begin[i], s.left_out[i] = 0;
    }
    int64_t first = 0, low = 0;
    for (;;) {
        /* The sum of some lists that are left out stays below the cut, and so does that of fewer. */
        while (first < lists && rest[first + 1] < s.cut * (1 - SLACK)) {
            s.left_out[rank[first]] = 1;
            s.look[rank[first]] = s.at[rank[first]];
            first++;
        }
        low = next(&s, low);
        if (low < 0) return -1;
        if (low == documents) break;
        int64_t width = documents - low < WIDTH ? documents - low : WIDTH;
        for (int64_t i = 0; i < lists; i++)
            if (!s.left_out[i]) s.from[i] = s.at[i];
        if ((first ? some(&s, low, width, first, sums, part) : all(&s, low, width, sums)) < 0) return -1;
        low += width;
    }
    if (s.found > k) select_best(best, s.found, k);
    return s.found < k ? s.found : k;
}

/* Counts the words of some documents. Returns the number of entries, or -1 if a token is no word.

   start     where each document's tokens begin in `token`, and the end, shape (documents + 1,)
   df        zeros, shape (words,); the result: the number of documents with each word
   room      shape (2, words), overwritten
   doc, tf   the result: entries by word, then document; room for all tokens */
EXPORT int64_t harness_counts(const int64_t *start, int64_t documents, const int32_t *token, int64_t words, int64_t *df,
                              int64_t *room, int32_t *doc, int32_t *tf) {
    int64_t *next = room, *last = room + words, entries = 0;
    memset(room, -1, 2 * sizeof *room * (size_t)words);
    for (int64_t d = 0; d < documents; d++)
        for (int64_t at = start[d]; at < start[d + 1]; at++) {
            int64_t word = token[at];
            if (word < 0 || word >= words) return -1;
            df[word] += last[word] != d;
            last[word] = d;
        }
    for (int64_t word = 0; word < words; entries += df[word++]) next[word] = entries, last[word] = -1;
    for (int64_t d = 0; d < documents; d++)
        for (int64_t at = start[d]; at < start[d + 1]; at++) {
            int64_t word = token[at];
            if (last[word] != d) last[word] = d, doc[next[word]] = (int32_t)d, tf[next[word]++] = 0;
            tf[next[word] - 1]++;
        }
    return entries;
}
