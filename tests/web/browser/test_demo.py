"""The demo as a person meets it: a process, its printed link, a browser. Its picture goes into the documentation."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

from tests.harness import MITMEMORY
from tests.web.browser.screenshot import take_picture

PICTURE = Path(__file__).parent.parent.parent.parent / "docs" / "map.png"


async def test_the_demos_map_is_alive_and_is_the_picture_of_the_readme() -> None:
    demo = await asyncio.create_subprocess_exec(MITMEMORY, "demo", stdout=asyncio.subprocess.PIPE)
    assert demo.stdout
    link = ""
    try:
        async with asyncio.timeout(120):
            while b"Every note shows up as it was sent." not in (line := await demo.stdout.readline()):
                assert line, "the demo ended"
                if found := re.search(rb"Dashboard +(\S+)", line):
                    link = found[1].decode()
        before = PICTURE.stat().st_mtime_ns if PICTURE.exists() else 0
        await take_picture(link, PICTURE, lit=True)
        assert PICTURE.stat().st_mtime_ns > before
        assert PICTURE.read_bytes().startswith(b"\x89PNG")
    finally:
        demo.send_signal(signal.SIGTERM)
        await demo.communicate()
    assert demo.returncode == 0
