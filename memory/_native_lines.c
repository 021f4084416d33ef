/* Which rows of a text are lines of notes, by the exact rule.
 *
 * memory/lines.py and memory/line_index.py say what is computed and why, and do the same where this is not built;
 * tests/memory/test_native_lines.py holds the two against each other.
 */
#include "_native.h"

/* Rows whose places among the fingerprints are fetched before the first of them is asked for. */
#define FEW 32
/* More bytes than any prefix has that is no path, with a space behind it. */
#define LONGEST_PREFIX 32

enum { WHITE = 1, MAY_BE_WHITE = 2 };
static const uint8_t SPACES[256] = {
    ['\t'] = WHITE, ['\v'] = WHITE, ['\f'] = WHITE, ['\r'] = WHITE, [' '] = WHITE,
    [0x1C] = WHITE, [0x1D] = WHITE, [0x1E] = WHITE, [0x1F] = WHITE,
    [0xC2] = MAY_BE_WHITE, [0xE1] = MAY_BE_WHITE, [0xE2] = MAY_BE_WHITE, [0xE3] = MAY_BE_WHITE,
};

/* Bytes of the white space that begins here; 0: there is none. */
static size_t
white_at(const uint8_t *at, const uint8_t *stop)
{
    if (at >= stop || SPACES[*at] != MAY_BE_WHITE)
        return at < stop && SPACES[*at] == WHITE;
    if (*at == 0xC2)
        return stop - at >= 2 && (at[1] == 0x85 || at[1] == 0xA0) ? 2 : 0;
    if (stop - at < 3)
        return 0;
    uint8_t second = at[1], third = at[2];
    int is_white;
    if (*at == 0xE1)
        is_white = second == 0x9A && third == 0x80;
    else if (*at == 0xE3)
        is_white = second == 0x80 && third == 0x80;
    else if (second == 0x80)
        is_white = (third >= 0x80 && third <= 0x8A) || third == 0xA8 || third == 0xA9 || third == 0xAF;
    else
        is_white = second == 0x81 && third == 0x9F;
    return is_white ? 3 : 0;
}

/* Where a row goes on behind its prefix (one of PREFIXES) and the white space before that; NULL: it has none. */
static const uint8_t *
behind_prefix(const uint8_t *at, const uint8_t *stop)
{
    for (size_t width; (width = white_at(at, stop)) != 0;)
        at += width;
    if (at == stop)
        return NULL;
    const uint8_t *number = at + (*at == 'L'), *end = number;
    while (end < stop && end - number < 7 && is_digit(*end))
        end++;
    if (end == number) {
        if (*at == '-' || *at == '+')
            return at + 1;
        return (*at == '>' || *at == '*') && stop - at >= 2 && (at[1] == ' ' || at[1] == '\t') ? at + 2 : NULL;
    }
    if (end == stop)
        return NULL;
    if (*at == 'L')
        return *end == ':' ? end + 1 : NULL;
    switch (*end) {
    case '\t':
    case '|':
    case ':':
    case '-':
        return end + 1;
    case ' ':
        return stop - end >= 2 && end[1] == '|' ? end + 2 : NULL;
    case 0xE2: /* an arrow */
        return stop - end >= 3 && end[1] == 0x86 && end[2] == 0x92 ? end + 3 : NULL;
    case '#':
        if (!is_between(end + 1, stop, is_letter_or_digit, 8, '|'))
            return NULL;
        while (*end != '|')
            end++;
        return end + 1;
    }
    return NULL;
}

/* Whether eight bytes stay what they are: all are ASCII, their white space is spaces, and no two of these are neighbours. */
static inline int
is_collapsed(uint64_t eight, unsigned after_space)
{
    uint64_t others = eight ^ EACH(' ');
    /* Exact for bytes below 0x80: the high bit of each that is a space. */
    uint64_t spaces = ~(others + EACH(0x7F)) & EACH(0x80);
    uint64_t strange = eight | (eight - EACH(' '));
    return !((strange & EACH(0x80)) | (spaces & (spaces << 8 | (after_space ? 0x80u : 0u))));
}

