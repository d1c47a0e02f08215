/* Inner products of queries with documents' single vectors, for harness/systems/dense/singles.py.

   harness_dense_scan   float32 scores of many documents; keeps those that reach the floor of their query.
   harness_dense_exact  float64 scores of pairs of a query and a document, summed in NumPy's order.
   harness_dense_widen  rows of float16 vectors as float32.

   Values are float32 (half = 0) or float16 (half = 1). Rows come from Python and are checked against `total`. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LANES 16  /* queries of a panel */
#define TILE 6    /* documents of a tile: 6 x 16 sums fill 12 registers of 8 floats */
#define GROUP 48  /* documents that are scored with all queries while they are in the cache */
#define MOST 64   /* threads */
#define AHEAD 4   /* documents fetched ahead of those that are multiplied */
enum { NO_MEMORY = -1, NO_ROW = -2, NO_PROCESSOR = -3 };

static inline float widened(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu, bits;
    float value;
    if (rest < 0x400u) { /* zero and subnormal numbers: an exact product */
        value = (float)rest * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    } else {
        bits = (rest << 13) + ((rest < 0x7c00u ? 112u : 224u) << 23);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int outside(const int64_t *rows, int64_t count, int64_t total)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= total) return 1;
    return 0;
}

/* values: uint16 [total][dims]; rows: [count]; out: float [count][dims]. */
EXPORT int64_t harness_dense_widen(const uint16_t *values, int64_t total, int64_t dims, const int64_t *rows,
                                   int64_t count, float *out)
{
    if (outside(rows, count, total)) return NO_ROW;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t *from = values + rows[i] * dims;
        for (int64_t k = 0; k < dims; k++) out[i * dims + k] = widened(from[k]);
    }
    return 0;
}

/* The sum of products in the order of NumPy's pairwise summation of a row. */
static double pairwise(const float *x, const double *q, int64_t n)
{
    if (n < 8) {
        double sum = -0.0;
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] * q[i];
        return sum;
    }
    if (n <= 128) {
        double r[8];
        int64_t i;
        for (int j = 0; j < 8; j++) r[j] = (double)x[j] * q[j];
        for (i = 8; i < n - n % 8; i += 8)
            for (int j = 0; j < 8; j++) r[j] += (double)x[i + j] * q[i + j];
        double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; i < n; i++) sum += (double)x[i] * q[i];
        return sum;
    }
    int64_t half = n / 2 - n / 2 % 8;
    return pairwise(x, q, half) + pairwise(x + half, q + half, n - half);
}

/* rows, asked: document and query of each pair [count]; wanted: double [queries][dims]; out: double [count]. */
EXPORT int64_t harness_dense_exact(const void *values, int64_t half, int64_t total, int64_t dims, const int64_t *rows,
                                   const int64_t *asked, int64_t count, const double *wanted, int64_t queries,
                                   double *out)
{
    if (outside(rows, count, total) || outside(asked, count, queries)) return NO_ROW;
    float *wide = half ? malloc(sizeof(float) * (size_t)(dims ? dims : 1)) : NULL;
    if (half && !wide) return NO_MEMORY;
    int64_t bytes = dims * (half ? 2 : 4), last = 0;
    for (int64_t i = 0; i < count; i++) {
        const float *x = wide;
        /* Documents lie apart: those that follow are fetched while this one is multiplied. */
        for (; last < count && last <= i + AHEAD; last++)
            for (int64_t at = 0; at < bytes; at += 64)
                __builtin_prefetch((const char *)values + rows[last] * bytes + at, 0, 2);
        if (half)
            harness_dense_widen(values, total, dims, rows + i, 1, wide);
        else
            x = (const float *)values + rows[i] * dims;
        out[i] = 0.0 + pairwise(x, wanted + asked[i] * dims, dims); /* never -0 */
    }
    free(wide);
    return 0;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define WIDE __attribute__((target("avx2,fma,f16c")))

typedef struct {
    const float *panels, *floor;   /* [panel][dims][LANES]; [panel * LANES], infinite behind the last query */
    const void *values;
    const int64_t *rows, *names;   /* rows of `values` [count], and what documents are called in `found` */
    const uint8_t *out;            /* [query][width]: excluded documents by name; width 0: none */
    int64_t queries, dims, half, count, width, size, failed;
    uint16_t *asked;
    int64_t *found;
    float *scores;
} Slice;

/* The scores of TILE documents with a panel of queries; appends those that reach the floor. */
WIDE static void tile(Slice *s, const float *const x[TILE], int64_t first, int64_t filled, int64_t panel)
{
    const float *q = s->panels + panel * s->dims * LANES, *floor = s->floor + panel * LANES;
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3], *x4 = x[4], *x5 = x[5];
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0; /* the first 8 queries */
    __m256 b0 = a0, b1 = a0, b2 = a0, b3 = a0, b4 = a0, b5 = a0;                  /* and the other 8 */
#define ROW(r)                                    \
    v = _mm256_broadcast_ss(x##r + k);            \
    a##r = _mm256_fmadd_ps(v, low, a##r);         \
    b##r = _mm256_fmadd_ps(v, high, b##r);
    for (int64_t k = 0, dims = s->dims; k < dims; k++, q += LANES) {
        __m256 low = _mm256_loadu_ps(q), high = _mm256_loadu_ps(q + 8), v;
        ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5)
    }
    const __m256 low = _mm256_loadu_ps(floor), high = _mm256_loadu_ps(floor + 8);
#define REACHED(r)                                                                          \
    ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a##r, low, _CMP_GE_OQ)) |                   \
     (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(b##r, high, _CMP_GE_OQ)) << 8)
    const uint32_t masks[TILE] = {REACHED(0), REACHED(1), REACHED(2), REACHED(3), REACHED(4), REACHED(5)};
    if (!(masks[0] | masks[1] | masks[2] | masks[3] | masks[4] | masks[5])) return;
    float scores[TILE][LANES];
#define STORE(r) _mm256_storeu_ps(scores[r], a##r), _mm256_storeu_ps(scores[r] + 8, b##r)
    STORE(0), STORE(1), STORE(2), STORE(3), STORE(4), STORE(5);
    for (int r = 0; r < filled; r++) {
        int64_t name = s->names[first + r];
        for (uint32_t mask = masks[r]; mask; mask &= mask - 1) {
            int lane = __builtin_ctz(mask);
            int64_t query = panel * LANES + lane;
            if (s->width && s->out[query * s->width + name]) continue;
            s->asked[s->size] = (uint16_t)query;
            s->found[s->size] = name;
            s->scores[s->size++] = scores[r][lane];
        }
    }
}

WIDE static void widen(const uint16_t *from, int64_t dims, float *to)
{
    int64_t k = 0;
    for (; k + 8 <= dims; k += 8)
        _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + k))));
    for (; k < dims; k++) to[k] = widened(from[k]);
}

