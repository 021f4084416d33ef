/* The letters of a text and nothing else.
 *
 * memory/letters.py says what is computed and why, and does the same where this is not built; tests/memory/test_native.py
 * holds the two against each other.
 */
#include "_native.h"

/* Each step copies a text to `to`, which may be where it is, without something, and says how much is left of it. What has
 * nothing of the kind is not copied. They give the text that is left; NULL: some character may have to be made another one.
 */

static int
is_of_address(uint8_t byte)
{
    return byte > ' ' && byte < 0x7F && strchr("\"'()<>[\\]`{|}", byte) == NULL;
}

/* What is left of a text in `to`, when what is left of it from `from` on has come to `end`. */
static const uint8_t *
rest(const uint8_t *text, size_t *size, const uint8_t *from, uint8_t *to, uint8_t *end)
{
    if (from == text)
        return text;
    size_t left = (size_t)(text + *size - from);
    memmove(end, from, left);
    *size = (size_t)(end - to) + left;
    return to;
}

/* Without addresses: `http://` or `https://`, and what may follow. */
static const uint8_t *
without_addresses(const uint8_t *text, size_t *size, uint8_t *to)
{
    const uint8_t *from = text, *stop = text + *size, *colon = text;
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
    return rest(text, size, from, to, end);
}

/* Without links: `[[`, one to 200 bytes that are neither a bracket nor NUL, `]]`. */
static const uint8_t *
without_links(const uint8_t *text, size_t *size, uint8_t *to, int rows)
{
    enum { LONGEST = 200 };
    const uint8_t *from = text, *stop = text + *size, *open = text;
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
    return rest(text, size, from, to, end);
}

static int
is_hexadecimal(uint8_t byte)
{
    return is_digit(byte) || (uint8_t)((byte | 0x20) - 'a') < 6;
}

/* Without backslashes, and the n, r or t behind them. NULL: one stands for another character. */
static const uint8_t *
without_escapes(const uint8_t *text, size_t *size, uint8_t *to)
{
    const uint8_t *from = text, *stop = text + *size, *at = text;
    uint8_t *end = to;
    while ((at = memchr(at, '\\', (size_t)(stop - at))) != NULL) {
        memmove(end, from, (size_t)(at - from));
        end += at - from;
        while (at < stop && *at == '\\')
            at++;
        if (at < stop && (*at == 'n' || *at == 'r' || *at == 't')) {
            at++;
        } else if (at < stop && *at == 'u') {
            const uint8_t *digit = at + 1;
            while (digit < stop && digit - at < 5 && is_hexadecimal(*digit))
                digit++;
            /* A backslash among the digits goes first. */
            if (digit - at == 5 || (digit < stop && *digit == '\\'))
                return NULL;
        }
        from = at;
    }
    return rest(text, size, from, to, end);
}

static int
is_of_entity(uint8_t byte)
{
    return byte == '#' || is_letter_or_digit(byte);
}

enum { IS_LETTER = 1, ENDS_ROW = 2, IS_OTHER = 4 };

/* What bytes are in `letters_alone`: a letter of ASCII, none, or something to be looked at. */
#define KIND(byte) \
    ((uint8_t)(((byte) | 0x20) - 'a') < 26 && (byte) < 0x80 ? IS_LETTER : (byte) == '\n' ? ENDS_ROW \
     : (byte) >= 0x80 || (byte) == 0 || (byte) == '&' ? IS_OTHER : 0)
#define KINDS_4(byte) KIND(byte), KIND((byte) + 1), KIND((byte) + 2), KIND((byte) + 3)
#define KINDS_16(byte) KINDS_4(byte), KINDS_4((byte) + 4), KINDS_4((byte) + 8), KINDS_4((byte) + 12)
#define KINDS_64(byte) KINDS_16(byte), KINDS_16((byte) + 16), KINDS_16((byte) + 32), KINDS_16((byte) + 48)
static const uint8_t KINDS[256] = {KINDS_64(0), KINDS_64(64), KINDS_64(128), KINDS_64(192)};

