"""A program as a user writes it: nothing in it knows of the proxy. Prints what it got, as JSON."""

import json
import sys

from google import genai

prompt = sys.stdin.read()
client = genai.Client(api_key="dummy")
plain = client.models.generate_content(model="gemini-test", contents=prompt).text
pieces = [chunk.text for chunk in client.models.generate_content_stream(model="gemini-test", contents=prompt)]
pieces = [piece for piece in pieces if piece]
print(json.dumps({"plain": plain, "streamed": "".join(pieces), "pieces": len(pieces)}))