static void *scan(void *given)
{
    Slice *s = given;
    int64_t dims = s->dims, panels = (s->queries + LANES - 1) / LANES;
    float *wide = s->half ? malloc(sizeof(float) * GROUP * (size_t)(dims ? dims : 1)) : NULL;
    if (s->half && !wide) {
        s->failed = 1;
        return NULL;
    }
    for (int64_t begin = 0; begin < s->count; begin += GROUP) {
        int64_t group = s->count - begin < GROUP ? s->count - begin : GROUP;
        const float *x[GROUP + TILE];
        for (int64_t i = 0; i < group; i++) {
            x[i] = s->half ? wide + i * dims : (const float *)s->values + s->rows[begin + i] * dims;
            if (s->half) widen((const uint16_t *)s->values + s->rows[begin + i] * dims, dims, wide + i * dims);
        }
        for (int64_t i = group; i < group + TILE; i++) x[i] = x[group - 1]; /* fills the last tile */
        for (int64_t panel = 0; panel < panels; panel++)
            for (int64_t i = 0; i < group; i += TILE)
                tile(s, x + i, begin + i, group - i < TILE ? group - i : TILE, panel);
    }
    free(wide);
    return NULL;
}

/* Whether harness_dense_scan runs on this processor. */
EXPORT int64_t harness_dense_able(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           c >> 29 & 1;
}

/* Scores `count` documents by at most `threads` threads, each with a slice of `step` documents.

   Thread t writes its candidates from t * step * queries on into asked, found and scores, and their number into
   sizes[t]; the caller has room for all, and step * threads >= count. At most 65,536 queries. */
EXPORT int64_t harness_dense_scan(const float *panels, int64_t queries, int64_t dims, const float *floor,
                                  const void *values, int64_t half, int64_t total, const int64_t *rows,
                                  const int64_t *names, int64_t count, const uint8_t *out, int64_t width, int64_t step,
                                  int64_t threads, uint16_t *asked, int64_t *found, float *scores, int64_t *sizes)
{
    if (!harness_dense_able()) return NO_PROCESSOR;
    if (queries > 65536 || threads < 1 || threads > MOST || step < 1 || step * threads < count) return NO_ROW;
    if (outside(rows, count, total) || (width && outside(names, count, width))) return NO_ROW;
    Slice slices[MOST];
    pthread_t started[MOST];
    int64_t used = (count + step - 1) / step, failed = 0, running = 0;
    for (int64_t t = 0; t < used; t++) {
        int64_t begin = t * step, room = begin * queries;
        slices[t] = (Slice){panels, floor, values, rows + begin, names + begin, out, queries, dims, half,
                            count - begin < step ? count - begin : step, width, 0, 0,
                            asked + room, found + room, scores + room};
    }
    while (running + 1 < used && !pthread_create(&started[running], NULL, scan, &slices[running + 1])) running++;
    if (used) scan(&slices[0]);
    for (int64_t t = running + 1; t < used; t++) scan(&slices[t]); /* no more threads are to be had */
    for (int64_t t = 0; t < running; t++) pthread_join(started[t], NULL);
    for (int64_t t = 0; t < threads; t++) {
        sizes[t] = t < used ? slices[t].size : 0;
        failed |= t < used && slices[t].failed;
    }
    return failed ? NO_MEMORY : 0;
}
#endif
