"""``holdfast worker``: run an app's jobs until told to stop."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli import values
from holdfast.cli.changes import Changes
from holdfast.cli.children import HOPELESS, SERVING, Supervised, child_of
from holdfast.cli.command import Commands, add_command
from holdfast.cli.database import add_url, checked, patiently
from holdfast.cli.exits import Exit
from holdfast.cli.loading import load_app
from holdfast.cli.loop import run_alone
from holdfast.cli.signals import Signals, stop_signals
from holdfast.cli.supervisor import Supervisor
from holdfast.core import limits
from holdfast.core.errors import ConfigError, UsageError
from holdfast.telemetry import TextFormatter, configure
from holdfast.telemetry.unblocked import unblock_output
from holdfast.wiring import URL_VARIABLE, settled_url, without_password

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.worker.worker import Worker

EXAMPLES: Final = """
holdfast worker jobs:app                                     jobs.py has app = Holdfast(…)
holdfast worker shop.jobs:app --queues high,default          high first
holdfast worker shop.jobs:app --queues high=3,default=1      three times as often
holdfast worker shop.jobs:app --limit media=2 --concurrency 20
holdfast worker shop.jobs:app --processes 4 --log json
holdfast worker jobs:app --reload                            restart when a .py file changes
"""
DESCRIPTION: Final = """Run an app's jobs. SIGTERM, SIGHUP or Ctrl-C: no new jobs, those that run may finish within the
grace time, what is left is handed back without spending an attempt. A second time: stop at once."""
PATIENCE_SECONDS: Final = 60.0
LOG_FORMS: Final = ("text", "json")
ORPHAN_SECONDS: Final = 1.0
LOG: Final = logging.getLogger("holdfast.cli")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "worker", help="run an app's jobs", description=DESCRIPTION, examples=EXAMPLES, run=run
    )
    parser.add_argument("app", metavar="MODULE:APP", help="where the app is; the working directory is searched first")
    parser.add_argument(
        "--queues", type=queues, help="in order (high,default) or with weights (high=3,default=1); default: the app's"
    )
    parser.add_argument(
        "--limit",
        type=numbers,
        action="append",
        default=[],
        metavar="QUEUE=N",
        help="at most N jobs of a queue at a time; repeatable",
    )
    parser.add_argument(
        "--concurrency",
        type=values.positive,
        default=limits.DEFAULT_CONCURRENCY,
        metavar="N",
        help=f"jobs at a time in each process; default: {limits.DEFAULT_CONCURRENCY}",
    )
    parser.add_argument(
        "--processes", type=values.positive, default=1, metavar="N", help="worker processes; default: 1"
    )
    parser.add_argument(
        "--grace",
        type=values.seconds,
        default=limits.DEFAULT_GRACE_SECONDS,
        metavar="SECONDS",
        help=f"for running jobs to finish when stopped; default: {limits.DEFAULT_GRACE_SECONDS:.0f}",
    )
    parser.add_argument("--name", help="of the worker; default: $WORKER_ID, else the host's name")
    parser.add_argument("--reload", action="store_true", help="restart when a .py file below here changes")
    parser.add_argument("--log", choices=LOG_FORMS, default=LOG_FORMS[0], help=f"default: {LOG_FORMS[0]}")
    add_url(parser, patience_seconds=PATIENCE_SECONDS, default="the app's own")


def numbers(text: str) -> dict[str, int]:
    """``media=2,mail=5``."""
    given = [part.partition("=") for part in text.split(",")]
    if not all(name and number.isdecimal() and int(number) > 0 for name, _, number in given):
        raise values.Refused(f"{text!r} is not of the form queue=number, for example media=2")
    return {name: int(number) for name, _, number in given}


def queues(text: str) -> Sequence[str] | Mapping[str, int]:
    if "=" in text:
        return numbers(text)
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise values.Refused(f"{text!r} names no queues; write high,default or high=3,default=1")
    return names


def run(arguments: argparse.Namespace) -> int:
    child = child_of()
    unblock_output()
    _set_up_logging(is_text=arguments.log == "text")
    if child is None and (arguments.processes > 1 or arguments.reload):
        return asyncio.run(_supervise(arguments))
    # Imported before there is a loop: until then, Ctrl-C ends an import that takes for ever.
    app = find_app(arguments.app, arguments.url)
    try:
        return run_alone(_work_undisturbed(app, arguments, child))
    except ConfigError:
        if child is not None:
            child.say(HOPELESS)
        raise
    except SystemExit as end:
        # Out of a task of a handler's own, and through the loop.
        LOG.critical("a handler has ended the program: sys.exit(%r)", end.code, extra={"event": "worker_failed"})
        return Exit.NOT_DONE


def _set_up_logging(*, is_text: bool) -> None:
    # Before the app is imported: one that sets up logging itself does so on top of this.
    handler = configure(service="worker", is_text=is_text)
    if is_text and os.environ.get("NO_COLOR"):
        handler.setFormatter(TextFormatter())


async def _supervise(arguments: argparse.Namespace) -> int:
    supervisor = Supervisor(
        [sys.executable, "-m", "holdfast", *arguments.given],
        processes=arguments.processes,
        say=LOG.warning,
        changes=Changes(Path.cwd()) if arguments.reload else None,
    )
    code = Exit.DONE

    def stop(exit_code: Exit) -> None:
        nonlocal code
        code = exit_code
        supervisor.stop()

    loop = asyncio.get_running_loop()
    for number, exit_code in stop_signals().items():
        loop.add_signal_handler(number, stop, exit_code)
    ended = await supervisor.run()
    return ended or code


async def _work_undisturbed(app: "Holdfast", arguments: argparse.Namespace, child: Supervised | None) -> int:
    """``_work``, in a task that no handler can cancel. This one asyncio has made, and passes nothing on."""
    from holdfast.worker import tasks  # the help of all commands can do without

    signals = Signals(is_supervised=child is not None)
    working = signals.starting = tasks.start(_work(app, arguments, child, signals))
    while not working.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([working])
    try:
        return working.result()
    except asyncio.CancelledError:
        if signals.count:
            return signals.code
        LOG.critical("the worker's main task was cancelled, and not by a signal", extra={"event": "worker_failed"})
        return Exit.NOT_DONE


async def _work(app: "Holdfast", arguments: argparse.Namespace, child: Supervised | None, signals: Signals) -> int:
    with checked(app.url) as url:
        await patiently(app.open, url=url, timeout_seconds=arguments.connect_timeout, say=LOG.warning)

    def make() -> "Worker":
        return app.worker(
            concurrency=arguments.concurrency,
            queues=arguments.queues,
            limits={queue: number for limit in arguments.limit for queue, number in limit.items()},
            grace=arguments.grace,
            name=_name(arguments.name, child),
        )

    try:
        make()  # wrong options are refused before anything is said
        LOG.info(
            "%s: %d job %s, %s",
            arguments.app,
            len(app.registry),
            "type" if len(app.registry) == 1 else "types",
            without_password(app.url),
        )
        worker = await patiently(
            lambda: _started(make, child), url=app.url, timeout_seconds=arguments.connect_timeout, say=LOG.warning
        )
        return await _run(worker, signals, parent=child.parent if child is not None else None)
    finally:
        await app.close()


def find_app(target: str, url: str | None) -> "Holdfast":
    """The app, on that URL if one is given: an app without a URL of its own takes it from the environment."""
    if url is not None:
        with checked(url):
            url = settled_url(url)
        os.environ[URL_VARIABLE] = url
    app = load_app(target)
    if url is not None and app.url != url:
        raise UsageError(
            f"{target} has a URL of its own, {without_password(app.url)}; leave out --url, or write Holdfast() there: "
            f"it then takes --url and ${URL_VARIABLE}"
        )
    if not app.registry:
        raise UsageError(f"{target} has no jobs; decorate a function with @app.job, and import its module there")
    return app


def _name(given: str | None, child: Supervised | None) -> str | None:
    if child is None:
        return given
    import socket

    # One name a process, so that people can tell them apart.
    return f"{given or os.environ.get('WORKER_ID') or socket.gethostname()}-{child.number}"


async def _started(make: Callable[[], "Worker"], child: Supervised | None) -> "Worker":
    """A new one at each try: the database may be there and take nothing, because its disk is full, for example."""
    worker = make()
    await worker.start()
    if child is not None:
        child.say(SERVING)
    return worker


async def _run(worker: "Worker", signals: Signals, *, parent: int | None) -> int:
    from holdfast.worker import tasks

    signals.worker = worker
    orphan = tasks.start(_stop_when_orphaned(worker, parent)) if parent is not None else None
    try:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(worker)
            await worker.wait_stopped()
    finally:
        if orphan is not None:
            orphan.cancel()
    return signals.code


async def _stop_when_orphaned(worker: "Worker", parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 - the system has no event for this
        await asyncio.sleep(ORPHAN_SECONDS)
    LOG.warning("the supervisor is gone: stopping")
    worker.stop()
