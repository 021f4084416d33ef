/* The strings of a JSON value, straight from its bytes: what they say, which of them hold JSON again, and where each is.
 *
 * memory/walk.py says what is computed and why, and does the same with values that are decoded; tests/memory/test_strings.py
 * holds the two against each other. What Python's decoder may read and this does not (NaN, very deep nesting, bytes that
 * are no UTF-8) is left to it: UNSURE.
 */
#include "_native.h"

#define DEEPEST 256
#define MOST_DECODINGS 4
#define HEAD 60
#define SHORTEST_BLOB 128
#define LONGEST_NAME 64

/* Instead of a place. */
enum { BAD = -1, UNSURE = -2, NO_MEMORY = -3, ENOUGH = -4 };

/* What a string is, in the last column of its row: its JSON is looked into; it may have base64 in it. */
enum { HOLDS_JSON = 1 };

typedef struct {
    int is_object;
    size_t number; /* of the element that is read, in an array */
    const uint8_t *key; /* of the member that is read, as it is written between its quotes */
    size_t key_size;
} Frame;

/* A text in memory that grows. */
typedef struct {
    uint8_t *data;
    size_t size, room;
} Text;

/* What is made of all strings of some values. */
typedef struct {
    size_t shortest;
    int wide;
    uint64_t value, number; /* of the value that is read, and of the next string in it */
    Text shown, aside; /* the strings, a newline behind each; those that may have base64 in them apart */
    Found rows, rows_aside; /* (begin, end, number, what it is, value) */
    Found unread; /* the values that are not understood */
    const uint64_t *wanted; /* numbers of strings, ascending: where these are is written to `pointers` */
    size_t wanted_count;
    Text pointers;
} Task;

/* The reading of one JSON text. `outer`: the one that has it in a string. */
typedef struct Reading {
    Task *task; /* NULL: it is only told whether it is JSON */
    const struct Reading *outer;
    int level;
    size_t depth;
    Frame frames[DEEPEST];
} Reading;

static int may_begin_json(uint8_t byte);
static int append_pointer(Text *pointers, const Reading *reading);
static Py_ssize_t take_said(const Reading *reading, uint64_t number, size_t length, int is_key);

/* ---- texts that grow ---- */

static int
reserve(Text *text, size_t more)
{
    if (text->size + more <= text->room)
        return 1;
    size_t room = text->room + text->room / 2 + more + 1024;
    uint8_t *data = realloc(text->data, room);
    if (data == NULL)
        return 0;
    text->data = data;
    text->room = room;
    return 1;
}

static int
append(Text *text, const void *bytes, size_t size)
{
    if (!reserve(text, size))
        return 0;
    memcpy(text->data + text->size, bytes, size);
    text->size += size;
    return 1;
}

/* ---- the grammar ---- */

static size_t
after_white(const uint8_t *text, size_t at, size_t size)
{
    while (at < size && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
        at++;
    return at;
}

static int
hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The number that four hexadecimal digits write; -1: they are none. */
static int32_t
code_unit(const uint8_t *at)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* How many bytes the character beyond ASCII has that begins at `at`; 0: it is no UTF-8. Half of a surrogate pair is one, as
 * for Python's "surrogatepass".
 */
static size_t
character(const uint8_t *at, size_t left)
{
    uint8_t first = at[0];
    size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] >= 0x90))
        return 0;
    return length;
}

