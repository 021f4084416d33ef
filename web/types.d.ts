// The shapes of the API (spec: design.md, "The API") as the pages read them.
type Place = "local" | "cloud";

interface MapNode {
  id: string;
  source: string;
  title: string;
  path: string;
  folder: string;
  tags: string[];
  aliases: string[];
  size: number;
  lines: number;
  distinctiveLines: number;
  detectable: "text" | "mention";
  degree: number;
  unresolved: number;
}

interface NoteExposure {
  localContent: number;
  localReference: number;
  cloudContent: number;
  cloudReference: number;
  firstShared: string;
  lastShared: string;
  models: Record<string, number>;
}

interface SourceState {
  name: string;
  kind: string;
  location: string;
  enabled: boolean;
  notes: number;
  skipped: number;
  scannedAt: string | null;
  warnings: { path: string; reason: string }[];
  error: string | null;
}

interface MemoryMap {
  loadedAt: string | null;
  sources: SourceState[];
  nodes: MapNode[];
  links: [string, string][];
  exposure: Record<string, NoteExposure>;
}

interface SightingEntry {
  id: string;
  title: string;
  by: "content" | "reference";
  grade: "line" | "quote" | "reference" | "listing";
  matched: number;
  distinctive: number;
  resent: boolean;
  evidence?: { pointer: string; lines: number; grade: SightingEntry["grade"] }[];
}

type Action = "allow" | "block" | "redact" | "redirect" | "hold";

interface SentTo {
  model: string;
  to: Place;
  upstream: string;
}

interface ActivityEntry {
  id: string;
  startedAt: string;
  finishedAt: string | null;
  client: string;
  conversation: string | null;
  provider: string;
  protocol: string;
  model: string;
  to: Place;
  sentTo: SentTo[];
  notes: SightingEntry[];
  decision: { action: Action; rule: string | null; rules?: { name: string; action: Action; notes: string[] }[] };
  scan: { state: "complete" | "partial" | "unscanned"; reasons: string[] };
  usage: { input: number | null; output: number | null; cacheRead: number | null; cacheWrite: number | null };
  /** Not in entries of versions before it. */
  recalls?: { searches: number; memories: number };
  bytes: { request: number; response: number };
  status: number | null;
  outcome: "answered" | "blocked" | "failed" | "aborted" | null;
  sideRequest: boolean;
}

type HeldState = "waiting" | "released" | "blocked" | "redirected" | "expired" | "left";

/** A request on hold; `targets` are those that it can be sent to. */
interface HeldEntry {
  id: string;
  since: string;
  until: string;
  entry: ActivityEntry;
  targets: string[];
}

/** What the status line reads of `GET api/status`; whatever is missing is left out of the line. */
interface SuiteStatus {
  proxy?: string | null;
  mode?: "annotate" | "dispatch";
  notes?: number;
  clients?: string[];
  requests?: { complete: number; partial: number; unscanned: number };
  sources?: SourceState[];
  warnings?: string[];
  /** `memory.track_sharing` of mitm.yaml. */
  trackSharing?: boolean;
  role?: "admin" | "read_only";
  /** Requests that wait for a person. */
  held?: number;
  versions?: Record<string, string>;
  inspector?: string | null;
  dashboard?: string;
  /** The file that the suite was started with. */
  configuration?: string | null;
  /** What a person types in a shell for mitmemory. */
  program?: string;
  /** What names its configuration there; null: the commands find it. */
  configFlag?: string | null;
  authority?: AuthorityState | null;
  notSeen?: { reasons: Record<string, number>; untrustingHosts: string[]; passedThroughHosts: string[] };
}

interface AuthorityState {
  certificate: string;
  bundle: string;
  made: boolean;
  validUntil: string | null;
  /** null: it cannot be told. */
  systemTrusts: boolean | null;
  problem: string | null;
}

/** A source as mitm.yaml has it. */
interface SourceSetting {
  name: string;
  kind: string;
  path: string | null;
  exclude: string[];
  extensions: string[];
  enabled: boolean;
}

/** `GET api/memory/sources`. */
interface SourceSettings {
  sources: SourceSetting[];
  version: string;
  file: string | null;
  allowProcessSettings: boolean;
  claudeCode: string | null;
}

/** A client of `GET api/clients`. */
interface ClientState {
  client: string;
  name: string;
  configured: boolean;
  mode: string;
  memoryEnabled: boolean;
  matches: { listen: string | null; proxyUser: string | null; apiKey: boolean; userAgent: string | null } | null;
  requests: number;
  lastSeen: string | null;
}

