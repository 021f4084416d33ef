"""The API of a suite that runs, for commands that leave to it what only one process can do."""

from __future__ import annotations

import json
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from addons.config import Config
from addons.presence import Presence, config_name, running_suites
from web.access import TOKENS_FILE

SECONDS = 60.0
"""For an answer, where nothing else is said."""


class ApiError(Exception):
    """The suite said no, or could not be asked. The message is for a person; `code` is the API's, empty without an answer."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class SuiteApi:
    """As an admin. `address` is the dashboard's, with the prefix."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # not through a proxy, nor our own

    def get(self, path: str) -> Any:
        """What `GET api/{path}` gives. Raises ApiError."""
        return self._ask("GET", path, None, SECONDS)

    def post(self, path: str, body: dict[str, Any], *, seconds: float | None = SECONDS) -> Any:
        """What `POST api/{path}` gives; `seconds` None: however long it takes. Raises ApiError."""
        return self._ask("POST", path, json.dumps(body).encode(), seconds)

    def _ask(self, method: str, path: str, body: bytes | None, seconds: float | None) -> Any:
        request = urllib.request.Request(f"{self._address}api/{path}", body, method=method)  # noqa: S310 - http
        request.add_header("Authorization", f"Bearer {self._token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                raise _said(error) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise ApiError(f"the suite at {self._address} cannot be asked ({type(error).__name__})") from None


def running_api(config: Config) -> SuiteApi | None:
    """That of the suite which runs with this configuration, or else with its state directory; None: none does."""
    if config.state is None:
        return None
    running = running_suites(config.state)
    if not running:
        return None
    mine = config_name(config.file)
    suite: Presence = next((one for one in running if one.config == mine), running[0])
    token = config.dashboard.tokens.admin or _kept_token(config.state)
    return SuiteApi(f"http://{suite.dashboard}{config.dashboard.prefix}", token) if token else None


def _kept_token(state: Path) -> str | None:
    try:
        token = json.loads((state / TOKENS_FILE).read_bytes())["admin"]
    except (OSError, ValueError, KeyError, TypeError):  # it is made anew by the next suite
        return None
    return token if isinstance(token, str) else None


def _said(error: HTTPError) -> ApiError:
    try:
        said = json.load(error)["error"]
        return ApiError(str(said["message"]), str(said["code"]))
    except (ValueError, KeyError, TypeError, OSError):
        return ApiError(f"the suite answered HTTP {error.code}")
