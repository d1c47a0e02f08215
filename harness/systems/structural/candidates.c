/* Candidates of a formula search: the NumPy code of index.py, range by range. Additions are made in the same order, so
 * that the results are the same. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The k-th largest of some values (k from 1), which are reordered. */
static double largest(double *values, int64_t length, int64_t k) {
	int64_t low = 0, high = length - 1, wanted = k - 1;
	while (low < high) {
		double pivot = values[low + (high - low) / 2];
		int64_t i = low, j = high;
		while (i <= j) {
			while (values[i] > pivot) i++;
			while (values[j] < pivot) j--;
			if (i <= j) {
				double kept = values[i];
				values[i++] = values[j];
				values[j--] = kept;
			}
		}
		if (wanted <= j) high = j;
		else if (wanted >= i) low = i;
		else break;
	}
	return values[wanted];
}

#define RANGE 4096 /* trees of a block of postings, see index.py: their sums stay in the processor's cache */
#define OFTEN 15

/* Keeps the best `limit` of some trees in their order; of those that tie for the last place, the first. */
static int64_t best(int64_t *found, double *dice, double *room, int64_t length, int64_t limit, double *threshold) {
	memcpy(room, dice, (size_t)length * sizeof *room);
	*threshold = largest(room, length, limit);
	int64_t equal = limit, taken = 0;
	for (int64_t i = 0; i < length; i++) equal -= dice[i] > *threshold;
	for (int64_t i = 0; i < length; i++) {
		if (dice[i] < *threshold || (dice[i] == *threshold && equal-- <= 0)) continue;
		found[taken] = found[i];
		dice[taken++] = dice[i];
	}
	return taken;
}

/* The first posting of more than OFTEN occurrences that is not before a posting. */
static int64_t first_frequent(const int64_t *frequent, int64_t length, int64_t at) {
	int64_t low = 0, high = length;
	while (low < high) {
		const int64_t middle = low + (high - low) / 2;
		if (frequent[middle] < at) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* Finds the trees with the highest Dice coefficients in posting lists; trees are counted range by range.
 *
 * range, size, posting, frequent, frequency: see Index in index.py; frequents: length of the last two. block, block_end:
 * blocks of each list; at, end: its postings; they are moved. The rarest path comes first. value, count: weight of its
 * path, and occurrences in the query. weight: of each tree; least: the least of them. found: room for `limit` trees.
 * Returns the number of trees found, ascending by number; -1 if the lists are damaged, -2 without memory.
 *
 * Pruning (MaxScore): if all that the last lists can give does not reach the best `limit` of the ranges before, a tree
 * of these lists only is not counted, and their blocks are left out where no other tree is. */
EXPORT int64_t harness_candidates(const uint16_t *range, const uint16_t *size, const uint16_t *posting,
                                  const int64_t *frequent, const uint32_t *frequency, int64_t frequents, int64_t *block,
                                  const int64_t *block_end, int64_t *at, const int64_t *end, const double *value,
                                  const int64_t *count, int64_t lists, const float *weight, double asked, double least,
                                  int64_t trees, int64_t limit, int64_t *found_, double *dice_) {
	const float own = (float)asked; /* NumPy adds the weights in float32 */
	const int64_t most = smaller(trees, 2 * limit + RANGE);
	double *dice = malloc((size_t)most * 2 * sizeof *dice), *room = dice + most;
	int64_t *found = malloc((size_t)most * sizeof *found), length = 0;
	double *left = malloc((size_t)(lists + 1) * sizeof *left), threshold = -1;
	double total[RANGE] = {0}, each[OFTEN + 1];
	union {
		uint8_t tree[RANGE];
		uint64_t word[RANGE / 8];
	} seen = {{0}};
	if (!dice || !found || !left) {
		length = -2;
		goto end;
	}
	left[lists] = 0;
	for (int64_t i = lists - 1; i >= 0; i--) left[i] = left[i + 1] + value[i] * (double)count[i];
	for (int64_t number = 0; number * RANGE < trees; number++) {
		int any = 0;
		for (int64_t i = 0; i < lists; i++) {
			if (block[i] == block_end[i] || range[block[i]] != number) continue;
			const int64_t length_ = size[block[i]++] + 1;
			const uint16_t *its = posting + at[i];
			at[i] += length_;
			if (at[i] > end[i]) {
				length = -1;
				goto end;
			}
			/* A little above the bound, for what rounding may take from it. */
			const int closed = left[i] * (1 + 1e-6) < threshold * (asked + least);
			if (closed && !any) continue;
			if (count[i] > OFTEN) { /* the only lists whose postings need the table */
				const int64_t before = at[i] - length_;
				int64_t next = first_frequent(frequent, frequents, before);
				for (int64_t n = 0; n < length_; n++) {
					double *sum = total + (its[n] >> 4);
					int64_t often = its[n] & OFTEN;
					while (next < frequents && frequent[next] < before + n) next++;
					if (next < frequents && frequent[next] == before + n) often = frequency[next];
					if (closed && *sum <= 0) continue;
					*sum += value[i] * (double)smaller(often, count[i]);
					seen.tree[its[n] >> 4] = 1;
				}
				any |= !closed;
				continue;
			}
			for (int64_t times = 0; times <= OFTEN; times++) each[times] = value[i] * (double)smaller(times, count[i]);
			if (closed) {
				for (int64_t n = 0; n < length_; n++) {
					double *sum = total + (its[n] >> 4);
					*sum += *sum > 0 ? each[its[n] & OFTEN] : 0;
				}
			} else {
				any = 1;
				for (int64_t n = 0; n < length_; n++) {
					total[its[n] >> 4] += each[its[n] & OFTEN];
					seen.tree[its[n] >> 4] = 1;
				}
			}
		}
		if (!any) continue;
		const int64_t first = number * RANGE;
		/* What does not reach the threshold even with the least weight; most trees, whose weight is then not read. */
		const double low = threshold * (asked + least) * (1 - 1e-6);
		int64_t likely = 0;
		for (int64_t word = 0; word < RANGE / 8; word++) {
			for (uint64_t bits = seen.word[word]; bits; bits &= bits - 1) {
				const int64_t tree = word * 8 + (__builtin_ctzll(bits) >> 3);
				const double sum = total[tree];
				total[tree] = 0;
				if (sum < low) continue;
				if (first + tree >= trees) {
					length = -1;
					goto end;
				}
				__builtin_prefetch(weight + first + tree);
				found[length + likely] = first + tree;
				dice[length + likely++] = sum;
			}
			seen.word[word] = 0;
		}
		const int64_t before = length;
		for (int64_t i = before; i < before + likely; i++) {
			const double its = dice[i] / (double)(own + weight[found[i]]);
			found[length] = found[i];
			dice[length] = its;
			length += its > threshold;
		}
		if (length >= 2 * limit) length = best(found, dice, room, length, limit, &threshold);
	}
	if (length > limit) length = best(found, dice, room, length, limit, &threshold);
	memcpy(found_, found, (size_t)length * sizeof *found);
	if (dice_) memcpy(dice_, dice, (size_t)length * sizeof *dice);
end:
	free(dice), free(found), free(left);
	return length;
}
