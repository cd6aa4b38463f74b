"""Make the files in a folder such as ``d49fba9/``: what the code of that commit writes, for both stores.

    python -m tests.upgrades.make d49fba9

The code comes from ``git archive``, its libraries from the lock that it had. ``fill.py`` says what is in the databases.
Done once for a commit: what was written is not written again.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.servers import PostgresServer

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
NOISE = re.compile(r"^(?:--.*|SET .*|\\.*|SELECT pg_catalog\.set_config.*|)\n", re.MULTILINE)
"""Comments and settings of the program that wrote a dump."""


def main(commit: str) -> None:
    target = HERE / commit
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code_of(commit, folder / "code")
        python = environment_of(folder / "code", folder / "environment")
        file = folder / "jobs.db"
        fill(python, folder / "code", f"sqlite:///{file}", target / "sqlite.json")
        (target / "sqlite.sql").write_text(dump_of_sqlite(file), encoding="utf-8")
        with PostgresServer() as server:
            url = server.url(server.create_database())
            fill(python, folder / "code", url, target / "postgres.json")
            (target / "postgres.sql").write_text(dump_of_postgres(url), encoding="utf-8")


def code_of(commit: str, folder: Path) -> None:
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "src", "requirements.lock"], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def environment_of(code: Path, folder: Path) -> Path:
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install: list[str | Path] = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "-r",
        code / "requirements.lock",
    ]
    subprocess.run([python, *install], check=True)
    return python


def fill(python: Path, code: Path, url: str, target: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(code / "src")}
    subprocess.run([python, HERE / "fill.py", url, target], env=environment, check=True)


def dump_of_sqlite(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return "".join(f"{line}\n" for line in connection.iterdump())


def dump_of_postgres(url: str) -> str:
    command = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", "--schema=holdfast", url]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return NOISE.sub("", text)


if __name__ == "__main__":
    main(sys.argv[1])
