"""Running an example as its reader would: a program of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_SECONDS = 90.0
OURS = ("HOLDFAST_URL", "HOLDFAST_LOGS", "WORKER_ID", "DATABASE_URL", "SHOP_DB")


def environment(**more: str) -> dict[str, str]:
    """Without what this machine may have set for Holdfast."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return {**kept, "PYTHONPATH": str(EXAMPLES), **more}


def run(name: str, folder: Path, **more: str) -> list[str]:
    """The lines that the example prints; its error where it fails."""
    program = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert program.returncode == 0, program.stderr
    return program.stdout.splitlines()
