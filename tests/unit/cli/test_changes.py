"""Which files a reload watches, and how a process's end is said."""

import os
import signal
from pathlib import Path

from holdfast.cli.changes import Changes
from holdfast.cli.children import SERVING, VARIABLE, Supervised, child_of, ended


def touch(path: Path, time_ns: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    os.utime(path, ns=(time_ns, time_ns))


def test_changed_added_and_removed_python_files_are_seen_once(tmp_path: Path) -> None:
    touch(tmp_path / "a.py", 1)
    touch(tmp_path / "package" / "b.py", 1)
    changes = Changes(tmp_path)
    assert changes.changed() == []
    touch(tmp_path / "a.py", 2)
    touch(tmp_path / "package" / "new.py", 1)
    (tmp_path / "package" / "b.py").unlink()
    assert [path.name for path in changes.changed()] == ["a.py", "b.py", "new.py"]
    assert changes.changed() == []


def test_what_is_nobodys_source_is_not_watched(tmp_path: Path) -> None:
    changes = Changes(tmp_path)
    touch(tmp_path / "environment" / "pyvenv.cfg", 1)
    for name in ("notes.txt", ".hidden/a.py", "__pycache__/a.py", "node_modules/a.py", "environment/lib/a.py"):
        touch(tmp_path / name, 1)
    assert changes.changed() == []


def test_how_a_process_ended_is_said_by_name() -> None:
    assert ended(3) == "ended with exit code 3"
    assert ended(-signal.SIGKILL) == "was killed by SIGKILL"
    assert ended(-63) == "was killed by signal 63"


def test_a_child_knows_its_number_and_its_own_children_do_not() -> None:
    sign, theirs = os.pipe()
    os.environ[VARIABLE] = f"17:2:{theirs}"
    child = child_of()
    assert child == Supervised(17, 2, theirs)
    assert child_of() is None
    child.say(SERVING)
    assert os.read(sign, 10) == SERVING
    os.close(sign)
    os.close(theirs)


def test_a_child_to_which_nobody_listens_says_nothing() -> None:
    os.environ[VARIABLE] = "17:2"
    child = child_of()
    assert child == Supervised(17, 2)
    child.say(SERVING)
