"""What the exit codes mean: one table, which ``holdfast --help`` and the reference show."""

from enum import IntEnum
from typing import Final

from holdfast.core.errors import ConfigError, HoldfastError, UsageError


class Exit(IntEnum):
    DONE = 0
    NOT_DONE = 1
    WRONG = 2
    INTERRUPTED = 130


MEANINGS: Final = {
    Exit.DONE: "done",
    Exit.NOT_DONE: "it could not be done: the job failed, there is no such job, the key is refused, the database away, "
    "a worker had to stop, doctor found something wrong",
    Exit.WRONG: "the command or the set-up is wrong; the message says what to change",
    Exit.INTERRUPTED: "stopped with Ctrl-C",
}


def exit_of(error: HoldfastError) -> Exit:
    return Exit.WRONG if isinstance(error, UsageError | ConfigError) else Exit.NOT_DONE
