"""A job that exists if, and only if, what it is about was committed.

Run it on SQLite, where orders and jobs share one file:

    python examples/transactional_submit.py

or on PostgreSQL (it needs ``pip install 'holdfast[postgres]' psycopg``):

    export DATABASE_URL=postgresql://user@localhost/shop
    holdfast migrate --url $DATABASE_URL
    python examples/transactional_submit.py
"""

import asyncio
import os
import sqlite3

from holdfast import Holdfast

DATABASE_URL = os.environ.get("DATABASE_URL", "")
FILE = "shop.db"
app = Holdfast(DATABASE_URL or f"sqlite:///{FILE}")


@app.job
async def send_receipt(order: str) -> str:
    return f"receipt for {order}"


async def order_on_sqlite(order: str, *, fails: bool = False) -> None:
    connection = sqlite3.connect(FILE)
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT)")
        with connection:  # commits, or rolls back where something is raised
            connection.execute("INSERT INTO orders VALUES (?)", (order,))
            await send_receipt.options(connection=connection).submit(order)
            if fails:
                raise RuntimeError(f"no {order} today")
    finally:
        connection.close()


async def order_on_postgres(order: str, *, fails: bool = False) -> None:
    import psycopg

    connection = await psycopg.AsyncConnection.connect(DATABASE_URL)
    async with connection:  # commits, or rolls back where something is raised; and closes
        await connection.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT)")
        await connection.execute("INSERT INTO orders VALUES (%s)", (order,))
        await send_receipt.options(connection=connection).submit(order)
        if fails:
            raise RuntimeError(f"no {order} today")


async def main() -> None:
    order = order_on_postgres if DATABASE_URL else order_on_sqlite
    async with app, app.worker():
        await order("anvil")
        try:
            await order("unicorn", fails=True)
        except RuntimeError as error:
            print(error)
        page = await app.list(type="send_receipt")
        for job in page.jobs:  # one: the unicorn's was rolled back with its order
            print(await send_receipt.handle(job.id).result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
