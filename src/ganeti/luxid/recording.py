# SPDX-License-Identifier: BSD-2-Clause
"""The master's part of the flight recorder: what happens to jobs, nodes and objects, and the story told of one of them.

Each node tells what its own daemons have recorded, a former master's LuxiD among them; the lines of all are put in
order of time here. Clocks of nodes differ by less than the cluster's limit, so the order of lines of two nodes that are
closer than that says nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import Reads, serves
from ganeti.luxid.event_stream import QueueJobs
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.events.job_changes import JobChanges, summary
from ganeti.master.query.collecting import NodeAsker
from ganeti.model.configuration import name_of
from ganeti.model.node_calls.records import FlightRecordRead
from ganeti.system.flight_record import FlightRecord, job, names_in
from ganeti.wire.job_file import JobFile

MOST_LINES = 5000
_TOLD = {"instances": "instance", "nodes": "node", "nodegroups": "node group", "networks": "network"}
_MESSAGE = "message"


class Recorder:
    """Told of everything LuxiD hears of."""

    def __init__(self, record: FlightRecord, jobs: QueueJobs, follower: ConfigFollower, asker: NodeAsker) -> None:
        self._record = record
        self._follower = follower
        self._asker = asker
        self._jobs = JobChanges()
        unfinished = list(jobs.unfinished_files())
        newest = max((*jobs.ended_statuses(), *(file.id for file in unfinished)), default=0)
        self._jobs.adopt(unfinished, newest)
        self._silent = set(asker.silent)

    def listen(self, queue: QueueDriver) -> None:
        queue.observers.append(self.job_changed)
        self._follower.observers.append(self.config_coming)
        self._asker.observers.append(self.node_asked)

    def job_changed(self, file: JobFile | None, job_id: int) -> None:
        about = [job(job_id)]
        for entry in file.ops if file is not None else ():
            about += names_in(entry.input)
        for fields in self._jobs.changed(file, job_id):
            text = _job_text(fields, file)
            if text:
                self._record.note(about, f"job {job_id} {text}")

    def node_asked(self, uuid: str, answered: bool) -> None:
        node = self._follower.configuration.get("nodes", uuid)
        if node is None or answered == (uuid not in self._silent):
            return
        (self._silent.discard if answered else self._silent.add)(uuid)
        name = str(name_of(node))
        self._record.note([name], f"node {name} {'answers again' if answered else 'does not answer'}")

    def config_coming(self, event: dict[str, Any]) -> Callable[[], None]:
        if event.get("event") == "snapshot":
            return lambda: None
        put = [(kind, uuid) for kind, uuid, *_ in event.get("put", ()) if kind in _TOLD]
        gone = [(kind, uuid) for kind, uuid in event.get("remove", ()) if kind in _TOLD]
        before = self._follower.configuration
        removed = [(kind, name_of(obj)) for kind, uuid in gone if (obj := before.get(kind, uuid)) is not None]
        old = {key: before.get(*key) for key in put}

        def taken_in() -> None:
            after = self._follower.configuration
            words = [f"{_TOLD[kind]} {name} removed" for kind, name in removed]
            names = [str(name) for _, name in removed]
            for key in put:
                if (obj := after.get(*key)) is not None:
                    names.append(str(name_of(obj)))
                    words.append(f"{_TOLD[key[0]]} {names[-1]} {_difference(old[key], obj)}")
            if words:
                self._record.note(names, f"configuration: {'; '.join(words)}")

        return taken_in


def _difference(old: Any, new: Any) -> str:
    """Which fields differ; the values may be secrets, so states alone are told with theirs."""
    if old is None:
        return "added"
    fields = [name for name in new.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    told = [
        f"{name}={getattr(new, name)}" if name in ("admin_state", "offline", "drained") else name
        for name in fields
        if name not in ("mtime", "serial_no")
    ]
    return f"changed ({', '.join(told)})" if told else "written"


def _job_text(fields: dict[str, Any], file: JobFile | None) -> str:
    match fields["what"]:
        case "submitted":
            return f"({', '.join(fields['summary'])}) submitted"
        case "status":
            done = f" ({', '.join(summary(file))})" if file is not None else ""
            return f"is {fields['status']}, was {fields['was']}{done}"
        case "priority":
            return f"has priority {fields['priority']}, had {fields['was']}"
        case "log" if fields["type"] == _MESSAGE:
            return f"says: {fields['text']}"
    return ""


def _since(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise PrerequisiteError("The time since when is a number of seconds", WRONG_INPUT)
    return float(value)


Since = Annotated[float, Reads(_since)]


class RecordCalls:
    """The call that tells the story."""

    def __init__(self, follower: ConfigFollower, asker: NodeAsker) -> None:
        self._follower = follower
        self._asker = asker

    @serves("ReadFlightRecord")
    async def read(self, what: Any, since_s: Since) -> dict[str, Any]:
        """Tell what happened to *what*, a name of an instance or node or the number of a job, since a time.

        Gives ``lines`` as [time, node, text] in order of time, and ``missing``: nodes that did not answer, and why.
        """
        view = self._follower.configuration
        about, whole = self._about(what)
        uuids = [node.uuid for node in view.nodes() if not node.offline]
        lines: list[list[Any]] = []
        missing = {view.node(uuid).name: "it is offline" for uuid in view.uuids("nodes") if uuid not in uuids}
        for chosen, wanted in ((uuids, about), ([whole] if whole else [], [])):
            request = FlightRecordRead(about=wanted, since_s=since_s, most=MOST_LINES)
            for answer in await self._asker.ask(chosen, request):
                name = view.node(answer.node_uuid).name
                if answer.error is not None:
                    missing[name] = str(answer.error)
                else:
                    lines += [[at_s, name, text] for at_s, text in answer.value]
        unique = {(at_s, name, text): None for at_s, name, text in lines}
        return {"lines": [list(line) for line in sorted(unique)][-MOST_LINES:], "missing": missing}

    def _about(self, what: Any) -> tuple[list[str], str | None]:
        """How lines name it, and for a node its UUID: all that it recorded is its story."""
        if isinstance(what, int) and not isinstance(what, bool):
            return [job(what)], None
        if not isinstance(what, str) or not what:
            raise PrerequisiteError("Name an instance or a node, or give the number of a job", WRONG_INPUT)
        view = self._follower.configuration
        with suppress(GanetiError):
            return [view.find_instance(what).name], None
        with suppress(GanetiError):
            node = view.find_node(what)
            return [node.name], node.uuid
        return [what], None  # it may have been removed
