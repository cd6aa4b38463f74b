"""Fire: a periodic job's slot and its job are written in one transaction, so neither is ever there without the other.

Crash before the commit: the slot is still to be fired, by whoever looks next. Crash after it: whoever looks next finds
the slot; a repeat of the very call finds its own job there, and is told that it fired.
"""

from collections.abc import Mapping, Sequence

from holdfast.core.commands import CronSlot, Fire, FireAnswer, Fired, Submit
from holdfast.core.cron import answer_without_firing, in_utc
from holdfast.core.errors import HoldfastError
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.submit import submit


async def fire(tx: Transaction, fires: Sequence[Fire]) -> list[FireAnswer]:
    answers = await _answered(tx, _rest(fires, {}))
    if len(answers) < len(fires):
        # Only now: of many processes that look at once, nearly all find the slot fired, and need not wait in line.
        await tx.lock_slots()
        answers |= await _answered(tx, _rest(fires, answers))
    answers |= await _fire(tx, _rest(fires, answers))
    return [answers[index] for index in range(len(fires))]


def _rest(fires: Sequence[Fire], answers: Mapping[int, FireAnswer]) -> dict[int, Fire]:
    return {index: one for index, one in enumerate(fires) if index not in answers}


async def _answered(tx: Transaction, fires: Mapping[int, Fire]) -> dict[int, FireAnswer]:
    if not fires:
        return {}
    slots: dict[str, list[CronSlot]] = {}
    for slot in await tx.find_slots([(one.name, in_utc(one.slot)) for one in fires.values()]):
        slots.setdefault(slot.name, []).append(slot)
    answers = {
        index: answer_without_firing(one, slots.get(one.name, ()), index=index, now=tx.now)
        for index, one in fires.items()
    }
    return {index: answer for index, answer in answers.items() if answer is not None}


async def _fire(tx: Transaction, fires: Mapping[int, Fire]) -> dict[int, FireAnswer]:
    jobs = {index: one.job for index, one in fires.items() if one.job is not None}
    answers: dict[int, FireAnswer] = {index: Fired(None) for index in fires if index not in jobs}
    accepted = await submit(tx, [Submit(jobs=(job,)) for job in jobs.values()]) if jobs else []
    for index, answer in zip(jobs, accepted, strict=True):
        if isinstance(answer, HoldfastError):
            answers[index] = answer
        else:
            answers[index] = Fired(answer[0].job_id, is_duplicate=answer[0].is_duplicate)
    fired = {index: answer for index, answer in answers.items() if isinstance(answer, Fired)}
    if fired:
        await tx.add_slots(
            [
                CronSlot(name=fires[index].name, slot=in_utc(fires[index].slot), job_id=answer.job_id, fired_at=tx.now)
                for index, answer in fired.items()
            ]
        )
    return answers
