import os
import subprocess
import sys

from holdfast.designs.evaluation import usage

BURN = """
import time
end = time.process_time() + 0.3
while time.process_time() < end: pass
print('x', flush=True)
input()
"""


def test_cpu_and_memory_of_a_process_are_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert usage.cpu_seconds([process.pid]) >= 0.28
        assert 1 < usage.memory_mib([process.pid]) < 200
        assert process.pid in usage.tree(os.getpid())
        process.communicate(b"\n")
    assert usage.cpu_seconds([process.pid]) == 0
    assert usage.memory_mib([process.pid]) == 0


def test_the_machine_is_busy_between_nothing_and_everything() -> None:
    before = usage.machine()
    sum(range(3_000_000))
    after = usage.machine()
    assert 0 <= after.busy_since(before) <= 1
    assert before.busy_since(before) == 0
