"""The innermost loops of a scan in C (`memory/_native*.c`), where they were built; else numpy and regular expressions do the same."""

try:
    from memory._native import end_of_value, grams, letters, letters_of, lines, matches, pointers, quotes, rows, strings
except ImportError:
    BUILT = False
else:
    BUILT = True

__all__ = [
    "BUILT",
    "end_of_value",
    "grams",
    "letters",
    "letters_of",
    "lines",
    "matches",
    "pointers",
    "quotes",
    "rows",
    "strings",
]
