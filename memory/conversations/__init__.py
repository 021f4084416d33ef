"""What clients and models said to each other: transcripts on this disk, in plain markdown (docs/conversations.md).

`said` is what one request and its answer hold; `recorder` writes it, `prefixes` tells which conversation it goes on;
`sessions` keeps which files there are, `transcript` is their format, `store` reads and deletes, `archive` puts away
what was summarised.
"""
