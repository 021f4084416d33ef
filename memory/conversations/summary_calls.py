"""Asking a model for a summary: `compact_chunks` of memsearch (0.4.23), with calls of our own below it.

memsearch's calls can say neither a temperature nor a time-out, they take proxies and addresses from the environment (the
proxy may be ourselves), and they retry for half an hour. So its three functions that call a provider are replaced here;
what joins the text, fills the prompt and chooses the provider is memsearch's. tests/memory/conversations pins what is
relied on.

Errors and logs hold neither text nor keys: of what an endpoint answers only its status is told.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ANSWER_SECONDS = 300.0
"""For one answer. A model on this machine's processor may need minutes; memsearch would wait for 30."""
CONNECT_SECONDS = 10.0
ADDRESSES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""Of the providers themselves. Each SDK would take another one from the environment, which may be one of our listeners."""
MOST_ANSWER_TOKENS = 8192
"""Anthropic wants a number."""

LONGEST_CHARACTERS_PER_TOKEN = 12
"""A server that counted fewer tokens than the prompt can have did not read all of it (Ollama cuts without a word)."""

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|size|window)|too (?:long|large|many tokens)|exceed.{0,40}(?:context|token)"
)

type Provider = Literal["openai", "anthropic", "gemini"]
type Chunks = Sequence[dict[str, str]]


class CompactionError(Exception):
    """A session was not summarised. The message says why, to a person."""


class NotConfiguredError(CompactionError):
    """Nobody is named who summarises."""


class TooLongError(CompactionError):
    """The text does not fit the model."""


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """Who summarises. `base_url` and `api_key` are for `openai`: without an address it is OpenAI itself, and without a key
    none is sent. The others read ANTHROPIC_API_KEY and GOOGLE_API_KEY. `model` None: memsearch's default.
    """

    provider: Provider
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


async def ask(settings: SummarySettings, prompt: str, chunks: Chunks) -> str:
    """The model's answer to `prompt`, in which `{chunks}` stands for the text. Raises CompactionError."""
    compact_chunks = await asyncio.to_thread(_load)
    try:
        async with asyncio.timeout(ANSWER_SECONDS + CONNECT_SECONDS):
            answer: str = await compact_chunks(
                chunks,
                llm_provider=settings.provider,
                model=settings.model,
                prompt_template=prompt,
                base_url=settings.base_url or ADDRESSES["openai"],
                api_key=settings.api_key,
            )
    except TimeoutError:
        raise _did_not_answer() from None
    except ImportError as error:
        raise CompactionError(f"the package `{error.name}` is missing: install it for this provider") from None
    answer = _THINKING.sub("", answer).strip()
    if not answer:
        raise CompactionError("the model gave an empty answer")
    return answer


def _load() -> Callable[..., Awaitable[str]]:
    """Takes a second or two: not for the event loop."""
    import openai  # noqa: F401, PLC0415 - memory is opt-in, and most suites start without
    from memsearch import compact  # type: ignore[import-untyped]  # noqa: PLC0415 - as above; it has no types

    for name in ("openai", "anthropic", "google_genai", "httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # at DEBUG they write down what is sent
    compact._compact_openai = _ask_openai  # noqa: SLF001 - the reasons stand above
    compact._compact_anthropic = _ask_anthropic  # noqa: SLF001
    compact._compact_gemini = _ask_gemini  # noqa: SLF001
    found: Callable[..., Awaitable[str]] = compact.compact_chunks
    return found


async def _ask_openai(prompt: str, model: str, *, base_url: str | None = None, api_key: str | None = None) -> str:
    import openai  # noqa: PLC0415 - see _load

    def client() -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key or "none",  # the SDK would take one of the environment, and send it to whatever server
            timeout=openai.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False),
        )

    wishes: dict[str, Any] = {"temperature": 0, "reasoning_effort": "none"}
    async with await asyncio.to_thread(client) as sdk:
        while True:
            try:
                answer = await sdk.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": prompt}], **wishes
                )
            except openai.APITimeoutError:
                raise _did_not_answer() from None
            except openai.APIConnectionError:
                raise CompactionError(f"{base_url} cannot be reached") from None
            except openai.APIStatusError as error:
                told = str(error)
                _check_length(error.status_code, told)
                if error.status_code not in {400, 422} or not wishes:
                    raise _refused(error.status_code) from None
                # Many models take but one temperature, or know nothing of thinking.
                wishes = (
                    {name: wish for name, wish in wishes.items() if name not in told}
                    if any(name in told for name in wishes)
                    else {}
                )
            except openai.OpenAIError:
                raise _unreadable() from None
            else:
                return _answered(answer, prompt)


