"""The demo's client: sends the exchanges through the real proxy, and compares what the suite saw with what was sent."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from addons.demo.reply import Script
from addons.demo.sample import SOURCE, SampleVault
from addons.demo.script import Exchange, demo_exchanges, replies

type Entry = Mapping[str, Any]
"""One activity entry as `GET api/activity` gives it (design.md, the API)."""

PATIENCE = 15.0
"""Seconds that one exchange may take, and until the suite must have recorded all of them."""
BREATH = 3.0
"""Seconds between two exchanges when the demo goes on by itself."""
ENDING = 3.0
"""Seconds until a request that broke off is told: it may be that the suite is being ended, and this with it."""


@dataclass(frozen=True, slots=True)
class Played:
    """An answer as the client got it. `first_byte` and `seconds` are counted from the start of the request."""

    exchange: Exchange
    status: int
    body: bytes
    first_byte: float
    seconds: float


def demo_script() -> Script:
    """What the scripted model says in the demo. Whatever else it is asked gets a friendly answer."""
    return replies(demo_exchanges(SampleVault(), local_url="", session=""))


async def play(exchanges: Sequence[Exchange], *, proxy_url: str, ca_file: Path) -> AsyncIterator[Played]:
    """Send each exchange through the proxy: CONNECT and TLS that trusts only `ca_file`, or plain where the URL is.

    Raises aiohttp.ClientError or TimeoutError when the proxy or the model behind it does not answer.
    """
    trust = ssl.create_default_context(cafile=str(ca_file))
    async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(PATIENCE)) as session:
        for exchange in exchanges:
            yield await send(session, exchange, proxy_url, trust)


async def send(session: aiohttp.ClientSession, exchange: Exchange, proxy_url: str, trust: ssl.SSLContext) -> Played:
    headers = {**exchange.headers, "Content-Type": "application/json"}
    begun = time.monotonic()
    async with session.post(
        exchange.url, data=exchange.encoded(), headers=headers, proxy=proxy_url, ssl=trust
    ) as answer:
        first = await answer.content.readany()
        first_byte = time.monotonic() - begun
        body = first + await answer.content.read()
    return Played(exchange, answer.status, body, first_byte, time.monotonic() - begun)


def pair(entries: Sequence[Entry], exchanges: Sequence[Exchange]) -> list[tuple[Exchange, Entry | None]]:
    """Which entry is which exchange, by protocol, model and order. `entries` are newest first, as the API gives them.

    Entries of other clients, who may use the proxy at the same time, are left over unless they look the same.
    """
    left = list(reversed(entries))
    pairs: list[tuple[Exchange, Entry | None]] = []
    for exchange in exchanges:
        key = (exchange.protocol, exchange.model)
        entry = next((one for one in left if (one["protocol"], one["model"]) == key), None)
        if entry is not None:
            left.remove(entry)
        pairs.append((exchange, entry))
    return pairs


def check(entries: Sequence[Entry], exchanges: Sequence[Exchange]) -> list[str]:
    """Every difference between what was sent and what the suite says, one sentence each; none: all as expected."""
    return [
        f"{exchange.title}: {difference}"
        for exchange, entry in pair(entries, exchanges)
        for difference in differences(exchange, entry)
    ]


def differences(exchange: Exchange, entry: Entry | None) -> list[str]:
    if entry is None:
        return [f"no entry for {exchange.protocol}, {exchange.model}"]
    wanted = {"to": exchange.to, "status": 200, "outcome": "answered"}
    found = [f"{key} is {entry[key]}, not {value}" for key, value in wanted.items() if entry[key] != value]
    if entry["scan"]["state"] != "complete":
        found.append(f"the scan is {entry['scan']['state']}: {', '.join(entry['scan']['reasons'])}")
    if exchange.recalled and not entry["recalls"]["memories"]:
        found.append("nothing was remembered")
    seen = {note["id"]: note for note in entry["notes"]}
    for note, expected in exchange.expected.items():
        if note not in seen:
            found.append(f"{note} was sent ({expected.matched}/{expected.distinctive}) and not found")
            continue
        sighting = seen.pop(note)
        if sighting["by"] != expected.by:
            found.append(f"{note} was found by {sighting['by']}, not by {expected.by}")
        lines = (sighting["matched"], sighting["distinctive"])
        if expected.by == "content" and lines != (expected.matched, expected.distinctive):
            found.append(f"{note} shows {lines[0]}/{lines[1]}, not {expected.matched}/{expected.distinctive}")
        if sighting["resent"] != expected.resent:
            found.append(f"{note} is {'' if sighting['resent'] else 'not '}marked as resent")
    found += [f"{note} was found ({seen[note]['by']}) and not sent" for note in seen]
    return found


def summary(entries: Sequence[Entry]) -> Table:
    """The entries, newest first, as a table that reads from the oldest to the newest."""
    table = Table(title="What went where", title_justify="left")
    for column in ("client", "provider", "model", "to", "notes", "status"):
        table.add_column(column, overflow="fold")
    for entry in reversed(entries):
        place = Text(entry["to"], style="green" if entry["to"] == "local" else "yellow")
        notes = Text("\n").join(note_line(note) for note in entry["notes"]) if entry["notes"] else Text("none", "dim")
        names = [Text(str(entry[key])) for key in ("client", "provider", "model")]
        remembered = f", remembered {memories}" if (memories := entry["recalls"]["memories"]) else ""
        table.add_row(*names, place, notes, Text(f"{entry['status']} {entry['outcome']}{remembered}"))
    return table


def note_line(note: Entry) -> Text:
    content = "quote" if note["grade"] == "quote" else f"{note['matched']}/{note['distinctive']} lines"
    how = content if note["by"] == "content" else "named"
    again = ", again" if note["resent"] else ""
    return Text(f"{note['title']}  ").append(how + again, "bold" if note["by"] == "content" else "dim")


class Api:
    """The two questions that the demo asks the dashboard. `url` is its address with the prefix."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}

    async def notes(self) -> int:
        """How many notes of the vault are on the map; the suite scans first if it has not yet."""
        return sum(node["source"] == SOURCE for node in (await self._get("memory"))["nodes"])

    async def entries(self) -> list[Entry]:
        entries: list[Entry] = (await self._get("activity?limit=200"))["entries"]
        return entries

    async def _get(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession(
                trust_env=False, raise_for_status=True, timeout=aiohttp.ClientTimeout(PATIENCE)
            ) as session,
            session.get(f"{self._url}/api/{path}", headers=self._headers) as answer,
        ):
            return await answer.json()


