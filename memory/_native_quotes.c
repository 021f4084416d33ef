/* Which rows of notes have the grams of texts, and which notes these texts quote by them.
 *
 * memory/quote_rows.py and memory/quotes.py say what is computed and why, and do the same where this is not built;
 * tests/memory/test_native_quotes.py holds the two against each other.
 */
#include "_native.h"

#define GRAM 32
#define AROUND 8

/* The sorted upper halves of keys, and the 16 bits of each that are kept too. */
typedef struct {
    const uint32_t *keys;
    const uint16_t *checks;
    size_t count;
} Rows;

/* Nearer to where a key is, from a place where another one is: keys are spread evenly. */
static size_t
nearer(const Rows *rows, uint32_t key, size_t place)
{
    int64_t way = (int64_t)key - (int64_t)rows->keys[place];
    int64_t there = (int64_t)place + way * (int64_t)rows->count / ((int64_t)1 << 32);
    return there < 0 ? 0 : (uint64_t)there >= rows->count ? rows->count - 1 : (size_t)there;
}

/* The first row whose key is not less, looked for in growing steps from a place on: however keys are spread, that takes
 * no more than twice as many looks as halving.
 */
static size_t
first_not_less(const Rows *rows, uint32_t key, size_t place)
{
    size_t low = 0, high = rows->count, step = 1;
    if (rows->keys[place] < key) {
        low = place + 1;
        while (high - low > step && rows->keys[low + step] < key) {
            low += step + 1;
            step *= 2;
        }
        if (high - low > step)
            high = low + step;
    } else {
        high = place;
        while (high > step && rows->keys[high - step] >= key) {
            high -= step;
            step *= 2;
        }
        if (high > step)
            low = high - step + 1;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* (number of a wanted key, row) of all that are the same. Some are looked for together, as each waits for memory. */
static int
find_rows(const Rows *rows, const uint64_t *wanted, size_t count, Found *found)
{
    enum { TOGETHER = 32, STEPS = 2 };
    size_t places[TOGETHER];
    for (size_t begin = 0; rows->count && begin < count; begin += TOGETHER) {
        size_t here = count - begin < TOGETHER ? count - begin : TOGETHER;
        for (size_t i = 0; i < here; i++) {
            places[i] = (size_t)((wanted[begin + i] >> 32) * rows->count >> 32);
            PREFETCH(rows->keys + places[i]);
        }
        for (int step = 0; step < STEPS; step++)
            for (size_t i = 0; i < here; i++) {
                places[i] = nearer(rows, (uint32_t)(wanted[begin + i] >> 32), places[i]);
                PREFETCH(rows->keys + places[i]);
            }
        for (size_t i = 0; i < here; i++) {
            uint32_t key = (uint32_t)(wanted[begin + i] >> 32);
            uint16_t check = (uint16_t)(wanted[begin + i] >> 16);
            for (size_t row = first_not_less(rows, key, places[i]); row < rows->count && rows->keys[row] == key; row++) {
                if (rows->checks[row] != check)
                    continue;
                if (!grow(found, 2))
                    return 0;
                found->numbers[found->count++] = begin + i;
                found->numbers[found->count++] = row;
            }
        }
    }
    return 1;
}

PyObject *
matches(PyObject *module, PyObject *arguments)
{
    Py_buffer keys, checks, wanted;
    Found found = {NULL, 0, 0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*:matches", &keys, &checks, &wanted))
        return NULL;
    Rows rows = {keys.buf, checks.buf, (size_t)keys.len / sizeof(uint32_t)};
    if (keys.len % 4 || wanted.len % 8 || (size_t)checks.len != rows.count * sizeof *rows.checks ||
        rows.count > UINT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "a table has the wrong size");
        goto done;
    }
    int whole;
    Py_BEGIN_ALLOW_THREADS
    whole = find_rows(&rows, wanted.buf, (size_t)wanted.len / 8, &found);
    Py_END_ALLOW_THREADS
    result = whole ? as_columns(&found) : PyErr_NoMemory();
done:
    free(found.numbers);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&checks);
    PyBuffer_Release(&wanted);
    return result;
}

/* Grams of texts that are grams of notes, ascending by their positions in the texts' letters. */
typedef struct {
    const uint8_t *letters, *around, *bits;
    const int64_t *positions, *rows, *notes;
    size_t size, count;
    unsigned int fewest, shortest;
} Matches;

/* Put numbers in order by their upper halves, of which `most` is the greatest; equal ones stay as they are. */
static void
sort_by_upper(uint64_t *numbers, uint64_t *spare, size_t count, uint64_t most)
{
    uint64_t *from = numbers, *to = spare;
    for (unsigned shift = 0; shift < 32 && most >> shift; shift += 8) {
        size_t places[256] = {0}, place = 0;
        for (size_t i = 0; i < count; i++)
            places[from[i] >> (32 + shift) & 255]++;
        for (size_t byte = 0; byte < 256; byte++) {
            size_t here = places[byte];
            places[byte] = place;
            place += here;
        }
        for (size_t i = 0; i < count; i++)
            to[places[from[i] >> (32 + shift) & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != numbers)
        memcpy(numbers, from, count * sizeof *numbers);
}

/* How many letters in a row are alike, by the bits that are not, the nearest lowest: one less than there are bits, as on
 * the average that is one too many; not where all are alike.
 */
static uint64_t
count_alike(unsigned unlike)
{
    uint64_t alike = 0;
    while (alike < AROUND && !(unlike >> alike & 1))
        alike++;
    return alike == AROUND ? AROUND : alike ? alike - 1 : 0;
}

static uint64_t
alike_around(const Matches *all, size_t match)
{
    const uint8_t *gram = all->letters + all->positions[match];
    unsigned before = 0, after = 0;
    for (int i = 0; i < AROUND; i++) {
        before |= (unsigned)(all->bits[gram[-1 - i]] & 1) << i;
        after |= (unsigned)(all->bits[gram[GRAM + i]] & 1) << i;
    }
    return count_alike(before ^ all->around[2 * match]) + count_alike(after ^ all->around[2 * match + 1]);
}

/* The number of each gram's text, times two, as so many NULs are before it: `AROUND` behind each text. 0: what is said of
 * the grams cannot be.
 */
static int
number_texts(const Matches *all, uint64_t *texts)
{
    size_t end = GRAM;
    uint64_t text = 0;
    int64_t before = GRAM;
    for (size_t i = 0; i < all->count; i++) {
        int64_t position = all->positions[i];
        if (position < before || (uint64_t)position + GRAM + AROUND > all->size)
            return 0;
        before = position;
        if (all->rows[i] < 0 || all->rows[i] > UINT32_MAX || all->notes[i] < 0 || all->notes[i] > UINT32_MAX)
            return 0;
        for (;; text++) {
            const uint8_t *nul = memchr(all->letters + end, 0, (size_t)position - end);
            if (nul == NULL)
                break;
            end = (size_t)(nul - all->letters) + AROUND;
            if (end > (size_t)position)
                return 0;
        }
        end = (size_t)position;
        texts[i] = text << 1;
    }
    return 1;
}

/* (text, note, different grams, letters) of each note that a text quotes. `texts`, `order` and `spare` are as long as there
 * are grams. 0: there is no memory.
 */
static int
find_quotes(const Matches *all, uint64_t *texts, uint64_t *order, uint64_t *spare, Found *found)
{
    uint64_t most = 0;
    for (size_t i = 0; i < all->count; i++) {
        order[i] = (uint64_t)all->rows[i] << 32 | i;
        most = most > (uint64_t)all->rows[i] ? most : (uint64_t)all->rows[i];
    }
    sort_by_upper(order, spare, all->count, most);
    /* A note has a gram once, so as many different rows are as many different grams. One that comes again is marked. */
    for (size_t i = 1; i < all->count; i++) {
        uint32_t one = (uint32_t)order[i - 1], next = (uint32_t)order[i];
        if (order[i - 1] >> 32 == order[i] >> 32 && texts[one] >> 1 == texts[next] >> 1)
            texts[next] |= 1;
    }
    most = 0;
    for (size_t i = 0; i < all->count; i++) {
        order[i] = (uint64_t)all->notes[i] << 32 | i;
        most = most > (uint64_t)all->notes[i] ? most : (uint64_t)all->notes[i];
    }
    sort_by_upper(order, spare, all->count, most);
    for (size_t i = 0, next; i < all->count; i = next) {
        size_t first = (uint32_t)order[i];
        uint64_t note = order[i] >> 32, text = texts[first] >> 1, grams = !(texts[first] & 1), longest = GRAM;
        int64_t run = all->positions[first], last = run;
        for (next = i + 1; next < all->count && order[next] >> 32 == note; next++) {
            size_t one = (uint32_t)order[next];
            if (texts[one] >> 1 != text)
                break;
            grams += !(texts[one] & 1);
            if (all->positions[one] - last > GRAM)
                run = all->positions[one];
            last = all->positions[one];
            if ((uint64_t)(last - run) + GRAM > longest)
                longest = (uint64_t)(last - run) + GRAM;
        }
        if (next == i + 1)
            longest += alike_around(all, first);
        if (grams < all->fewest && longest < all->shortest)
            continue;
        if (!grow(found, 4))
            return 0;
        uint64_t *quote = found->numbers + found->count;
        quote[0] = text;
        quote[1] = note;
        quote[2] = grams;
        quote[3] = longest;
        found->count += 4;
    }
    return 1;
}

PyObject *
quotes(PyObject *module, PyObject *arguments)
{
    Py_buffer letters, positions, rows, notes, around, bits;
    Matches all;
    Found found = {NULL, 0, 0};
    uint64_t *numbers = NULL;
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*II:quotes", &letters, &positions, &rows, &notes, &around, &bits,
                          &all.fewest, &all.shortest))
        return NULL;
    all.count = (size_t)positions.len / 8;
    if (positions.len % 8 || rows.len != positions.len || notes.len != positions.len || all.count > UINT32_MAX ||
        (size_t)around.len != 2 * all.count || bits.len != 256) {
        PyErr_SetString(PyExc_ValueError, "a table has the wrong size");
        goto done;
    }
    all.letters = letters.buf;
    all.size = (size_t)letters.len;
    all.positions = positions.buf;
    all.rows = rows.buf;
    all.notes = notes.buf;
    all.around = around.buf;
    all.bits = bits.buf;
    numbers = malloc((3 * all.count + 1) * sizeof *numbers);
    if (numbers == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    int good, whole = 0;
    Py_BEGIN_ALLOW_THREADS
    good = number_texts(&all, numbers);
    if (good)
        whole = find_quotes(&all, numbers, numbers + all.count, numbers + 2 * all.count, &found);
    Py_END_ALLOW_THREADS
    if (!good)
        PyErr_SetString(PyExc_ValueError, "the grams are not in the letters");
    else
        result = whole ? as_bytes(&found) : PyErr_NoMemory();
done:
    free(numbers);
    free(found.numbers);
    PyBuffer_Release(&letters);
    PyBuffer_Release(&positions);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&notes);
    PyBuffer_Release(&around);
    PyBuffer_Release(&bits);
    return result;
}
