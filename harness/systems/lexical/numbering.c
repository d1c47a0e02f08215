/* Units of texts between blanks and their numbers, for harness/systems/lexical/numbering.py. */

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The length of the blank at a byte (those of Python's str.split), 0 if there is none. */
static int64_t blank(const uint8_t *text, int64_t at, int64_t end) {
    uint8_t a = text[at];
    if (a < 128) return (a >= 9 && a <= 13) || (a >= 28 && a <= 32);
    if (a == 0xC2) return end - at > 1 && (text[at + 1] == 0x85 || text[at + 1] == 0xA0) ? 2 : 0;
    if ((a != 0xE1 && a != 0xE2 && a != 0xE3) || end - at < 3) return 0;
    uint8_t b = text[at + 1], c = text[at + 2];
    if (a == 0xE1) return b == 0x9A && c == 0x80 ? 3 : 0;                            /* U+1680 */
    if (a == 0xE3) return b == 0x80 && c == 0x80 ? 3 : 0;                            /* U+3000 */
    if (b == 0x81) return c == 0x9F ? 3 : 0;                                         /* U+205F */
    if (b != 0x80) return 0;
    return (c >= 0x80 && c <= 0x8A) || c == 0xA8 || c == 0xA9 || c == 0xAF ? 3 : 0; /* U+2000 to U+202F */
}

static uint64_t mixed(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x9E3779B97F4A7C15u; }

/* The place of a unit in the table, or the free place where it belongs. */
static int64_t place(const int32_t *slots, int64_t size, uint64_t hash, const uint8_t *text, int64_t length,
                     const uint8_t *known, const int64_t *start) {
    int64_t at = (int64_t)((hash ^ hash >> 32) & (uint64_t)(size - 1));
    for (; slots[at] >= 0; at = (at + 1) & (size - 1)) {
        int64_t first = start[slots[at]];
        if (start[slots[at] + 1] - first == length && !memcmp(known + first, text, (size_t)length)) break;
    }
    return at;
}

/* Numbers the units of texts in the order of their first appearance; returns how many texts were read before the room
   for new units could not do.

   bounds         where each text begins in `text`, and the end, shape (texts + 1,)
   slots          -1 or a unit by hash, shape (size,), a power of two above twice the units
   state          number of units, and of those that are in `slots`
   known, start   the units and where each begins, shapes (room,) and (most + 1,)
   unit, count    the result: the units of the texts, and their number by text */
EXPORT int64_t harness_units(const uint8_t *text, const int64_t *bounds, int64_t texts, int32_t *slots, int64_t size,
                             int64_t *state, uint8_t *known, int64_t room, int64_t *start, int64_t most, int32_t *unit,
                             int64_t *count) {
    for (; state[1] < state[0]; state[1]++) {
        const uint8_t *own = known + start[state[1]];
        int64_t length = start[state[1] + 1] - start[state[1]];
        uint64_t hash = 0;
        for (int64_t at = 0; at < length; at++) hash = mixed(hash, own[at]);
        slots[place(slots, size, hash, own, length, known, start)] = (int32_t)state[1];
    }
    int64_t units = 0;
    for (int64_t n = 0; n < texts; n++) {
        int64_t at = bounds[n], end = bounds[n + 1], before = units;
        int64_t bytes = end - at, after = state[0] + (bytes + 1) / 2;
        if (after > most || 2 * after > size || start[state[0]] + bytes > room) return n;
        while (at < end) {
            int64_t step = blank(text, at, end);
            if (step) {
                at += step;
                continue;
            }
            int64_t first = at;
            uint64_t hash = 0;
            do hash = mixed(hash, text[at++]);
            while (at < end && !blank(text, at, end));
            int64_t slot = place(slots, size, hash, text + first, at - first, known, start);
            if (slots[slot] < 0) {
                int64_t own = state[0]++;
                memcpy(known + start[own], text + first, (size_t)(at - first));
                start[own + 1] = start[own] + at - first;
                slots[slot] = (int32_t)own;
                state[1] = state[0];
            }
            unit[units++] = slots[slot];
        }
        count[n] = units - before;
    }
    return texts;
}
