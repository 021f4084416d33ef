"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

import openai

prompt, thanks = json.load(sys.stdin)
client = openai.OpenAI(api_key="dummy")

messages = [{"role": "user", "content": prompt}]
first = client.chat.completions.create(model="gpt-test", messages=messages).choices[0].message
messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": thanks}]
chunks = client.chat.completions.create(
    model="gpt-test", messages=messages, stream=True, stream_options={"include_usage": True}
)
pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]

response = client.responses.create(model="gpt-test", input=prompt)
events = client.responses.create(model="gpt-test", input=thanks, previous_response_id=response.id, stream=True)
deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
print(json.dumps([first.content, "".join(pieces), response.output_text, "".join(deltas)]))
