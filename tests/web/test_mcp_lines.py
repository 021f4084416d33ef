"""The lines to paste, to the letter; the files among them are what their programs read."""

import json
import shlex
import tomllib

from web.mcp_lines import McpLines, http_lines, stdio_lines

COMMAND = ["/opt/my tools/mitmemory", "mcp", "--client", "me", "--config", '/home/ada/"notes"\x7f/mitm.yaml']
URL, TOKEN = "http://127.0.0.1:8090/mcp/me", "-a_token"


def by_program(lines: tuple[McpLines, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line.program, []).append(line.text)
    return found


def test_what_starts_the_server() -> None:
    lines = by_program(stdio_lines(COMMAND))
    server = {"mcpServers": {"mitmemory": {"command": COMMAND[0], "args": COMMAND[1:]}}}
    [claude], [desktop], [codex, toml], [gemini, settings], [cursor] = lines.values()
    assert list(lines) == ["Claude Code", "Claude Desktop", "Codex", "Gemini CLI", "Cursor"]
    assert shlex.split(claude) == ["claude", "mcp", "add", "--scope", "user", "mitmemory", "--", *COMMAND]
    assert shlex.split(codex) == ["codex", "mcp", "add", "mitmemory", "--", *COMMAND]
    assert shlex.split(gemini) == ["gemini", "mcp", "add", "--scope", "user", "mitmemory", *COMMAND]
    assert tomllib.loads(toml) == {"mcp_servers": {"mitmemory": {"command": COMMAND[0], "args": COMMAND[1:]}}}
    assert [json.loads(one) for one in (desktop, settings, cursor)] == [server] * 3


def test_what_asks_the_suite() -> None:
    lines = by_program(http_lines(URL, TOKEN))
    [claude], [codex, toml], [gemini, settings], [cursor] = lines.values()
    assert list(lines) == ["Claude Code", "Codex", "Gemini CLI", "Cursor"]
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert claude == (
        f'claude mcp add --transport http --scope user mitmemory {URL} --header "Authorization: Bearer {TOKEN}"'
    )
    assert codex == (
        f"export MITMEMORY_TOKEN={TOKEN}\ncodex mcp add mitmemory --url {URL} --bearer-token-env-var MITMEMORY_TOKEN"
    )
    assert tomllib.loads(toml) == {
        "mcp_servers": {"mitmemory": {"url": URL, "bearer_token_env_var": "MITMEMORY_TOKEN"}}
    }
    assert gemini == (
        f'gemini mcp add --scope user --transport http mitmemory {URL} --header "Authorization: Bearer {TOKEN}"'
    )
    assert json.loads(settings) == {"mcpServers": {"mitmemory": {"url": URL, "type": "http", "headers": bearer}}}
    assert json.loads(cursor) == {"mcpServers": {"mitmemory": {"url": URL, "headers": bearer}}}
