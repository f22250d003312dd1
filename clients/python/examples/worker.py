"""Closes orders that are not paid, and sends mails. SIGTERM stops it: jobs that run have 25 s to finish."""

import asyncio
from datetime import timedelta

from tidegate import Dead, Job, RetryIn, Worker

worker = Worker(slots=64)


@worker.handler("close-unpaid")
async def close(payload: dict[str, int], job: Job) -> None:
    try:
        for shelf in range(3):
            print(f"order {payload['order']}: back to shelf {shelf} (attempt {job.attempt})")
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        print(f"order {payload['order']}: {job.abort_reason}")
        raise


@worker.handler("mails")
def send(payload: dict[str, str]) -> str:  # It blocks, so it is a plain function: it runs in a thread.
    if payload["to"].startswith("full@"):
        raise RetryIn("the mailbox is full", timedelta(seconds=30))
    if "@" not in payload["to"]:
        raise Dead("the address is not valid")
    return f"{len(payload['text'])} characters were sent"


if __name__ == "__main__":
    worker.run()
