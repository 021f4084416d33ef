"""What is made of the configuration alone: what keeps the suite's secrets and its activity, and the rules it judges by."""

from __future__ import annotations

from addons.config import Config
from addons.own_key import load_or_make_key
from addons.state_folder import unusable
from addons.targets import local_targets
from memory.activity import Activity
from memory.activity_file import FILE_NAME
from memory.activity_store import ActivityStore
from memory.note_library import Reach
from memory.rules import RuleBook, facts_of
from web.access import Tokens, load_or_make_tokens


class StartError(Exception):
    """The suite cannot start. The message says what to do."""


def make_tokens(config: Config) -> Tokens:
    """Those of the dashboard. Raises StartError."""
    given = config.dashboard.tokens
    try:
        return load_or_make_tokens(config.state, given.admin, given.read_only)
    except (OSError, ValueError) as error:  # ValueError: a token given is the other one of those that are kept
        raise _cannot_start(config, error) from error


def make_client_key(config: Config) -> bytes:
    """The key under which API keys of clients are hashed. Raises StartError."""
    try:
        return load_or_make_key(config.state)
    except (OSError, ValueError) as error:
        raise _cannot_start(config, error) from error


def make_activity(config: Config) -> Activity:
    """The log of exchanges, kept in `state`, else in memory; nothing is opened yet."""
    if config.state is None:
        return Activity()
    kept = config.activity
    return ActivityStore(config.state / FILE_NAME, keep=kept.keep, max_entries=kept.max_entries)


def make_rules(config: Config) -> RuleBook | None:
    """The rules of the configuration; None where nothing is judged."""
    if config.mode != "dispatch":
        return None
    return RuleBook(config.rules, unscanned=config.unscanned, local_targets=local_targets(config.targets))


def reach_of(rules: RuleBook | None) -> Reach | None:
    """Which notes these rules may withhold from a request; None: none of them withholds any."""
    if rules is None or not rules.redacts:
        return None
    return lambda note: rules.may_redact(facts_of(note))


def _cannot_start(config: Config, error: OSError | ValueError) -> StartError:
    return StartError(unusable(error, config.state) if isinstance(error, OSError) else str(error))
