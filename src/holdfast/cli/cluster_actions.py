"""What ``holdfast cluster`` does: up starts the six processes of a design, serve is one of them, check asks servers."""

import argparse
import asyncio
import os
import signal
import threading
import time
from typing import Final

from holdfast.cli import values
from holdfast.cli.children import child_of
from holdfast.cli.cluster_members import (
    DEFAULT_PORTS,
    DESIGNS,
    MEMBERS,
    Cluster,
    Member,
    is_serving,
    plan,
    targets,
)
from holdfast.cli.command import Commands, Parser, add_command, asynchronous
from holdfast.cli.database import add_json
from holdfast.cli.exits import Exit
from holdfast.cli.streams import note, write_json
from holdfast.core.errors import UsageError
from holdfast.designs.services import settings
from holdfast.rpc.installed import require_grpc
from holdfast.rpc.limits import TOTAL_WORKER_SLOTS
from holdfast.rpc.ports import free_ports

UP_EXAMPLES: Final = """
holdfast cluster up --design a
holdfast cluster up --design b --slots 12 --base-port 7000   nodes at 7000 … 7005, two slots each
holdfast cluster up --design a --base-port 0 --json          free ports, told as one JSON object
"""
SERVE_EXAMPLES: Final = """
holdfast cluster serve job --listen 127.0.0.1:50052
holdfast cluster serve worker --coordinator 127.0.0.1:50054 --slots 6
holdfast cluster serve node --listen 127.0.0.1:50061 --nodes 127.0.0.1:50061,127.0.0.1:50062 --index 0
"""
UP_DESCRIPTION: Final = """Start the six processes of a design on this machine, on loopback, and say where they are once
all of them answer. Ctrl-C or SIGTERM stops them, a second time at once. One that dies is reported; the others go on."""
SERVE_DESCRIPTION: Final = """Run one role of a design in this process, until SIGTERM or Ctrl-C: what a container runs.
Flags may be given in the environment instead."""
CHECK_DESCRIPTION: Final = """Ask servers, by gRPC's standard health check, whether they serve; it has failed unless all
of them do. For a container's health check, and for scripts that wait."""
CHECK_EXAMPLES: Final = """
holdfast cluster check                                       in a container, where $HOLDFAST_LISTEN is set
holdfast cluster check 127.0.0.1:50061 127.0.0.1:50062
"""
LOOK_SECONDS: Final = 1.0
ANY_HOSTS: Final = ("0.0.0.0", "[::]")


