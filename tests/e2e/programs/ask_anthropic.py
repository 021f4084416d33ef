"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

import anthropic

prompt, thanks = json.load(sys.stdin)
client = anthropic.Anthropic(api_key="dummy")

messages = [{"role": "user", "content": prompt}]
blocks = client.messages.create(model="claude-test", max_tokens=100, messages=messages).content
first = "".join(block.text for block in blocks)
messages += [{"role": "assistant", "content": first}, {"role": "user", "content": thanks}]
with client.messages.stream(model="claude-test", max_tokens=100, messages=messages) as stream:
    pieces = list(stream.text_stream)
print(json.dumps([first, "".join(pieces)]))
