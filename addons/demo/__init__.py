"""The demo: a sample vault, a model that follows a script, and the exchanges that are played through the proxy.

`reply.py`: what the scripted model is told to say. `dialects/`: how each wire format says it. `answers.py`: which
dialect a path belongs to. `model.py`: the server around them. `authority.py`: the certificate it shows. `vault/`: the
notes of a made-up person; `claude/` and `memory.jsonl`: what her tools remember. `script.py`: what is sent, and what should be found in it. `play.py`: the client.
"""
