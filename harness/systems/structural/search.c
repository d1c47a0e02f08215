/* Formula search: the NumPy code of index.py, tree.py and paths.py, range by range and candidate by candidate. Additions
 * are made in the same order, so that the results are the same. */

#include <float.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- memory ---- */

enum { DAMAGED = -1, NO_MEMORY = -2 };

/* All memory of a search, which is freed at its end, and the way there if the search fails. */
typedef struct Part {
	struct Part *before;
	max_align_t content[];
} Part;

typedef struct {
	Part *last;
	int64_t fault;
	jmp_buf end;
} Memory;

static _Noreturn void failed(Memory *memory, int64_t fault) {
	memory->fault = fault;
	longjmp(memory->end, 1);
}

/* Zeroed memory of so many bytes, or of as many as there are values. */
static void *some(Memory *memory, int64_t count, size_t size) {
	Part *part = calloc(1, sizeof *part + (size_t)count * size);
	if (!part) failed(memory, NO_MEMORY);
	part->before = memory->last;
	memory->last = part;
	return part->content;
}

static int64_t ended(Memory *memory, int64_t out) {
	for (Part *part = memory->last, *before; part; part = before) before = part->before, free(part);
	free(memory);
	return out;
}

/* ---- the query ---- */

/* A query's paths: distinct hashes in ascending order, and for each the groups that it is in with its counts there.
 * The table finds a hash; the marks say of its highest 16 bits whether any hash has them. */
typedef struct {
	uint64_t *known;
	int64_t *start, *group, *count;
	int64_t length;
	uint32_t *slots;
	uint64_t mask;
	uint64_t *marks;
} Asked;

/* A path: its hash, and the group that it is in. */
typedef struct {
	uint64_t hash;
	int64_t group;
} Path;

