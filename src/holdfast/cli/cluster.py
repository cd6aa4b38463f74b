"""``holdfast cluster``: Designs A and B of the gRPC API, whose jobs live in memory; six processes, or one of them."""

from typing import Final

from holdfast.cli.command import Commands, Parser, add_command

EXAMPLES: Final = """
holdfast cluster up --design a                               gateway at 127.0.0.1:50051
holdfast cluster up --design b                               nodes at 127.0.0.1:50061 … 50066
holdfast cluster serve queue --listen 127.0.0.1:6000         one service by itself
"""
DESCRIPTION: Final = """The gRPC API taskqueue.v1 as two distributed designs whose jobs live in memory. Design A is six
services: gateway, job, queue, coordinator, worker, result. Design B is six identical nodes. For jobs that survive, see
holdfast server."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "cluster",
        help="run Design A or B of the gRPC API: six processes, jobs in memory",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=lambda _: _without_action(parser),
    )
    parser.late = lambda: _add_actions(parser)


def _add_actions(parser: Parser) -> None:
    from holdfast.cli.cluster_actions import add_actions  # with it come the designs

    add_actions(parser)


def _without_action(parser: Parser) -> int:
    parser.error("what about the cluster? write up, serve or check")
