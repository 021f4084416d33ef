"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

from google import genai

prompt, thanks = json.load(sys.stdin)
client = genai.Client(api_key="dummy")

chat = client.chats.create(model="gemini-test")
first = chat.send_message(prompt).text
pieces = [chunk.text or "" for chunk in chat.send_message_stream(thanks)]
print(json.dumps([first, "".join(pieces)]))
