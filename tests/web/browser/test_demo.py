"""The demo as a person meets it: a process, its printed link, a browser.

`make pictures` keeps what it sees as the picture of the documentation.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

from tests.harness import MITMEMORY
from tests.web.browser.screenshot import take_picture

PICTURE = Path(__file__).parent.parent.parent.parent / "docs" / "map.png"


async def test_the_demos_map_is_alive_and_is_the_picture_of_the_readme(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(MITMEMORY, "demo", stdout=asyncio.subprocess.PIPE)
    assert demo.stdout
    link = ""
    try:
        async with asyncio.timeout(120):
            while b"Every note shows up as it was sent." not in (line := await demo.stdout.readline()):
                assert line, "the demo ended"
                if found := re.search(rb"Dashboard +(\S+)", line):
                    link = found[1].decode()
        picture = PICTURE if "MITMEMORY_PICTURES" in os.environ else tmp_path / PICTURE.name
        await take_picture(link, picture, lit=True)
        assert picture.read_bytes().startswith(b"\x89PNG")
    finally:
        demo.send_signal(signal.SIGTERM)
        await demo.communicate()
    assert demo.returncode == 0
