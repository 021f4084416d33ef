"""A program as a user writes it, that goes on with two conversations by turns until its input ends, and tries again what
was not answered. Says which request was answered.
"""

import select
import sys
import time

import anthropic
import httpx2

client = anthropic.Anthropic(api_key="dummy", max_retries=0)
histories = [], []
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    history = histories[number % 2]
    asked = [*history, {"role": "user", "content": f"This is question {number}."}]
    try:
        with client.messages.stream(model="claude-test", max_tokens=100, messages=asked) as stream:
            answer = stream.get_final_text()
    except (anthropic.APIError, httpx2.HTTPError):
        time.sleep(0.25)
        continue
    print(number, flush=True)
    history[:] = [*asked, {"role": "assistant", "content": answer}]
    number += 1
