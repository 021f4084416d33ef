"""`mitmemory link`: one more link to the dashboard of the suite that runs."""

from __future__ import annotations

import sys

from addons.config import Config, config_to_name
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.program import with_program
from addons.suite_api import ApiError, running_api


def link(config: Config) -> int:
    """Print it, and nothing else, on stdout. Only who may read the tokens in the state directory can ask for it."""
    if config.state is None:
        print("mitmemory: state is null, and the suite is found there: set state to a folder", file=sys.stderr)
        return WRONG_INPUT
    api = running_api(config)
    if api is None:
        print(
            with_program("mitmemory: no suite runs: start one with `mitmemory run`", config_to_name(config.file)),
            file=sys.stderr,
        )
        return FAILED
    try:
        print(api.post("link", {})["link"])
    except ApiError as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return FAILED
    return OK
