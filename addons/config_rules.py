"""Reads `targets`, `rules` and `unscanned`, and finds rules that can never apply (dispatch.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from addons import config_checks as checks
from addons.clients import slug_of
from addons.config_listeners import Listeners
from addons.config_reader import Section, Value, did_you_mean, entries
from addons.config_values import Upstream, parse_upstream
from addons.providers import Provider, ProviderTable
from addons.targets import CONNECT_TIMEOUT, FIRST_BYTE_TIMEOUT, TargetConfig
from memory.exchange import Action, Place, Protocol, ScanState
from memory.rules import Known, Rule, When, faults_of
from memory.rules.book import RESERVED, Unscanned
from memory.rules.conditions import (
    DEFAULT_HOLD,
    DEFAULT_PLACEHOLDER,
    SCANS,
    SEEN,
    Comparison,
    Otherwise,
    Seen,
    parse_count,
    parse_coverage,
    parse_placeholder,
)
from memory.rules.globs import Glob, is_plain, name_glob, path_glob, tag_glob

ACTIONS: tuple[Action, ...] = ("allow", "block", "redact", "redirect", "hold")
PLACES: tuple[Place, ...] = ("cloud", "local")
OTHERWISE: tuple[Otherwise, ...] = ("block", "allow")
UNSCANNED: tuple[Unscanned, ...] = ("block", "allow")
PROTOCOLS: tuple[Protocol, ...] = ("anthropic", "openai-chat", "openai-responses", "gemini", "ollama", "bedrock")

ONLY_FOR: dict[str, tuple[Action, ...]] = {
    "targets": ("redirect",),
    "otherwise": ("redirect", "hold", "redact"),
    "placeholder": ("redact",),
    "hold_for": ("hold",),
}
"""Keys of a rule that mean something for some actions only."""


def targets(value: Value | None, listeners: Listeners) -> tuple[TargetConfig, ...]:
    found: list[TargetConfig] = []
    names: dict[str, str] = {}
    for item, section in entries(value):
        url, protocols = section.get("url"), section.get("protocols")
        target = TargetConfig(
            name=section.read_optional("name", checks.name) or "",
            url=(url and _url(url, listeners)) or Upstream("http", "", 0),
            protocols=tuple(_several(protocols, lambda one: one.choice(PROTOCOLS))),
            model=section.read_optional("model", _model),
            api_key_env=section.read_optional("api_key_env", checks.variable),
            local=section.read_optional("local", Value.flag),
            connect_timeout=section.read("connect_timeout", _wait, CONNECT_TIMEOUT),
            first_byte_timeout=section.read("first_byte_timeout", _wait, FIRST_BYTE_TIMEOUT),
        )
        section.close()
        _check_name(item, section, names, target.name)
        if section.lacks("url"):
            item.fault("`url` is missing", "say where it is, like `http://127.0.0.1:11434`")
        if section.lacks("protocols") or (protocols and protocols.is_empty):
            item.fault("`protocols` is missing", "say what it speaks, like `[anthropic, openai-chat]`")
        found.append(target)
    return tuple(found)


def unscanned(value: Value) -> Unscanned | None:
    return value.choice(UNSCANNED)


class RuleReader:
    """Reads `rules`; `check` then looks for rules that can never apply, when all that they speak of is known."""

    def __init__(self) -> None:
        self._items: list[Value] = []
        self._values: list[dict[str, Value]] = []
        """Of each rule: key path below it -> its value."""
        self._flawed: set[int] = set()
        """Rules with a fault of another kind, about which nothing more is said."""

    def rules(self, value: Value | None) -> tuple[Rule, ...]:
        found: list[Rule] = []
        names: dict[str, str] = {}
        for number, (item, section) in enumerate(entries(value)):
            before = len(item.document.faults)
            self._items.append(item)
            self._values.append({})
            found.append(self._rule(number, item, section, names))
            if len(item.document.faults) > before:
                self._flawed.add(number)
        return tuple(found)

    def check(
        self,
        rules: Sequence[Rule],
        *,
        targets: Sequence[TargetConfig],
        sources: Collection[str],
        providers: ProviderTable,
        track_sharing: bool,
        tells_listings: bool,
    ) -> None:
        names = [target.name for target in targets]
        for number, rule in enumerate(rules):
            if (value := self._values[number].get("targets")) and rule.then == "redirect":
                self._check_targets(number, value, names)
        known = Known(
            sources=sources,
            providers={provider.name: _place(provider) for provider in providers.providers},
            targets={target.name: target.place for target in targets},
            scans=track_sharing,
            tells_listings=tells_listings,
        )
        for fault in faults_of(rules, known):
            if fault.rule not in self._flawed:
                item = self._values[fault.rule].get(fault.key, self._items[fault.rule])
                item.fault(fault.message, fault.mend)

    def _rule(self, number: int, item: Value, section: Section, names: dict[str, str]) -> Rule:
        then, listed = section.get("then"), section.get("targets")
        given = {key: value for key in ONLY_FOR if (value := section.get(key)) is not None}
        action = then.choice(ACTIONS) if then else None
        rule = Rule(
            name=section.read_optional("name", _rule_name) or "",
            when=self._when(number, section.get("when")),
            then=action or "block",
            targets=tuple(_several(listed, lambda one: one.text("a target's name"))),
            otherwise=section.read("otherwise", lambda one: one.choice(OTHERWISE), "block"),
            placeholder=section.read("placeholder", _placeholder, DEFAULT_PLACEHOLDER),
            hold_for=section.read("hold_for", _wait, DEFAULT_HOLD),
        )
        section.close()
        self._values[number] |= given
        _check_name(item, section, names, rule.name)
        if section.lacks("then"):
            item.fault("`then` is missing", f"say what to do: {', '.join(ACTIONS)}")
        if section.lacks("when"):
            item.fault("`when` is missing", "say when, like `when: {to: cloud}`")
        for key, value in given.items():
            if action is not None and action not in ONLY_FOR[key]:
                value.fault(f"`{action}` has no `{key}`", f"leave it out; it is for {' and '.join(ONLY_FOR[key])}")
        return rule

    def _when(self, number: int, value: Value | None) -> When:
        section = Section(value)
        if value is not None:
            self._values[number]["when"] = value
        by, to = section.get("by"), section.get("to")
        when = When(
            source=_patterns(section.get("source"), name_glob),
            folder=_patterns(section.get("folder"), path_glob),
            note=_patterns(section.get("note"), path_glob),
            tags=_patterns(section.get("tags"), tag_glob),
            by=_seen(by),
            coverage=section.read_optional("coverage", _coverage),
            notes=section.read_optional("notes", _count),
            client=_patterns(section.get("client"), _client_glob),
            provider=_patterns(section.get("provider"), name_glob),
            model=_patterns(section.get("model"), name_glob),
            to=to.choice(PLACES) if to else None,
            scan=tuple(_several(section.get("scan"), _scan)),
        )
        section.close()
        for condition in section.take_all():
            self._values[number][f"when.{condition.name}"] = condition
        return when

    def _check_targets(self, number: int, value: Value, names: Sequence[str]) -> None:
        for item in value.items() if value.is_list else [value]:
            written = item.node.value
            if item.is_text and written not in names:
                mend = did_you_mean(written, names) or "add it to `targets`"
                item.fault(f"`{written}` is no target", mend)
                self._flawed.add(number)


def _several[T](value: Value | None, read: Callable[[Value], T | None]) -> Iterator[T]:
    """What `read` makes of each entry of a list, or of the one value that stands there instead."""
    if value is None:
        return
    if value.is_empty:
        value.fault("nothing stands where one value or a list belongs", "write one, or leave the key out")
        return
    for item in value.items() if value.is_list else [value]:
        if (found := read(item)) is not None:
            yield found


def _patterns(value: Value | None, parse: Callable[[str], Glob]) -> tuple[str, ...]:
    def read(item: Value) -> str | None:
        written = item.text("a pattern")
        if written is None:
            return None
        try:
            parse(written)
        except ValueError as error:
            item.fault(f"`{written}` {error}", _PATTERN_MENDS[parse])
            return None
        return written

    return tuple(_several(value, read))


def _client_glob(text: str) -> Glob:
    """A client's slug has no space and no sign: what is none could never match."""
    glob = name_glob(text)
    if is_plain(text) and (slug := slug_of(text)) != glob.exact:
        raise ValueError(f"is no client's name as requests show it; it may be `{slug or 'claude-code'}`")
    return glob


