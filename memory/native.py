"""The innermost loops of a scan in C (`memory/_native.c`), where they were built; else numpy and regular expressions do the same."""

try:
    from memory._native import grams, letters, rows
except ImportError:
    BUILT = False
else:
    BUILT = True

__all__ = ["BUILT", "grams", "letters", "rows"]
