/* What the parts of memory._native share. */
#ifndef MITMEMORY_NATIVE_H
#define MITMEMORY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030c0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Functions of the module that are in memory/_native_json.c. */
PyObject *end_of_value(PyObject *module, PyObject *arguments);
PyObject *strings(PyObject *module, PyObject *arguments);
PyObject *pointers(PyObject *module, PyObject *arguments);

#endif
