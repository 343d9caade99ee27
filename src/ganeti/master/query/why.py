# SPDX-License-Identifier: BSD-2-Clause
"""Why a job is where it is, in sentences: who holds what it waits for, what they do, and why they wait in turn.

`explain` reads facts and decides nothing (S2.56, S2.59, S2.61). Each job is told about once, so that the story ends
even where many jobs wait for each other's neighbours.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ganeti.base.errors import JobLost
from ganeti.master.locks.owners import Owner
from ganeti.master.query import queue_words as words
from ganeti.master.query.queue_facts import Ahead, Held, LockWait, QueueFacts, UnfinishedJob, Unwritable
from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.filters import reason_given
from ganeti.master.queue.state import Phase
from ganeti.model.locks import EXCLUSIVE
from ganeti.wire.job_file import CANCELING, QUEUED, RUNNING, WAITING, JobFile, OpcodeEntry, seconds

DEEPEST = 6
"""Beyond this the story goes on with `gnt-job why` of another job."""
MOST_JOBS = 40
_MOST_OF_A_KIND = 5
_REASON_LETTERS = 160

Sentence = tuple[int, str]
"""(depth, text): what explains a sentence follows it, one deeper."""


async def explain(job_id: int, facts: QueueFacts) -> list[Sentence]:
    """Tell the whole story of one job; raises `JobLost` if there is none, and what asking for locks raises."""
    job = facts.unfinished(job_id)
    if job is None and facts.ended(job_id) is None:
        raise JobLost(f"Job {job_id} not found")
    story = _Story(facts)
    if job is not None and job.phase is not Phase.STARTED:
        story.after_first = [_priority(job.file), *_past(job.file)]
    await story.tell(job_id, 0)
    return story.sentences


class _Waits(NamedTuple):
    """What a job does, as a predicate (``has been queued for 2 s``), and its lock request, if one waits."""

    does: str
    locks: LockWait | None = None


class _Story:
    """The sentences so far, and which jobs were told about."""

    def __init__(self, facts: QueueFacts) -> None:
        self.facts = facts
        self.sentences: list[Sentence] = []
        self.after_first: list[str] = []
        """More about the job in question, to follow its sentence."""
        self._told: set[int] = set()
        self._same: Mapping[str, str] = {}
        """The locks of which the sentence before spoke."""

    async def tell(self, job_id: int, depth: int, lead: str = "", *, link: str = "") -> None:
        """Say *lead*, the job and what it does; below it, why. *link* joins the two, such as ``, which``."""
        job = self.facts.unfinished(job_id)
        if job_id in self._told and job is not None:
            self._say(depth, f"{lead}{words.label(job.file)}: see above")
            return
        self._told.add(job_id)
        if len(self._told) > MOST_JOBS:
            if len(self._told) == MOST_JOBS + 1:
                self._say(depth, "and so on: more jobs are involved than can be shown")
            return
        if job is None:
            self._say(depth, f"{lead}{self._ended(job_id, link)}")
            return
        name = words.label(job.file)
        waits = await self._waits(job)
        self._same = {}
        self._say(depth, f"{lead}{name}{link} {waits.does}")
        for sentence in self.after_first:
            self._say(depth + 1, sentence)
        self.after_first = []
        if job.phase is Phase.STARTED and waits.locks is None:
            return
        if depth >= DEEPEST:
            self._say(depth + 1, f"'gnt-job why {job_id}' tells more")
            return
        await self._reasons(job, waits, depth + 1)

    def _say(self, depth: int, text: str) -> None:
        end = "" if text.endswith((".", "…", ".)")) else "."
        self.sentences.append((depth, text[:1].upper() + text[1:] + end))

    def _ended(self, job_id: int, link: str) -> str:
        file = self.facts.ended(job_id)
        if file is None:
            return f"job {job_id}{link} is not in the queue any more"
        return f"{words.label(file)}{link} {words.ending(file, self.facts.now_s)}"

    # What a job does

    async def _waits(self, job: UnfinishedJob) -> _Waits:
        for_long = words.span(self.facts.now_s - job.since_s)
        match job.phase:
            case Phase.QUEUED:
                return _Waits(f"has been queued for {for_long}: {self._kept_by(job)}")
            case Phase.ASKING:
                return _Waits(f"has a slot and has been asking for its locks for {for_long}")
            case Phase.PARKED:
                return await self._waits_for_locks(job, f"has been queued for {for_long}")
            case Phase.ANNOUNCED:
                return _Waits(f"has been getting its process for {for_long}")
        return await self._runs(job, for_long)

    def _kept_by(self, job: UnfinishedJob) -> str:
        if job.depends:
            return "it waits for other jobs to end"
        if job.held_by is not None:
            return f"it is kept back{self._by_rule(job)}"
        if (lack := self.facts.unwritable) is not None:
            return f"no job is started; {self._cannot_write(lack)}"
        if self.facts.held_back:
            return "no job is started now, since the process that starts jobs is away or ganeti-luxid is about to stop"
        order = self.facts.ready_order()
        slots, most = len(self.facts.slots), self.facts.most_running
        if slots < most:
            return "its turn has come"
        before = order.index(job.file.id) if job.file.id in order else 0
        place = "it is next" if not before else f"{before} {'job goes' if before == 1 else 'jobs go'} before it"
        has = "it has its locks and" if job.holds else "it"
        return f"{has} waits for a slot, as {slots} jobs have a process and {most} may; {place}"

    def _cannot_write(self, lack: Unwritable) -> str:
        length = words.span(self.facts.now_s - lack.since_s)
        return (
            f"for {length} the files of the queue could not be written ({lack.reason}): see that the file "
            f"system of {lack.directory} has room and can be written"
        )

    def _by_rule(self, job: UnfinishedJob) -> str:
        """By the rules as they are now; they may be others than those that kept the job back, for a moment."""
        verdict = self.facts.admission.of(job.file)
        if verdict.action == "pause":
            return " by a filter rule"
        return " by a rate limit" if verdict.limits else f", as {job.held_by}"

    async def _runs(self, job: UnfinishedJob, for_long: str) -> _Waits:
        file = job.file
        if not file.ops:
            return _Waits(f"has been running for {for_long}")
        entry = file.ops[file.current_index()]
        if (lack := self.facts.stuck(job)) is not None:
            return _Waits(f"waits to write down what it has done: {self._cannot_write(lack)}")
        if file.deaths:
            return _Waits(f"died in the midst of its work; a new process has been undoing what it left for {for_long}")
        if file.status == CANCELING:
            return _Waits(f"is being stopped; its process began {for_long} ago")
        if file.status in (QUEUED, WAITING):
            return await self._waits_for_locks(job, f"has had a process for {for_long}")
        return _Waits(f"{self._running_for(job, entry)}{_quoted(words.doing(entry, self.facts.now_s))}")

    def _running_for(self, job: UnfinishedJob, entry: OpcodeEntry) -> str:
        began_s = seconds(entry.exec_timestamp) if entry.status == RUNNING else None
        length = words.span(self.facts.now_s - (began_s if began_s is not None else job.since_s))
        place = words.opcode_place(job.file)
        return f"has been running {place} for {length}" if place else f"has been running for {length}"

    async def _waits_for_locks(self, job: UnfinishedJob, stays: str) -> _Waits:
        wait = await self.facts.lock_wait(self.facts.waiting_owner(job))
        if wait is None:
            return _Waits(f"{stays}{_last_heard(job)}")
        if not wait.request:
            if job.phase is Phase.PARKED:
                return _Waits(f"{stays}: it has just got the locks it waited for")
            return _Waits(f"{stays} and prepares its work")
        if self._same == wait.wanted:
            return _Waits(f"{stays} for the same", wait)
        return _Waits(f"{stays}: it waits to lock {words.locks_wanted(wait.wanted, self.facts.view)}", wait)

    # Why it does

    async def _reasons(self, job: UnfinishedJob, waits: _Waits, depth: int) -> None:
        if waits.locks is not None:
            await self._tell_holders(job, waits.locks, depth)
            await self._tell_those_ahead(job, waits.locks, depth)
        elif job.phase is not Phase.QUEUED:
            return
        elif job.depends:
            for dependency in job.depends[:_MOST_OF_A_KIND]:
                await self.tell(dependency.job_id, depth, _wish(dependency))
            self._more(depth, len(job.depends), "jobs it waits for")
        elif job.held_by is not None:
            await self._tell_filter(job, depth)
        elif len(self.facts.slots) >= self.facts.most_running and not self.facts.held_back:
            await self._tell_each(self.facts.slots, depth, "jobs with a process: see 'gnt-job list --running'")

    async def _tell_holders(self, job: UnfinishedJob, wait: LockWait, depth: int) -> None:
        by_owner: dict[Owner, list[Held]] = {}
        for hit in wait.holders:
            by_owner.setdefault(hit.owner, []).append(hit)
        for owner, hits in islice(by_owner.items(), _MOST_OF_A_KIND):
            await self._tell_owner(job, owner, depth, f"{self._held(hits)} by ", link=", which")
        self._more(depth, len(by_owner), "holders of these locks")
        if not by_owner and not wait.ahead:
            self._say(depth, "nobody holds these locks any more: it gets them now")

    def _held(self, hits: Sequence[Held]) -> str:
        """``node node1 has been locked exclusively for 2 min``."""
        names = dict.fromkeys(hit.held for hit in hits)
        locks = words.locks_listed(names, self.facts.view)
        how = "exclusively" if any(hit.state == EXCLUSIVE for hit in hits) else "shared"
        since_s = min((hit.since_s for hit in hits if hit.since_s is not None), default=None)
        verb = "have" if len(names) > 1 or locks.startswith(("all ", "the resources of ")) else "has"
        if since_s is None:
            return f"{locks} {'are' if verb == 'have' else 'is'} locked {how}"
        return f"{locks} {verb} been locked {how} for {words.span(self.facts.now_s - since_s)}"

    async def _tell_those_ahead(self, job: UnfinishedJob, wait: LockWait, depth: int) -> None:
        by_owner: dict[Owner, list[Ahead]] = {}
        for other in wait.ahead:
            by_owner.setdefault(other.owner, []).append(other)
        for owner, places in islice(by_owner.items(), _MOST_OF_A_KIND):
            locks = words.locks_listed((place.lock for place in places), self.facts.view)
            why = "asked first"
            if places[0].priority < job.file.priority:
                why = f"has the better priority, {words.priority_words(places[0].priority)},"
            self._same = wait.wanted
            await self._tell_owner(job, owner, depth, f"ahead of it for {locks} is ", link=f", which {why} and")
        self._same = {}
        self._more(depth, len(by_owner), "requests ahead of it: see 'gnt-debug locks'")

    async def _tell_owner(self, job: UnfinishedJob, owner: Owner, depth: int, lead: str, *, link: str = "") -> None:
        """Those in a line mostly wait for the same ones: further down, what was told is left out."""
        if not isinstance(owner.name, int):
            self._say(depth, f"{lead}{owner}, which is no job")
        elif owner.name == job.file.id:
            self._say(depth, f"{lead}an earlier process of the same job")
        elif depth == 1 or owner.name not in self._told:
            await self.tell(owner.name, depth, lead, link=link)

    async def _tell_filter(self, job: UnfinishedJob, depth: int) -> None:
        """Which rule or rate limit keeps the job back, how it reads, and who uses the limit."""
        admission = self.facts.admission
        verdict = admission.of(job.file)
        if (sentence := admission.explain(job.file)) is not None:
            self._say(depth, sentence)
        rule = next((each for each in self.facts.view.filters() if each.uuid == verdict.rule), None)
        if rule is not None:
            self._say(depth, f"the rule reads: {_action(rule.action)} {_predicates(rule.predicates)}")
            if reason := words.cut(reason_given(rule.reason_trail), _REASON_LETTERS):
                self._say(depth, f'it was made with the reason "{reason}"')
        for bucket, most in verdict.limits:
            users = [job_id for job_id in self.facts.slots if self._counts_for(job_id, bucket)]
            if len(users) >= most:
                lead = f"the limit of {most} is used up by "
                await self._tell_each(users, depth, "jobs that use it up", lead, link=", which")

    def _counts_for(self, job_id: int, bucket: str) -> bool:
        job = self.facts.unfinished(job_id)
        return job is not None and bucket in dict(self.facts.admission.of(job.file).limits)

    async def _tell_each(
        self, job_ids: Iterable[int], depth: int, noun: str, lead: str = "", *, link: str = ""
    ) -> None:
        ordered = sorted(job_ids)
        for job_id in ordered[:_MOST_OF_A_KIND]:
            await self.tell(job_id, depth, lead, link=link)
        self._more(depth, len(ordered), noun)

    def _more(self, depth: int, count: int, noun: str) -> None:
        if count > _MOST_OF_A_KIND:
            self._say(depth, f"there are {count - _MOST_OF_A_KIND} more {noun}")


def _last_heard(job: UnfinishedJob) -> str:
    silent = ": who holds what it waits for cannot be said, since ganeti-wconfd does not answer"
    if not job.blockers or job.phase is not Phase.PARKED:
        return silent
    verb = "was" if len(job.blockers) == 1 else "were"
    return f"{silent}; the last in its way {verb} {words.listed(map(words.owner_words, job.blockers))}"


def _wish(dependency: Dependency) -> str:
    """``it waits for the success of ``; any end will do when nothing is said."""
    wanted = " or ".join(sorted(dependency.statuses))
    return f"it goes on when this one has ended with {wanted}: " if wanted else "it goes on when this one has ended: "


def _quoted(said: str) -> str:
    return f": {said}" if said else ""


def _priority(file: JobFile) -> str:
    """The priority, and whether it is the one the job came with (S1.84)."""
    now = words.priority_words(file.priority)
    submitted = words.submitted_priority(file.ops[file.current_index()]) if file.ops else 0
    if file.priority == submitted:
        return f"its priority is {now}"
    came = words.priority_words(submitted)
    if file.priority > submitted:
        return f"its priority is {now}; it was {came} when it was submitted, and somebody has changed it"
    return (
        f"its priority is {now}; it was {came} when it was submitted, and has risen since: by the time it has waited "
        "for locks, or because somebody has changed it"
    )


def _past(file: JobFile) -> list[str]:
    """What has become of a job that has begun and has no process."""
    if file.deaths:
        return ["a process of it died in the midst of its work: the next one undoes what it left"]
    if file.start_timestamp is None:
        return []
    done = file.current_index()
    how_far = f"has done {done} of its {len(file.ops)} opcodes" if len(file.ops) > 1 else "has begun"
    return [f"it {how_far} and gave its place and its locks back; it goes on when its turn comes"]


def _action(action: Any) -> str:
    return action if isinstance(action, str) else " ".join(str(part) for part in action)


def _predicates(predicates: Sequence[Any]) -> str:
    return f"for jobs with {words.listed(map(words.plain_json, predicates))}" if predicates else "for all jobs"
