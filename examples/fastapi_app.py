"""An HTTP API that answers at once and works later.

It needs ``pip install fastapi uvicorn``. In ``examples/``, run the server and a worker, each in its own terminal:

    uvicorn fastapi_app:api
    holdfast worker fastapi_app:app

Then ask for a thumbnail, and how far it is:

    curl -X POST 'http://localhost:8000/thumbnails?path=a.png'
    curl http://localhost:8000/jobs/ID
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from fastapi import FastAPI, HTTPException

from holdfast import Context, Holdfast, JobNotFound

app = Holdfast()  # $HOLDFAST_URL, else ./holdfast.db


@app.job(queue="media", timeout=60)
def make_thumbnail(ctx: Context, path: str, width: int = 200) -> dict[str, Any]:
    ctx.progress(50, f"resizing {path}")
    return {"path": f"{path}.{width}.png", "width": width}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app:  # one connection pool for the life of the server
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/thumbnails", status_code=202)
async def create_thumbnail(path: str, width: int = 200) -> dict[str, str]:
    # The key makes a repeated request give the job that exists.
    handle = await make_thumbnail.options(key=f"{path}@{width}").submit(path, width=width)
    return {"job": str(handle.id)}


@api.get("/jobs/{job_id}")
async def read_job(job_id: UUID) -> dict[str, Any]:
    handle = make_thumbnail.handle(job_id)
    try:
        job = await handle.job()
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error
    return {
        "state": job.state,
        "percent": job.progress.percent if job.progress else 0,
        "result": await handle.result() if job.state == "COMPLETED" else None,
    }
