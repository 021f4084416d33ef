"""The loop: a client that knows nothing of it gets a model that can search its memory (conversation-memory.md, "MemoryRecall").

A request of a client that is `mcp_via_llm` is offered one tool more, and goes through the gateway. Where the model calls that
tool, the call is held back, run here, and the conversation goes on with its result: the client sees one answer.

    dialect     what a protocol must tell the loop: `Dialect`, and `Weave`, which makes one answer of several
    events      server-sent events, with their bytes as they came
    places      where the values of a JSON text stand, so that a body is added to and not written anew
    past        what was hidden from a client, for its next requests: they are expanded to what really passed
    keys        what an answer is found again by, when its client sends it back
    histories   where answers stand in a history, and what each follows
    usage       what several answers cost together
    weaving     what all weaves do alike: they hear answers, and go on with a request
    message_lists      what is alike in requests that are lists of messages
    anthropic, openai_chat, openai_responses, gemini      one dialect each, with its files beside it
    dialects    which protocols there are
    offer       the stage that adds the tool to a request
    searcher    the search itself, under the rules, and what it hands over as exposure
    heads       whether an answer is a stream, or one document
    without_tool       what is sent where a provider refuses the tool
    telling     what the client gets, and that its stream is kept alive
    answering   the loop: attempts and searches in turns
"""