/* The letters alone, small, of valid UTF-8. -1: some character may have to be made another one. */
static Py_ssize_t
letters_alone(const uint8_t *text, size_t size, uint8_t *to, int rows)
{
    const unsigned special = IS_OTHER | (rows ? ENDS_ROW : 0);
    const uint8_t *stop = text + size;
    uint8_t *end = to;
    for (const uint8_t *at = text; at < stop;) {
        while (stop - at >= 8) {
            unsigned kinds[8], any = 0;
            for (int i = 0; i < 8; i++)
                any |= kinds[i] = KINDS[at[i]];
            if (any & special)
                break;
            uint64_t small = eight_at(at) | 0x2020202020202020u;
            for (int i = 0; i < 8; i++) {
                *end = (uint8_t)(small >> 8 * i);
                end += kinds[i] & IS_LETTER;
            }
            at += 8;
        }
        if (at == stop)
            break;
        uint8_t byte = *at, kind = KINDS[byte];
        if (!(kind & special)) {
            *end = byte | 0x20;
            end += kind & IS_LETTER;
            at++;
            continue;
        }
        if (byte < 0x80) {
            if (byte == '&' && is_between(at + 1, stop, is_of_entity, 10, ';'))
                return -1;
            *end = byte;
            end += byte != '&';
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

/* The letters of a text in `to`, where there is room for all of it. -1: some character may have to be made another one. */
static Py_ssize_t
letters_of_text(const uint8_t *text, size_t size, uint8_t *to, int rows)
{
    text = without_addresses(text, &size, to);
    text = without_links(text, &size, to, rows);
    text = without_escapes(text, &size, to);
    return text == NULL ? -1 : letters_alone(text, size, to, rows);
}

PyObject *
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
        size = letters_of_text(text.buf, (size_t)text.len, left, rows);
        Py_END_ALLOW_THREADS
        result = size >= 0 ? PyBytes_FromStringAndSize((const char *)left, size) : Py_NewRef(Py_None);
    } else {
        PyErr_NoMemory();
    }
    free(left);
    PyBuffer_Release(&text);
    return result;
}

/* NULs before the first text and behind the last one, and between two. */
#define EDGE 32
#define APART 8

/* How much room the letters of texts need that begin and end at places of `size` bytes. 0: they are not in these. */
static size_t
room_of(const int64_t *begins, const int64_t *ends, size_t count, int64_t size)
{
    size_t room = 2 * EDGE;
    for (size_t i = 0; i < count; i++) {
        int64_t begin = begins[i], end = ends[i];
        if (begin < 0 || end < begin || end > size || room > (size_t)PY_SSIZE_T_MAX / 2 - (size_t)(end - begin))
            return 0;
        room += (size_t)(end - begin) + APART;
    }
    return room;
}

PyObject *
letters_of(PyObject *module, PyObject *arguments)
{
    Py_buffer data, begins, ends;
    PyObject *result = NULL;
    Found undone = {NULL, 0, 0};
    uint8_t *joined = NULL;

    if (!PyArg_ParseTuple(arguments, "y*y*y*:letters_of", &data, &begins, &ends))
        return NULL;
    const int64_t *first = begins.buf, *behind = ends.buf;
    size_t count = (size_t)begins.len / sizeof *first;
    size_t room = begins.len % 8 || begins.len != ends.len ? 0 : room_of(first, behind, count, data.len);
    if (room == 0) {
        PyErr_SetString(PyExc_ValueError, "the texts are not in the data");
        goto done;
    }
    joined = malloc(room);
    if (joined == NULL || !grow(&undone, count)) {
        PyErr_NoMemory();
        goto done;
    }
    uint8_t *end = joined;
    Py_BEGIN_ALLOW_THREADS
    memset(end, 0, EDGE);
    end += EDGE;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *text = (const uint8_t *)data.buf + first[i];
        Py_ssize_t left = letters_of_text(text, (size_t)(behind[i] - first[i]), end, 0);
        if (left >= 0)
            end += left;
        else
            undone.numbers[undone.count++] = i;
        memset(end, 0, APART);
        end += APART;
    }
    memset(end, 0, EDGE - APART);
    end += EDGE - APART;
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("y#N", (const char *)joined, (Py_ssize_t)(end - joined), as_bytes(&undone));
done:
    free(joined);
    free(undone.numbers);
    PyBuffer_Release(&data);
    PyBuffer_Release(&begins);
    PyBuffer_Release(&ends);
    return result;
}
