"""The suite, as a request to a model meets it. One mitmproxy addon per file, in this order:

| file               | stage                                                                                       |
|--------------------|---------------------------------------------------------------------------------------------|
| `lean.py`          | spares mitmproxy work on every request that nobody needs                                    |
| `mends.py`         | answers that mitmproxy itself would leave hanging                                           |
| `limits.py`        | request bodies have a largest size, answers have none                                       |
| `sender.py`        | which client sends: the listener it came in by, the proxy user, which goes no further       |
| `reverse.py`       | listeners for clients that take a base URL                                                  |
| `reroute.py`       | leads a request to the gateway, and shows it as what was asked                              |
| `guard.py`         | nothing reaches the suite's own pages through the proxy                                     |
| `identify.py`      | is it a request to a model, from whom, to whom, in which conversation: makes the `Exchange` |
| `loop/offer.py`    | offers the model a tool to search the memory, where a client is `mcp_via_llm`               |
| `scan.py`          | which of the notes are in it                                                                |
| `decide.py`        | may it be sent, under the user's rules, and what of it? Answers those that may not          |
| `hold.py`          | a request waits for a person                                                                |
| `remember.py`      | keeps what clients with a memory say, until the tap has the answer to it; both are recorded |
| `loop/offer.py`    | what offers the tool is led to the gateway, whatever no rule has led there                  |
| `send.py`          | dials the address that was decided on                                                       |
| `released.py`      | tells when a body goes out: mitmproxy has no hook for that                                  |
| `tap.py`           | lets the answer stream through                                                              |
| `record.py`        | activity, sharing counts, events                                                            |
| `annotate.py`      | what mitmweb shows: comment, marker, metadata, content view                                 |
| `inspector.py`     | how many flows mitmweb remembers                                                            |
| `conversations.py` | opens the memory of conversations, and ends their sessions                                  |
| `reload.py`        | picks up changes of mitm.yaml                                                               |
| `sidecar.py`       | reads the notes and serves the dashboard                                                    |

Each stage takes the `Exchange` from `flows.py` and adds to it. What they use stands beside them: `providers.py` (who
serves models, and where), `destinations.py` (local or cloud, and the address to dial), `wire/` (one file per protocol),
`clients.py`, `encodings.py`, `headers.py`, `one_piece.py` (how a message goes out), `case.py` (one request before the
rules), `withhold.py` (redacts), `gateway.py` (sends to targets), `sessions.py` (over which connections), `loop/`
(searches inside a conversation), `compaction.py` (what may be summarised, and by whom). `stages.py` builds them in this
order, and `suite.py` all that they and the dashboard share, from `config.py` (`makers.py`, `note_sources.py`);
`launcher.py` starts it, `cli.py` is the command, `demo/` shows it.
"""
