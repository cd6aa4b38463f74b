"""A Django view that stores an order and submits its job in one transaction: a Django project in one file.

It needs ``pip install django``. In ``examples/``, make the tables, then run the server and a worker, each in its own
terminal:

    python django_view.py migrate --run-syncdb
    holdfast migrate --url sqlite:///shop.db
    python django_view.py runserver
    holdfast worker django_view:app

Then order something:

    curl -X POST 'http://localhost:8000/orders?product=anvil'

Orders and jobs share ``shop.db`` here. With PostgreSQL, Django and Holdfast share a database in the same way. Make the
tables of Holdfast before the first request: a transaction that is under way would keep them from being made.
"""

import os
import sys
from pathlib import Path
from typing import Any

import django
from django.apps import AppConfig
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from holdfast import Holdfast

FILE = Path(os.environ.get("SHOP_DB", "shop.db")).absolute()


class Shop(AppConfig):
    name = __name__
    label = "shop"

    def ready(self) -> None:
        self.models_module = sys.modules[__name__]  # this file is its models.py, too


if not settings.configured:
    settings.configure(
        DEBUG=True,
        SECRET_KEY="an example",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=[f"{__name__}.Shop"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FILE}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

from django.db import connection, models, transaction  # noqa: E402 - they want the settings

app = Holdfast(f"sqlite:///{FILE}")


class Order(models.Model):
    product = models.CharField(max_length=100)
    is_confirmed = models.BooleanField(default=False)


@app.job
def confirm(order_id: int) -> None:
    Order.objects.filter(id=order_id).update(is_confirmed=True)


def create_order(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        order = Order.objects.create(product=request.GET["product"])
        # The job is accepted when Django commits, and never existed if it rolls back.
        job = confirm.options(connection=connection.connection).submit_sync(order.pk)
        if request.GET.get("fail"):
            raise RuntimeError("everything is undone: the order and its job")
    return JsonResponse({"order": order.pk, "job": str(job.id)}, status=201)


def read_order(_: HttpRequest, order_id: int) -> HttpResponse:
    order = Order.objects.get(id=order_id)
    return JsonResponse({"product": order.product, "is_confirmed": order.is_confirmed})


urlpatterns: list[Any] = [path("orders", create_order), path("orders/<int:order_id>", read_order)]

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