/* Bytes at `to` after some text was added to the `count` that are there, each run of white space as one space and none
 * at the beginning. There may be eight more than `most`: then not all was added. */
static size_t
collapse(const uint8_t *at, const uint8_t *stop, uint8_t *to, size_t count, size_t most)
{
    unsigned before = count == 0 || to[count - 1] == ' ';
    while (at < stop && count <= most) {
        if (stop - at >= EIGHT && is_collapsed(eight_at(at), before)) {
            memcpy(to + count, at, EIGHT);
            at += EIGHT;
            count += EIGHT;
            before = at[-1] == ' ';
            continue;
        }
        const uint8_t *pause = stop - at > EIGHT ? at + EIGHT : stop;
        while (at < pause && count <= most) {
            unsigned is_white = SPACES[*at];
            size_t width = 1;
            if (is_white == MAY_BE_WHITE) {
                width = white_at(at, stop);
                is_white = width != 0;
                width += !is_white;
            }
            to[count] = is_white ? ' ' : *at;
            count += !(is_white & before);
            before = is_white;
            at += width;
        }
    }
    return count;
}

static inline uint64_t
turned(uint64_t number, int bits)
{
    return number << bits | number >> (64 - bits);
}

static inline uint64_t
mixed_last(uint64_t number)
{
    number ^= number >> 33;
    number *= 0xFF51AFD7ED558CCDu;
    number ^= number >> 33;
    number *= 0xC4CEB9FE1A85EC53u;
    return number ^ number >> 33;
}

/* The low 64 bits of MurmurHash3_x64_128 (Austin Appleby, public domain). */
static uint64_t
fingerprint(const uint8_t *bytes, size_t count, uint32_t seed)
{
    const uint64_t first = 0x87C37B91114253D5u, second = 0x4CF5AD432745937Fu;
    uint64_t low = seed, high = seed;
    uint8_t last[16] = {0};
    const uint8_t *at = bytes;
    for (size_t left = count;; left -= 16, at += 16) {
        if (left < 16) {
            memcpy(last, at, left);
            at = last;
        }
        low ^= turned(eight_at(at) * first, 31) * second;
        if (at != last)
            low = (turned(low, 27) + high) * 5 + 0x52DCE729u;
        high ^= turned(eight_at(at + 8) * second, 33) * first;
        if (at == last)
            break;
        high = (turned(high, 31) + low) * 5 + 0x38495AB5u;
    }
    low ^= count;
    high ^= count;
    low += high;
    high += low;
    return mixed_last(low) + mixed_last(high);
}

typedef struct {
    const uint8_t *numbers; /* 64 bits each, ascending, spread evenly */
    size_t count;           /* at least 1, below 2**32 */
} Keys;

static inline uint64_t
key_at(const Keys *keys, size_t place)
{
    return eight_at(keys->numbers + place * 8);
}

/* How many of the keys are below a number, about. */
static inline size_t
about_below(const Keys *keys, uint64_t number)
{
    return (size_t)(((number >> 32) * keys->count) >> 32);
}

