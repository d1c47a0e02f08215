/* Reads the plain lines of a text table into columns, for harness/data/tables.py.

   A block is read as a whole or not at all: whatever is unusual is left to the NumPy code, which has the messages. */

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { TOPIC, DOC, CONTEXT, NUMBER, RANK, ITERATION, TAG, OTHER }; /* roles of columns, as in tables.py */
enum { IRREGULAR = -1, WIDER = -2 };
enum { HEADS, SLOW, TAG_START, TAG_LENGTH, DOC_LONGEST, CONTEXT_LONGEST }; /* places of `info`, as in tables.py */
enum { MARGIN = 16, LONGEST_ID = 255 };

#define ONES UINT64_C(0x0101010101010101)
#define HIGH (ONES << 7)

typedef struct {
    uint64_t *words;
    int64_t width, longest;
} Ids;

static uint64_t word(const uint8_t *at) {
    uint64_t out;
    memcpy(&out, at, 8);
    return out;
}

static uint64_t mask(int64_t bytes) { return bytes >= 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1; }

/* Marks the bytes up to 32; the lowest mark is exact. */
static uint64_t blanks(uint64_t word) { return (word - 0x21 * ONES) & ~word & HIGH; }

static int blank(uint8_t byte) { return byte == '\t' || byte == ' ' || byte == '\r'; }

static int64_t end_of_field(const uint8_t *text, int64_t at, int64_t size) {
    for (; at < size; at += 8) {
        uint64_t found = blanks(word(text + at));
        if (found) {
            at += __builtin_ctzll(found) >> 3;
            break;
        }
    }
    return at < size ? at : size;
}

/* Whether the bytes from both places are equal; both may be read up to seven bytes beyond. */
static int same(const uint8_t *a, const uint8_t *b, int64_t length) {
    for (; length > 0; a += 8, b += 8, length -= 8)
        if ((word(a) ^ word(b)) & mask(length)) return 0;
    return 1;
}

/* Whether a field is the one from `start`, given that its first bytes may be equal. */
static int same_field(const uint8_t *text, int64_t at, int64_t size, int64_t start, int64_t length) {
    return at + length <= size && same(text + at, text + start, length) && (at + length == size || text[at + length] <= 32);
}

/* Copies an id into row `row`, padded with zeros; returns its end. Notes the length of one that is too wide. */
static int64_t put_id(const uint8_t *text, int64_t at, int64_t size, Ids *ids, int64_t row) {
    uint64_t *out = ids->words + row * ids->width;
    for (int64_t k = 0; k < ids->width; k++) {
        uint64_t found = word(text + at), marks = blanks(found);
        if (marks) {
            int64_t length = __builtin_ctzll(marks) >> 3;
            out[k] = found & mask(length);
            for (k++; k < ids->width; k++) out[k] = 0;
            return at + length;
        }
        out[k] = found;
        at += 8;
        if (at > size) return at;
    }
    int64_t end = end_of_field(text, at, size), length = end - at + 8 * ids->width;
    if (end > at && length > ids->longest) ids->longest = length;
    return end;
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static const uint64_t WHOLE_POWERS[] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, UINT64_C(10000000000),
    UINT64_C(100000000000), UINT64_C(1000000000000), UINT64_C(10000000000000), UINT64_C(100000000000000),
    UINT64_C(1000000000000000), UINT64_C(10000000000000000), UINT64_C(100000000000000000),
    UINT64_C(1000000000000000000), UINT64_C(10000000000000000000)};

/* The number of digits that a word begins with; `value` is what they write (as in columns.py). */
static int64_t leading_digits(uint64_t found, uint64_t *value) {
    uint64_t moved = found ^ (0x30 * ONES), others = ((moved + 0x76 * ONES) | moved) & HIGH;
    int64_t count = others ? __builtin_ctzll(others) >> 3 : 8;
    moved = count ? moved << (64 - 8 * count) : 0;
    moved = (moved * 2561 >> 8) & UINT64_C(0x00FF00FF00FF00FF);
    moved = (moved * 6553601 >> 16) & UINT64_C(0x0000FFFF0000FFFF);
    *value = moved * UINT64_C(42949672960001) >> 32;
    return count;
}

