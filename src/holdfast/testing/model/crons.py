"""The slots of periodic jobs."""

from collections.abc import Sequence
from datetime import UTC

from holdfast.core.commands import AlreadyFired, CronSlot, CronState, Fire, FireAnswer, Fired, Submit
from holdfast.core.errors import Fault, HoldfastError, InvalidInput
from holdfast.testing.model.submits import accept
from holdfast.testing.model.world import World


def fire(world: World, fires: Sequence[Fire]) -> list[FireAnswer]:
    answers: list[FireAnswer] = []
    for index, one in enumerate(fires):
        try:
            answers.append(_fire(world, index, one))
        except HoldfastError as refusal:
            answers.append(refusal)
    return answers


def _fire(world: World, index: int, fire: Fire) -> FireAnswer:
    slot = fire.slot.astimezone(UTC)
    if slot > world.now:
        problem = f"lies in the future; it is {world.now.isoformat()} by the store's clock"
        raise InvalidInput([Fault(item=index, field="slot", problem=problem)])
    fired = {one.slot: one for one in world.slots if one.name == fire.name}
    same = fired.get(slot)
    if same and fire.job and same.job_id == fire.job.id:
        return Fired(fire.job.id, is_repeat=True)
    if fired and max(fired) >= slot:
        return AlreadyFired(max(fired), fired[max(fired)].job_id)
    answer = Fired(None)
    if fire.job:
        (submitted,) = accept(world, Submit(jobs=(fire.job,)))
        answer = Fired(submitted.job_id, is_duplicate=submitted.is_duplicate)
    world.slots.append(CronSlot(name=fire.name, slot=slot, job_id=answer.job_id, fired_at=world.now))
    return answer


def state(world: World) -> CronState:
    newest = {slot.name: slot for slot in world.slots}
    return CronState(world.now, tuple(newest[name] for name in sorted(newest)))