static int by_hash(const void *a, const void *b) {
	const Path *x = a, *y = b;
	if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

/* Groups some paths, which are sorted. */
static void grouped(Asked *asked, Path *paths, int64_t length, Memory *memory) {
	uint64_t size = 16;
	while (size < 4 * (uint64_t)length) size *= 2;
	int64_t *columns = some(memory, 4 * (length + 1), 8);
	*asked = (Asked){(uint64_t *)columns, columns + length + 1, columns + 2 * (length + 1), columns + 3 * (length + 1), 0,
	                 some(memory, (int64_t)size, 4), size - 1, some(memory, 1024, 8)};
	qsort(paths, (size_t)length, sizeof *paths, by_hash);
	int64_t entries = 0;
	for (int64_t i = 0; i < length; i++) {
		const int new = i == 0 || paths[i].hash != paths[i - 1].hash;
		if (new) {
			uint64_t slot = paths[i].hash & asked->mask;
			while (asked->slots[slot]) slot = (slot + 1) & asked->mask;
			asked->start[asked->length] = entries;
			asked->known[asked->length++] = paths[i].hash;
			asked->slots[slot] = (uint32_t)asked->length;
			asked->marks[paths[i].hash >> 54] |= 1ull << (paths[i].hash >> 48 & 63);
		}
		if (new || paths[i].group != paths[i - 1].group) {
			asked->group[entries] = paths[i].group;
			asked->count[entries++] = 0;
		}
		asked->count[entries - 1]++;
	}
	asked->start[asked->length] = entries;
}

/* The number of a hash, or -1. */
static inline int64_t place(const Asked *asked, uint64_t hash) {
	if (!(asked->marks[hash >> 54] >> (hash >> 48 & 63) & 1)) return -1;
	for (uint64_t slot = hash & asked->mask; asked->slots[slot]; slot = (slot + 1) & asked->mask)
		if (asked->known[asked->slots[slot] - 1] == hash) return (int64_t)asked->slots[slot] - 1;
	return -1;
}

static inline uint64_t mixed(uint64_t path, uint64_t step) {
	path = path * 0x9E3779B97F4A7C15ull ^ step;
	path = (path ^ path >> 29) * 0xBF58476D1CE4E5B9ull;
	return path ^ path >> 32;
}

/* What a search needs of an index and of its trees; see Index in index.py and Codes in paths.py. */
typedef struct {
	const uint64_t *path;
	const int64_t *end, *blocks;
	const uint16_t *range, *size, *posting;
	const float *weight;
	const double *idf;
	const int64_t *frequent;
	const uint32_t *frequency;
	const int64_t *offsets;
	const uint32_t *labels;
	const uint16_t *parents;
	const uint8_t *edges;
	const uint64_t *label, *inner, *wildcard, *edge;
	const uint8_t *ordered;
	int64_t paths, range_length, posting_length, trees, height, frequents;
	double least, unknown; /* the least weight of a tree; the weight of a path that no tree has */
} Index;

typedef struct {
	Asked shorts, wild, symbols;
	double *value; /* of each short path */
	double weight;
	int64_t leaves, groups;
} Query;

#define ROOTS 16 /* the query's largest subtrees, which are matched */
#define INNER 2  /* weight of a path from an inner node, which has one form instead of two */

/* What the paths of one tree are made of. */
typedef struct {
	int64_t nodes;
	const uint16_t *parent;
	uint64_t *symbol, *wild, *step; /* of each node: where a path begins, in both forms, and the step to its parent */
	uint8_t *leaf;
} Steps;

static Steps steps_of(int64_t widest, Memory *memory) {
	uint64_t *columns = some(memory, 3 * widest, 8);
	return (Steps){0, NULL, columns, columns + widest, columns + 2 * widest, some(memory, widest, 1)};
}

/* Takes a tree whose labels and edges are numbers of codes. Parents come before their children. */
static inline void taken(Steps *steps, int64_t nodes, const uint32_t *labels, const uint16_t *parent,
                         const uint8_t *edges, const uint64_t *label, const uint64_t *inner, const uint64_t *wildcard,
                         const uint8_t *ordered, const uint64_t *edge) {
	steps->nodes = nodes;
	steps->parent = parent;
	memset(steps->leaf, 1, (size_t)nodes);
	for (int64_t n = 1; n < nodes; n++) {
		const uint32_t above = labels[parent[n]];
		steps->leaf[parent[n]] = 0;
		steps->step[n] = label[above] + (ordered[above] ? edge[edges[n]] : 0);
	}
	for (int64_t n = 0; n < nodes; n++) {
		steps->symbol[n] = steps->leaf[n] ? label[labels[n]] : inner[labels[n]];
		steps->wild[n] = steps->leaf[n] ? wildcard[labels[n]] : steps->symbol[n];
	}
}

/* The place of the first of ascending numbers that is not below one. */
#define FIRST_FROM(name, type)                                            \
	static int64_t name(const type *numbers, int64_t length, type least) { \
		int64_t low = 0, high = length;                                      \
		while (low < high) {                                                 \
			const int64_t middle = low + (high - low) / 2;                     \
			if (numbers[middle] < least) low = middle + 1;                     \
			else high = middle;                                                \
		}                                                                    \
		return low;                                                          \
	}
FIRST_FROM(first_from, int64_t)
FIRST_FROM(first_hash, uint64_t)

/* Makes a query of a tree; `Query.of` of tree.py. Returns each short path's place in the index, or -1. */
static int64_t *queried(Query *query, const Steps *tree, const Index *index, Memory *memory) {
	const int64_t nodes = tree->nodes;
	int64_t shorts = 0, longs = 0, *below = some(memory, nodes, 8), *group = some(memory, nodes, 8);
	for (int64_t n = 0; n < nodes; n++) {
		query->leaves += tree->leaf[n];
		int64_t high = 0;
		for (int64_t top = n;; top = tree->parent[top], high++) {
			if (high <= index->height) shorts += 1 + tree->leaf[n];
			if (tree->leaf[n]) below[top]++, longs++;
			if (top == 0 || (!tree->leaf[n] && high >= index->height)) break;
		}
	}
	/* The nodes with the most paths, the first of equal ones, in the order of the tree. */
	query->groups = smaller(ROOTS, nodes);
	for (int64_t n = 0; n < nodes; n++) group[n] = -1;
	for (int64_t i = 0; i < query->groups; i++) {
		int64_t most = -1;
		for (int64_t n = 0; n < nodes; n++)
			if (group[n] < 0 && (most < 0 || below[n] > below[most])) most = n;
		group[most] = 0;
	}
	for (int64_t n = 0, next = 0; n < nodes; n++)
		if (group[n] == 0) group[n] = next++;
	Path *paths = some(memory, shorts, sizeof *paths), *wild = some(memory, 2 * longs, sizeof *wild), *symbol = wild + longs;
	shorts = longs = 0;
	for (int64_t n = 0; n < nodes; n++) {
		uint64_t as_symbol = tree->symbol[n], as_wild = tree->wild[n];
		int64_t high = 0;
		for (int64_t top = n;; high++) {
			if (high <= index->height) {
				/* The factor of the weight stands for the group: it is the same wherever the path is. */
				paths[shorts++] = (Path){as_wild, tree->leaf[n] ? 1 : INNER};
				if (tree->leaf[n]) paths[shorts++] = (Path){as_symbol, 1};
			}
			if (tree->leaf[n] && group[top] >= 0) {
				wild[longs] = (Path){as_wild, group[top]};
				symbol[longs++] = (Path){as_symbol, group[top]};
			}
			if (top == 0 || (!tree->leaf[n] && high >= index->height)) break;
			as_wild = mixed(as_wild, tree->step[top]), as_symbol = mixed(as_symbol, tree->step[top]);
			top = tree->parent[top];
		}
	}
	grouped(&query->shorts, paths, shorts, memory);
	grouped(&query->wild, wild, longs, memory);
	grouped(&query->symbols, symbol, longs, memory);
	const int64_t length = query->shorts.length;
	int64_t *at = some(memory, length, sizeof *at);
	query->value = some(memory, length, sizeof *query->value);
	for (int64_t i = 0; i < length; i++) {
		const uint64_t hash = query->shorts.known[i];
		at[i] = first_hash(index->path, index->paths, hash);
		if (at[i] == index->paths || index->path[at[i]] != hash) at[i] = -1;
		const double idf = at[i] < 0 ? index->unknown : index->idf[at[i]];
		query->value[i] = idf * (double)query->shorts.group[i];
		query->weight += query->value[i] * (double)query->shorts.count[i];
	}
	return at;
}

/* ---- candidates ---- */

#define RANGE 4096 /* trees of a block of postings, see index.py: their sums stay in the processor's cache */
#define OFTEN 15

typedef double Pair __attribute__((vector_size(16), may_alias));
typedef int64_t Bits __attribute__((vector_size(16)));

/* A list of postings: those of a path, with the weight of the path and its occurrences in the query. Its blocks and
 * postings begin at `block` and `at`, which move. */
typedef struct {
	double value, each[OFTEN + 1]; /* of an occurrence; of so many in a tree */
	int64_t count, number, block, block_end, at, end;
} List;

typedef struct {
	List *of;
	int64_t number;
} Lists;

static int64_t often(const List *list) { return list->end - list->at; }

static int by_often(const void *a, const void *b) {
	const List *x = a, *y = b;
	if (often(x) != often(y)) return often(x) < often(y) ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

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

/* Keeps the best `limit` of some trees in their order; of those that tie for the last place, the first. */
static int64_t best(int64_t *found, double *dice, double *room, int64_t length, int64_t limit, double *threshold) {
	memcpy(room, dice, (size_t)length * sizeof *room);
	*threshold = largest(room, length, limit);
	int64_t equal = limit, taken = 0;
	for (int64_t i = 0; i < length; i++) equal -= dice[i] > *threshold;
	for (int64_t i = 0; i < length; i++) { /* without branches, which would be guessed wrong */
		const int tie = dice[i] == *threshold, kept = (dice[i] > *threshold) | (tie & (equal > 0));
		equal -= tie;
		found[taken] = found[i];
		dice[taken] = dice[i];
		taken += kept;
	}
	return taken;
}

/* Finds the trees with the highest Dice coefficients in posting lists; trees are counted range by range.
 *
 * lists: the rarest path comes first. asked: the query's weight. found, dice: room for `limit` trees. Returns the number
 * of trees found, ascending by number.
 *
 * Pruning (MaxScore): if all that the last lists can give does not reach the best `limit` of the ranges before, a tree
 * of these lists only is not counted, and their blocks are left out where no other tree is. */
static int64_t counted_lists(const Index *index, const Lists *lists, double asked, int64_t limit, int64_t *found_,
                             double *dice_, Memory *memory) {
	const float own = (float)asked; /* NumPy adds the weights in float32 */
	const int64_t trees = index->trees, most = 2 * limit + RANGE + 1;
	double *dice = some(memory, most, sizeof *dice), *room = some(memory, most, sizeof *room);
	int64_t *found = some(memory, most, sizeof *found), length = 0;
	double *left = some(memory, lists->number + 1, sizeof *left), threshold = -1;
	_Alignas(Pair) double total[RANGE] = {0};
	for (int64_t i = lists->number - 1; i >= 0; i--)
		left[i] = left[i + 1] + lists->of[i].value * (double)lists->of[i].count;
	for (int64_t number = 0; number * RANGE < trees; number++) {
		int any = 0;
		/* The least sum that can reach the threshold: a tree weighs no less than what it shares. */
		const double alone = threshold * asked / (1 - threshold), light = threshold * (asked + index->least),
		             least = alone > light ? alone : light;
		for (int64_t i = 0; i < lists->number; i++) {
			List *list = lists->of + i;
			if (list->block == list->block_end || index->range[list->block] != number) continue;
			const int64_t length_ = index->size[list->block++] + 1, count = list->count;
			const uint16_t *its = index->posting + list->at;
			const double *each = list->each;
			list->at += length_;
			if (list->at > list->end) failed(memory, DAMAGED);
			/* A little above the bound, for what rounding may take from it. */
			const int closed = left[i] * (1 + 1e-6) < least;
			if (closed && !any) continue;
			any |= !closed;
			if (count > OFTEN) { /* the only lists whose postings need the table */
				const int64_t before = list->at - length_;
				int64_t next = first_from(index->frequent, index->frequents, before);
				for (int64_t n = 0; n < length_; n++) {
					double *sum = total + (its[n] >> 4);
					int64_t often = its[n] & OFTEN;
					while (next < index->frequents && index->frequent[next] < before + n) next++;
					if (next < index->frequents && index->frequent[next] == before + n) often = index->frequency[next];
					if (!closed || *sum > 0) *sum += list->value * (double)smaller(often, count);
				}
			} else if (closed) { /* each[0] is 0 */
				for (int64_t n = 0; n < length_; n++) {
					double *sum = total + (its[n] >> 4);
					*sum += each[its[n] & OFTEN & -(*sum > 0)];
				}
			} else
				for (int64_t n = 0; n < length_; n++) total[its[n] >> 4] += each[its[n] & OFTEN];
		}
		if (!any) continue;
		const int64_t first = number * RANGE;
		/* Most trees do not reach the threshold with any weight, which is then not read; trees of no list have 0. */
		const double low = least * (1 - 1e-6) < DBL_MIN ? DBL_MIN : least * (1 - 1e-6);
		int64_t likely = 0;
		for (int64_t eight = 0; eight < RANGE; eight += 8) {
			Pair *its = (Pair *)(total + eight);
			const Bits reached = (its[0] >= low) | (its[1] >= low) | (its[2] >= low) | (its[3] >= low);
			if (reached[0] | reached[1]) {
				__builtin_prefetch(index->weight + first + eight);
				for (int64_t tree = eight; tree < eight + 8; tree++) {
					found[length + likely] = first + tree;
					dice[length + likely] = total[tree];
					likely += total[tree] >= low;
				}
			}
			its[0] = its[1] = its[2] = its[3] = (Pair){0};
		}
		if (likely && found[length + likely - 1] >= trees) failed(memory, DAMAGED);
		const int64_t before = length;
		for (int64_t i = before; i < before + likely; i++) {
			const double its = dice[i] / (double)(own + index->weight[found[i]]);
			found[length] = found[i];
			dice[length] = its;
			length += its > threshold;
		}
		if (length >= 2 * limit) length = best(found, dice, room, length, limit, &threshold);
	}
	if (length > limit) length = best(found, dice, room, length, limit, &threshold);
	memcpy(found_, found, (size_t)length * sizeof *found);
	memcpy(dice_, dice, (size_t)length * sizeof *dice);
	return length;
}

/* ---- components of the score ---- */

/* Counts of pairs (path, node) in one tree: open addressing; entries of another round count as empty. */
typedef struct {
	uint64_t *key;
	uint32_t *round, *count;
	uint64_t mask, used;
	uint32_t now;
} Counts;

static void grown(Counts *counts, uint64_t size, Memory *memory) {
	const int64_t places = (int64_t)size;
	Counts other = {some(memory, places, 8), some(memory, places, 4), some(memory, places, 4), size - 1, counts->used, 1};
	if (counts->key)
		for (uint64_t i = 0; i <= counts->mask; i++) {
			if (counts->round[i] != counts->now) continue;
			uint64_t slot = (counts->key[i] * 0x9E3779B97F4A7C15ull >> 20) & other.mask;
			while (other.round[slot]) slot = (slot + 1) & other.mask;
			other.key[slot] = counts->key[i];
			other.count[slot] = counts->count[i];
			other.round[slot] = 1;
		}
	*counts = other;
}

/* The count of a pair so far, which is then one more. */
static inline int64_t counted(Counts *counts, uint64_t key, Memory *memory) {
	if (2 * counts->used > counts->mask) grown(counts, 2 * (counts->mask + 1), memory);
	uint64_t slot = (key * 0x9E3779B97F4A7C15ull >> 20) & counts->mask;
	for (; counts->round[slot] == counts->now; slot = (slot + 1) & counts->mask)
		if (counts->key[slot] == key) return counts->count[slot]++;
	counts->key[slot] = key;
	counts->round[slot] = counts->now;
	counts->count[slot] = 1;
	counts->used++;
	return 0;
}

/* Room for the parts of one tree at a time. */
typedef struct {
	Steps steps;
	Counts of_wild, of_symbol;
	uint64_t *touched;
	uint8_t *reached; /* whether a shared path ends at a node */
	uint32_t *often;
	int32_t *below;
	Memory *memory;
} Room;

/* One more path of a form that ends at a node: it is shared with each group that has it more often than so far. */
static inline void shared(const Asked *asked, Counts *counts, uint64_t hash, int64_t top, Room *room, int32_t *of,
                          int64_t groups) {
	const int64_t path = place(asked, hash);
	if (path < 0) return;
	room->reached[top] = 1;
	const int64_t before = counted(counts, (uint64_t)path << 16 | (uint64_t)top, room->memory);
	for (int64_t entry = asked->start[path]; entry < asked->start[path + 1]; entry++)
		if (asked->count[entry] > before) of[2 * (top * groups + asked->group[entry])]++;
}

static Room room_of(int64_t widest, const Query *query, Memory *memory) {
	Room room = {.steps = steps_of(widest, memory), .memory = memory};
	room.touched = some(memory, query->shorts.length / 64 + 1, 8);
	room.reached = some(memory, widest, 1);
	room.often = some(memory, query->shorts.length, 4);
	room.below = some(memory, 2 * query->groups * widest, 4);
	grown(&room.of_wild, 1024, memory), grown(&room.of_symbol, 1024, memory);
	return room;
}

static inline void next_round(Counts *counts) {
	counts->used = 0;
	if (++counts->now) return;
	memset(counts->round, 0, (counts->mask + 1) * 4);
	counts->now = 1;
}

/* Takes a tree of the index, and sums the weights of the short paths that it shares with the query. */
static double overlapped(const Query *query, const Index *index, int64_t number, Room *room) {
	const int64_t first = index->offsets[number], nodes = index->offsets[number + 1] - first;
	Steps *tree = &room->steps;
	taken(tree, nodes, index->labels + first, index->parents + first, index->edges + first, index->label, index->inner,
	      index->wildcard, index->ordered, index->edge);
	for (int64_t n = 0; n < nodes; n++) {
		uint64_t as_symbol = tree->symbol[n], as_wild = tree->wild[n];
		int64_t top = n;
		for (int64_t high = 0;; high++) {
			for (int form = 0; form <= tree->leaf[n]; form++) {
				const int64_t path = place(&query->shorts, form ? as_symbol : as_wild);
				if (path < 0) continue;
				room->often[path]++;
				room->touched[path >> 6] |= 1ull << (path & 63);
			}
			if (top == 0 || high >= index->height) break;
			as_wild = mixed(as_wild, tree->step[top]), as_symbol = mixed(as_symbol, tree->step[top]);
			top = tree->parent[top];
		}
	}
	double sum = 0;
	for (int64_t word = 0; word <= query->shorts.length / 64; word++) {
		for (uint64_t bits = room->touched[word]; bits; bits &= bits - 1) {
			const int64_t path = word * 64 + __builtin_ctzll(bits);
			sum += (double)smaller(room->often[path], query->shorts.count[path]) * query->value[path];
			room->often[path] = 0;
		}
		room->touched[word] = 0;
	}
	return sum;
}

/* Counts the paths from leaves that are shared below the best pair of nodes of the query and of the tree taken. */
static void matched(const Query *query, double credit, Room *room, int32_t *structure, int32_t *symbols) {
	const Steps *tree = &room->steps;
	const int64_t nodes = tree->nodes, groups = query->groups;
	int32_t *below = room->below;
	memset(below, 0, (size_t)(2 * groups * nodes) * 4);
	memset(room->reached, 0, (size_t)nodes);
	next_round(&room->of_wild), next_round(&room->of_symbol);
	for (int64_t n = 0; n < nodes; n++) {
		if (!tree->leaf[n]) continue;
		uint64_t as_symbol = tree->symbol[n], as_wild = tree->wild[n];
		for (int64_t top = n;;) {
			shared(&query->wild, &room->of_wild, as_wild, top, room, below, groups);
			shared(&query->symbols, &room->of_symbol, as_symbol, top, room, below + 1, groups);
			if (top == 0) break;
			as_wild = mixed(as_wild, tree->step[top]), as_symbol = mixed(as_symbol, tree->step[top]);
			top = tree->parent[top];
		}
	}
	/* The first node with the best value, and the first group that gives it: a pair that has no more of either form than
	 * the best so far is not better. */
	double most = 0;
	int32_t a = 0, b = 0;
	for (int64_t n = 0; n < nodes; n++)
		for (int64_t group = 0; room->reached[n] && group < groups; group++) {
			const int32_t *its = below + 2 * (n * groups + group);
			if (its[0] <= a && its[1] <= b) continue;
			const double both = (1 - credit) * its[0] + credit * its[1];
			if (both > most) most = both, a = its[0], b = its[1];
		}
	*structure = a, *symbols = b;
}

/* ---- the search ---- */

typedef struct {
	double bound;
	int64_t place; /* among the candidates */
} Bound;

static int by_bound(const void *a, const void *b) {
	const Bound *x = a, *y = b;
	if (x->bound != y->bound) return x->bound > y->bound ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* Replaces the least of a heap of scores. */
static void sunk(double *heap, int64_t length, double score) {
	int64_t at = 0;
	for (int64_t child; (child = 2 * at + 1) < length; at = child) {
		if (child + 1 < length && heap[child + 1] < heap[child]) child++;
		if (score <= heap[child]) break;
		heap[at] = heap[child];
	}
	heap[at] = score;
}

/* The candidates of a query and their Dice coefficients. rest: the weight of the paths of the query that may be shared
 * but were not read. Returns their number. */
static int64_t candidates(const Query *query, const Index *index, const int64_t *at, int64_t limit, int64_t budget,
                          int64_t *found, double *dice, double *rest, Memory *memory) {
	Lists lists = {some(memory, query->shorts.length, sizeof(List)), 0};
	int64_t known = 0, sum = 0;
	for (int64_t i = 0; i < query->shorts.length; i++) {
		const int64_t path = at[i];
		if (path < 0) continue;
		List list = {.value = query->value[i], .count = query->shorts.count[i], .number = i, .block_end = index->blocks[path],
		             .end = index->end[path]};
		if (path) list.block = index->blocks[path - 1], list.at = index->end[path - 1];
		for (int64_t times = 0; times <= OFTEN; times++) list.each[times] = list.value * (double)smaller(times, list.count);
		if (list.at < 0 || list.at > list.end || list.end > index->posting_length || list.block < 0 ||
		    list.block > list.block_end || list.block_end > index->range_length)
			failed(memory, DAMAGED);
		lists.of[known++] = list;
	}
	qsort(lists.of, (size_t)known, sizeof *lists.of, by_often);
	while (lists.number < known && ((sum += often(lists.of + lists.number)) <= budget || !lists.number)) lists.number++;
	*rest = 0;
	for (int64_t i = lists.number; i < known; i++) *rest += lists.of[i].value * (double)lists.of[i].count;
	return lists.number ? counted_lists(index, &lists, query->weight, limit, found, dice, memory) : 0;
}

/* Searches the trees for a formula; `Structural.search` of tree.py, without the comparison of equal trees.
 *
 * index: its arrays, then its numbers, in the order of the type Index. labels, parents, edges: the query's tree, with
 * codes of its own. limit: maximum number of candidates. budget: maximum number of postings read.
 * first: how many of the best trees are wanted: the candidates that cannot be among them are left out.
 * found, score: room for `limit` trees, ascending, and their scores.
 * Returns the number of trees; -1 if the index is damaged; -2 without memory. */
EXPORT int64_t harness_search(const void *const *arrays, const int64_t *numbers, const double *weights, int64_t nodes,
                              const uint32_t *labels, const uint16_t *parents, const uint8_t *edges,
                              const uint64_t *label, const uint64_t *inner, const uint64_t *wildcard,
                              const uint64_t *edge, const uint8_t *ordered, int64_t limit, int64_t budget,
                              int64_t first, double share, double credit, int64_t *found, double *score) {
	const Index index = {arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5], arrays[6], arrays[7],
	                     arrays[8], arrays[9], arrays[10], arrays[11], arrays[12], arrays[13], arrays[14], arrays[15],
	                     arrays[16], arrays[17], arrays[18], numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
	                     numbers[5], weights[0], weights[1]};
	Memory *memory = calloc(1, sizeof *memory);
	if (!memory) return NO_MEMORY;
	if (setjmp(memory->end)) return ended(memory, memory->fault);
	Query query = {0};
	Steps own = steps_of(nodes, memory);
	double *dice = some(memory, limit, sizeof *dice), *heap = some(memory, first + 1, sizeof *heap), rest;
	Bound *bounds = some(memory, limit, sizeof *bounds);
	taken(&own, nodes, labels, parents, edges, label, inner, wildcard, ordered, edge);
	const int64_t *at = queried(&query, &own, &index, memory);
	const int64_t length = candidates(&query, &index, at, limit, budget, found, dice, &rest, memory);
	int64_t widest = 1, out = 0, done = 0;
	for (int64_t i = 0; i < length; i++) {
		const int64_t its = index.offsets[found[i] + 1] - index.offsets[found[i]];
		if (its > widest) widest = its;
		/* The best score that is possible: all of the best subtree, all that was not read, and no more than the smaller of
		 * both has. */
		const double its_weight = (double)index.weight[found[i]], both = query.weight + its_weight;
		double overlap = 2 * (dice[i] + rest / both);
		if (overlap > 2 * query.weight / both) overlap = 2 * query.weight / both;
		if (overlap > 2 * its_weight / both) overlap = 2 * its_weight / both;
		bounds[i] = (Bound){share + (1 - share) * overlap, i};
	}
	Room room = room_of(widest, &query, memory);
	if (first < length) qsort(bounds, (size_t)length, sizeof *bounds, by_bound);
	for (int64_t i = 0; i < length; i++) score[i] = -1;
	for (; done < length; done++) {
		/* What may still tie in float32, or after the comparison of equal trees. */
		const double least = done >= first ? heap[0] * (1 - 4e-6) : -1;
		if (bounds[done].bound < least) break;
		const int64_t i = bounds[done].place;
		int32_t structure, symbols;
		const double overlap = 2 * overlapped(&query, &index, found[i], &room) /
		                       (query.weight + (double)index.weight[found[i]]);
		if (share + (1 - share) * overlap < least) continue;
		matched(&query, credit, &room, &structure, &symbols);
		const double subtree = (1 - credit) * ((double)structure / (double)query.leaves) +
		                       credit * ((double)symbols / (double)query.leaves);
		score[i] = share * subtree + (1 - share) * overlap;
		if (done < first) { /* the heap grows */
			int64_t node = done;
			for (; node && heap[(node - 1) / 2] > score[i]; node = (node - 1) / 2) heap[node] = heap[(node - 1) / 2];
			heap[node] = score[i];
		} else if (score[i] > heap[0]) sunk(heap, first, score[i]);
	}
	for (int64_t i = 0; i < length; i++) {
		if (score[i] < 0) continue;
		found[out] = found[i];
		score[out++] = score[i];
	}
	return ended(memory, out);
}
