/* What the parts of memory._native share. */
#ifndef MITMEMORY_NATIVE_H
#define MITMEMORY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030c0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch(place)
#else
#define PREFETCH(place) ((void)(place))
#endif

#define EIGHT 8
#define EACH(byte) (0x0101010101010101u * (byte))

/* Bits of a row's kind: the same numbers as in memory/sifting.py. */
enum { SIEVED = 1, POOR = 2, PREFIXED = 4, PATH = 8, NAMED = 16 };

static inline uint64_t
eight_at(const uint8_t *place)
{
    uint64_t number;
    memcpy(&number, place, sizeof number);
    return number;
}

/* Numbers that are found, in memory that grows. */
typedef struct {
    uint64_t *numbers;
    size_t count, room;
} Found;

/* Make room for `more` numbers. 0: there is no memory. */
static inline int
grow(Found *found, size_t more)
{
    if (found->count + more <= found->room)
        return 1;
    size_t room = found->room * 2 + more + 256;
    uint64_t *numbers = realloc(found->numbers, room * sizeof *numbers);
    if (numbers == NULL)
        return 0;
    found->numbers = numbers;
    found->room = room;
    return 1;
}

static inline PyObject *
as_bytes(const Found *found)
{
    return PyBytes_FromStringAndSize((const char *)found->numbers, (Py_ssize_t)(found->count * sizeof *found->numbers));
}

/* The first numbers of all pairs, then the second ones. */
static inline PyObject *
as_columns(const Found *found)
{
    size_t count = found->count / 2;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(found->count * sizeof *found->numbers));
    if (result == NULL)
        return NULL;
    uint64_t *first = (uint64_t *)PyBytes_AsString(result), *second = first + count;
    for (size_t i = 0; i < count; i++) {
        first[i] = found->numbers[2 * i];
        second[i] = found->numbers[2 * i + 1];
    }
    return result;
}

static inline int
is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

static inline int
is_letter_or_digit(uint8_t byte)
{
    return is_digit(byte) || (uint8_t)((byte | 0x20) - 'a') < 26;
}

/* Whether one to `most` bytes of a kind stand between the byte before `at` and `end`. */
static inline int
is_between(const uint8_t *at, const uint8_t *stop, int (*is_one)(uint8_t), int most, uint8_t end)
{
    const uint8_t *first = at;
    while (at < stop && at - first < most && is_one(*at))
        at++;
    return at > first && at < stop && *at == end;
}

/* The functions of the module. */
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
/* memory/_native_rows.c */
PyObject *rows(PyObject *module, PyObject *arguments);
/* memory/_native_lines.c */
PyObject *lines(PyObject *module, PyObject *arguments);
/* memory/_native_grams.c */
PyObject *grams(PyObject *module, PyObject *arguments);
/* memory/_native_quotes.c */
PyObject *matches(PyObject *module, PyObject *arguments);
PyObject *quotes(PyObject *module, PyObject *arguments);
/* memory/_native_letters.c */
PyObject *letters(PyObject *module, PyObject *arguments);
PyObject *letters_of(PyObject *module, PyObject *arguments);
/* memory/_native_json.c */
PyObject *end_of_value(PyObject *module, PyObject *arguments);
PyObject *strings(PyObject *module, PyObject *arguments);
PyObject *pointers(PyObject *module, PyObject *arguments);
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
