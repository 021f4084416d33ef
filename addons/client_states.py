"""What `GET api/clients` says: the clients, configured and seen, the lines that point each at the proxy, and those that
give it its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from addons.certificates import Certificates
from addons.clients import ClientConfig, MatchConfig
from addons.config import Config
from addons.env import COMMANDS, SHELLS, ClientError, program_of, render, variables, way_for
from addons.program import installed_program
from addons.record import OTHERS, Seen
from memory.exchange import timestamp
from web.mcp_lines import stdio_lines

PROGRAMS = {"claude-code": "Claude Code", "codex": "Codex", "gemini-cli": "Gemini CLI"}
"""The names of the clients in `env.COMMANDS`, as people say them."""


def clients_json(config: Config, seen: Seen) -> list[dict[str, Any]]:
    """The configured clients in their order, then those that were only seen."""
    configured = [_client(one, seen) for one in config.clients]
    known = {one["client"] for one in configured}
    others = [name for name in seen.names() if name not in known and name != OTHERS]
    return [*configured, *(_client(ClientConfig(name), seen, is_configured=False) for name in others)]


def lines_json(
    config: Config, proxy: str, certificates: Certificates, environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What `mitmemory env` prints for each client and shell; `proxy` is where the suite listens.

    `shells` is empty and `problem` says why where nothing is known that points a client at it. `client` None: for any
    program.
    """
    names = {one.slug: one.name for one in config.clients}
    programs = {slug: name for slug, name in PROGRAMS.items() if slug not in names}
    commands = {slug: command for command, slug in COMMANDS.items()}
    found: list[dict[str, Any]] = []
    for client, name in [*names.items(), *programs.items(), (None, None)]:
        line: dict[str, Any] = {
            "client": client,
            "name": name,
            "command": commands.get(client or ""),
            "shells": {},
            "problem": None,
        }
        try:
            values = variables(way_for(config, proxy, client), certificates, environ)
        except ClientError as error:
            line["problem"] = str(error)
        else:
            line["shells"] = {shell: render(shell, values) for shell in SHELLS}
        found.append(line)
    return found


def mcp_json(config: Config) -> list[dict[str, Any]]:
    """How each client with a memory meets it. `inside`: without MCP; else `lines` are those that need no token.

    `program` is the one that the client is, where it is known.
    """
    return [
        {
            "client": client.slug,
            "inside": remembers_inside(config, client.slug),
            "program": PROGRAMS.get(program_of(client) or ""),
            "lines": [line.to_json() for line in stdio_lines(mcp_command(client.slug, config.file))],
        }
        for client in config.clients
        if client.memory_enabled
    ]


def remembers_inside(config: Config, client: str) -> bool:
    """Whether the memory of a client, by its slug, comes inside its conversations, so that it needs no MCP."""
    return any(one.slug == client and one.mode == "mcp_via_llm" for one in config.clients)


def mcp_command(client: str, file: Path | None) -> list[str]:
    """What starts `mitmemory mcp` for a client, by its slug, whatever the folder and the PATH are."""
    return [installed_program(), "mcp", "--client", client, *(["--config", str(file.absolute())] if file else [])]


def _client(client: ClientConfig, seen: Seen, *, is_configured: bool = True) -> dict[str, Any]:
    was_seen = seen.find(client.slug)
    return {
        "client": client.slug,
        "name": client.name,
        "configured": is_configured,
        "mode": client.mode,
        "memoryEnabled": client.memory_enabled,
        "matches": _matches(client.match) if is_configured else None,
        "requests": was_seen.requests if was_seen else 0,
        "lastSeen": timestamp(was_seen.last) if was_seen else None,
    }


def _matches(match: MatchConfig) -> dict[str, Any]:
    """What it is told by. That there is an API key, but neither the key nor its HMAC."""
    return {
        "listen": str(match.listen) if match.listen else None,
        "proxyUser": match.proxy_user,
        "apiKey": match.api_key is not None,
        "userAgent": match.user_agent,
    }
