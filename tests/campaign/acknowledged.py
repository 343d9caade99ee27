# SPDX-License-Identifier: BSD-2-Clause
"""What must hold when a new master serves, all nodes are back and no job runs (`docs/design/never-lost.md`)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.campaign.invariants import require
from tests.campaign.load import History
from tests.campaign.machines import MASTER_DAEMONS, Machines
from tests.campaign.users import GONE, Key, Told, User

from ganeti.wire.config_fingerprint import fingerprint_of
from ganeti.wire.job_file import FINAL_STATUSES

REST_WITHIN_S = 60.0
_STARTING_S = 10.0
LOOKS_OF_WATCHER = 3
SHARED = "/srv/ganeti/shared-file-storage/"
_TRACEBACK = re.compile(r"^.*\n?Traceback \(most recent call last\)[\s\S]{0,3000}", re.MULTILINE)


class AcknowledgedJobs:
    """Everything told is kept; what nobody knows is looked up after each check."""

    def __init__(self, machines: Machines, users: list[User], history: History) -> None:
        self._machines = machines
        self._users = users
        self._history = history
        self._read: dict[Path, int] = {}
        self.statuses: Counter[str] = Counter()

    def check(self) -> None:
        for user in self._users:
            require(not user.faults, f"{user.name}: {user.faults}")
            require(not user.refused, f"{user.name} was refused: {user.refused}")
        self._one_master()
        self._jobs_have_ended()
        self._jobs_stand()
        self._instances_run()
        config = self._machines.wconfd("readConfig")
        self._facts_stand(config)
        self._nothing_is_half_made(config)
        self._copies_agree()
        self._verify_is_content()
        self._logs_are_clean()
        self._resolve(config)

    # Masters and jobs

    def _one_master(self) -> None:
        """A former master's boot may be starting daemons just now, which learn at once that they are not wanted."""
        master = self._machines.master
        wanted = {node: sorted(MASTER_DAEMONS) if node == master else [] for node in self._machines.names}

        def others() -> dict[str, list[str]]:
            found = {node: sorted(set(self._machines.daemons(node))) for node in self._machines.names}
            return found if found != wanted else {}

        self._within(others, f"{master} is the master, and its daemons run so", _STARTING_S)

    def _jobs_have_ended(self) -> None:
        def unfinished() -> list[Any]:
            ok, rows = self._machines.luxi("QueryJobs", None, ["id", "status"])
            require(ok, f"jobs cannot be listed: {rows}")
            return [row for row in rows if row[1] not in FINAL_STATUSES]

        self._within(unfinished, "jobs have not ended")

    def _jobs_stand(self) -> None:
        told: dict[int, Told] = {}
        for user in self._users:
            twice = told.keys() & user.told.keys()
            require(not twice, f"ids {sorted(twice)} were told to two users")
            told |= user.told
        if not told:
            return
        ok, rows = self._machines.luxi("QueryJobs", sorted(told), ["status", "opresult"])
        require(ok, f"jobs cannot be listed: {rows}")
        self.statuses = Counter()
        for job, row in zip(sorted(told), rows, strict=True):
            known = told[job]
            require(row is not None, f"{known} was acknowledged and is lost")
            self.statuses[row[0]] += 1
            require(known.status is not None, f"{known} has ended with {row}, and its user has not seen it")
            require(list(row) == [known.status, known.result], f"{known}: it now says {row}")

    # The configuration

    def _instances_run(self) -> None:
        """The watcher starts what its node's end has stopped; then all guests are where they should be."""
        machines = self._machines
        assert machines.master is not None

        def wrong() -> Any:
            config = machines.wconfd("readConfig")
            nodes = {uuid: node["name"] for uuid, node in config["nodes"].items()}
            wanted = {
                each["name"]: [nodes[each["primary_node"]]]
                for each in config["instances"].values()
                if each["admin_state"] == "up"
            }
            found = machines.guests()
            return None if found == wanted else f"guests are {found}, wanted {wanted}"

        for _ in range(LOOKS_OF_WATCHER):
            if wrong() is None:
                return
            self._history.tell("the watcher looks")
            machines.run(machines.master, "ganeti-watcher")
            self._jobs_have_ended()
        self._within(wrong, "the watcher could not start all")

    def _facts_stand(self, config: dict[str, Any]) -> None:
        there = facts_of(config)
        for user in self._users:
            for key, fact in user.facts.items():
                if key not in user.unsure:
                    found = there.get(key, GONE)
                    require(found == fact, f"{user.name} was told that {key} is {fact}, and it is {found}")
        known = {key for user in self._users for key in {*user.facts, *user.unsure}}
        strange = {key for key in there if key not in known and key[0] != "limit"}
        require(not strange, f"nobody has made these: {sorted(strange)}")

    def _nothing_is_half_made(self, config: dict[str, Any]) -> None:
        nodes = {uuid: node["name"] for uuid, node in config["nodes"].items()}
        wanted = {}
        for instance in config["instances"].values():
            require(not instance.get("forthcoming"), f"{instance['name']} is half made")
            for uuid in instance["disks"]:
                path = config["disks"][uuid]["logical_id"][1].removeprefix(SHARED)
                wanted[path] = None
                if instance["admin_state"] == "up":
                    wanted[f"{path}.lock"] = nodes[instance["primary_node"]]
        shared = self._machines.layout.shared
        found = {str(path.relative_to(shared)) for path in shared.rglob("*") if path.is_file()}
        require(found == set(wanted), f"files of disks too many or too few: {sorted(found ^ set(wanted))}")
        for path, node in wanted.items():
            if node is not None:
                holder = json.loads((shared / path).read_text())["node"]
                require(holder == node, f"{path} is held by {holder}, and the instance is on {node}")

        def held() -> list[str]:
            ok, answer = self._machines.luxi("Query", "lock", ["name", "owner"], None)
            require(ok, f"locks cannot be listed: {answer}")
            return [f"{name} by {owner}" for (_, name), (_, owner) in answer["data"] if owner]

        self._within(held, "locks are held although no job runs")

    def _copies_agree(self) -> None:
        def different() -> list[str]:
            sums: dict[str, set[str]] = {}
            for node in self._machines.names:
                data = self._machines.data(node)
                sums.setdefault("config.data", set()).add(fingerprint_of((data / "config.data").read_bytes()))
                for name in self._queue_names():
                    path = data / "queue" / name
                    sums.setdefault(name, set()).add(path.read_text() if path.exists() else "missing")
            return [name for name, contents in sums.items() if len(contents) > 1 or name.endswith(".undo")]

        self._within(different, "the nodes' copies of these are not alike, or are records of jobs that have ended")

    def _queue_names(self) -> set[str]:
        found = set()
        for node in self._machines.names:
            queue = self._machines.data(node) / "queue"
            found |= {path.name for path in queue.iterdir() if path.is_file() and re.match("job-|drain", path.name)}
        return found

    def _verify_is_content(self) -> None:
        assert self._machines.master is not None
        said = self._machines.run(self._machines.master, "gnt-cluster", "verify", expect=None)
        complaints = [line for line in said.splitlines() if "ERROR" in line or "WARNING" in line]
        require(not complaints, f"gnt-cluster verify complains: {complaints}")

    def _logs_are_clean(self) -> None:
        for node in self._machines.names:
            for path in (self._machines.layout.node(node).upper / "var/log/ganeti").glob("*.log"):
                with path.open("rb") as file:
                    file.seek(self._read.get(path, 0))
                    raw = file.read()
                self._read[path] = self._read.get(path, 0) + len(raw)
                found = _TRACEBACK.search(raw.decode(errors="replace"))
                require(found is None, f"{path.name} of {node} has a traceback:\n{found and found.group()}")

    # Afterwards

    def _resolve(self, config: dict[str, Any]) -> None:
        """What nobody knew is known now; what a user's unanswered wish has made belongs to that user."""
        there = facts_of(config)
        for user in self._users:
            for key in user.unsure:
                user.facts[key] = there.get(key, GONE)
            user.unsure.clear()
            user.facts = {key: fact for key, fact in user.facts.items() if fact != GONE}

    def _within(self, wrong: Any, sentence: str, within_s: float = REST_WITHIN_S) -> None:
        end_s = time.monotonic() + within_s
        while found := wrong():
            require(time.monotonic() < end_s, f"{sentence}: {found}")
            time.sleep(0.02)


def facts_of(config: dict[str, Any]) -> dict[Key, str]:
    """What a configuration says about all that users change."""
    found = {("limit", "max_running_jobs"): str(config["cluster"]["max_running_jobs"])}
    for instance in config["instances"].values():
        found["instance", instance["name"]] = "sharedfile" if instance["disks"] else "diskless"
        found["state", instance["name"]] = instance["admin_state"]
    for uuid in config.get("filters", {}):
        found["filter", uuid] = "there"
    return found