_PATTERN_MENDS: dict[Callable[[str], Glob], str] = {
    name_glob: "write a name, in which `*` and `?` may stand for anything",
    path_glob: "write it like `vault/Health/**` or `vault/Ledger.md`",
    tag_glob: "write it like `private` or `work/acme`",
    _client_glob: "write it like `claude-code` or `claude*`",
}


def _seen(value: Value | None) -> tuple[Seen, ...]:
    found = tuple(_several(value, lambda one: one.choice((*SEEN, "any"))))
    if "any" in found:
        return SEEN
    return tuple(kind for kind in SEEN if kind in found)


def _scan(value: Value) -> ScanState | None:
    return value.choice(SCANS)


def _coverage(value: Value) -> Comparison | None:
    return value.parsed(parse_coverage, "a share of a note", 'write it like `">=50%"`')


def _count(value: Value) -> Comparison | None:
    return value.parsed(parse_count, "a number of notes", 'write it like `">=5"`')


def _placeholder(value: Value) -> str | None:
    if value.text("a text") is None:
        return None
    return value.parsed(parse_placeholder, "a text", "write it like `[withheld]` or `[withheld: {title}]`")


def _rule_name(value: Value) -> str | None:
    name = checks.name(value)
    if name in RESERVED:
        value.fault(f"`{name}` is what the activity calls another rule", "give it another name")
        return None
    return name


def _model(value: Value) -> str | None:
    return checks.name(value)


def _wait(value: Value) -> float | None:
    seconds = checks.duration(value)
    if seconds is not None and seconds <= 0:
        value.fault(f"`{value.node.value}` is no time to wait", "write a duration, like `2m`")
        return None
    return seconds


def _url(value: Value, listeners: Listeners) -> Upstream | None:
    found = value.parsed(parse_upstream, "a URL", "write it like `http://127.0.0.1:11434`")
    if found:
        listeners.connects_to(found, value)
    return found


def _place(provider: Provider) -> Place | None:
    """Where everything ends up that is sent to a provider; None: that depends on address or model."""
    if provider.local is None:
        return "cloud" if provider.cloud else None
    if not provider.local:
        return "cloud"
    return None if provider.name == "ollama" or provider.protocol == "ollama" else "local"


def _check_name(item: Value, section: Section, names: dict[str, str], name: str) -> None:
    if section.lacks("name"):
        item.fault("`name` is missing", "give it a name of its own")
    first = names.setdefault(name.lower(), item.key) if name else item.key
    if first != item.key:
        item.fault(f"`{name}` is the name of `{first}` too", "give each a name of its own")
