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
#define BLOCK 1024
#define OVERLAP (WINDOW - 1)
#define ROOM (BLOCK + OVERLAP + GRAM)

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
    for (size_t i = 0; i < left; i++) {
        /* Put together of bytes, as compilers then do many at a time. */
        uint32_t four = text[i] | (uint32_t)text[i + 1] << 8 | (uint32_t)text[i + 2] << 16 | (uint32_t)text[i + 3] << 24;
        hashes[i] = four * grams->factors[0];
    }
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

/* The lowest of each `WINDOW` ranks in a row, and whether it is another gram than that of the window before. `lowest`
 * begins with that of the window before the first one.
 */
FOR_EACH_PROCESSOR static void
find_lowest(const uint32_t *ranks, size_t windows, uint32_t *lowest, uint8_t *changed)
{
    for (size_t i = 0; i < windows; i++) {
        uint32_t one = ranks[i] < ranks[i + 1] ? ranks[i] : ranks[i + 1];
        uint32_t two = ranks[i + 2] < ranks[i + 3] ? ranks[i + 2] : ranks[i + 3];
        lowest[i + 1] = one < two ? one : two;
    }
    for (size_t i = 0; i < windows; i++) {
        /* The same hash at another place is the same gram again. */
        changed[i] = (lowest[i + 1] != NEVER) & ((lowest[i + 1] ^ lowest[i]) > PLACE);
    }
}

/* What is known of one block of grams, all of it near the processor; places are in the block. */
typedef struct {
    uint32_t hashes[ROOM], ranks[ROOM], spare[ROOM], lowest[1 + ROOM], keys[ROOM];
    uint16_t places[ROOM], passing[ROOM];
    uint8_t changed[ROOM], marks[ROOM];
} Block;

/* The places of the grams of a block that are looked up, ascending; says how many. Windows reach into the next block. */
static size_t
choose(const Grams *grams, const uint8_t *text, Block *block, size_t here)
{
    size_t windows = here < WINDOW ? 0 : here - OVERLAP, count = 0;
    find_lowest(block->ranks, windows, block->lowest, block->changed);
    for (size_t i = 0; i < windows; i++) {
        block->places[count] = (uint16_t)i;
        count += block->changed[i];
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t window = block->places[i];
        block->places[i] = (uint16_t)(window + ((block->lowest[window + 1] - window) & PLACE));
    }
    block->lowest[0] = block->lowest[windows];
    if (grams->wide == NULL)
        return count;
    for (size_t i = 0; i < count; i++)
        block->marks[block->places[i]] = 1;
    size_t own = here < BLOCK ? here : BLOCK;
    count = 0;
    for (size_t i = 0; i < own; i++) {
        block->places[count] = (uint16_t)i;
        count += block->marks[i] | (grams->wide[text[i]] & (block->ranks[i] != NEVER));
    }
    memset(block->marks, 0, own);
    memmove(block->marks, block->marks + own, OVERLAP);
    memset(block->marks + own, 0, OVERLAP);
    return count;
}

/* (place, key) of those of `count` chosen grams of a block that pass the filter. 0: there is no memory. */
static int
keep_passing(const Grams *grams, const uint8_t *text, size_t begin, Block *block, size_t count, Found *found)
{
    size_t passing = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t key = block->hashes[block->places[i]] * grams->scramble;
        block->keys[i] = key;
        PREFETCH(grams->filter + (key >> grams->shift));
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t key = block->keys[i], bits = grams->filter[key >> grams->shift];
        block->passing[passing] = (uint16_t)i;
        passing += bits >> (key & 31) & bits >> (key >> (grams->shift - 5) & 31) & 1;
    }
    if (!grow(found, 2 * passing))
        return 0;
    for (size_t i = 0; i < passing; i++) {
        size_t at = begin + block->places[block->passing[i]];
        uint64_t mixed = 0;
        for (size_t word = 0; word < WORDS; word++)
            mixed += four_at(text + at + 4 * word) * grams->mixers[word];
        found->numbers[found->count++] = at;
        found->numbers[found->count++] = (uint64_t)block->keys[block->passing[i]] << 32 | mixed >> 32;
    }
    return 1;
}

/* Places and keys of the grams that are looked up, ascending, each once: of each `WINDOW` grams in a row the lowest, and
 * those that begin with a wide character. 0: there is no memory.
 */
static int
look_at_grams(const Grams *grams, const uint8_t *text, size_t size, Found *found)
{
    size_t count = size - GRAM + 1;
    Block block;
    int good = 1;
    block.lowest[0] = NEVER;
    memset(block.marks, 0, sizeof block.marks);
    for (size_t begin = 0; good && begin < count; begin += BLOCK) {
        size_t here = count - begin < BLOCK + OVERLAP ? count - begin : BLOCK + OVERLAP;
        hash_grams(grams, text + begin, here, block.hashes, block.spare);
        rank_grams(text, begin, block.hashes, here, block.ranks);
        size_t chosen = choose(grams, text + begin, &block, here);
        good = keep_passing(grams, text, begin, &block, chosen, found);
    }
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
    result = whole ? as_columns(&found) : PyErr_NoMemory();
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
