# SPDX-License-Identifier: BSD-2-Clause
"""Uses both clients of `client/` as a program would: ``NODE``. Prints what went wrong as a JSON list."""

import asyncio
import json
import sys

from ganeti_client import ApiError, AsyncClient, Client, JobFailed

NODE = sys.argv[1]
LOGIN = {"user": "jack", "password": "open-sesame", "verify": False}
wrong: "list[str]" = []


def check(what, is_so):
    if not is_so:
        wrong.append(what)


def blocking():
    with Client("127.0.0.1", **LOGIN) as cluster:
        check("query", [row["name"] for row in cluster.query("nodes", ["name"], ["=", "name", NODE])] == [NODE])
        check("show", cluster.show("nodes", NODE)["name"] == NODE and cluster.cluster()["name"])
        plan = cluster.plans.group_add(group_name="client")
        check("plan", plan["changes"][0]["name"] == "client")
        key = {"idempotency_key": "client-1", "plan": plan["fingerprint"]}
        job = cluster.operations.group_add(group_name="client", **key)
        check("the same job", cluster.operations.group_add(group_name="client", **key) == job)
        check("results", cluster.wait(job, 60) == [None])
        try:
            cluster.wait(cluster.operations.group_add(group_name="client"))
            check("a failure", False)
        except JobFailed as error:
            check("its status", error.status == "error")
        try:
            cluster.show("groups", "none")
            check("an error", False)
        except ApiError as error:
            check("its code", error.code == 404)


async def waiting():
    async with AsyncClient("127.0.0.1", **LOGIN) as cluster:
        names = await asyncio.gather(*[cluster.query("nodes", ["name"]) for _ in range(20)])
        check("queries", all({"name": NODE} in each for each in names))
        events = cluster.events(["job"])
        check("the begin", (await anext(events)).kind == "begin")
        following = asyncio.ensure_future(_ended(events))
        job = await cluster.operations.group_remove(group_name="client")
        await cluster.wait(job)
        ended, position = await asyncio.wait_for(following, 30)
        check("the event", ended == job)
        again = cluster.events(["job"], position)
        check("the begin again", (await anext(again)).position == position)
        await cluster.operations.tags_set(kind="cluster", tags=["x"])
        check("the next", (await asyncio.wait_for(anext(again), 30)).data["what"] == "submitted")
        await again.aclose()


async def _ended(events):
    """Give job and position of the first job that succeeds."""
    while (event := await anext(events)).data.get("status") != "success":
        pass
    await events.aclose()
    return event.data["id"], event.position


blocking()
asyncio.run(waiting())
print(json.dumps(wrong))
