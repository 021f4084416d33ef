/* Which grams of a text may be a note's.
 *
 * memory/grams.py says what is computed and why, and does the same where this is not built; tests/memory/test_native.py
 * holds the two against each other.
 */
#include "_native.h"

/* Loops that processors of today do many numbers at a time: made for these and for older ones, chosen when loaded. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#define GRAM 32
#define WORDS (GRAM / 4)
#define WINDOW 4
#define BLOCK 4096

static uint32_t
four_at(const uint8_t *place)
{
    uint32_t number;
    memcpy(&number, place, sizeof number);
    return number;
}

typedef struct {
    uint32_t factors[4], scramble, shift;
    uint64_t mixers[WORDS];
    const uint32_t *filter;
    const uint8_t *wide; /* 256: whether a byte is the first one of a wide character; NULL: none is looked for */
} Grams;

#define NEVER 0xFFFFFFFFu
#define PLACE 15u

/* The hashes of the grams that begin at the `count` places from `text` on, in steps of twice as many letters. */
FOR_EACH_PROCESSOR static void
hash_grams(const Grams *grams, const uint8_t *text, size_t count, uint32_t *hashes, uint32_t *spare)
{
    size_t left = count + GRAM - 4;
    for (size_t i = 0; i < left; i++)
        hashes[i] = four_at(text + i) * grams->factors[0];
    uint32_t *from = hashes, *to = spare;
    for (size_t step = 0, size = 4; size < GRAM; step++, size *= 2) {
        uint32_t factor = grams->factors[step + 1];
        left -= size;
        for (size_t i = 0; i < left; i++)
            to[i] = from[i] * factor + from[i + size];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != hashes)
        memcpy(hashes, from, count * sizeof *hashes);
}

/* (place, key) of those of `count` chosen grams that pass the filter. 0: there is no memory. */
static int
keep_passing(const Grams *grams, const uint8_t *text, const size_t *places, const uint32_t *hashes, size_t count,
             Found *found)
{
    enum { AHEAD = 12 };
    if (!grow(found, 2 * count))
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            PREFETCH(grams->filter + (hashes[i + AHEAD] * grams->scramble >> grams->shift));
        uint32_t key = hashes[i] * grams->scramble;
        uint32_t wanted = (uint32_t)1 << (key & 31) | (uint32_t)1 << (key >> (grams->shift - 5) & 31);
        if ((grams->filter[key >> grams->shift] & wanted) != wanted)
            continue;
        uint64_t mixed = 0;
        for (size_t word = 0; word < WORDS; word++)
            mixed += four_at(text + places[i] + 4 * word) * grams->mixers[word];
        found->numbers[found->count++] = places[i];
        found->numbers[found->count++] = (uint64_t)key << 32 | mixed >> 32;
    }
    return 1;
}

/* What orders the grams at `count` places from `begin` on: the hash, and in its low bits the place. A gram with a NUL in
 * it comes after all others.
 */
FOR_EACH_PROCESSOR static void
rank_grams(const uint8_t *text, size_t begin, const uint32_t *hashes, size_t count, uint32_t *ranks)
{
    for (size_t i = 0; i < count; i++)
        ranks[i] = (hashes[i] & ~PLACE) | ((uint32_t)(begin + i) & PLACE);
    const uint8_t *first = text + begin, *stop = first + count + GRAM - 1, *nul = first;
    size_t left_from = 0; /* those before it are left as they are, or done */
    while (nul < stop && (nul = memchr(nul, 0, (size_t)(stop - nul))) != NULL) {
        size_t at = (size_t)(nul - first), from = at < GRAM ? 0 : at - GRAM + 1, to = at < count ? at + 1 : count;
        for (size_t i = from > left_from ? from : left_from; i < to; i++)
            ranks[i] = NEVER;
        left_from = to;
        nul++;
    }
}

/* Mark the lowest of each `WINDOW` ranks in a row. `before` is the lowest of the window before the first one; that of the
 * last window is returned.
 */