def add_actions(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", title="actions", parser_class=Parser)
    _add_up(actions)
    serving = add_command(
        actions,
        "serve",
        help="run one role of a design in this process",
        description=SERVE_DESCRIPTION,
        examples=SERVE_EXAMPLES,
        run=serve,
    )
    settings.add_arguments(serving)
    _add_check(actions)


def _add_check(actions: Commands) -> None:
    parser = add_command(
        actions,
        "check",
        help="ask servers whether they serve",
        description=CHECK_DESCRIPTION,
        examples=CHECK_EXAMPLES,
        run=asynchronous(check),
    )
    parser.add_argument(
        "addresses", nargs="*", metavar="HOST:PORT", help="of any gRPC server; default: this machine's $HOLDFAST_LISTEN"
    )
    add_json(parser)


def _add_up(actions: Commands) -> None:
    parser = add_command(
        actions,
        "up",
        help="start the six processes of a design",
        description=UP_DESCRIPTION,
        examples=UP_EXAMPLES,
        run=up,
    )
    parser.add_argument("--design", choices=DESIGNS, required=True, help="a: six services; b: six identical nodes")
    parser.add_argument(
        "--base-port",
        type=port,
        metavar="PORT",
        help="the first of six ports; 0: free ones; default: "
        + ", ".join(f"{DEFAULT_PORTS[one]} for {one}" for one in DESIGNS),
    )
    parser.add_argument(
        "--slots",
        type=values.positive,
        default=TOTAL_WORKER_SLOTS,
        metavar="N",
        help=f"jobs at a time, in all; default: {TOTAL_WORKER_SLOTS}",
    )
    add_json(parser, what="where the processes are, as one JSON object, once all of them answer")


def port(text: str) -> int:
    value = int(text) if text.isdecimal() else -1
    if not 0 <= value <= 65536 - MEMBERS:
        raise values.Refused(f"{text!r} is not a first port of {MEMBERS}; write 0, or a number to {65536 - MEMBERS}")
    return value


def up(arguments: argparse.Namespace) -> int:
    require_grpc("holdfast cluster")
    first = DEFAULT_PORTS[arguments.design] if arguments.base_port is None else arguments.base_port
    ports = list(range(first, first + MEMBERS)) if first else free_ports(MEMBERS)
    members = plan(arguments.design, ports=ports, slots=arguments.slots)
    return asyncio.run(_up(arguments, members))


async def _up(arguments: argparse.Namespace, members: list[Member]) -> int:
    cluster = Cluster(members, say=note)
    asked = Asked(cluster)
    code = await cluster.start()
    if code is Exit.DONE and not asked.is_set:
        _show(arguments, cluster)
        await cluster.wait()
    await cluster.stop()
    return asked.code or code or cluster.code


class Asked:
    """To stop: the first time in order, the second time at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.code = Exit.DONE
        self.is_set = False
        self._cluster = cluster
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop, Exit.INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, self._stop, Exit.DONE)

    def _stop(self, code: Exit) -> None:
        if self.is_set:
            self._cluster.kill()
        self.is_set, self.code = True, code
        self._cluster.ask_to_stop()


def _show(arguments: argparse.Namespace, cluster: Cluster) -> None:
    if arguments.json:
        write_json(
            {
                "design": arguments.design,
                "slots": arguments.slots,
                "targets": targets(cluster.members),
                "processes": [
                    {"name": one.name, "role": one.role, "address": one.address, "pid": pid, "slots": one.slots}
                    for one, pid in cluster.process_ids()
                ],
            }
        )
    else:
        from holdfast.cli.output import show_table  # a service, which draws nothing, does not load it

        show_table(
            ["process", "!address", ">pid", ">slots"],
            [(one.name, one.address, str(pid), str(one.slots or "–")) for one, pid in cluster.process_ids()],
        )
        note(f"Design {arguments.design.upper()} takes jobs at {', '.join(targets(cluster.members))}; Ctrl-C stops it")


async def check(arguments: argparse.Namespace) -> int:
    require_grpc("holdfast cluster")
    addresses = arguments.addresses or [_own_address()]
    answers = dict(zip(addresses, await asyncio.gather(*map(is_serving, addresses)), strict=True))
    if arguments.json:
        write_json(answers)
    else:
        for address, is_well in answers.items():
            print(f"{address} {'serves' if is_well else 'does not serve'}")
    return Exit.DONE if all(answers.values()) else Exit.NOT_DONE


def _own_address() -> str:
    listen = os.environ.get("HOLDFAST_LISTEN", "")
    host, _, own_port = listen.rpartition(":")
    if not own_port.isdecimal() or own_port == "0":
        raise UsageError("which server? write its HOST:PORT, or set HOLDFAST_LISTEN")
    return f"127.0.0.1:{own_port}" if host in ANY_HOSTS else listen


def serve(arguments: argparse.Namespace) -> int:
    require_grpc("holdfast cluster")
    # Its own words about a port that is taken would stand beside ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from holdfast.designs.services import run

    given = settings.settings_of(arguments)
    supervised = child_of()
    if supervised is not None:
        threading.Thread(target=_end_with, args=(supervised[0],), daemon=True).start()
    return run.run(given)


def _end_with(parent: int) -> None:
    """Whoever started us is gone, however it died: nobody else would stop us."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
