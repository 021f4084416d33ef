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
  bytes: { request: number; response: number };
  status: number | null;
  outcome: "answered" | "blocked" | "failed" | "aborted" | null;
  sideRequest: boolean;
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
}

interface Window {
  /** For the browser tests; see memory.js. */
  __mitmemory?: Record<string, unknown>;
}
