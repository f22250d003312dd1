"""An order is closed unless it is paid in 30 minutes: python examples/publisher.py 17 place, and then … 17 pay."""

import sys
from datetime import timedelta

from tidegate import Client, NotFoundError


def place(client: Client, order: int) -> None:
    client.publish("close-unpaid", {"order": order}, key=f"order-{order}", delay=timedelta(minutes=30))


def pay(client: Client, order: int) -> None:
    try:
        client.jobs.cancel("close-unpaid", key=f"order-{order}", running="ask")
    except NotFoundError:
        sys.exit(f"order {order} is closed already")
    client.publish("mails", {"to": "ann@example.com", "text": f"Thank you for order {order}."})


if __name__ == "__main__":
    with Client() as client:
        {"place": place, "pay": pay}[sys.argv[2]](client, int(sys.argv[1]))
