# SPDX-License-Identifier: BSD-2-Clause
"""Submits jobs over `/3` with idempotency keys, and reads its events, whatever happens to the server: ``HOST… STOP``.

Prints ``N`` whenever another ten jobs were accepted. Once the file STOP is there it ends what it has begun, and prints
what became of it as JSON: the job of each key, the jobs of each key in the queue, the jobs that the events named, and
what was refused.
"""

import json
import os
import sys
import threading
import time
from collections import Counter

from ganeti_client import ApiError, Client, ConnectionFailed
from ganeti_client.messages import submission

*HOSTS, STOP = sys.argv[1:]
LOGIN = {"user": "jack", "password": "open-sesame", "verify": False, "timeout_s": 20.0}
DELAY = {"duration": 0.0, "on_master": True}
BETWEEN_S, AGAIN_S, LAST_S, LOST_S = 0.03, 0.1, 60.0, 600.0
TOGETHER = 500
answered: "dict[str, int]" = {}
refused: "Counter[str]" = Counter()
told: "Counter[int]" = Counter()
snapshots: "list[set[int]]" = []
lock = threading.Lock()


def persist(what, host, end_s=LOST_S):
    """Do it until it is answered; counts what came in its place."""
    until_s = time.monotonic() + end_s
    while True:
        try:
            with Client(host, **LOGIN) as cluster:
                return what(cluster)
        except ConnectionFailed:
            found = "no answer"
        except ApiError as error:
            found = str(error.code)
        with lock:
            refused[found] += 1
        if time.monotonic() > until_s:
            print(f"{host} has not answered for {end_s:g} seconds: {found}", file=sys.stderr, flush=True)
            os._exit(1)  # a worker that gives up must not leave the others waiting
        time.sleep(AGAIN_S)


def submit(host, number):
    count = 0
    while not os.path.exists(STOP):
        key = f"load-{number}-{count}"
        job = persist(lambda cluster, key=key: cluster.request(submission("test-delay", DELAY, key, None)), host)["job"]
        with lock:
            answered[key] = job
            if len(answered) % 10 == 0:
                print(len(answered), flush=True)
        count += 1
        time.sleep(BETWEEN_S)


def read(host, ready):
    """Follow the events, from where the last stream has ended."""
    position = None
    while True:
        try:
            with Client(host, **LOGIN) as cluster:
                for event in cluster.events(["job"], position):
                    position = event.position
                    ready.set()
                    if event.kind == "snapshot":
                        snapshots.append({row[0] for row in event.data["job"]})
                    elif event.data.get("what") == "submitted":
                        told[event.data["id"]] += 1
        except ApiError as error:
            with lock:
                refused[f"events: {'no answer' if isinstance(error, ConnectionFailed) else error.code}"] += 1
        time.sleep(AGAIN_S)


def jobs(fields, chosen=None):
    return persist(lambda cluster: cluster.query("jobs", fields, chosen), HOSTS[0])


def in_queue():
    """Some at a time: the reasons of thousands of jobs are more than a busy master gives within a client's timeout."""
    found: dict[str, list[int]] = {}
    last = max(job["id"] for job in jobs(["id"]))
    for first in range(0, last + 1, TOGETHER):
        for job in jobs(["id", "ops"], ["&", [">=", "id", first], ["<", "id", first + TOGETHER]]):
            for entry in job["ops"][0]["reason"]:
                if entry[0] == "gnt:idempotency" and entry[1].startswith("load-"):
                    found.setdefault(entry[1].split()[0], []).append(job["id"])
    return found


ready = threading.Event()
threading.Thread(target=read, args=(HOSTS[0], ready), daemon=True).start()
ready.wait(LOST_S)
workers = [threading.Thread(target=submit, args=(HOSTS[n % len(HOSTS)], n)) for n in range(2 * len(HOSTS))]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
end_s = time.monotonic() + LAST_S
while time.monotonic() < end_s and set(answered.values()) - set(told).union(*snapshots):
    time.sleep(0.05)
queue = in_queue()
print(json.dumps([answered, queue, sorted(told.items()), sorted(set().union(*snapshots)), refused]), flush=True)
os._exit(0)
