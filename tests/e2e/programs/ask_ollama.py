"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

import ollama

prompt, thanks = json.load(sys.stdin)

messages = [{"role": "user", "content": prompt}]
first = ollama.chat(model="llama-test", messages=messages).message.content
messages += [{"role": "assistant", "content": first}, {"role": "user", "content": thanks}]
pieces = [part.message.content for part in ollama.chat(model="llama-test", messages=messages, stream=True)]
print(json.dumps([first, "".join(pieces)]))
