/* Which rows of a text are worth a look.
 *
 * memory/sifting.py says what is computed and why, and does the same where this is not built; tests/memory/test_native.py
 * holds the two against each other.
 */
#include "_native.h"

/* Rows whose places in the sieve are fetched before the first of them is asked for. */
#define BLOCK 64
/* Bytes that the extension of a path may have. */
#define LONGEST_EXTENSION 64

/* What a byte is. Low bits: it may begin a sign; the same ones, higher: it may be the second byte of one. */
enum { COLON = 1, LINE = 2, HASH = 4, BRACKET = 8, DOT = 16, SIGNS = 5, LETTER = 15 };

static const uint64_t PROBES[3] = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u};

typedef struct {
    uint16_t classes[256];
    const uint8_t *first, *second; /* 256 each: whether the extension of a note's name begins so */
    const uint8_t *bits;
    uint64_t size, seed;
    Py_ssize_t minimum, fewest;
    int poor;
} Sieve;

typedef struct {
    uint64_t begin, end;
    uint32_t kind, hash; /* hash 0: the row is not sieved */
} Row;

static void
classify(Sieve *sieve, const uint8_t *is_letter)
{
    for (int byte = 0; byte < 256; byte++) {
        unsigned second = (is_digit((uint8_t)byte) ? COLON | LINE : 0u) | (byte == '[' ? BRACKET : 0u) |
                          (is_letter_or_digit((uint8_t)byte) ? HASH : 0u) | (sieve->first[byte] ? DOT : 0u);
        sieve->classes[byte] = (uint16_t)(second << SIGNS | (is_letter[byte] ? 1u << LETTER : 0u));
    }
    sieve->classes[':'] |= COLON;
    sieve->classes['-'] |= COLON;
    sieve->classes['L'] |= LINE;
    sieve->classes['#'] |= HASH;
    sieve->classes['['] |= BRACKET;
    sieve->classes['.'] |= DOT;
}

static uint32_t
hash_of(const Sieve *sieve, const uint8_t *letters, size_t count)
{
    uint64_t mixed = (eight_at(letters) ^ sieve->seed) * PROBES[0];
    mixed ^= mixed >> 29;
    mixed += eight_at(letters + ((count - EIGHT) >> 1));
    mixed *= PROBES[1];
    mixed ^= mixed >> 32;
    mixed += eight_at(letters + count - EIGHT) + (uint64_t)count;
    mixed *= PROBES[2];
    uint32_t hash = (uint32_t)(mixed >> 32);
    return hash ? hash : 1;
}

static inline uint64_t
place_of(const Sieve *sieve, uint32_t hash, int probe)
{
    return (((((uint64_t)hash + 1) * PROBES[probe]) >> 32) * sieve->size) >> 32;
}

static inline int
is_set(const Sieve *sieve, uint64_t place)
{
    return sieve->bits[place >> 3] >> (place & 7) & 1;
}

/* Take those rows of a block that have a kind. 0: there is no memory. */
static int
take(const Sieve *sieve, Row *block, size_t count, Found *found)
{
    if (!grow(found, 3 * BLOCK))
        return 0;
    for (Row *row = block; row < block + count; row++) {
        if (!row->hash)
            continue;
        if (is_set(sieve, place_of(sieve, row->hash, 0))) {
            PREFETCH(sieve->bits + (place_of(sieve, row->hash, 1) >> 3));
            PREFETCH(sieve->bits + (place_of(sieve, row->hash, 2) >> 3));
        } else
            row->hash = 0;
    }
    for (Row *row = block; row < block + count; row++) {
        if (row->hash && is_set(sieve, place_of(sieve, row->hash, 1)) && is_set(sieve, place_of(sieve, row->hash, 2)))
            row->kind |= SIEVED;
        if (row->kind) {
            uint64_t *numbers = found->numbers + found->count;
            numbers[0] = row->begin;
            numbers[1] = row->end;
            numbers[2] = row->kind;
            found->count += 3;
        }
    }
    return 1;
}

/* Whether there is the end of a path's prefix, from its colon or dash on, and an extension before it. */
static int
is_behind_path(const uint8_t *begin, const uint8_t *at, const uint8_t *stop)
{
    if (!is_between(at + 1, stop, is_digit, 7, ':') && !is_between(at + 1, stop, is_digit, 7, '-'))
        return 0;
    const uint8_t *first = at;
    while (first > begin && at - first <= LONGEST_EXTENSION &&
           (first[-1] >= 0x80 || first[-1] == '_' || is_letter_or_digit(first[-1])))
        first--;
    return first < at && at - first <= LONGEST_EXTENSION && first > begin && first[-1] == '.';
}

