"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

import openai

prompt = sys.stdin.read()
client = openai.OpenAI(api_key="dummy", max_retries=0)
messages = [{"role": "user", "content": prompt}]
plain = client.chat.completions.create(model="gpt-test", messages=messages).choices[0].message.content
chunks = client.chat.completions.create(model="gpt-test", messages=messages, stream=True)
pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
response = client.responses.create(model="gpt-test", input=prompt).output_text
events = client.responses.create(model="gpt-test", input=prompt, stream=True)
deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
print(
    json.dumps(
        {
            "plain": plain,
            "streamed": "".join(pieces),
            "pieces": len(pieces),
            "responses": response,
            "responses streamed": "".join(deltas),
        }
    )
)
