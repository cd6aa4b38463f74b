"""Each way in which a database can be damaged is found; what can be repaired is, and stays so."""

import json
from dataclasses import dataclass, field

import pytest

from holdfast.cli import main
from holdfast.core.examination import CHECKS, Code
from tests.integration.doctor.world import Database, fill

DONE, WRONG = 0, 1
GONE = 999_999


@dataclass(frozen=True)
class Damage:
    code: Code
    statements: tuple[str, ...]
    postgresql: tuple[str, ...] = ()
    """Instead, where PostgreSQL says it differently."""
    beside: frozenset[Code] = field(default_factory=frozenset)
    """What is wrong in consequence."""


def edge(child: object, parent: object, *, is_open: bool) -> str:
    return "INSERT INTO {{edge}} (child, parent, kind, is_open) VALUES ({child}, {parent}, 'AFTER', {is_open})".format(
        child=child, parent=parent, is_open="{true}" if is_open else "{false}"
    )


DAMAGES = [
    Damage(
        Code.IN_TWO_TABLES,
        (
            (
                "INSERT INTO {ended} (job, state, completed_at, version, attempt, replays, is_fragile, has_dependents) "
                "VALUES ({plain}, 'COMPLETED', {long_ago}, 0, 0, 0, {false}, {false})"
            ),
        ),
    ),
    Damage(Code.IN_NO_TABLE, ("DELETE FROM {ready} WHERE job = {plain}",), beside=frozenset({Code.TALLY_WRONG})),
    Damage(
        Code.ROW_WITHOUT_JOB,
        ("DELETE FROM {job} WHERE seq = {plain}",),
        beside=frozenset({Code.KEY_WITHOUT_JOB, Code.LABEL_WITHOUT_JOB}),
    ),
    Damage(
        Code.TALLY_WRONG,
        ("UPDATE {tally} SET jobs = jobs + 3 WHERE queue = 'plain' AND state = 'SCHEDULED'",),
        postgresql=("INSERT INTO {tally} VALUES (3, 'SCHEDULED', 'plain')",),
    ),
    Damage(
        Code.SEQUENCE_BEHIND,
        ("UPDATE sqlite_sequence SET seq = 1 WHERE name = '{job}'",),
        postgresql=("SELECT setval('holdfast.job_seq', 1)",),
    ),
    Damage(Code.PENDING_WITHOUT_EDGE, ("UPDATE {edge} SET is_open = {false} WHERE child = {child}",)),
    Damage(Code.WAITS_FOR_NOTHING, (edge("{child}", GONE, is_open=True),)),
    Damage(Code.END_UNTOLD, (edge("{child}", "{completed}", is_open=True),)),
    Damage(Code.END_UNTOLD, (edge("{child}", "{dead}", is_open=True),)),
    Damage(Code.DEPENDENTS_FORGOTTEN, ("UPDATE {ready} SET has_dependents = {false} WHERE job = {parent}",)),
    Damage(Code.OPEN_EDGE_LEFT, (edge("{plain}", "{cancelled}", is_open=True),)),
    Damage(Code.EDGE_TO_NOTHING, (edge("{plain}", GONE, is_open=False), edge(GONE, "{parent}", is_open=True))),
    Damage(Code.MARK_WITHOUT_JOB, (f"INSERT INTO {{mark}} (job) VALUES ({GONE})",)),
    Damage(
        Code.KEY_WITHOUT_JOB,
        (
            (
                "INSERT INTO {idempotency} (job_type, key, job_id, digest, expires_at) "
                "VALUES ('mail', 'lost', x'00000000000000000000000000000001', x'00', {later})"
            ),
        ),
        postgresql=(
            (
                "INSERT INTO {idempotency} (job_type, key, job_id, digest, expires_at) "
                "VALUES ('mail', 'lost', '00000000-0000-0000-0000-000000000001', '', {later})"
            ),
        ),
    ),
    Damage(
        Code.LABEL_WITHOUT_JOB,
        (
            f"INSERT INTO {{tag}} (name, value, job) VALUES ('customer', '7', {GONE})",
            f"INSERT INTO {{note}} (job, message) VALUES ({GONE}, 'half way')",
        ),
    ),
    Damage(
        Code.LEASE_WITHOUT_WORKER,
        ("DELETE FROM {worker}", "UPDATE {running} SET started_at = {long_ago} WHERE job = {running_seq}"),
    ),
    Damage(Code.OVERDUE_RUNNING, ("UPDATE {running} SET expires_at = {long_ago} WHERE job = {running_seq}",)),
    Damage(Code.OVERDUE_DELAYED, ("UPDATE {waiting} SET due_at = {long_ago} WHERE job = {delayed}",)),
    Damage(Code.OVERDUE_RETRYING, ("UPDATE {waiting} SET due_at = {long_ago} WHERE job = {retrying}",)),
    Damage(Code.OVERDUE_PENDING, ("UPDATE {waiting} SET lifetime_ends_at = {long_ago} WHERE job = {child}",)),
    Damage(Code.OVERDUE_SCHEDULED, ("UPDATE {ready} SET lifetime_ends_at = {long_ago} WHERE job = {plain}",)),
    Damage(Code.OVERDUE_SCHEDULED, ("UPDATE {ready} SET scheduled_at = {long_ago} WHERE job = {plain}",)),
    # Nobody is idle, but somebody took a later job of the same kind.
    Damage(
        Code.OVERDUE_SCHEDULED,
        (
            "DELETE FROM {worker} WHERE id NOT IN (SELECT owner FROM {running})",
            "UPDATE {ready} SET scheduled_at = {long_ago} WHERE job = {plain}",
            "UPDATE {running} SET queue = 'plain' WHERE job = {running_seq}",
        ),
        beside=frozenset({Code.TALLY_WRONG}),
    ),
]
ELSEWHERE = {
    Code.MIGRATIONS_PENDING,
    Code.PRIVILEGES_MISSING,
    Code.CLOCK_SKEW,
    Code.FILE_DAMAGED,
    Code.OLD_TRANSACTION,
    Code.DEAD_ROWS,
    Code.INDEX_BLOAT,
}
"""Proved in the modules beside this one."""