/* The kind of a row in which two bytes stand together as in some sign. */
static unsigned
kind_of(const Sieve *sieve, const uint8_t *text, size_t size, size_t begin, size_t end)
{
    unsigned kind = 0;
    for (size_t at = begin; at + 1 < end; at++) {
        uint8_t next = text[at + 1];
        if (!(sieve->classes[text[at]] & (sieve->classes[next] >> SIGNS)))
            continue; /* it is no sign */
        switch (text[at]) {
        case ':':
        case '-':
            if (is_behind_path(text + begin, text + at, text + end))
                kind |= PATH;
            break;
        case 'L':
            if (is_between(text + at + 1, text + end, is_digit, 7, ':'))
                kind |= PREFIXED;
            break;
        case '#':
            if (is_between(text + at + 1, text + end, is_letter_or_digit, 8, '|'))
                kind |= PREFIXED;
            break;
        case '[':
            kind |= NAMED;
            break;
        case '.':
            if (sieve->second[at + 2 < size ? text[at + 2] : next])
                kind |= NAMED;
            break;
        }
    }
    return kind;
}

/* (begin, end, kind) of each row that has a kind. `letters` has room for the longest row. 0: there is no memory. */
static int
look_at_rows(const Sieve *sieve, const uint8_t *text, size_t size, uint8_t *letters, Found *found)
{
    const uint16_t *classes = sieve->classes;
    Row block[BLOCK];
    size_t waiting = 0, at = 0;
    for (;; at++) {
        size_t begin = at;
        unsigned before = 0, signs = 0;
        uint8_t *to = letters;
        for (; at < size && text[at] != '\n'; at++) {
            unsigned class = classes[text[at]];
            *to = text[at]; /* a byte that is no letter is written over by the next one */
            to += class >> LETTER;
            signs |= before & (class >> SIGNS);
            before = class;
        }
        size_t count = (size_t)(to - letters);
        Row row = {begin, at, signs ? kind_of(sieve, text, size, begin, at) : 0, 0};
        if ((Py_ssize_t)(at - begin) >= sieve->minimum) {
            if ((Py_ssize_t)count >= sieve->fewest) {
                row.hash = hash_of(sieve, letters, count);
                PREFETCH(sieve->bits + (place_of(sieve, row.hash, 0) >> 3));
            } else if (sieve->poor)
                row.kind |= POOR;
        }
        if (row.hash || row.kind)
            block[waiting++] = row;
        if (waiting == BLOCK || at >= size) {
            if (!take(sieve, block, waiting, found))
                return 0;
            waiting = 0;
        }
        if (at >= size)
            return 1;
    }
}

PyObject *
rows(PyObject *module, PyObject *arguments)
{
    Py_buffer text, is_letter, first, second, bits;
    unsigned long long size, seed;
    Sieve sieve;
    Found found = {NULL, 0, 0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*KKnnp:rows", &text, &is_letter, &first, &second, &bits, &size, &seed,
                          &sieve.minimum, &sieve.fewest, &sieve.poor))
        return NULL;
    if (is_letter.len != 256 || first.len != 256 || second.len != 256 || sieve.fewest < EIGHT || size == 0 ||
        size > UINT32_MAX || (uint64_t)bits.len * 8 < size) {
        PyErr_SetString(PyExc_ValueError, "a table has the wrong size");
        goto done;
    }
    sieve.first = first.buf;
    sieve.second = second.buf;
    classify(&sieve, is_letter.buf);
    sieve.bits = bits.buf;
    sieve.size = size;
    sieve.seed = seed;
    int whole = 0;
    Py_BEGIN_ALLOW_THREADS
    uint8_t *letters = malloc((size_t)text.len + 1);
    if (letters != NULL)
        whole = look_at_rows(&sieve, text.buf, (size_t)text.len, letters, &found);
    free(letters);
    Py_END_ALLOW_THREADS
    result = whole ? as_bytes(&found) : PyErr_NoMemory();
done:
    free(found.numbers);
    PyBuffer_Release(&text);
    PyBuffer_Release(&is_letter);
    PyBuffer_Release(&first);
    PyBuffer_Release(&second);
    PyBuffer_Release(&bits);
    return result;
}
