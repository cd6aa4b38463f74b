"""Making many objects at once.

The cycle collector runs whenever some hundred objects more were made than freed. A batch of claimed jobs is such a
burst: the collector looks through it several times while it is made, and finds nothing, because all of it stays.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Put the collector off while a bounded number of objects is made that all stay."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