def damage_of(database: Database, damage: Damage) -> None:
    seqs = {name: database.seq(job_id) for name, job_id in database.use(fill).items()}
    seqs["running_seq"] = seqs.pop("running")
    statements = damage.postgresql if database.dialect == "postgresql" and damage.postgresql else damage.statements
    database.run(*statements, **seqs)


def doctor(database: Database, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[Code, int]]:
    """The exit code; and by code how many are wrong, less those repaired."""
    exit_code = main(["doctor", "--url", database.url, "--patience", "0", "--json", *options])
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"findings", "checked"}
    found = {
        Code(one["code"]): one["count"] - one["repaired"] for one in said["findings"] if one["severity"] == "wrong"
    }
    return exit_code, found


def test_a_healthy_database_is_found_healthy(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    database.use(fill)
    for options in ((), ("--deep",), ("--repair",), ("--deep", "--repair")):
        assert doctor(database, capsys, *options) == (DONE, {})


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: str(damage.code))
def test_damage_is_found_and_repaired_for_good(
    database: Database, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_of(database, damage)
    exit_code, found = doctor(database, capsys)
    assert exit_code == WRONG
    assert damage.code in found
    assert found.keys() - damage.beside == {damage.code}
    repairable = {code for code in found if CHECKS[code].is_repaired}
    exit_code, left = doctor(database, capsys, "--repair")
    assert {code for code, count in left.items() if count} == found.keys() - repairable
    again, still = doctor(database, capsys)
    assert still.keys() == found.keys() - repairable
    assert exit_code == again == (DONE if found.keys() == repairable else WRONG)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: str(damage.code))
def test_a_deep_examination_finds_the_same(
    database: Database, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_of(database, damage)
    exit_code, found = doctor(database, capsys, "--deep")
    assert exit_code == WRONG
    assert damage.code in found


def test_every_check_is_proved_by_a_damage() -> None:
    assert {damage.code for damage in DAMAGES} == set(Code) - ELSEWHERE


def test_ended_jobs_are_counted_by_a_deep_examination_alone(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    seqs = {name: database.seq(job_id) for name, job_id in database.use(fill).items()}
    database.run(
        f"DELETE FROM {{ended}} WHERE job = {seqs['cancelled']}", f"DELETE FROM {{job}} WHERE seq = {seqs['cancelled']}"
    )
    assert doctor(database, capsys) == (DONE, {})
    assert doctor(database, capsys, "--deep") == (WRONG, {Code.TALLY_WRONG: 1})
    assert doctor(database, capsys, "--deep", "--repair") == (DONE, {Code.TALLY_WRONG: 0})
    assert doctor(database, capsys, "--deep") == (DONE, {})


def test_people_are_told_what_it_is_and_what_to_do(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = database.use(fill)
    database.run(f"UPDATE {{edge}} SET is_open = {{false}} WHERE child = {database.seq(jobs['child'])}")
    assert main(["doctor", "--url", database.url, "--patience", "0"]) == WRONG
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["wrong", "pending_without_edge", "1"]
    assert str(jobs["child"]) in lines[1]
    assert "--repair" in lines[2]
    assert lines[-1].endswith("1 thing wrong")
    assert main(["doctor", "--url", database.url, "--patience", "0", "--repair"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("repaired  pending_without_edge")
    assert lines[-1].endswith("nothing wrong")


def test_a_dependent_that_waits_for_nothing_is_judged_by_what_it_waited_for(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has not ended is waited for again; a job that is released runs, and one whose dependency died dies."""
    jobs = database.use(fill)
    child = database.seq(jobs["child"])
    close = f"UPDATE {{edge}} SET is_open = {{false}} WHERE child = {child}"
    database.run(close)
    doctor(database, capsys, "--repair")
    assert [bool(row[0]) for row in database.run(f"SELECT is_open FROM {{edge}} WHERE child = {child}")] == [True]
    database.run(close, f"UPDATE {{edge}} SET parent = {database.seq(jobs['dead'])} WHERE child = {child}")
    doctor(database, capsys, "--repair")
    assert [row[0] for row in database.run(f"SELECT state FROM {{ended}} WHERE job = {child}")] == ["DEAD_LETTER"]
