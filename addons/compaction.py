"""Who summarises sessions, as the configuration says, and what the rules let that model have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from addons.config import CompactionConfig
from addons.guard import resolve
from addons.providers import ProviderTable, place_of, runs_in_makers_cloud
from memory.conversations.summarising import Progress, Summariser
from memory.conversations.summary_calls import ADDRESSES, CompactionError, NotConfiguredError, SummarySettings
from memory.exchange import Place
from memory.note_library import NoteLibrary, Snapshot
from memory.rules import Judged, NotesFacts, RuleBook, judge
from memory.scan import scan_value

NOT_CONFIGURED = "nobody is named who summarises: set conversations.compaction.provider"
OPENAI_KEY = "OPENAI_API_KEY"


def settings_of(config: CompactionConfig, environment: Mapping[str, str]) -> SummarySettings:
    """Raises NotConfiguredError where nobody is named, CompactionError where the variable of the key is not set.

    A server of one's own gets no key that is not meant for it.
    """
    if config.provider is None:
        raise NotConfiguredError(NOT_CONFIGURED)
    variable = config.api_key_env or (OPENAI_KEY if config.provider == "openai" and not config.base_url else None)
    if variable and not environment.get(variable):
        raise CompactionError(f"the variable {variable} is not set: it holds the key for conversations.compaction")
    key = environment[variable] if variable else None
    return SummarySettings(config.provider, config.model, config.base_url, key)


def summariser_json(config: CompactionConfig) -> dict[str, Any] | None:
    """What the API says of it; None: nobody is named. `upstream` has no path."""
    if config.provider is None:
        return None
    url = urlsplit(_url(config))
    return {
        "enabled": config.enabled,
        "provider": config.provider,
        "model": config.model,
        "upstream": f"{url.scheme}://{url.netloc}",
    }


def _url(config: CompactionConfig) -> str:
    return config.base_url or (ADDRESSES[config.provider] if config.provider else "")


class ConfiguredSummariser:
    """Summarises as the configuration of the moment says."""

    def __init__(self, config: Callable[[], CompactionConfig], environment: Mapping[str, str] = os.environ) -> None:
        self._config = config
        self._environment = environment
        self._made: Summariser | None = None

    async def __call__(self, turns: Sequence[str], progress: Progress) -> str:
        settings = settings_of(self._config(), self._environment)
        if self._made is None or self._made.settings != settings:
            self._made = Summariser(settings)
        return await self._made(turns, progress)


class CompactionRules:
    """Judges each text as a request that carries it to the model which summarises.

    Only what the rules let pass as it is may be sent. `rules` None: nothing is judged.
    """

    def __init__(
        self,
        config: Callable[[], CompactionConfig],
        providers: ProviderTable,
        library: NoteLibrary,
        rules: Callable[[], RuleBook | None],
    ) -> None:
        self._config = config
        self._providers = providers
        self._library = library
        self._rules = rules

    async def __call__(self, client: str, texts: Sequence[str]) -> Sequence[bool]:
        """Raises CompactionError where it cannot be told: then nothing is sent."""
        rules, config = self._rules(), self._config()
        if rules is None:
            return [True] * len(texts)
        snapshot = self._library.snapshot if self._library.is_ready else await self._library.scan()
        request = await self._request(client, config)
        try:
            return await asyncio.to_thread(_judged, rules, request, snapshot, texts)
        except Exception as error:  # whatever it is, what may not be sent is not sent
            raise CompactionError(f"it could not be judged by the rules ({type(error).__name__})") from error

    async def _request(self, client: str, config: CompactionConfig) -> Judged:
        """As rules see what is sent. An address that cannot be told is in the cloud."""
        if config.provider is None:
            raise NotConfiguredError(NOT_CONFIGURED)
        url = urlsplit(_url(config))
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        provider, model = self._providers.find(host, port), config.model or ""
        addresses = await resolve(host, port)
        to: Place
        if provider is not None:
            to = provider.place(model, addresses)
        else:
            to = "cloud" if runs_in_makers_cloud(model) else place_of(addresses)
        return Judged(client, provider.name if provider else config.provider, model, to)


def _judged(rules: RuleBook, request: Judged, snapshot: Snapshot, texts: Sequence[str]) -> list[bool]:
    facts = NotesFacts(snapshot.map.notes)
    return [_may_pass(rules, request, snapshot, facts, text) for text in texts]


def _may_pass(rules: RuleBook, request: Judged, snapshot: Snapshot, facts: NotesFacts, text: str) -> bool:
    scan = scan_value(snapshot.index, text)
    decision = judge(rules, replace(request, scan=scan.state), scan.sightings, facts)
    return decision.action == "allow"
