/* The innermost loops of a scan, in C: which rows of a text are worth a look, the letters of it, and which of its grams
 * may be a note's.
 *
 * memory/sifting.py, memory/grams.py and memory/letters.py say what is computed and why, and do the same where this is
 * not built; tests/memory/test_native.py holds the two against each other. Nothing here keeps anything between two calls, and no
 * Python object is touched while the interpreter is released.
 */
#include "_native.h"

#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch(place)
#else
#define PREFETCH(place) ((void)(place))
#endif

/* Loops that processors of today do many numbers at a time: made for these and for older ones, chosen when loaded. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#define EIGHT 8
#define GRAM 32
#define WORDS (GRAM / 4)
#define WINDOW 4
#define BLOCK 4096

/* Bits of a byte's class, and of a row's kind: the same numbers as in memory/sifting.py. */
enum { LETTER = 1, SPECIAL = 2 };
enum { SIEVED = 1, POOR = 2, PREFIXED = 4, PATH = 8, NAMED = 16 };

static const uint64_t PROBES[3] = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u};

static uint32_t
four_at(const uint8_t *place)
{
    uint32_t number;
    memcpy(&number, place, sizeof number);
    return number;
}

/* ---- rows that are worth a look ---- */

typedef struct {
    const uint8_t *classes, *first, *second; /* 256 each: of a byte, and whether extensions begin so */
    const uint8_t *bits;
    uint64_t size, seed;
    Py_ssize_t minimum, fewest;
    int poor;
} Sieve;

static int
is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

static int
is_letter_or_digit(uint8_t byte)
{
    return is_digit(byte) || (uint8_t)((byte | 0x20) - 'a') < 26;
}

/* Whether one to `most` bytes of a kind stand between the byte before `at` and `end`. */
static int
is_between(const uint8_t *at, const uint8_t *stop, int (*is_one)(uint8_t), int most, uint8_t end)
{
    const uint8_t *first = at;
    while (at < stop && at - first < most && is_one(*at))
        at++;
    return at > first && at < stop && *at == end;
}

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

static PyObject *
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

/* ---- grams that may be a note's ---- */

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

static PyObject *
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

/* ---- letters ---- */

/* Each step copies a text to `to`, without something, and says how much is left of it. */

static int
is_of_address(uint8_t byte)
{
    return byte > ' ' && byte < 0x7F && strchr("\"'()<>[\\]`{|}", byte) == NULL;
}

/* Without addresses: `http://` or `https://`, and what may follow. */
static size_t
without_addresses(const uint8_t *text, size_t size, uint8_t *to)
{
    const uint8_t *from = text, *stop = text + size, *colon = text;
    uint8_t *end = to;
    while ((colon = memchr(colon, ':', (size_t)(stop - colon))) != NULL) {
        const uint8_t *after = colon + 3;
        size_t before = (size_t)(colon - from);
        size_t name = before >= 5 && memcmp(colon - 5, "https", 5) == 0 ? 5
                      : before >= 4 && memcmp(colon - 4, "http", 4) == 0 ? 4 : 0;
        if (name && after < stop && colon[1] == '/' && colon[2] == '/' && is_of_address(*after)) {
            memmove(end, from, before - name);
            end += before - name;
            while (after < stop && is_of_address(*after))
                after++;
            from = after;
            colon = after;
        } else {
            colon++;
        }
    }
    memmove(end, from, (size_t)(stop - from));
    return (size_t)(end + (stop - from) - to);
}

/* Without links: `[[`, one to 200 bytes that are neither a bracket nor NUL, `]]`. */
static size_t
without_links(const uint8_t *text, size_t size, uint8_t *to, int rows)
{
    enum { LONGEST = 200 };
    const uint8_t *from = text, *stop = text + size, *open = text;
    uint8_t *end = to;
    while ((open = memchr(open, '[', (size_t)(stop - open))) != NULL) {
        const uint8_t *at = open + 2;
        if (stop - open >= 5 && open[1] == '[')
            while (at < stop && at - open <= LONGEST + 1 && *at != '[' && *at != ']' && *at != 0)
                at++;
        if (at > open + 2 && stop - at >= 2 && at[0] == ']' && at[1] == ']') {
            memmove(end, from, (size_t)(open - from));
            end += open - from;
            for (; rows && open < at; open++)
                if (*open == '\n')
                    *end++ = '\n';
            from = open = at + 2;
        } else {
            open++;
        }
    }
    memmove(end, from, (size_t)(stop - from));
    return (size_t)(end + (stop - from) - to);
}

static int
is_hexadecimal(uint8_t byte)
{
    return is_digit(byte) || (uint8_t)((byte | 0x20) - 'a') < 6;
}