async def recorded(api: Api, known: set[str], exchanges: Sequence[Exchange]) -> list[Entry]:
    """The entries that are new since `known`, once each exchange has a finished one or patience ends."""
    deadline = time.monotonic() + PATIENCE
    while True:
        entries = [entry for entry in await api.entries() if entry["id"] not in known]
        found = [entry for _, entry in pair(entries, exchanges)]
        if all(entry and entry["finishedAt"] for entry in found) or time.monotonic() > deadline:
            return entries
        await asyncio.sleep(0.1)


async def run_demo(
    *, proxy_url: str, ca_file: Path, api_url: str, api_token: str, local_url: str, once: bool, console: Console
) -> int:
    """Play the demo and compare: 0 when the suite says what was sent, else 1 with each difference printed.

    `local_url` is the scripted model's plain address, for the model "on this machine". Unless `once`, the exchanges
    are repeated with a pause between them until the task is cancelled, so that the map lives.
    """
    vault = SampleVault()
    api = Api(api_url, api_token)
    try:
        problems = await first_round(vault, api, proxy_url, ca_file, local_url=local_url, console=console)
    except (aiohttp.ClientError, TimeoutError) as error:
        await asyncio.sleep(ENDING)
        problems = [f"a request failed: {error}"]
    for problem in problems:
        console.print(Text(problem, style="red"))
    if not problems:
        console.print(Text("Every note shows up as it was sent.", style="green"))
    if once:
        return 1 if problems else 0
    while True:
        for exchange in new_round(vault, local_url):
            await asyncio.sleep(BREATH)
            try:
                async for _ in play([exchange], proxy_url=proxy_url, ca_file=ca_file):
                    pass
            except (aiohttp.ClientError, TimeoutError) as error:
                console.print(Text(f"{exchange.title}: {error}", style="red"))


async def first_round(
    vault: SampleVault, api: Api, proxy_url: str, ca_file: Path, *, local_url: str, console: Console
) -> list[str]:
    exchanges = new_round(vault, local_url)
    notes = await api.notes()
    problems = [] if notes == len(vault.texts) else [f"the map has {notes} notes, the vault {len(vault.texts)}"]
    known = {entry["id"] for entry in await api.entries()}
    async for played in play(exchanges, proxy_url=proxy_url, ca_file=ca_file):
        timing = f"{played.status}, first byte after {played.first_byte * 1000:.0f} ms, {played.seconds:.1f} s in all"
        console.print(Text(f"{played.exchange.title}: ").append(timing, "dim"))
    entries = await recorded(api, known, exchanges)
    console.print(summary(entries))
    return problems + check(entries, exchanges)


def new_round(vault: SampleVault, local_url: str) -> list[Exchange]:
    """The exchanges in conversations that nobody has seen yet."""
    return demo_exchanges(vault, local_url=local_url, session=str(uuid.uuid4()))
