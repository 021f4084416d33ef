"""Rules that somebody gives as JSON, in the shape of mitm.yaml, read and checked by the same reader as the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from addons.config import Config, ConfigError, Fault
from addons.config_document import Document
from addons.config_reader import Value
from addons.config_rules import RuleReader
from addons.config_sections import check_rules
from memory.rules import Rule

_MARK = yaml.Mark("rules", 0, 0, 0, None, 0)


def read_rules(given: Any, config: Config) -> tuple[Rule, ...]:
    """The rules, checked beside targets, sources and providers of this configuration.

    Raises ConfigError, whose faults name the place by its key: there are no lines.
    """
    document, reader = Document("rules"), RuleReader()
    try:
        rules = reader.rules(Value(document, "rules", _node(given)))
    except RecursionError:
        raise ConfigError([Fault("rules", None, "", "too many levels of brackets", "check its brackets")]) from None
    check_rules(reader, replace(config, rules=rules))
    document.finish()
    return rules


def explain(error: ConfigError) -> str:
    """Every fault, a line each."""
    return "\n".join(f"{fault.key or fault.file}: {fault.message}; mend: {fault.mend}" for fault in error.faults)


def _node(value: Any) -> yaml.Node:
    """A JSON value as YAML's own reader would have it."""
    match value:
        case dict():
            pairs = [(_scalar("str", name), _node(one)) for name, one in value.items()]
            return yaml.MappingNode("tag:yaml.org,2002:map", pairs, _MARK, _MARK)
        case list():
            return yaml.SequenceNode("tag:yaml.org,2002:seq", [_node(one) for one in value], _MARK, _MARK)
        case None:
            return _scalar("null", "null")
        case bool():
            return _scalar("bool", str(value).lower())
        case int() | float():
            return _scalar(type(value).__name__, str(value))
        case _:
            return _scalar("str", value)


def _scalar(kind: str, text: str) -> yaml.Node:
    return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", text, _MARK, _MARK)