/* Without backslashes, and the n, r or t behind them. -1: one stands for another character. */
static Py_ssize_t
without_escapes(const uint8_t *text, size_t size, uint8_t *to)
{
    const uint8_t *from = text, *stop = text + size, *at = text;
    uint8_t *end = to;
    while ((at = memchr(at, '\\', (size_t)(stop - at))) != NULL) {
        memmove(end, from, (size_t)(at - from));
        end += at - from;
        while (at < stop && *at == '\\')
            at++;
        if (at < stop && (*at == 'n' || *at == 'r' || *at == 't'))
            at++;
        else if (stop - at >= 5 && *at == 'u' && is_hexadecimal(at[1]) && is_hexadecimal(at[2]) &&
                 is_hexadecimal(at[3]) && is_hexadecimal(at[4]))
            return -1;
        from = at;
    }
    memmove(end, from, (size_t)(stop - from));
    return end + (stop - from) - to;
}

static int
is_of_entity(uint8_t byte)
{
    return byte == '#' || is_letter_or_digit(byte);
}

enum { IS_NONE, IS_LETTER, IS_OTHER };

/* What bytes are in `letters_alone`: a letter of ASCII, none, or something to be looked at. */
static void
fill_kinds(uint8_t *kinds)
{
    for (int byte = 0; byte < 256; byte++) {
        int is_other = byte >= 0x80 || byte == 0 || byte == '\n' || byte == '&';
        kinds[byte] = is_other ? IS_OTHER : (uint8_t)((byte | 0x20) - 'a') < 26 ? IS_LETTER : IS_NONE;
    }
}

/* The letters alone, small, of valid UTF-8. -1: some character may have to be made another one. */
static Py_ssize_t
letters_alone(const uint8_t *text, size_t size, uint8_t *to, int rows)
{
    const uint8_t *stop = text + size;
    uint8_t *end = to, kinds[256];
    fill_kinds(kinds);
    for (const uint8_t *at = text; at < stop;) {
        uint8_t byte = *at, kind = kinds[byte];
        if (kind <= IS_LETTER) {
            *end = byte | 0x20;
            end += kind;
            at++;
            continue;
        }
        if (byte < 0x80) {
            if (byte == '&' && is_between(at + 1, stop, is_of_entity, 10, ';'))
                return -1;
            *end = byte;
            end += byte == 0 || (rows && byte == '\n');
            at++;
            continue;
        }
        uint8_t next = at + 1 < stop ? at[1] : 0, third = at + 2 < stop ? at[2] : 0;
        size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        if (length > (size_t)(stop - at))
            return -1;
        switch (byte) {
        case 0xC2: /* U+0080 to U+00BF */
        case 0xE2: /* U+2000 to U+2FFF */
            break;
        case 0xCC: /* marks that go with the letter before them */
        case 0xCD:
        case 0xE0:
        case 0xE1:
            return -1;
        case 0xE3:
            if (next == 0x82 && (third == 0x99 || third == 0x9A))
                return -1;
            if (next == 0x80 && third == 0x80) /* U+3000 */
                break;
            goto keep;
        case 0xEF:
            if ((next == 0xB8 && third == 0x8F) || (next == 0xBB && third == 0xBF)) /* U+FE0F, U+FEFF */
                break;
            if (next < 0xBC)
                return -1;
            goto keep;
        case 0xF0:
            if (next != 0x9F)
                return -1;
            goto keep;
        default:
        keep:
            memmove(end, at, length);
            end += length;
        }
        at += length;
    }
    return end - to;
}

static PyObject *
letters(PyObject *module, PyObject *arguments)
{
    Py_buffer text;
    int rows;
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*p:letters", &text, &rows))
        return NULL;
    Py_ssize_t size = -1;
    uint8_t *left = malloc((size_t)text.len + 1);
    if (left != NULL) {
        Py_BEGIN_ALLOW_THREADS
        size = (Py_ssize_t)without_addresses(text.buf, (size_t)text.len, left);
        size = (Py_ssize_t)without_links(left, (size_t)size, left, rows);
        size = without_escapes(left, (size_t)size, left);
        if (size >= 0)
            size = letters_alone(left, (size_t)size, left, rows);
        Py_END_ALLOW_THREADS
        result = size >= 0 ? PyBytes_FromStringAndSize((const char *)left, size) : Py_NewRef(Py_None);
    } else {
        PyErr_NoMemory();
    }
    free(left);
    PyBuffer_Release(&text);
    return result;
}

static PyMethodDef methods[] = {
    {"rows", rows, METH_VARARGS, "(begin, end, kind) of the rows that are worth a look, as 64-bit numbers."},
    {"grams", grams, METH_VARARGS, "(place, key) of the grams that are looked up, as 64-bit numbers."},
    {"letters", letters, METH_VARARGS, "The letters of UTF-8; None where some character may have to be made another one."},
    {"end_of_value", end_of_value, METH_VARARGS, "Where the JSON value ends that begins at a place; None: it may be none."},
    {"strings", strings, METH_VARARGS, "The strings of a JSON value, and (begin, end, number, holds JSON) of each."},
    {"pointers", pointers, METH_VARARGS, "Where some of these strings are, by their numbers."},
    {NULL, NULL, 0, NULL},
};

static int
check(PyObject *module)
{
    const uint16_t one = 1;
    if (*(const uint8_t *)&one != 1) {
        PyErr_SetString(PyExc_ImportError, "it is made for little-endian machines");
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)check}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "memory._native", "The innermost loops of a scan.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
