"""A bounded memory for what was used lately."""

from __future__ import annotations


class Recent[K, V]:
    """A dict that forgets what has not been used for long. Holds items of at most `most` bytes, as `put` is told.

    Two dicts, a young and an old one: what is found in the old one moves to the young one; when the young one holds
    half of `most` it becomes the old one, and the old one is let go. Two threads may use it at once: each step is one
    operation on a dict, and all that can get lost is an item.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        item = self._young.get(key)
        if item is None:
            item = self._old.pop(key, None)
            if item is None:
                return None
            self.put(key, *item)
        return item[0]

    def put(self, key: K, value: V, size: int) -> None:
        self._young[key] = value, size
        self._size += size
        if self._size * 2 > self._most:
            self._old, self._young, self._size = self._young, {}, 0
