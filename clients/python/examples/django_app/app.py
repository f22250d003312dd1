"""A project of Django in one file: a view that publishes, and a command that runs the worker.

python -m examples.django_app.app runserver; python -m examples.django_app.app work
"""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import cache

import django
from django.conf import settings
from django.core.management import ManagementUtility, get_commands
from django.core.management.base import BaseCommand
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from tidegate import Client, Job, Worker

if not settings.configured:
    settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="example")
    django.setup()

worker = Worker(slots=16)


@cache
def client() -> Client:
    """One client for the process. Its settings are in the environment."""
    return Client()


@csrf_exempt
def place_order(request: HttpRequest, order: int) -> JsonResponse:
    """POST /orders/17 places an order."""
    job = client().publish("close-unpaid", {"order": order}, key=f"order-{order}", delay=timedelta(minutes=30))
    return JsonResponse({"order": order, "job": job.id}, status=201)


urlpatterns = [path("orders/<int:order>", place_order)]


@worker.handler("close-unpaid")
def close_order(payload: dict[str, int], job: Job) -> None:
    """Runs in a thread, so it may use the ORM. Then it calls `django.db.close_old_connections()` first."""
    print(f"order {payload['order']} is closed (attempt {job.attempt})")


class Work(BaseCommand):
    """The file `management/commands/work.py` of an app, where the class has the name `Command`."""

    help = "Runs the worker until SIGTERM or SIGINT"

    def handle(self, *args: object, **options: object) -> None:
        """Runs the worker."""
        worker.run()


def main(arguments: list[str]) -> None:
    """The file `manage.py` of a project."""
    get_commands()["work"] = Work()  # type: ignore[assignment]
    ManagementUtility(arguments).execute()


if __name__ == "__main__":
    main(sys.argv)