/* How many keys are below one: guessed, guessed better by how far off that was, and searched from there. */
static size_t
below(const Keys *keys, uint64_t key)
{
    size_t at = about_below(keys, key);
    for (int again = 0; again < 2; again++) {
        uint64_t there = key_at(keys, at);
        size_t off = about_below(keys, there < key ? key - there : there - key);
        if (there < key)
            at = off < keys->count - at ? at + off : keys->count - 1;
        else
            at -= off < at ? off : at;
    }
    size_t low = 0, high = keys->count; /* between these */
    if (key_at(keys, at) < key) {
        low = at + 1;
        for (size_t step = 1; low < high; step *= 2) {
            size_t next = step <= high - low ? low + step - 1 : high - 1;
            if (key_at(keys, next) >= key) {
                high = next;
                break;
            }
            low = next + 1;
        }
    } else {
        high = at;
        for (size_t step = 1; low < high; step *= 2) {
            size_t next = step <= high - low ? high - step : low;
            if (key_at(keys, next) < key) {
                low = next + 1;
                break;
            }
            high = next;
        }
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_at(keys, middle) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A row as it stands, and without its prefix. */
typedef struct {
    uint64_t begin, keys[2];
    int forms;
} Candidate;

/* The fingerprints of a row. `room` is for eight bytes more than `most`, the longest key's line and a prefix. */
static void
look_at_forms(Candidate *candidate, const uint8_t *at, const uint8_t *stop, uint32_t seed, uint8_t *room, size_t most)
{
    const uint8_t *behind = behind_prefix(at, stop);
    size_t rest = behind == NULL ? 0 : collapse(at, behind, room, 0, most);
    size_t count = collapse(behind == NULL ? at : behind, stop, room, rest, most);
    candidate->forms = 0;
    if (count > most)
        return;
    if (count > 0 && room[count - 1] == ' ')
        count--;
    candidate->keys[candidate->forms++] = fingerprint(room, count, seed);
    if (behind == NULL)
        return;
    if (rest < count && room[rest] == ' ')
        rest++;
    if (rest > count)
        rest = count;
    candidate->keys[candidate->forms++] = fingerprint(room + rest, count - rest, seed);
}

/* (begin, key, first, behind the last) of each candidate that has a key: as it stands, else without its prefix. */
static void
look_up(const Keys *keys, const Candidate *candidates, size_t count, Found *found)
{
    for (const Candidate *one = candidates; one < candidates + count; one++) {
        for (int form = 0; form < one->forms; form++) {
            uint64_t key = one->keys[form];
            size_t first = below(keys, key), last = first;
            while (last < keys->count && key_at(keys, last) == key)
                last++;
            if (last == first)
                continue;
            uint64_t *numbers = found->numbers + found->count;
            numbers[0] = one->begin;
            numbers[1] = key;
            numbers[2] = first;
            numbers[3] = last;
            found->count += 4;
            break;
        }
    }
}

/* 1; 0: there is no memory; -1: a row is not in the text. */
static int
look_at_lines(const Py_buffer *text, const Py_buffer *rows, const Keys *keys, uint32_t seed, size_t longest, Found *found)
{
    Candidate candidates[FEW];
    size_t waiting = 0;
    size_t most = (longest < (size_t)text->len ? longest : (size_t)text->len) + LONGEST_PREFIX;
    uint8_t *room = malloc(most + EIGHT);
    int whole = room != NULL;
    const uint8_t *row = rows->buf, *stop = row + rows->len;
    for (; whole == 1 && row < stop; row += 24) {
        uint64_t begin = eight_at(row), end = eight_at(row + 8);
        if (begin > end || end > (uint64_t)text->len) {
            whole = -1;
            break;
        }
        if (eight_at(row + 16) & (SIEVED | POOR | PREFIXED)) {
            const uint8_t *at = (const uint8_t *)text->buf;
            Candidate *one = candidates + waiting++;
            one->begin = begin;
            look_at_forms(one, at + begin, at + end, seed, room, most);
            for (int form = 0; form < one->forms; form++)
                PREFETCH(keys->numbers + about_below(keys, one->keys[form]) * 8);
        }
        if (waiting == FEW || row + 24 == stop) {
            whole = grow(found, 4 * FEW);
            if (whole)
                look_up(keys, candidates, waiting, found);
            waiting = 0;
        }
    }
    free(room);
    return whole;
}

PyObject *
lines(PyObject *module, PyObject *arguments)
{
    Py_buffer text, rows, keys;
    unsigned int seed;
    Py_ssize_t longest;
    Found found = {NULL, 0, 0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*In:lines", &text, &rows, &keys, &seed, &longest))
        return NULL;
    Keys there = {keys.buf, (size_t)keys.len / 8};
    int whole = -1;
    if (rows.len % 24 == 0 && keys.len % 8 == 0 && there.count > 0 && there.count <= UINT32_MAX && longest >= 0) {
        Py_BEGIN_ALLOW_THREADS
        whole = look_at_lines(&text, &rows, &there, seed, (size_t)longest, &found);
        Py_END_ALLOW_THREADS
    }
    if (whole > 0)
        result = as_bytes(&found);
    else if (whole == 0)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_ValueError, "rows or keys have the wrong size");
    free(found.numbers);
    PyBuffer_Release(&text);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&keys);
    return result;
}
