"""What is asked of Design A's gateway where a worker would be in the way."""

import pytest

from holdfast.rpc import limits
from tests.blackbox.api import new_key, spec
from tests.blackbox.internal.parts import Parts


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("blackbox-internal")
def test_the_newest_ten_thousand_keys_are_remembered() -> None:
    """Processes of its own, without a worker: ten thousand jobs would keep one from all others for minutes."""
    design = Parts("gateway", "job", "queue", "result")

    def submit(*keys: str) -> list[str]:
        given = [{"spec": spec(), "client_request_id": key} for key in keys]
        return [answer.job_id for answer in design.each("gateway", "SubmitJob", given, caller="")]

    try:
        design.start()
        keys = [new_key() for _ in range(limits.MAX_DEDUP_KEYS + 1)]
        first, second = submit(keys[0]) + submit(keys[1])
        assert len(set(submit(*keys[2:]))) == limits.MAX_DEDUP_KEYS - 1
        assert submit(keys[1]) == [second]
        assert submit(keys[0]) != [first]
    finally:
        design.close()
