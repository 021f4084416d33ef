/* Which rows of a text are worth a look.
 *
 * memory/sifting.py says what is computed and why, and does the same where this is not built; tests/memory/test_native.py
 * holds the two against each other.
 */
#include "_native.h"

#define EIGHT 8

/* Bits of a byte's class, and of a row's kind: the same numbers as in memory/sifting.py. */
enum { LETTER = 1, SPECIAL = 2 };
enum { SIEVED = 1, POOR = 2, PREFIXED = 4, PATH = 8, NAMED = 16 };

static const uint64_t PROBES[3] = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u};

typedef struct {
    const uint8_t *classes, *first, *second; /* 256 each: of a byte, and whether extensions begin so */
    const uint8_t *bits;
    uint64_t size, seed;
    Py_ssize_t minimum, fewest;
    int poor;
} Sieve;

static int
passes(const Sieve *sieve, const uint8_t *letters, size_t count)
{
    uint64_t mixed = (eight_at(letters) ^ sieve->seed) * PROBES[0];
    mixed ^= mixed >> 29;
    mixed += eight_at(letters + ((count - EIGHT) >> 1));
    mixed *= PROBES[1];
    mixed ^= mixed >> 32;
    mixed += eight_at(letters + count - EIGHT) + (uint64_t)count;
    mixed *= PROBES[2];
    uint64_t hash = mixed >> 32;
    if (hash == 0)
        hash = 1;
    for (int probe = 0; probe < 3; probe++) {
        uint64_t place = ((((hash + 1) * PROBES[probe]) >> 32) * sieve->size) >> 32;
        if (!(sieve->bits[place >> 3] >> (place & 7) & 1))
            return 0;
    }
    return 1;
}

/* (begin, end, kind) of each row that has a kind. `letters` has room for the longest row. 0: there is no memory. */
static int
look_at_rows(const Sieve *sieve, const uint8_t *text, size_t size, uint8_t *letters, Found *found)
{
    size_t begin = 0, count = 0, at = 0;
    unsigned kind = 0;
    for (;; at++) {
        if (at < size && text[at] != '\n') {
            uint8_t byte = text[at], class = sieve->classes[byte];
            letters[count] = byte;
            count += class & LETTER;
            if (!(class & SPECIAL))
                continue;
            /* What follows in the text: a NUL at its end, which is none of the bytes that are asked for. */
            uint8_t next = at + 1 < size ? text[at + 1] : 0;
            switch (byte) {
            case ':':
            case '-':
                if (is_digit(next))
                    kind |= PATH;
                break;
            case 'L':
                if (is_between(text + at + 1, text + size, is_digit, 7, ':'))
                    kind |= PREFIXED;
                break;
            case '#':
                if (is_between(text + at + 1, text + size, is_letter_or_digit, 8, '|'))
                    kind |= PREFIXED;
                break;
            case '[':
                if (next == '[')
                    kind |= NAMED;
                break;
            case '.':
                if (sieve->first[next] && sieve->second[at + 2 < size ? text[at + 2] : next])
                    kind |= NAMED;
                break;
            }
            continue;
        }
        if ((Py_ssize_t)(at - begin) >= sieve->minimum) {
            if ((Py_ssize_t)count < sieve->fewest)
                kind |= sieve->poor ? POOR : 0;
            else if (passes(sieve, letters, count))
                kind |= SIEVED;
        }
        if (kind) {
            if (!grow(found, 3))
                return 0;
            uint64_t *row = found->numbers + found->count;
            row[0] = begin;
            row[1] = at;
            row[2] = kind;
            found->count += 3;
        }
        if (at >= size)
            return 1;
        begin = at + 1;
        count = 0;
        kind = 0;
    }
}

PyObject *
rows(PyObject *module, PyObject *arguments)
{
    Py_buffer text, classes, first, second, bits;
    unsigned long long size, seed;
    Sieve sieve;
    Found found = {NULL, 0, 0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*KKnnp:rows", &text, &classes, &first, &second, &bits, &size, &seed,
                          &sieve.minimum, &sieve.fewest, &sieve.poor))
        return NULL;
    if (classes.len != 256 || first.len != 256 || second.len != 256 || sieve.fewest < EIGHT || size == 0 ||
        size > UINT32_MAX || (uint64_t)bits.len * 8 < size) {
        PyErr_SetString(PyExc_ValueError, "a table has the wrong size");
        goto done;
    }
    sieve.classes = classes.buf;
    sieve.first = first.buf;
    sieve.second = second.buf;
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
    PyBuffer_Release(&classes);
    PyBuffer_Release(&first);
    PyBuffer_Release(&second);
    PyBuffer_Release(&bits);
    return result;
}