/* The bytes of eight that are a quote, a backslash or no ASCII: the highest bit of each; above the first one, others too. */
static uint64_t
special(uint64_t eight)
{
    uint64_t quote = eight ^ EACH('"'), backslash = eight ^ EACH('\\');
    return (((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash) | eight) & EACH(0x80);
}

static size_t
first_of(uint64_t marks)
{
#if defined(__GNUC__)
    return (size_t)__builtin_ctzll(marks) >> 3;
#else
    size_t first = 0;
    for (; !(marks & 0x80); marks >>= 8)
        first++;
    return first;
#endif
}

/* What the letter behind a backslash stands for; 0: there is no such escape, or it is that of a number. */
static const uint8_t MEANT[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

static size_t
put_character(uint8_t *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (uint8_t)(0xC0 | code >> 6);
        to[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (uint8_t)(0xE0 | code >> 12);
        to[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        to[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (uint8_t)(0xF0 | code >> 18);
    to[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    to[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    to[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

/* The place of the quote that closes the string whose first character is at `at`. */
static Py_ssize_t
closing_quote(const uint8_t *text, size_t at, size_t size)
{
    for (;;) {
        while (at + EIGHT <= size) {
            uint64_t marks = special(eight_at(text + at));
            if (marks != 0) {
                at += first_of(marks);
                break;
            }
            at += EIGHT;
        }
        if (at >= size)
            return BAD;
        uint8_t byte = text[at];
        if (byte == '"')
            return (Py_ssize_t)at;
        if (byte == '\\') {
            uint8_t what = at + 1 < size ? text[at + 1] : 0;
            if (what == 'u' && size - at >= 6 && code_unit(text + at + 2) >= 0)
                at += 6;
            else if (MEANT[what])
                at += 2;
            else
                return BAD;
        } else if (byte >= 0x80) {
            size_t length = character(text + at, size - at);
            if (length == 0)
                return UNSURE;
            at += length;
        } else {
            at++;
        }
    }
}

/* As `closing_quote`, and copies to `to` what the string says: `length` bytes, not more than it is written with. As many
 * as `EIGHT` behind these are written to.
 */
static Py_ssize_t
copy_said(uint8_t *to, size_t *length, const uint8_t *text, size_t at, size_t size)
{
    uint8_t *end = to;
    for (;;) {
        while (at + EIGHT <= size) {
            uint64_t eight = eight_at(text + at), marks = special(eight);
            memcpy(end, &eight, EIGHT);
            if (marks != 0) {
                size_t before = first_of(marks);
                at += before;
                end += before;
                break;
            }
            at += EIGHT;
            end += EIGHT;
        }
        if (at >= size)
            return BAD;
        uint8_t byte = text[at];
        if (byte == '"') {
            *length = (size_t)(end - to);
            return (Py_ssize_t)at;
        }
        if (byte == '\\') {
            uint8_t what = at + 1 < size ? text[at + 1] : 0;
            if (MEANT[what]) {
                *end++ = MEANT[what];
                at += 2;
                continue;
            }
            int32_t unit = what == 'u' && size - at >= 6 ? code_unit(text + at + 2) : -1;
            if (unit < 0)
                return BAD;
            uint32_t code = (uint32_t)unit;
            at += 6;
            if (code >= 0xD800 && code < 0xDC00 && size - at >= 6 && text[at] == '\\' && text[at + 1] == 'u') {
                int32_t low = code_unit(text + at + 2);
                if (low >= 0xDC00 && low < 0xE000) {
                    code = 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
                    at += 6;
                }
            }
            end += put_character(end, code);
        } else if (byte >= 0x80) {
            size_t bytes = character(text + at, size - at);
            if (bytes == 0)
                return UNSURE;
            memcpy(end, text + at, bytes);
            at += bytes;
            end += bytes;
        } else {
            *end++ = byte;
            at++;
        }
    }
}

static Py_ssize_t
after_word(const uint8_t *text, size_t at, size_t size, const char *word)
{
    size_t length = strlen(word);
    return size - at >= length && memcmp(text + at, word, length) == 0 ? (Py_ssize_t)(at + length) : BAD;
}

/* A word that is no JSON, but that Python's decoder takes for a number. */
static Py_ssize_t
after_no_number(const uint8_t *text, size_t at, size_t size, const char *word)
{
    return after_word(text, at, size, word) < 0 ? BAD : UNSURE;
}

static size_t
after_digits(const uint8_t *text, size_t at, size_t size)
{
    while (at < size && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

static Py_ssize_t
after_number(const uint8_t *text, size_t at, size_t size)
{
    size_t begin = at + (text[at] == '-');
    at = begin < size && text[begin] == '0' ? begin + 1 : after_digits(text, begin, size);
    if (at == begin)
        return after_no_number(text, begin, size, "Infinity");
    if (at < size && text[at] == '.') {
        size_t digits = after_digits(text, at + 1, size);
        if (digits == at + 1)
            return BAD;
        at = digits;
    }
    if (at < size && (text[at] | 0x20) == 'e') {
        size_t digits = at + 1 + (at + 1 < size && (text[at + 1] == '-' || text[at + 1] == '+'));
        at = after_digits(text, digits, size);
        if (at == digits)
            return BAD;
    }
    return (Py_ssize_t)at;
}

/* The place behind the string whose first quote is at `at`, which is taken if there is a task. */
static Py_ssize_t
after_string(Reading *reading, const uint8_t *text, size_t at, size_t size, int is_key)
{
    Task *task = reading->task;
    at++;
    if (task == NULL) {
        Py_ssize_t end = closing_quote(text, at, size);
        return end < 0 ? end : end + 1;
    }
    /* Where only some places are asked for, a string is taken for the strings in it, which have to be counted. */
    int is_taken = task->wanted == NULL || (!is_key && at < size && may_begin_json(text[at]));
    size_t length = 0;
    Py_ssize_t end;
    if (!is_taken)
        end = closing_quote(text, at, size);
    else if (reserve(&task->shown, size - at + EIGHT))
        end = copy_said(task->shown.data + task->shown.size, &length, text, at, size);
    else
        end = NO_MEMORY;
    if (end < 0)
        return end;
    if (is_key) {
        reading->frames[reading->depth - 1].key = text + at;
        reading->frames[reading->depth - 1].key_size = (size_t)end - at;
    }
    uint64_t number = task->number++;
    if (task->wanted_count > 0 && *task->wanted == number) {
        if (!append_pointer(&task->pointers, reading) || !append(&task->pointers, "\n", 1))
            return NO_MEMORY;
        task->wanted++;
        task->wanted_count--;
        if (task->wanted_count == 0)
            return ENOUGH;
    }
    Py_ssize_t taken = is_taken ? take_said(reading, number, length, is_key) : 0;
    return taken < 0 ? taken : end + 1;
}

static Py_ssize_t
after_scalar(Reading *reading, const uint8_t *text, size_t at, size_t size)
{
    switch (text[at]) {
    case '"':
        return after_string(reading, text, at, size, 0);
    case 't':
        return after_word(text, at, size, "true");
    case 'f':
        return after_word(text, at, size, "false");
    case 'n':
        return after_word(text, at, size, "null");
    case 'N':
        return after_no_number(text, at, size, "NaN");
    default:
        return after_number(text, at, size);
    }
}

/* The place behind the value that begins at `at`. */
static Py_ssize_t
after_value(Reading *reading, const uint8_t *text, size_t at, size_t size)
{
    int is_value = 1; /* what is expected: a value, or a member's key */
    reading->depth = 0;
    for (;;) {
        at = after_white(text, at, size);
        if (at >= size)
            return BAD;
        if (!is_value) {
            if (text[at] != '"')
                return BAD;
            Py_ssize_t end = after_string(reading, text, at, size, 1);
            if (end < 0)
                return end;
            at = after_white(text, (size_t)end, size);
            if (at >= size || text[at] != ':')
                return BAD;
            at++;
            is_value = 1;
            continue;
        }
        if (text[at] == '{' || text[at] == '[') {
            int is_object = text[at] == '{';
            if (reading->depth == DEEPEST)
                return UNSURE;
            reading->frames[reading->depth++] = (Frame){is_object, 0, NULL, 0};
            size_t next = after_white(text, at + 1, size);
            if (next >= size || text[next] != (is_object ? '}' : ']')) {
                is_value = !is_object;
                at++;
                continue;
            }
            at = next + 1;
            reading->depth--;
        } else {
            Py_ssize_t end = after_scalar(reading, text, at, size);
            if (end < 0)
                return end;
            at = (size_t)end;
        }
        for (;;) {
            if (reading->depth == 0)
                return (Py_ssize_t)at;
            Frame *frame = &reading->frames[reading->depth - 1];
            at = after_white(text, at, size);
            if (at >= size)
                return BAD;
            uint8_t byte = text[at++];
            if (byte == ',') {
                frame->number++;
                is_value = !frame->is_object;
                break;
            }
            if (byte != (frame->is_object ? '}' : ']'))
                return BAD;
            reading->depth--;
        }
    }
}

/* ---- strings that are taken ---- */

/* Whether a string is too short to be a line, and no name, quote or JSON with a name can be in it. */
static int
is_dull(const Task *task, const uint8_t *text, size_t size)
{
    size_t characters = 0;
    if (size >= 4 * task->shortest)
        return 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = text[i];
        if (byte == '.' || byte == '\\' || (byte == '[' && i + 1 < size && text[i + 1] == '['))
            return 0;
        if (byte >= 0x80 && task->wide)
            return 0;
        characters += (byte & 0xC0) != 0x80;
    }
    return characters < task->shortest;
}

/* How many bytes the white space has that begins at `at`, as `str.strip` knows it; 0: there is none. */
static size_t
white_space(const uint8_t *at, size_t left)
{
    uint8_t byte = at[0];
    if (byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= 0x1C && byte <= 0x1F))
        return 1;
    if (left >= 2 && byte == 0xC2 && (at[1] == 0x85 || at[1] == 0xA0))
        return 2;
    if (left < 3)
        return 0;
    if ((byte == 0xE1 && at[1] == 0x9A && at[2] == 0x80) || (byte == 0xE3 && at[1] == 0x80 && at[2] == 0x80) ||
        (byte == 0xE2 && at[1] == 0x81 && at[2] == 0x9F))
        return 3;
    if (byte == 0xE2 && at[1] == 0x80 && (at[2] <= 0x8A || at[2] == 0xA8 || at[2] == 0xA9 || at[2] == 0xAF))
        return 3;
    return 0;
}

/* Narrow a text to what is between the white space at its ends. */
static void
strip(const uint8_t **text, size_t *size)
{
    size_t length;
    while (*size > 0 && (length = white_space(*text, *size)) > 0) {
        *text += length;
        *size -= length;
    }
    for (;;) {
        const uint8_t *end = *text + *size;
        size_t last = 1;
        while (last < 3 && last < *size && (end[-(Py_ssize_t)last] & 0xC0) == 0x80)
            last++;
        if (*size == 0 || white_space(end - last, last) != last)
            return;
        *size -= last;
    }
}

/* Whether JSON may begin with a byte, or an escape that stands for one of these. */
static int
may_begin_json(uint8_t byte)
{
    return byte != 0 && strchr("{[\" \t\n\r\\", byte) != NULL;
}

/* Whether a text is JSON with something in it: 1, 0, UNSURE. It is narrowed to the JSON. */
static Py_ssize_t
is_json(const uint8_t **text, size_t *size)
{
    if (*size == 0 || !may_begin_json(**text) || **text == '\\')
        return 0;
    strip(text, size);
    if (*size < 2)
        return 0;
    uint8_t first = **text, last = (*text)[*size - 1];
    if (!((first == '{' && last == '}') || (first == '[' && last == ']') || (first == '"' && last == '"')))
        return 0;
    Reading reading;
    reading.task = NULL;
    Py_ssize_t end = after_value(&reading, *text, 0, *size);
    if (end == UNSURE)
        return UNSURE;
    return end == (Py_ssize_t)*size;
}

static int
is_of_base64(uint8_t byte)
{
    return (uint8_t)((byte | 0x20) - 'a') < 26 || (uint8_t)(byte - '0') < 10 || byte == '+' || byte == '/' || byte == '-' ||
           byte == '_';
}

/* Whether there may be something encoded in a text: memory/blobs.py looks closer. */
static int
may_be_blob(const uint8_t *text, size_t size)
{
    static const char mark[] = ";base64,";
    size_t head = 0;
    if (size < SHORTEST_BLOB)
        return 0;
    while (head < HEAD && is_of_base64(text[head]))
        head++;
    if (head == HEAD)
        return 1;
    const uint8_t *at = text, *end = text + size;
    while ((at = memchr(at, mark[0], (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at) >= sizeof mark - 1 && memcmp(at, mark, sizeof mark - 1) == 0)
            return 1;
        at++;
    }
    return 0;
}

static int
append_key(Text *pointers, const uint8_t *raw, size_t size)
{
    static const char no_name[] = "/{\xE2\x80\xA6}";
    uint8_t name[LONGEST_NAME];
    size_t length = 0;
    /* A character is written with six bytes at most. */
    if (size > 6 * LONGEST_NAME)
        return append(pointers, no_name, sizeof no_name - 1);
    uint8_t said[6 * LONGEST_NAME + EIGHT];
    copy_said(said, &length, raw, 0, size + 1);
    int is_name = length <= LONGEST_NAME;
    for (size_t i = 0; is_name && i < length; i++) {
        uint8_t byte = said[i];
        is_name = byte != 0 && ((is_of_base64(byte)) || strchr(".$@:~", byte) != NULL);
        name[i] = byte;
    }
    if (!is_name)
        return append(pointers, no_name, sizeof no_name - 1);
    if (!append(pointers, "/", 1))
        return 0;
    for (size_t i = 0; i < length; i++) {
        const char *written = name[i] == '~' ? "~0" : name[i] == '/' ? "~1" : NULL;
        if (!(written ? append(pointers, written, 2) : append(pointers, &name[i], 1)))
            return 0;
    }
    return 1;
}

/* Where a string is that is read just now. */
static int
append_pointer(Text *pointers, const Reading *reading)
{
    if (reading->outer != NULL && (!append_pointer(pointers, reading->outer) || !append(pointers, "!", 1)))
        return 0;
    for (size_t i = 0; i < reading->depth; i++) {
        const Frame *frame = &reading->frames[i];
        char number[24];
        int written;
        if (frame->is_object) {
            if (!append_key(pointers, frame->key, frame->key_size))
                return 0;
            continue;
        }
        written = PyOS_snprintf(number, sizeof number, "/%zu", frame->number);
        if (!append(pointers, number, (size_t)written))
            return 0;
    }
    return 1;
}

/* Take the `length` bytes that are behind the strings that are shown, which a string says, and the strings of the JSON that
 * it holds: 0, or why that is not done.
 */
static Py_ssize_t
take_said(const Reading *reading, uint64_t number, size_t length, int is_key)
{
    Task *task = reading->task;
    Text *shown = &task->shown;
    size_t begin = shown->size;
    const uint8_t *text = shown->data + begin;
    if (is_dull(task, text, length))
        return 0;
    const uint8_t *json = text;
    size_t json_size = length;
    Py_ssize_t holds_json = is_key ? 0 : is_json(&json, &json_size);
    if (holds_json < 0 || (holds_json && reading->level >= MOST_DECODINGS))
        return UNSURE;
    uint8_t *inner = NULL;
    if (holds_json) { /* what it is in may move */
        inner = malloc(json_size);
        if (inner == NULL)
            return NO_MEMORY;
        memcpy(inner, json, json_size);
    }
    Py_ssize_t taken = 0;
    int is_aside = may_be_blob(text, length);
    Found *rows = is_aside ? &task->rows_aside : &task->rows;
    if (is_aside) {
        begin = task->aside.size;
        if (!append(&task->aside, text, length))
            taken = NO_MEMORY;
    } else {
        shown->data[begin + length] = '\n';
        shown->size += length + 1;
    }
    if (!grow(rows, 5))
        taken = NO_MEMORY;
    if (taken == 0) {
        uint64_t *row = rows->numbers + rows->count;
        row[0] = begin;
        row[1] = begin + length;
        row[2] = number;
        row[3] = holds_json ? HOLDS_JSON : 0;
        row[4] = task->value;
        rows->count += 5;
    }
    if (taken == 0 && holds_json) {
        Reading *deeper = malloc(sizeof *deeper);
        if (deeper == NULL) {
            taken = NO_MEMORY;
        } else {
            deeper->task = task;
            deeper->outer = reading;
            deeper->level = reading->level + 1;
            Py_ssize_t end = after_value(deeper, inner, 0, json_size);
            taken = end < 0 ? end : 0;
            free(deeper);
        }
    }
    free(inner);
    return taken;
}

/* ---- for Python ---- */

static void
take_all(Task *task, const uint8_t *text, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *end)
{
    Reading *reading = malloc(sizeof *reading);
    if (reading == NULL) {
        *end = NO_MEMORY;
        return;
    }
    reading->task = task;
    reading->outer = NULL;
    reading->level = 0;
    *end = after_value(reading, text, (size_t)start, (size_t)stop);
    free(reading);
}

static int
is_span(const Py_buffer *data, Py_ssize_t start, Py_ssize_t stop)
{
    if (0 <= start && start <= stop && stop <= data->len)
        return 1;
    PyErr_SetString(PyExc_ValueError, "this is no part of the data");
    return 0;
}

static PyObject *
text_of(const Text *text)
{
    /* Without the newline at its end. */
    return PyBytes_FromStringAndSize((const char *)text->data, (Py_ssize_t)(text->size > 0 ? text->size - 1 : 0));
}

PyObject *
end_of_value(PyObject *module, PyObject *arguments)
{
    Py_buffer data;
    Py_ssize_t start, end = BAD;
    if (!PyArg_ParseTuple(arguments, "y*n:end_of_value", &data, &start))
        return NULL;
    if (is_span(&data, start, data.len)) {
        Py_BEGIN_ALLOW_THREADS
        Reading reading;
        reading.task = NULL;
        end = after_value(&reading, data.buf, (size_t)start, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    if (PyErr_Occurred())
        return NULL;
    return end < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(end);
}

/* Take the strings of each value; those of one that is not understood are dropped. 0: there is no memory. */
static int
take_each(Task *task, const uint8_t *text, const int64_t *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t shown = task->shown.size, aside = task->aside.size, rows = task->rows.count, rows_aside = task->rows_aside.count;
        Py_ssize_t end;
        task->value = i;
        task->number = 0;
        take_all(task, text, (Py_ssize_t)spans[2 * i], (Py_ssize_t)spans[2 * i + 1], &end);
        if (end == (Py_ssize_t)spans[2 * i + 1])
            continue;
        if (end == NO_MEMORY || !grow(&task->unread, 1))
            return 0;
        task->shown.size = shown;
        task->aside.size = aside;
        task->rows.count = rows;
        task->rows_aside.count = rows_aside;
        task->unread.numbers[task->unread.count++] = i;
    }
    return 1;
}

PyObject *
strings(PyObject *module, PyObject *arguments)
{
    Py_buffer data, spans;
    Py_ssize_t shortest;
    Task task;
    PyObject *result = NULL;

    memset(&task, 0, sizeof task);
    if (!PyArg_ParseTuple(arguments, "y*y*np:strings", &data, &spans, &shortest, &task.wide))
        return NULL;
    const int64_t *places = spans.buf;
    size_t count = (size_t)spans.len / (2 * sizeof *places), total = EIGHT;
    int is_good = 1;
    for (size_t i = 0; is_good && i < count; i++) {
        is_good = is_span(&data, (Py_ssize_t)places[2 * i], (Py_ssize_t)places[2 * i + 1]);
        total += (size_t)(places[2 * i + 1] - places[2 * i]);
    }
    if (is_good) {
        task.shortest = shortest > 0 ? (size_t)shortest : 0;
        Py_BEGIN_ALLOW_THREADS
        is_good = reserve(&task.shown, total) && take_each(&task, data.buf, places, count);
        Py_END_ALLOW_THREADS
        if (is_good)
            result = Py_BuildValue("(NNy#NN)", text_of(&task.shown), as_bytes(&task.rows),
                                   task.aside.data ? (const char *)task.aside.data : "", (Py_ssize_t)task.aside.size,
                                   as_bytes(&task.rows_aside), as_bytes(&task.unread));
        else
            PyErr_NoMemory();
    }
    free(task.shown.data);
    free(task.aside.data);
    free(task.rows.numbers);
    free(task.rows_aside.numbers);
    free(task.unread.numbers);
    PyBuffer_Release(&data);
    PyBuffer_Release(&spans);
    return result;
}

PyObject *
pointers(PyObject *module, PyObject *arguments)
{
    Py_buffer data, wanted;
    Py_ssize_t start, stop, shortest, end = BAD;
    Task task;
    PyObject *result = NULL;

    memset(&task, 0, sizeof task);
    if (!PyArg_ParseTuple(arguments, "y*nnnpy*:pointers", &data, &start, &stop, &shortest, &task.wide, &wanted))
        return NULL;
    if (is_span(&data, start, stop)) {
        task.shortest = shortest > 0 ? (size_t)shortest : 0;
        task.wanted = wanted.buf;
        task.wanted_count = (size_t)wanted.len / sizeof *task.wanted;
        Py_BEGIN_ALLOW_THREADS
        if (task.wanted_count > 0)
            take_all(&task, data.buf, start, stop, &end);
        Py_END_ALLOW_THREADS
        if (end == NO_MEMORY)
            PyErr_NoMemory();
        else if (task.wanted_count > 0)
            PyErr_SetString(PyExc_ValueError, "there are not so many strings");
        else
            result = text_of(&task.pointers);
    }
    free(task.shown.data);
    free(task.aside.data);
    free(task.rows.numbers);
    free(task.rows_aside.numbers);
    free(task.pointers.data);
    PyBuffer_Release(&data);
    PyBuffer_Release(&wanted);
    return result;
}