/* Adds the digits from `at` on to a number; returns their end, or -1 if it does not fit 64 bits. */
static int64_t digits(const uint8_t *text, int64_t at, int64_t size, uint64_t *value) {
    uint64_t part;
    for (int64_t count = 8; count == 8 && at < size; at += count) {
        count = leading_digits(word(text + at), &part);
        if (*value >= UINT64_MAX / 100000000 && *value >= UINT64_MAX / WHOLE_POWERS[count]) return -1;
        *value = *value * WHOLE_POWERS[count] + part;
    }
    return at;
}

static double power_of_two(int64_t exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double out;
    memcpy(&out, &bits, 8);
    return out;
}

/* mantissa / 10^places, rounded to the nearest float, ties to even; mantissa > 0, places <= 19. */
static double quotient(uint64_t mantissa, int64_t places) {
    uint64_t divisor = WHOLE_POWERS[places];
    int64_t up = __builtin_clzll(mantissa), down = __builtin_clzll(divisor);
    divisor <<= down;
    unsigned __int128 dividend = (unsigned __int128)(mantissa << up) << 63;
    uint64_t whole = (uint64_t)(dividend / divisor), left = (uint64_t)dividend - whole * divisor;
    int64_t cut = 11 - __builtin_clzll(whole); /* `whole` has 63 or 64 bits, a float 53 */
    uint64_t lost = whole & mask(8) >> (64 - cut), half = UINT64_C(1) << (cut - 1), kept = whole >> cut;
    if (lost > half || (lost == half && (left || (kept & 1)))) kept++;
    return (double)kept * power_of_two(cut - 63 - up + down);
}

/* Parses a decimal number that a blank ends, exactly or correctly rounded; returns its end, or -1 if it needs the slow
   way or is none. */
static int64_t put_number(const uint8_t *text, int64_t at, int64_t size, double *out) {
    int negative = text[at] == '-';
    uint64_t mantissa = 0;
    at += negative || text[at] == '+';
    int64_t first = at, count, power = 0;
    if ((at = digits(text, at, size, &mantissa)) < 0) return -1;
    count = at - first;
    if (at < size && text[at] == '.') {
        first = ++at;
        if ((at = digits(text, at, size, &mantissa)) < 0) return -1;
        power = first - at;
        count += at - first;
    }
    if (!count) return -1;
    if (at < size && (text[at] | 32) == 'e') {
        int down = ++at < size && text[at] == '-';
        uint64_t exponent = 0;
        at += down || (at < size && text[at] == '+');
        first = at;
        if ((at = digits(text, at, size, &exponent)) <= first || exponent > 1000) return -1;
        power += down ? -(int64_t)exponent : (int64_t)exponent;
    }
    if (at > size || (at < size && text[at] > 32)) return -1;
    double value;
    if (mantissa == 0 || power == 0)
        value = (double)mantissa;
    else if (mantissa <= UINT64_C(1) << 53 && power >= -22 && power <= 22)
        value = power < 0 ? (double)mantissa / POWERS[-power] : (double)mantissa * POWERS[power];
    else if (power < 0 && power >= -19)
        value = quotient(mantissa, -power);
    else
        return -1;
    *out = negative ? -value : value;
    return at;
}

/* Parses one to eight digits that end at a blank; returns the end, or -1. */
static int64_t put_rank(const uint8_t *text, int64_t at, int64_t size, int32_t *out) {
    uint64_t value;
    int64_t count = leading_digits(word(text + at), &value);
    at += count;
    if (!count || at > size || (at < size && text[at] > 32)) return -1;
    *out = (int32_t)value;
    return at;
}

static int iteration(const uint8_t *text, int64_t length) {
    return length == 1 ? *text == '0' || *text == '_' : length == 2 && text[0] == 'Q' && text[1] == '0';
}

