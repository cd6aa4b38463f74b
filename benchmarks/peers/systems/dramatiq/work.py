"""The broker and the actor, for ``dramatiq`` and for the producer."""

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import peer

broker = RedisBroker(url=peer.URL) if peer.URL.startswith("redis") else RabbitmqBroker(url=peer.URL)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=peer.QUEUE)
def noop(payload: peer.Payload) -> None:
    peer.record(payload)
