/* The letters of a text and nothing else.
 *
 * memory/letters.py says what is computed and why, and does the same where this is not built; tests/memory/test_native.py
 * holds the two against each other.
 */
#include "_native.h"

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