/* Reads all lines of a block.

   text : the block, readable up to `limit`, which is at least MARGIN bytes beyond `size`.
   roles : what each column is, shape (columns,).
   doc, context : ids as words, shape (room, width). values, ranks : shape (room,).
   tag : the tag of all lines; empty: that of the first line, whose place is noted.
   heads : row, start and length of the first topic of each stretch of equal ones, shape (heads_room, 3).
   slow : the same of the numbers that the caller has to parse, or to refuse, shape (slow_room, 3).

   Returns the number of lines; IRREGULAR if a line is not plain; WIDER if an id needs more words, whose length is noted
   then. Rows that were written until then hold what was read, or zeros. */
EXPORT int64_t harness_plain_rows(const uint8_t *text, int64_t size, int64_t limit, const int64_t *roles, int64_t columns,
                                  uint64_t *doc, int64_t doc_width, uint64_t *context, int64_t context_width,
                                  double *values, int32_t *ranks, int64_t room, const uint8_t *tag, int64_t tag_length,
                                  int32_t *heads, int64_t heads_room, int32_t *slow, int64_t slow_room, int64_t *info) {
    Ids docs = {doc, doc_width, 0}, contexts = {context, context_width, 0};
    int64_t at = 0, row = 0, topic = 0, topic_length = 0, tag_start = -1;
    const uint16_t order = 1;
    if (size > INT32_MAX || limit - size < MARGIN || *(const uint8_t *)&order != 1) return IRREGULAR; /* words are little-endian */
    info[HEADS] = info[SLOW] = 0;
    for (; at < size; row++) {
        if (row >= room) return IRREGULAR;
        for (int64_t column = 0; column < columns; column++) {
            int64_t start = at;
            if (at >= size || text[at] <= 32) return IRREGULAR;
            switch (roles[column]) {
            case TOPIC:
                if (row && same_field(text, at, size, topic, topic_length)) {
                    at += topic_length;
                    break;
                }
                at = end_of_field(text, at, size);
                if (at - start > LONGEST_ID || info[HEADS] >= heads_room) return IRREGULAR;
                topic = start, topic_length = at - start;
                int32_t *head = heads + 3 * info[HEADS]++;
                head[0] = (int32_t)row, head[1] = (int32_t)start, head[2] = (int32_t)topic_length;
                break;
            case DOC:
            case CONTEXT:
                at = put_id(text, at, size, roles[column] == DOC ? &docs : &contexts, row);
                if (at - start > LONGEST_ID) return IRREGULAR;
                break;
            case NUMBER:
                at = put_number(text, start, size, values + row);
                if (at < 0) {
                    at = end_of_field(text, start, size);
                    if (info[SLOW] >= slow_room) return IRREGULAR;
                    int32_t *odd = slow + 3 * info[SLOW]++;
                    odd[0] = (int32_t)row, odd[1] = (int32_t)start, odd[2] = (int32_t)(at - start);
                }
                break;
            case RANK:
                at = put_rank(text, at, size, ranks + row);
                if (at < 0) return IRREGULAR;
                break;
            case TAG:
                if (tag_start >= 0) {
                    if (!same_field(text, at, size, tag_start, info[TAG_LENGTH])) return IRREGULAR;
                    at += info[TAG_LENGTH];
                    break;
                }
                at = end_of_field(text, at, size);
                if (tag_length && (at - start != tag_length || memcmp(text + start, tag, (size_t)tag_length)))
                    return IRREGULAR;
                info[TAG_START] = tag_start = start;
                info[TAG_LENGTH] = at - start;
                break;
            case ITERATION:
                at = end_of_field(text, at, size);
                if (!iteration(text + start, at - start)) return IRREGULAR;
                break;
            case OTHER:
                at = end_of_field(text, at, size);
                break;
            default:
                return IRREGULAR;
            }
            while (at < size && blank(text[at])) at++;
        }
        if (at < size && text[at++] != '\n') return IRREGULAR;
    }
    info[DOC_LONGEST] = docs.longest;
    info[CONTEXT_LONGEST] = contexts.longest;
    return docs.longest || contexts.longest ? WIDER : row;
}