/** `GET api/clients`. */
interface ClientStates {
  clients: ClientState[];
  lines: ClientLines[];
  /** Those that have a memory. */
  mcp: McpMemory[];
  /** The folder in which conversations are stored; null: nowhere. */
  conversations: string | null;
}

/** How a client meets its memory. */
interface McpMemory {
  client: string;
  /** It needs no MCP: its memory comes inside its conversations. */
  inside: boolean;
  hasToken: boolean;
  /** The one that the client is, where it is known. */
  program: string | null;
  /** What starts the server, without a token. */
  lines: McpLines[];
}

/** What is pasted for a program. */
interface McpLines {
  program: string;
  where: string;
  text: string;
}

/** `POST api/clients/{client}/token`. */
interface TokenMade {
  token: string;
  lines: McpLines[];
}

/** `PATCH api/clients/{client}`. */
interface MemorySwitched {
  client: string;
  memoryEnabled: boolean;
  token: string | null;
  lines: McpLines[];
}

type Shell = "bash" | "zsh" | "fish" | "powershell";

/** What points one client at the proxy. */
interface ClientLines {
  client: string | null;
  name: string | null;
  command: string | null;
  shells: Partial<Record<Shell, string>>;
  problem: string | null;
}

/** A rule as mitm.yaml writes it, with its hits since the suite's start. */
interface RuleEntry {
  name: string;
  when: Record<string, string | string[]>;
  then: Action;
  targets?: string[];
  otherwise?: "block" | "allow";
  placeholder?: string;
  hold_for?: number;
  hits: number;
}

/** `GET api/rules`. */
interface RuleList {
  mode: "annotate" | "dispatch";
  countedSince: string | null;
  rules: RuleEntry[];
  notes: (RuleEntry & { share: string; count: number; notes: { id: string; title: string }[] })[];
  unscanned: { name: string; setting: "block" | "allow" | null; cloud: "block" | "allow"; local: "block" | "allow"; hits: number } | null;
}

/** `POST api/rules/test`. */
interface RuleTest {
  tested: number;
  actions: Partial<Record<Action, number>>;
  rules: { name: string; action: Action; hits: number; examples: string[] }[];
}

/** `GET api/clients/{client}/memory`. */
interface ClientMemory {
  client: string;
  memoryEnabled: boolean;
  folder: string | null;
  sessions: number;
  bytes: { sessions: number; archive: number; index: number };
  /** null: it is not open. */
  index: { files: number; chunks: number; pending: number; failed: number } | null;
  problem: string | null;
  rebuilding: { done: number; total: number } | null;
  compaction?: CompactionState | null;
}

/** Who writes summaries (`provider` null: nobody), at which session it is, and what failed. */
interface CompactionState {
  enabled: boolean;
  provider: string | null;
  model: string | null;
  upstream: string | null;
  /** Sessions that are over and not summarised. */
  pending: number;
  working: string | null;
  failures: { session: string; message: string; tries: number; nextAt: string }[];
}

/** A session of `GET api/clients/{client}/memory/sessions`. */
interface SessionEntry {
  session: string;
  startedAt: string;
  writtenAt: string;
  state: "current" | "closed" | "archived";
  summarised: boolean;
  bytes: number;
  title: string | null;
  conversations: number;
}

type TranscriptPiece =
  | { kind: "text"; text: string }
  | { kind: "called"; name: string; arguments: string }
  | { kind: "returned"; characters: number; beginning: string };

interface TranscriptPart {
  role: "user" | "assistant";
  at: string;
  model: string | null;
  pieces: TranscriptPiece[];
  continued: boolean;
  again: boolean;
  cutOff: boolean;
}

interface TranscriptTurn {
  turn: number;
  startedAt: string;
  insteadOf: number | null;
  parts: TranscriptPart[];
}

interface TranscriptConversation {
  conversation: number;
  startedAt: string;
  goesOnFrom: { session: string; conversation: number } | null;
  turns: TranscriptTurn[];
}

/** `GET api/clients/{client}/memory/sessions/{session}`. */
interface SessionTranscript {
  client: string;
  session: string;
  startedAt: string;
  state: SessionEntry["state"];
  summary: string | null;
  conversations: TranscriptConversation[];
}

/** `POST api/clients/{client}/recall`. */
interface RecallResult {
  results: { source: string; session: string; conversation: number | null; heading: string; startedAt: string | null; score: number; text: string }[];
  holdings: { sessions: number; first: string | null; last: string | null };
}

interface Window {
  /** For the browser tests; see memory.js. */
  __mitmemory?: Record<string, unknown>;
}
