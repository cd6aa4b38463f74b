"""The broker and the task, for ``taskiq worker`` and for the producer."""

from taskiq import AsyncBroker
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.exchange import Exchange
from taskiq_aio_pika.queue import Queue
from taskiq_redis import RedisStreamBroker

from benchmarks.peers import peer

PREFETCHED_JOBS = 100


def _broker() -> AsyncBroker:
    if peer.URL.startswith("redis"):
        return RedisStreamBroker(url=peer.URL, queue_name=peer.QUEUE, consumer_id="0")
    return AioPikaBroker(
        url=peer.URL,
        qos=PREFETCHED_JOBS,
        exchange=Exchange(name=peer.QUEUE),
        task_queues=[Queue(name=peer.QUEUE)],
        dead_letter_queue=Queue(name=f"{peer.QUEUE}.dead"),
        delay_queue=Queue(name=f"{peer.QUEUE}.delay"),
    )


broker = _broker()


@broker.task
async def noop(payload: peer.Payload) -> None:
    peer.record(payload)
