"""The lines that give a program its memory as an MCP server. Pure.

Each form was tried with the real program, where there is one to try, else looked up: Claude Code 2.1, Codex 0.171 and
Gemini CLI 0.61 (`mcp add --help`), Claude Desktop (modelcontextprotocol.io, "Connect to local MCP servers"), Cursor
(cursor.com/docs/mcp).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "mitmemory"
"""What the programs call the server. Gemini CLI allows no underscore there, and `memory` is often taken."""
VARIABLE = "MITMEMORY_TOKEN"
"""Codex reads a token from a variable, and from nowhere else."""
SHELL = "in a shell"


@dataclass(frozen=True, slots=True)
class McpLines:
    """Text for one program: a command for a shell, or what belongs into a file of it."""

    program: str
    where: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"program": self.program, "where": self.where, "text": self.text}


def stdio_lines(command: Sequence[str]) -> tuple[McpLines, ...]:
    """For programs that start the server themselves, which `command` is; they need no token."""
    started, server = _command(command), {"command": command[0], "args": list(command[1:])}
    table = f"[mcp_servers.{NAME}]\ncommand = {_toml(command[0])}\nargs = [{', '.join(map(_toml, command[1:]))}]"
    return (
        McpLines("Claude Code", SHELL, f"claude mcp add --scope user {NAME} -- {started}"),
        McpLines("Claude Desktop", "in claude_desktop_config.json (Settings, Developer, Edit Config)", _json(server)),
        McpLines("Codex", SHELL, f"codex mcp add {NAME} -- {started}"),
        McpLines("Codex", "or in ~/.codex/config.toml", table),
        McpLines("Gemini CLI", SHELL, f"gemini mcp add --scope user {NAME} {started}"),
        McpLines("Gemini CLI", "or in ~/.gemini/settings.json", _json(server)),
        McpLines("Cursor", "in ~/.cursor/mcp.json", _json(server)),
    )


def http_lines(url: str, token: str) -> tuple[McpLines, ...]:
    """For programs that ask the running suite. Claude Desktop is none of them: it takes only servers on the internet."""
    bearer = f"Authorization: Bearer {token}"
    headers = {"Authorization": f"Bearer {token}"}
    table = f'[mcp_servers.{NAME}]\nurl = {_toml(url)}\nbearer_token_env_var = "{VARIABLE}"'
    exported = f"export {VARIABLE}={token}"
    return (
        McpLines(
            "Claude Code", SHELL, f'claude mcp add --transport http --scope user {NAME} {url} --header "{bearer}"'
        ),
        McpLines(
            "Codex",
            f"{SHELL}; the first line is needed in each that starts Codex",
            f"{exported}\ncodex mcp add {NAME} --url {url} --bearer-token-env-var {VARIABLE}",
        ),
        McpLines("Codex", f"or in ~/.codex/config.toml, with the variable {VARIABLE} set to the token", table),
        McpLines("Gemini CLI", SHELL, f'gemini mcp add --scope user --transport http {NAME} {url} --header "{bearer}"'),
        McpLines(
            "Gemini CLI", "or in ~/.gemini/settings.json", _json({"url": url, "type": "http", "headers": headers})
        ),
        McpLines("Cursor", "in ~/.cursor/mcp.json", _json({"url": url, "headers": headers})),
    )


def _command(command: Sequence[str]) -> str:
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


def _json(server: Mapping[str, Any]) -> str:
    return json.dumps({"mcpServers": {NAME: server}}, indent=2, ensure_ascii=False)


def _toml(text: str) -> str:
    """A basic string of TOML, which a string of JSON is, but for one sign."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
