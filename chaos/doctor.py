"""What ``holdfast doctor`` says of the database at the end, by the clock of those who wrote there.

``python -m chaos.doctor …`` is ``holdfast doctor …`` in a process whose clock can be moved (``clock``): on SQLite the
store's clock is the machine's, and it has jumped.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from chaos import clock
from chaos.processes import ROOT
from holdfast.__main__ import main

CLEAN: Final = 0
FOUND: Final = 1
WARNING: Final = "warning"
PATIENCE_SECONDS: Final = 5
TAIL_CHARACTERS: Final = 500


async def examine(url: str, *, environment: Mapping[str, str]) -> list[str]:
    """What it found, in words; nothing where all is well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chaos.doctor", "--url", url, "--json", "--deep"),
        *("--patience", str(PATIENCE_SECONDS)),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return read_verdict(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


def read_verdict(code: int | None, output: str, errors: str) -> list[str]:
    """Warnings do not count: they speak of the server, and break nothing."""
    try:
        findings: list[dict[str, Any]] | None = json.loads(output)["findings"]
    except (ValueError, KeyError, TypeError):
        findings = None
    wrong = [one for one in findings or () if one["severity"] != WARNING]
    if findings is None or code != (FOUND if wrong else CLEAN):
        return [f"no verdict: exit code {code}: {(errors or output)[-TAIL_CHARACTERS:].strip()}"]
    return [f"{one['code']} ({one['count']}): {one['what']} {one.get('examples', '')}".strip() for one in wrong]


if __name__ == "__main__":
    clock.follow()
    sys.argv = ["holdfast", "doctor", *sys.argv[1:]]
    sys.exit(main())
