/* The innermost loops of a scan, in C. Where this is not built, numpy and regular expressions do the same.
 *
 * Nothing here keeps anything between two calls, and no Python object is touched while the interpreter is released.
 */
#include "_native.h"

static PyMethodDef methods[] = {
    {"rows", rows, METH_VARARGS, "(begin, end, kind) of the rows that are worth a look, as 64-bit numbers."},
    {"lines", lines, METH_VARARGS, "(begin, key, first, behind the last) of the rows that have a key, as 64-bit numbers."},
    {"grams", grams, METH_VARARGS, "(place, key) of the grams that are looked up: all places, then all keys."},
    {"matches", matches, METH_VARARGS, "(number, row) of the rows that have one of some keys: all numbers, then all rows."},
    {"quotes", quotes, METH_VARARGS, "(text, note, grams, letters) of the notes that texts quote, as 64-bit numbers."},
    {"letters_of", letters_of, METH_VARARGS, "The letters of many texts, and the numbers of those that are left out."},
    {"letters", letters, METH_VARARGS, "The letters of UTF-8; None where some character may have to be made another one."},
    {"end_of_value", end_of_value, METH_VARARGS, "Where the JSON value ends that begins at a place; None: it may be none."},
    {"strings", strings, METH_VARARGS, "The strings of JSON values, and (begin, end, number, holds JSON, value) of each."},
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
