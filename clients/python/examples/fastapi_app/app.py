"""An app of FastAPI that publishes, and runs the worker in its process.

uvicorn examples.fastapi_app.app:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from tidegate import AsyncClient, Job, NotFoundError, Worker


class CloseOrder(BaseModel):
    """The payload of the queue `close-unpaid`."""

    order: int


async def close_order(task: CloseOrder, job: Job) -> None:
    """Gets the payload as a model. A payload that is not valid makes the job dead."""
    print(f"order {task.order} is closed (attempt {job.attempt})")


def make_worker(client: AsyncClient) -> Worker:
    """The worker. The grace period is shorter than the time that the platform leaves for a shutdown."""
    worker = Worker(client, slots=16, grace=timedelta(seconds=10))
    worker.add("close-unpaid", close_order)
    return worker


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Runs the worker as long as the app runs."""
    client = getattr(app.state, "tidegate", None) or AsyncClient()
    app.state.tidegate = client
    async with client, make_worker(client):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}", status_code=201)
async def place_order(order: int, request: Request) -> dict[str, object]:
    """Places an order."""
    client: AsyncClient = request.app.state.tidegate
    key, task = f"order-{order}", CloseOrder(order=order)
    job = await client.publish("close-unpaid", task, key=key, delay=timedelta(minutes=30))
    return {"order": order, "job": job.id}


@app.post("/orders/{order}/payment", status_code=204)
async def pay_order(order: int, request: Request) -> None:
    """Pays an order."""
    client: AsyncClient = request.app.state.tidegate
    try:
        await client.jobs.cancel("close-unpaid", key=f"order-{order}")
    except NotFoundError:
        raise HTTPException(409, "the order is closed") from None
