// @ts-check
// What the Conversations page says where there is nothing to read, and what to do about it.
import { Copy } from "./components/Copy.js";
import { Empty } from "./components/Empty.js";
import { h, root } from "./dom.js";
import { code } from "./setup_parts.js";

const EXAMPLE = 'clients:\n  - {name: claude-code, match: {user_agent: "claude-cli/*"}, memory_enabled: true}';

/** @param {ClientState[]} clients */
export function forReaders(clients) {
  const on = clients.filter((one) => one.memoryEnabled).map((one) => one.name);
  const said = on.length ? `Memory is on for ${on.join(", ")}.` : "Memory is on for no client.";
  return Empty(
    { icon: "conversations", title: "Only an admin reads conversations" },
    h("p", {}, "You look with the read-only token, which sees no text of anybody. Open the link that mitmemory printed when it started."),
    h("p", {}, said),
  );
}

export function noClient() {
  return Empty(
    { icon: "conversations", title: "No client yet" },
    h("p", {}, "A client whose memory is on has its conversations written to this disk, and can search them later. None is named in mitm.yaml, and none has sent anything yet. This names one and switches its memory on:"),
    Copy(EXAMPLE),
    setup("Point a client at the proxy"),
  );
}

/** @param {ClientState} client */
export function unnamed({ client }) {
  return Empty(
    { icon: "conversations", title: `${client} has no name in mitm.yaml` },
    h("p", {}, "Only a client that mitm.yaml names can have a memory, so that it is clear whose it is. Name it there, with what it is told by:"),
    Copy(`clients:\n  - {name: ${client}, match: {user_agent: "${client}/*"}}`),
    setup("What it can be told by"),
  );
}

/**
 * No session is open.
 *
 * @param {ClientState} client
 * @param {number} sessions how many there are
 * @param {string | null} directory where conversations are stored
 */
export function nothingChosen({ name, mode, memoryEnabled }, sessions, directory) {
  if (sessions) {
    const off = "Memory is off: nothing new is stored. What is there stays until you delete it.";
    return Empty({ icon: "conversations", title: "Choose a session" }, h("p", {}, memoryEnabled ? "A session is what the client said until it paused for long. It is one file, which you can read here, or in its folder." : off));
  }
  if (memoryEnabled) {
    return Empty(
      { icon: "conversations", title: "No conversations yet" },
      h("p", {}, `What ${name} says to models from now on, and what they answer, will be here. It has to send through the proxy.`),
      setup("Point it at the proxy"),
    );
  }
  if (directory === null) {
    return Empty(
      { icon: "conversations", title: `Conversations of ${name} are not stored` },
      h("p", {}, "There is no place for them: this suite keeps nothing between runs. Set ", code("conversations.directory"), " in mitm.yaml to a folder."),
    );
  }
  const cannot = mode === "llm_only" || mode === "mcp_only";
  const mend = cannot ? ` Its mode is ${mode}, in which there is no memory: set it to both or mcp_via_llm in mitm.yaml first.` : " Switch it on above: you are told first what is stored, and where.";
  return Empty(
    { icon: "conversations", title: `Conversations of ${name} are not stored` },
    h("p", {}, `With its memory on, full conversations are written to this disk, and ${name} can search them later. It is off, as it is until you switch it on.${mend}`),
  );
}

/** @param {string} word */
function setup(word) {
  return h("a", { class: "button", href: new URL("setup#clients", root).href }, word);
}
