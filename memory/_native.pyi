from collections.abc import Buffer

def rows(
    text: Buffer,
    letters: Buffer,
    first: Buffer,
    second: Buffer,
    bits: Buffer,
    size: int,
    seed: int,
    minimum: int,
    fewest: int,
    poor: bool,
    /,
) -> bytes: ...
def lines(text: Buffer, rows: Buffer, keys: Buffer, seed: int, longest: int, /) -> bytes: ...
def grams(
    text: Buffer,
    factors: Buffer,
    scramble: int,
    mixers: Buffer,
    words: Buffer,
    shift: int,
    wide: Buffer | None,
    /,
) -> bytes: ...
def matches(keys: Buffer, checks: Buffer, wanted: Buffer, /) -> bytes: ...
def quotes(
    letters: Buffer,
    positions: Buffer,
    rows: Buffer,
    notes: Buffer,
    around: Buffer,
    bits: Buffer,
    fewest: int,
    shortest: int,
    /,
) -> bytes: ...
def letters(text: Buffer, rows: bool, /) -> bytes | None: ...
def letters_of(data: Buffer, begins: Buffer, ends: Buffer, /) -> tuple[bytes, bytes]: ...
def end_of_value(data: Buffer, at: int, /) -> int | None: ...
def strings(data: Buffer, spans: Buffer, shortest: int, wide: bool, /) -> tuple[bytes, bytes, bytes, bytes, bytes]: ...
def pointers(data: Buffer, start: int, stop: int, shortest: int, wide: bool, numbers: Buffer, /) -> bytes: ...
