"""The app, for ``procrastinate worker`` and for the producer."""

from procrastinate import App, PsycopgConnector

from benchmarks.peers import peer

app = App(connector=PsycopgConnector(conninfo=peer.URL, min_size=1, max_size=peer.CONNECTIONS))


@app.task(name="noop")
async def noop(order: int, submitted: int, text: str) -> None:  # noqa: ARG001
    peer.record({"submitted": submitted})