FOR_EACH_PROCESSOR static uint32_t
mark_lowest(const uint32_t *ranks, size_t windows, size_t begin, uint32_t before, uint32_t *lowest, uint8_t *marks)
{
    for (size_t i = 0; i < windows; i++) {
        uint32_t one = ranks[i] < ranks[i + 1] ? ranks[i] : ranks[i + 1];
        uint32_t two = ranks[i + 2] < ranks[i + 3] ? ranks[i + 2] : ranks[i + 3];
        lowest[i] = one < two ? one : two;
    }
    for (size_t i = 0; i < windows; i++) {
        /* The same hash at another place is the same gram again. */
        uint32_t least = lowest[i];
        marks[i + ((least - (uint32_t)(begin + i)) & PLACE)] |= (least != NEVER) & ((least ^ before) > PLACE);
        before = least;
    }
    return before;
}

/* Places and keys of the grams that are looked up, ascending, each once: of each `WINDOW` grams in a row the lowest, and
 * those that begin with a wide character. 0: there is no memory.
 */
static int
look_at_grams(const Grams *grams, const uint8_t *text, size_t size, Found *found)
{
    enum { OVERLAP = WINDOW - 1, ROOM = BLOCK + OVERLAP + GRAM };
    size_t count = size - GRAM + 1;
    uint32_t *hashes = malloc(4 * ROOM * sizeof *hashes);
    size_t *places = malloc(ROOM * sizeof *places);
    uint8_t *marks = calloc(BLOCK + OVERLAP + PLACE, 1);
    int good = hashes != NULL && places != NULL && marks != NULL;
    uint32_t *ranks = hashes + ROOM, *of_places = ranks + ROOM, *lowest = of_places + ROOM;
    uint32_t before = NEVER;

    for (size_t begin = 0; good && begin < count; begin += BLOCK) {
        size_t here = count - begin < BLOCK + OVERLAP ? count - begin : BLOCK + OVERLAP;
        size_t block = here < BLOCK ? here : BLOCK, chosen = 0;
        hash_grams(grams, text + begin, here, hashes, ranks);
        rank_grams(text, begin, hashes, here, ranks);
        if (here >= WINDOW)
            before = mark_lowest(ranks, here - OVERLAP, begin, before, lowest, marks);
        for (size_t i = 0; grams->wide && i < block; i++)
            marks[i] |= grams->wide[text[begin + i]] & (ranks[i] != NEVER);
        for (size_t i = 0; i < block; i++) {
            places[chosen] = begin + i;
            of_places[chosen] = hashes[i];
            chosen += marks[i];
        }
        /* The last windows reach into the next block. */
        memset(marks, 0, block);
        memmove(marks, marks + block, OVERLAP);
        memset(marks + block, 0, OVERLAP);
        good = keep_passing(grams, text, places, of_places, chosen, found);
    }
    free(hashes);
    free(places);
    free(marks);
    return good;
}

PyObject *
grams(PyObject *module, PyObject *arguments)
{
    Py_buffer text, factors, mixers, filter, wide;
    unsigned int scramble, shift;
    Grams wanted;
    Found found = {NULL, 0, 0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*Iy*y*Iz*:grams", &text, &factors, &scramble, &mixers, &filter, &shift,
                          &wide))
        return NULL;
    if (factors.len != sizeof wanted.factors || mixers.len != sizeof wanted.mixers || shift < 5 || shift > 31 ||
        (uint64_t)filter.len < ((uint64_t)4 << (32 - shift)) ||
        (wide.buf != NULL && wide.len != 256)) {
        PyErr_SetString(PyExc_ValueError, "a table has the wrong size");
        goto done;
    }
    memcpy(wanted.factors, factors.buf, sizeof wanted.factors);
    memcpy(wanted.mixers, mixers.buf, sizeof wanted.mixers);
    wanted.scramble = scramble;
    wanted.shift = shift;
    wanted.filter = filter.buf;
    wanted.wide = wide.buf;
    int whole = 1;
    Py_BEGIN_ALLOW_THREADS
    if (text.len >= GRAM)
        whole = look_at_grams(&wanted, text.buf, (size_t)text.len, &found);
    Py_END_ALLOW_THREADS
    result = whole ? as_bytes(&found) : PyErr_NoMemory();
done:
    free(found.numbers);
    PyBuffer_Release(&text);
    PyBuffer_Release(&factors);
    PyBuffer_Release(&mixers);
    PyBuffer_Release(&filter);
    if (wide.obj != NULL)
        PyBuffer_Release(&wide);
    return result;
}