def _answered(answer: Any, prompt: str) -> str:
    """What the model said, whatever the server makes of the protocol."""
    try:
        choice = answer.choices[0]
        text, why = choice.message.content, choice.finish_reason
        read = answer.usage.prompt_tokens if answer.usage else None
    except (AttributeError, IndexError, TypeError):  # another shape than the protocol's
        raise _unreadable() from None
    if why == "length" or (read and read * LONGEST_CHARACTERS_PER_TOKEN < len(prompt)):
        raise TooLongError("the session does not fit the model")
    return text if isinstance(text, str) else ""


async def _ask_anthropic(prompt: str, model: str) -> str:
    """Without a temperature, which its newer models refuse; they think only when they are asked to."""
    import anthropic  # noqa: PLC0415 - not everybody has it

    def client() -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            base_url=ADDRESSES["anthropic"],
            timeout=anthropic.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False),
        )

    try:
        async with await asyncio.to_thread(client) as sdk:
            answer = await sdk.messages.create(
                model=model,
                max_tokens=MOST_ANSWER_TOKENS,
                messages=[{"role": "user", "content": prompt}],
            )
    except anthropic.APITimeoutError:
        raise _did_not_answer() from None
    except anthropic.APIConnectionError:
        raise CompactionError("Anthropic cannot be reached") from None
    except anthropic.APIStatusError as error:
        _check_length(error.status_code, str(error))
        raise _refused(error.status_code) from None
    except (anthropic.AnthropicError, TypeError):  # TypeError: it has no key
        raise CompactionError("Anthropic cannot be asked: is ANTHROPIC_API_KEY set?") from None
    if answer.stop_reason == "max_tokens":
        raise TooLongError("the summary does not fit the model")
    return "".join(block.text for block in answer.content if block.type == "text")


async def _ask_gemini(prompt: str, model: str) -> str:
    import httpx  # noqa: PLC0415 - google-genai brings it
    from google import genai  # noqa: PLC0415 - not everybody has it
    from google.genai import errors, types  # noqa: PLC0415 - as above

    def clients() -> tuple[httpx.AsyncClient, genai.Client]:
        own = httpx.AsyncClient(trust_env=False, follow_redirects=False)
        try:
            options = types.HttpOptions(
                base_url=ADDRESSES["gemini"], timeout=int(ANSWER_SECONDS * 1000), httpx_async_client=own
            )
            return own, genai.Client(http_options=options)
        except ValueError:
            raise CompactionError("Gemini cannot be asked: is GOOGLE_API_KEY set?") from None

    own, made = await asyncio.to_thread(clients)
    try:
        async with own, made.aio as sdk:
            answer = await sdk.models.generate_content(
                model=model, contents=prompt, config=types.GenerateContentConfig(temperature=0)
            )
    except errors.APIError as error:
        _check_length(error.code, str(error))
        raise _refused(error.code) from None
    except httpx.TimeoutException:
        raise _did_not_answer() from None
    except httpx.HTTPError:
        raise CompactionError("Gemini cannot be reached") from None
    return answer.text or ""


def _check_length(status: int, told: str) -> None:
    if status == 413 or (status in {400, 422, 500} and _TOO_LONG.search(told.lower())):
        raise TooLongError("the session does not fit the model") from None


def _refused(status: int) -> CompactionError:
    match status:
        case 401 | 403:
            return CompactionError(f"the endpoint refused the key (HTTP {status}): check compaction.api_key_env")
        case 404:
            return CompactionError("the endpoint knows no such model or address (HTTP 404)")
        case 429:
            return CompactionError("the endpoint takes no more requests for now (HTTP 429)")
        case _:
            return CompactionError(f"the endpoint answered HTTP {status}")


def _unreadable() -> CompactionError:
    return CompactionError("the endpoint's answer cannot be read: does it speak OpenAI's protocol?")


def _did_not_answer() -> CompactionError:
    return CompactionError(f"the endpoint gave no answer within {ANSWER_SECONDS:.0f} s")
