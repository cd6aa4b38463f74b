"""The app, for ``celery -A … worker`` and for the producer."""

from celery import Celery

from benchmarks.peers import peer

app = Celery("bench", broker=peer.URL)
app.conf.update(
    task_default_queue=peer.QUEUE,
    task_ignore_result=True,
    # Its documentation, "Optimizing", for many short tasks: fifty to a hundred and fifty.
    worker_prefetch_multiplier=100,
    broker_pool_limit=peer.CONNECTIONS,
)


@app.task(name="noop")
def noop(payload: peer.Payload) -> None:
    peer.record(payload)
