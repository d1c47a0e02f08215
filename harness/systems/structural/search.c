/* Formula search: the NumPy code of tree.py and paths.py, candidate by candidate. Additions are made in the same order,
 * so that the results are the same. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* candidates.c */
int64_t harness_candidates(const uint16_t *range, const uint16_t *size, const uint16_t *posting,
                           const int64_t *frequent, const uint32_t *frequency, int64_t frequents, int64_t *block,
                           const int64_t *block_end, int64_t *at, const int64_t *end, const double *value,
                           const int64_t *count, int64_t lists, const float *weight, double asked, double least,
                           int64_t trees, int64_t limit, int64_t *found, double *dice);

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

/* Groups some paths, which are sorted; returns whether there was memory. */
static int grouped(Asked *asked, Path *paths, int64_t length) {
	uint64_t size = 16;
	while (size < 4 * (uint64_t)length) size *= 2;
	const size_t some = (size_t)(length + 1) * sizeof(int64_t);
	*asked = (Asked){malloc(some), malloc(some), malloc(some), malloc(some), 0, calloc(size, 4), size - 1, calloc(1024, 8)};
	if (!asked->known || !asked->start || !asked->group || !asked->count || !asked->slots || !asked->marks) return 0;
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
	return 1;
}

static void released(Asked *asked) {
	free(asked->known), free(asked->start), free(asked->group), free(asked->count), free(asked->slots);
	free(asked->marks);
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

static int steps_made(Steps *steps, int64_t widest) {
	*steps = (Steps){0, NULL, malloc((size_t)widest * 8), malloc((size_t)widest * 8), malloc((size_t)widest * 8),
	                 malloc((size_t)widest)};
	return steps->symbol && steps->wild && steps->step && steps->leaf;
}

static void steps_released(Steps *steps) { free(steps->symbol), free(steps->wild), free(steps->step), free(steps->leaf); }

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

/* Where a hash is in the index, or -1. */
static int64_t found_path(const Index *index, uint64_t hash) {
	int64_t low = 0, high = index->paths;
	while (low < high) {
		const int64_t middle = low + (high - low) / 2;
		if (index->path[middle] < hash) low = middle + 1;
		else high = middle;
	}
	return low < index->paths && index->path[low] == hash ? low : -1;
}

/* Makes a query of a tree; `Query.of` of tree.py. at: room for each short path's place in the index. */
static int queried(Query *query, const Steps *tree, const Index *index, int64_t **at) {
	const int64_t nodes = tree->nodes;
	int64_t shorts = 0, longs = 0, done = 0;
	int64_t *below = calloc((size_t)nodes, 8), *group = malloc((size_t)nodes * 8);
	Path *paths = NULL, *wild = NULL, *symbol = NULL;
	if (!below || !group) goto end;
	query->leaves = 0;
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
	paths = malloc((size_t)(shorts + 1) * sizeof *paths);
	wild = malloc((size_t)(longs + 1) * sizeof *wild), symbol = malloc((size_t)(longs + 1) * sizeof *symbol);
	if (!paths || !wild || !symbol) goto end;
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
	if (!grouped(&query->shorts, paths, shorts) || !grouped(&query->wild, wild, longs)) goto end;
	if (!grouped(&query->symbols, symbol, longs)) goto end;
	const int64_t length = query->shorts.length;
	query->value = malloc((size_t)(length + 1) * 8), *at = malloc((size_t)(length + 1) * 8);
	if (!query->value || !*at) goto end;
	query->weight = 0;
	for (int64_t i = 0; i < length; i++) {
		(*at)[i] = found_path(index, query->shorts.known[i]);
		const double idf = (*at)[i] < 0 ? index->unknown : index->idf[(*at)[i]];
		query->value[i] = idf * (double)query->shorts.group[i];
		query->weight += query->value[i] * (double)query->shorts.count[i];
	}
	done = 1;
end:
	free(below), free(group), free(paths), free(wild), free(symbol);
	return (int)done;
}

/* ---- components of the score ---- */

/* Counts of pairs (path, node) in one tree: open addressing; entries of another round count as empty. */
typedef struct {
	uint64_t *key;
	uint32_t *round, *count;
	uint64_t mask, used;
	uint32_t now;
} Counts;

static int grown(Counts *counts, uint64_t size) {
	Counts other = {malloc(size * 8), calloc(size, 4), malloc(size * 4), size - 1, counts->used, 1};
	if (!other.key || !other.round || !other.count) {
		free(other.key), free(other.round), free(other.count);
		return 0;
	}
	if (counts->key)
		for (uint64_t i = 0; i <= counts->mask; i++) {
			if (counts->round[i] != counts->now) continue;
			uint64_t slot = (counts->key[i] * 0x9E3779B97F4A7C15ull >> 20) & other.mask;
			while (other.round[slot]) slot = (slot + 1) & other.mask;
			other.key[slot] = counts->key[i];
			other.count[slot] = counts->count[i];
			other.round[slot] = 1;
		}
	free(counts->key), free(counts->round), free(counts->count);
	*counts = other;
	return 1;
}

/* The count of a pair so far, which is then one more; -1 without memory. */
static inline int64_t counted(Counts *counts, uint64_t key) {
	if (2 * counts->used > counts->mask && !grown(counts, 2 * (counts->mask + 1))) return -1;
	uint64_t slot = (key * 0x9E3779B97F4A7C15ull >> 20) & counts->mask;
	for (; counts->round[slot] == counts->now; slot = (slot + 1) & counts->mask)
		if (counts->key[slot] == key) return counts->count[slot]++;
	counts->key[slot] = key;
	counts->round[slot] = counts->now;
	counts->count[slot] = 1;
	counts->used++;
	return 0;
}

/* One more path of a form that ends at a node: it is shared with each group that has it more often than so far. */
static inline int shared(const Asked *asked, Counts *counts, uint64_t hash, int64_t top, uint8_t *reached, int32_t *of, int64_t groups) {
	const int64_t path = place(asked, hash);
	if (path < 0) return 1;
	reached[top] = 1;
	const int64_t before = counted(counts, (uint64_t)path << 16 | (uint64_t)top);
	if (before < 0) return 0;
	for (int64_t entry = asked->start[path]; entry < asked->start[path + 1]; entry++)
		if (asked->count[entry] > before) of[2 * (top * groups + asked->group[entry])]++;
	return 1;
}

/* Room for the parts of one tree at a time. */
typedef struct {
	Steps steps;
	Counts of_wild, of_symbol;
	uint64_t *touched;
	uint8_t *reached; /* whether a shared path ends at a node */
	uint32_t *often;
	int32_t *below;
} Room;

static int room_made(Room *room, int64_t widest, const Query *query) {
	memset(room, 0, sizeof *room);
	room->touched = calloc((size_t)query->shorts.length / 64 + 1, 8);
	room->reached = malloc((size_t)widest);
	room->often = calloc((size_t)query->shorts.length + 1, 4);
	room->below = malloc((size_t)(2 * query->groups * widest) * 4);
	return steps_made(&room->steps, widest) && room->touched && room->reached && room->often && room->below &&
	       grown(&room->of_wild, 1024) && grown(&room->of_symbol, 1024);
}

static void room_released(Room *room) {
	steps_released(&room->steps);
	free(room->of_wild.key), free(room->of_wild.round), free(room->of_wild.count);
	free(room->of_symbol.key), free(room->of_symbol.round), free(room->of_symbol.count);
	free(room->touched), free(room->reached), free(room->often), free(room->below);
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

/* Counts the paths from leaves that are shared below the best pair of nodes of the query and of the tree taken.
 * Returns 0 without memory. */
static int matched(const Query *query, double credit, Room *room, int32_t *structure, int32_t *symbols) {
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
			if (!shared(&query->wild, &room->of_wild, as_wild, top, room->reached, below, groups)) return 0;
			if (!shared(&query->symbols, &room->of_symbol, as_symbol, top, room->reached, below + 1, groups)) return 0;
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
	return 1;
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

typedef struct {
	int64_t list;
	int64_t often;
} List;

static int by_often(const void *a, const void *b) {
	const List *x = a, *y = b;
	if (x->often != y->often) return x->often < y->often ? -1 : 1;
	return (x->list > y->list) - (x->list < y->list);
}

/* The candidates of a query and their Dice coefficients. rest: the weight of the paths of the query that may be shared
 * but were not read. Returns their number, or an error as harness_candidates does. */
static int64_t candidates(const Query *query, const Index *index, const int64_t *at, int64_t limit, int64_t budget,
                          int64_t *found, double *dice, double *rest) {
	const int64_t length = query->shorts.length;
	List *lists = malloc((size_t)(length + 1) * sizeof *lists);
	int64_t *room = malloc((size_t)(5 * length + 1) * 8), known = 0, read = 0, out = -2;
	double *value = malloc((size_t)(length + 1) * 8);
	if (!lists || !room || !value) goto end;
	for (int64_t i = 0; i < length; i++) {
		if (at[i] < 0) continue;
		const int64_t begin = at[i] ? index->end[at[i] - 1] : 0, end = index->end[at[i]];
		if (begin < 0 || begin > end || end > index->posting_length) {
			out = -1;
			goto end;
		}
		lists[known++] = (List){i, end - begin};
	}
	qsort(lists, (size_t)known, sizeof *lists, by_often);
	for (int64_t sum = 0; read < known && ((sum += lists[read].often) <= budget || read == 0); read++) {
	}
	*rest = 0;
	for (int64_t i = 0; i < known; i++) {
		const int64_t of = lists[i].list, path = at[of], count = query->shorts.count[of];
		if (i >= read) {
			*rest += query->value[of] * (double)count;
			continue;
		}
		room[i] = path ? index->blocks[path - 1] : 0, room[read + i] = index->blocks[path];
		room[2 * read + i] = path ? index->end[path - 1] : 0, room[3 * read + i] = index->end[path];
		room[4 * read + i] = count;
		value[i] = query->value[of];
		if (room[i] < 0 || room[i] > room[read + i] || room[read + i] > index->range_length) {
			out = -1;
			goto end;
		}
	}
	out = read ? harness_candidates(index->range, index->size, index->posting, index->frequent, index->frequency,
	                                index->frequents, room, room + read, room + 2 * read, room + 3 * read, value,
	                                room + 4 * read, read, index->weight, query->weight, index->least, index->trees,
	                                limit, found, dice)
	           : 0;
end:
	free(lists), free(room), free(value);
	return out;
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
	Query query = {0};
	Steps own = {0};
	Room room = {0};
	int64_t *at = NULL, out = -2, done = 0;
	double *dice = malloc((size_t)(limit + 1) * 8), *heap = malloc((size_t)(first + 1) * 8), rest;
	Bound *bounds = malloc((size_t)(limit + 1) * sizeof *bounds);
	if (!dice || !heap || !bounds || !steps_made(&own, nodes)) goto end;
	taken(&own, nodes, labels, parents, edges, label, inner, wildcard, ordered, edge);
	if (!queried(&query, &own, &index, &at)) goto end;
	const int64_t length = candidates(&query, &index, at, limit, budget, found, dice, &rest);
	if (length < 0) {
		out = length;
		goto end;
	}
	int64_t widest = 1;
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
	if (!room_made(&room, widest, &query)) goto end;
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
		if (!matched(&query, credit, &room, &structure, &symbols)) goto end;
		const double subtree = (1 - credit) * ((double)structure / (double)query.leaves) +
		                       credit * ((double)symbols / (double)query.leaves);
		score[i] = share * subtree + (1 - share) * overlap;
		if (done < first) { /* the heap grows */
			int64_t node = done;
			for (; node && heap[(node - 1) / 2] > score[i]; node = (node - 1) / 2) heap[node] = heap[(node - 1) / 2];
			heap[node] = score[i];
		} else if (score[i] > heap[0]) sunk(heap, first, score[i]);
	}
	out = 0;
	for (int64_t i = 0; i < length; i++) {
		if (score[i] < 0) continue;
		found[out] = found[i];
		score[out++] = score[i];
	}
end:
	released(&query.shorts), released(&query.wild), released(&query.symbols);
	free(query.value), free(at), free(dice), free(heap), free(bounds);
	steps_released(&own), room_released(&room);
	return out;
}
