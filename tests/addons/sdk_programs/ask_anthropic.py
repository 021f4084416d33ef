"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

import anthropic

prompt = sys.stdin.read()
client = anthropic.Anthropic(api_key="dummy", max_retries=0)
ask = {"model": "claude-test", "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
plain = client.messages.create(**ask)
with client.messages.stream(**ask) as stream:
    pieces = list(stream.text_stream)
    final = stream.get_final_message()
print(json.dumps({"plain": plain.content[0].text, "streamed": final.content[0].text, "pieces": len(pieces)}))
