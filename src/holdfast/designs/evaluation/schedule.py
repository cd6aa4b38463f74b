"""What happens when, decided before it happens: the order of visits, arrivals, the calls of a mix. Pure, by seed.

The same seed gives the same schedule to every design, so that none gets the kinder one.
"""

from collections.abc import Iterator, Sequence
from random import Random

from holdfast.designs.evaluation.profiles import Mix


def orders(names: Sequence[str], rounds: int) -> list[list[str]]:
    """Which comes first changes from round to round, so that what drifts (heat, caches) favours none.

    Each begins equally often, and the direction turns with every full circle: then each also comes equally often
    right behind each other.
    """
    made = []
    for number in range(rounds):
        circle, start = divmod(number, len(names))
        order = [*names[start:], *names[:start]]
        made.append(order[::-1] if circle % 2 else order)
    return made


def arrivals(rate: float, seconds: float, random: Random) -> Iterator[float]:
    """Seconds from the start: a Poisson process, the sum of many clients that know nothing of each other."""
    at = random.expovariate(rate)
    while at < seconds:
        yield at
        at += random.expovariate(rate)


def calls(mix: Mix, random: Random) -> Iterator[str]:
    """``submit``, ``status`` and ``result`` for ever, in the shares of the mix."""
    names, weights = ("submit", "status", "result"), (mix.submit, mix.status, mix.result)
    while True:
        yield from random.choices(names, weights, k=256)


def seed_of(*parts: object) -> str:
    """For ``Random``: texts seed it the same in every process."""
    return "/".join(str(part) for part in parts)
