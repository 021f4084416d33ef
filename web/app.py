"""The dashboard's application: the services it needs, and every address it answers.

    app = create_app(Services(library, exposure, activity, events, access, status))

An address is a line in `routes`; what it is for stands in docs/api.md, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from memory.activity import Activity
from memory.conversations.recall_tool import RecallTool
from memory.exposure import Exposure
from memory.held import HeldRequests
from memory.map_layout import MapLayout
from memory.note_library import NoteLibrary
from web.access import Access, Role, Who
from web.api import ActivityApi, MapApi, StatusApi
from web.client_tokens import ClientTokens
from web.clients_api import Clients, ClientsApi, McpPlace, no_clients
from web.communities_api import CommunitiesApi
from web.compaction_api import CompactionApi
from web.conversations_api import Conversations, ConversationsApi, NoConversations, OpenFolder, cannot_open
from web.events import EventHub
from web.guard import Handler, Typed, add_headers, answer_errors, guard
from web.held_api import HeldApi, TargetsFor
from web.layout_api import LayoutApi
from web.link_api import LinkApi
from web.mcp_api import McpApi
from web.pages import page, static_file
from web.rules_api import NoRules, Rules, RulesApi
from web.settings import NoSettings, Settings
from web.sources_api import SourcesApi

LARGEST_BODY = 2**20
"""Bytes of a request's body; only the layout may be larger (`web.layout_api.LARGEST_LAYOUT`)."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the dashboard shows and changes. `status` gives the JSON of `GET api/status`.

    `clients` gives the JSON of `GET api/clients`, `settings` changes mitm.yaml; `targets` gives the names of the targets
    that speak a protocol. `remembers_inside` says whether the memory of a client comes inside its conversations. `open_folder` shows a folder in a window of this machine. `prefix` is the path that everything
    lies under, as when a reverse proxy shares a host. `typed` gives what a person types in a shell for a command of ours.
    """

    note_library: NoteLibrary
    exposure: Exposure
    activity: Activity
    events: EventHub
    access: Access
    status: Callable[[], dict[str, Any]]
    rules: Rules = field(default_factory=NoRules)
    held: HeldRequests = field(default_factory=HeldRequests)
    targets: TargetsFor = lambda _: ()
    clients: Clients = no_clients
    conversations: Conversations = field(default_factory=NoConversations)
    recall_tool: Callable[[], RecallTool] = RecallTool
    remembers_inside: Callable[[str], bool] = lambda _: False
    open_folder: OpenFolder = cannot_open
    settings: Settings = field(default_factory=NoSettings)
    prefix: str = "/"
    map_layout: MapLayout = field(default_factory=MapLayout)
    typed: Typed = "mitmemory {}".format

    @property
    def root(self) -> str:
        """The prefix with a slash at both ends."""
        path = self.prefix.strip("/")
        return f"/{path}/" if path else "/"

    def link(self, role: Role = "admin") -> str:
        """An address that lets one browser in, once (see `Access.make_code`)."""
        return f"{self.access.origin}{self.root}?code={self.access.make_code(role)}"


SERVICES = web.AppKey("services", Services)


class Route(NamedTuple):
    """One address below the prefix, and who may use it."""

    method: str
    path: str
    handler: Handler
    role: Who


def routes(services: Services, map_api: MapApi, held_api: HeldApi, mcp_api: McpApi) -> list[Route]:
    activity_api = ActivityApi(services.activity)
    rules_api = RulesApi(services.rules)
    sources_api = SourcesApi(services.settings)
    clients_api = ClientsApi(
        services.clients,
        services.activity,
        services.settings,
        ClientTokens(services.conversations),
        McpPlace(f"{services.access.origin}{services.root}mcp/", services.remembers_inside),
    )
    layout_api = LayoutApi(services.map_layout, services.note_library)
    return [
        Route("GET", "", page("memory.html", services.typed), "read_only"),
        Route("GET", "live", page("live.html", services.typed), "read_only"),
        Route("GET", "activity", page("activity.html", services.typed), "read_only"),
        Route("GET", "conversations", page("conversations.html", services.typed), "read_only"),
        Route("GET", "rules", page("rules.html", services.typed), "read_only"),
        Route("GET", "setup", page("setup.html", services.typed), "read_only"),
        Route("GET", "static/{path:.+}", static_file, "read_only"),
        Route("GET", "api/memory", map_api.get, "read_only"),
        Route("POST", "api/memory/refresh", map_api.refresh, "admin"),
        Route("POST", "api/memory/exposure/reset", map_api.reset_exposure, "admin"),
        Route("GET", "api/memory/sources", sources_api.get, "read_only"),
        Route("PUT", "api/memory/sources", sources_api.put, "admin"),
        Route("GET", "api/memory/communities", CommunitiesApi(services.note_library).get, "read_only"),
        Route("GET", "api/memory/layout", layout_api.get, "read_only"),
        Route("PUT", "api/memory/layout", layout_api.put, "admin"),
        Route("GET", "api/events", services.events.serve, "read_only"),
        Route("GET", "api/activity", activity_api.get, "read_only"),
        Route("GET", "api/activity/export", activity_api.export, "read_only"),
        Route("GET", "api/rules", rules_api.get, "read_only"),
        Route("POST", "api/rules/test", rules_api.test, "admin"),
        Route("GET", "api/held", held_api.get, "read_only"),
        Route("POST", "api/held/{activityId}", held_api.decide, "admin"),
        Route("GET", "api/clients", clients_api.get, "read_only"),
        Route("PATCH", "api/clients/{client}", clients_api.patch, "admin"),
        Route("POST", "api/clients/{client}/token", clients_api.make_token, "admin"),
        *(Route(method, "mcp/{client}", mcp_api.serve, "client") for method in ("POST", "GET", "DELETE")),
        *conversation_routes(services),
        Route("POST", "api/link", LinkApi(services.link).post, "admin"),
        Route("GET", "api/status", StatusApi(services.status, services.access, services.events).get, "read_only"),
    ]


def methods_of(route: Route) -> tuple[str, ...]:
    """What the address answers to: where GET is, HEAD is as well, and says the same without a body (RFC 9110, 9.3.2).
    The MCP endpoint, whose GET is refused, takes what the protocol names.
    """
    return ("GET", "HEAD") if route.method == "GET" and route.role != "client" else (route.method,)


def conversation_routes(services: Services) -> list[Route]:
    api = ConversationsApi(services.conversations, services.open_folder)
    memory = "api/clients/{client}/memory"
    session = f"{memory}/sessions/{{session}}"
    conversation = f"{session}/conversations/{{n}}"
    return [
        Route("GET", memory, api.get, "admin"),
        Route("DELETE", memory, api.delete_all, "admin"),
        Route("GET", f"{memory}/sessions", api.sessions, "admin"),
        Route("GET", session, api.session, "admin"),
        Route("DELETE", session, api.delete_session, "admin"),
        Route("GET", conversation, api.conversation, "admin"),
        Route("DELETE", conversation, api.delete_conversation, "admin"),
        Route("DELETE", f"{conversation}/turns/{{m}}", api.delete_turn, "admin"),
        Route("POST", "api/clients/{client}/recall", api.recall, "admin"),
        Route("POST", "api/clients/{client}/rebuild", api.rebuild, "admin"),
        Route("POST", "api/clients/{client}/compact", CompactionApi(services.conversations).compact, "admin"),
        Route("POST", "api/conversations/open", api.open_folder, "admin"),
    ]


def create_app(services: Services) -> web.Application:
    """The application, ready for a runner. While it runs it tells open pages when the map or what is on hold changes."""
    root = services.root
    roles: dict[web.AbstractRoute, Who] = {}
    app = web.Application(
        middlewares=[answer_errors, guard(services.access, root, roles, services.typed)],
        client_max_size=LARGEST_BODY,
    )
    app[SERVICES] = services
    map_api = MapApi(services.note_library, services.exposure, services.events)
    held_api = HeldApi(services.held, services.targets, services.events)
    mcp_api = McpApi(
        services.conversations, ClientTokens(services.conversations), services.recall_tool, services.remembers_inside
    )
    for route in routes(services, map_api, held_api, mcp_api):
        for method in methods_of(route):
            roles[app.router.add_route(method, root + route.path, route.handler)] = route.role
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(end_streams)
    app.on_shutdown.append(lambda _: mcp_api.aclose())

    async def follow_changes(_: web.Application) -> AsyncIterator[None]:
        services.note_library.on_change.append(map_api.tell_change)
        services.held.on_change.append(held_api.tell_change)
        yield
        services.held.on_change.remove(held_api.tell_change)
        services.note_library.on_change.remove(map_api.tell_change)
        await map_api.aclose()

    app.cleanup_ctx.append(follow_changes)
    return app


async def end_streams(app: web.Application) -> None:
    app[SERVICES].events.close()
