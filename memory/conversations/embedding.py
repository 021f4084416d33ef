"""What turns text into vectors: the weights that come with wordllama, or a provider that the configuration names.

Nothing is ever chosen for the person: without a name in the configuration it is `builtin`, which needs no key, no
network and no download, and a provider that cannot be used is an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BUILTIN = "builtin"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
REMEMBERED_WORDS = 20_000
NO_KEY = "none"
"""What a server of the person's own is sent where no key is named; never a key that happens to be in the environment."""

KEYS: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
    "voyage": "VOYAGE_API_KEY",
    "jina": "JINA_API_KEY",
    "mistral": "MISTRAL_API_KEY",
}
"""The variables that the providers read where no other is named."""

type Vectors = NDArray[np.float32]


class EmbeddingError(RuntimeError):
    """The configured provider cannot be used. The message tells the person what to do."""


class Provider(Protocol):
    """What memsearch wants of a provider (`memsearch.embeddings.EmbeddingProvider`)."""

    @property
    def model_name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    async def embed(self, texts: list[str]) -> list[list[float]]: ...


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`provider` is `builtin` or one of memsearch's. None: the provider's own default."""

    provider: str = BUILTIN
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None

    @property
    def signature(self) -> str:
        """Vectors of the same signature can be compared."""
        return " ".join([self.provider, self.model or "-", self.base_url or "-"])


class Builtin:
    """The mean of the vectors of a text's tokens (wordllama, l2_supercat, 256 numbers), for English above all.

    One is enough for a process: it holds 16 MB, and any thread may use it. wordllama itself is not imported: its loader
    looks for the tokenizer in a folder that does not exist, and then asks the network (0.4.0).
    """

    model_name = "wordllama-l2-supercat-256"
    dimension = 256
    batch_size = 256

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._rows: Vectors = np.zeros((0, self.dimension), np.float32)
        """Of the words, and room for more."""
        self._remembering = threading.Lock()
        self._loading = threading.Lock()

    async def embed(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.vectors(texts).tolist()
        return vectors

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """A row for each text, of length 1; of length 0 where a text has no token."""
        weights, tokenizer = self._loaded
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, encoding in zip(rows, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            if encoding.ids:
                row[:] = weights[encoding.ids].mean(axis=0, dtype=np.float32)
        return unit(rows)

    def word_vectors(self, words: Sequence[str]) -> Vectors:
        """The same for single words, which are remembered: questions and memories use the same ones again and again."""
        with self._remembering:
            if new := list(dict.fromkeys(word for word in words if word not in self._words)):
                self._remember(new, words)
            return self._rows[[self._words[word] for word in words]]

    def _remember(self, new: Sequence[str], asked: Sequence[str]) -> None:
        if len(self._words) + len(new) > REMEMBERED_WORDS:
            kept = [word for word in dict.fromkeys(asked) if word in self._words]
            self._rows = self._rows[[self._words[word] for word in kept]]
            self._words = {word: row for row, word in enumerate(kept)}
        start, end = len(self._words), len(self._words) + len(new)
        if end > len(self._rows):
            self._rows = np.concatenate([self._rows[:start], np.zeros((2 * end - start, self.dimension), np.float32)])
        self._rows[start:end] = self.vectors(new)
        self._words.update(zip(new, range(start, end), strict=True))

    @property
    def _loaded(self) -> tuple[NDArray[np.float16], Any]:
        with self._loading:
            return self._model

    @cached_property
    def _model(self) -> tuple[NDArray[np.float16], Any]:
        from safetensors.numpy import load_file  # noqa: PLC0415 - only who has a memory pays for it
        from tokenizers import Tokenizer  # noqa: PLC0415 - as above

        found = find_spec("wordllama")  # finds it without importing it
        if found is None or not found.submodule_search_locations:
            raise EmbeddingError("the package wordllama is missing: install mitmemory anew")
        package = Path(found.submodule_search_locations[0])
        try:
            (weights,) = load_file(package / WEIGHTS).values()
            tokenizer = Tokenizer.from_file(str(package / TOKENIZER))
        except (OSError, ValueError) as error:
            raise EmbeddingError("the package wordllama has no weights: install mitmemory anew") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return weights, tokenizer


def provider(settings: EmbeddingSettings, builtin: Builtin, environment: Mapping[str, str] = os.environ) -> Provider:
    """The configured provider: `builtin` itself, or a new one of memsearch's.

    Called on the thread that will use it: making one may ask its server for the size of its vectors, and what it keeps
    open belongs to one event loop. Raises EmbeddingError.
    """
    if settings.provider == BUILTIN:
        return builtin
    from memsearch.embeddings import get_provider  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    key = _key(settings, environment)
    base_url = settings.base_url
    if settings.provider == "openai" and base_url is None:
        base_url = "https://api.openai.com/v1"  # else OPENAI_BASE_URL would say where conversations go
    try:
        made: Provider = get_provider(settings.provider, model=settings.model, base_url=base_url, api_key=key)
    except ImportError as error:
        raise EmbeddingError(str(error)) from error
    except Exception as error:  # noqa: BLE001 - each provider's library has errors of its own, which may hold the key
        raise EmbeddingError(
            f"the embedding provider `{settings.provider}` cannot be used ({type(error).__name__}): "
            "is its server there, and does it have this model?"
        ) from None
    return made


def unit(rows: Vectors) -> Vectors:
    """The rows at length 1."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)


def _key(settings: EmbeddingSettings, environment: Mapping[str, str]) -> str | None:
    variable = settings.api_key_env or KEYS.get(settings.provider)
    if variable is None:
        return None
    if settings.base_url and settings.api_key_env is None:
        return NO_KEY
    key = environment.get(variable)
    if not key:
        raise EmbeddingError(
            f"the embedding provider `{settings.provider}` needs a key: set the variable `{variable}`, "
            "or choose `provider: builtin`, which needs none"
        )
    return key
