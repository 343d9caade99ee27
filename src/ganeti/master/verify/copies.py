# SPDX-License-Identifier: BSD-2-Clause
"""What verification finds about the copies of configuration and queue on the master candidates.

Codes are those 3.1 has (protocols, section 19): the one of the cause where there is one (clock, software, a node that
does not answer), `ENODESETUP` for a node that has to be set right by hand, `ENODEFILECHECK` for a copy that is not what
it should be, `ECLUSTERFILECHECK` where the cluster as a whole has too few. A copy that comes back by itself is a
warning; one that somebody has to do something about is an error, and so is having none beside the master's.
"""

from collections.abc import Iterable, Iterator, Mapping

from ganeti.base.natural import natural_key
from ganeti.master.query.queue_words import listed, span
from ganeti.master.verify.findings import WARNING, Finding
from ganeti.model.copies import AWAY, BEHIND, CATCHING_UP, Copies, Copy, position_text
from ganeti.model.node_calls.replica import CopyAnswer
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer

_THING = "its copy of the configuration and the queue"
_BEHIND = {
    "clock": ("ENODETIME", "set its clock right, it catches up by itself"),
    "cluster": (
        "ENODESETUP",
        "it holds what is another cluster's: 'gnt-node add --readd' makes it one of this cluster",
    ),
    "damaged": (
        "ENODEFILECHECK",
        "the damaged database is kept as config.sqlite.damaged and replaced by itself; look after its disk",
    ),
    "disk": ("ENODESETUP", "where /var/lib/ganeti lies, make room or mend the disk, then it catches up by itself"),
    "epoch": ("ENODESETUP", "see 'gnt-cluster master-ping' and 'gnt-cluster getmaster' there for who is the master"),
    "master": ("ENODESETUP", "stop its master daemons, unless it is the one that should be the master"),
    "software": ("ENODEVERSION", "install the software of the master there and restart its node daemon"),
}
"""By the word a node refuses with: code, and what to do where its own sentence does not say."""
_NEVER_SAID = ("disk",)
"""Words whose sentences are the system's, without a remedy."""


def unknown(reason: str) -> Finding:
    """Nobody can say who has copies."""
    return Finding("ECLUSTERFILECHECK", "", f"it cannot be said which nodes have copies: {reason}", WARNING)


def behind(copies: Copies) -> list[str]:
    """Uuids of the nodes that can be asked with which word they refuse."""
    return [uuid for uuid, copy in copies.nodes.items() if copy.state == BEHIND]


def refused_words(answers: Iterable[NodeAnswer]) -> dict[str, str]:
    """The words of refusal by uuid, from answers to `replica_state`; none for a node that would take records now."""
    return {
        answer.node_uuid: answer.value.refused
        for answer in answers
        if isinstance(answer.value, CopyAnswer) and answer.value.refused is not None
    }


def findings(view: ConfigView, copies: Copies, words: Mapping[str, str], now_s: float) -> Iterator[Finding]:
    """Every candidate that is not in sync, and why.

    *words* are those that nodes refuse with (`refused_words`), *now_s* is the master's clock.
    """
    candidates = _candidates(view)
    others = [node for node in candidates if node.uuid != view.cluster.master_node]
    in_sync = [node for node in others if _in_sync(copies, node)]
    if others and not in_sync:
        yield Finding(
            "ECLUSTERFILECHECK",
            "",
            f"only the master has everything that was acknowledged: no other master candidate "
            f"({listed(node.name for node in others)}) is in sync, and what the master's disk loses is lost",
        )
    for node in others:
        copy = copies.nodes.get(node.uuid)
        if copy is None:
            yield Finding("ENODEFILECHECK", node.name, f"nothing is known yet of {_THING}", WARNING)
        elif not copy.in_sync:
            yield _not_in_sync(node, copy, words.get(node.uuid, copy.reason), copies.position, now_s)


def notes(view: ConfigView) -> Iterator[str]:
    """What is worth knowing before it is needed."""
    if len(_candidates(view)) == 2:
        yield (
            "  - NOTICE: with two master candidates, the one that is left can become master with --no-voting only; "
            "a third candidate makes a fail-over possible without."
        )


def _not_in_sync(node: Node, copy: Copy, word: str, newest: tuple[int, int], now_s: float) -> Finding:
    since = f" for {span(now_s - copy.since_s)}" if copy.since_s else ""
    at = position_text(copy.position)
    where = f" (it is at record {at}, the master at {position_text(newest)})" if at is not None else ""
    why = f": {copy.why}" if copy.why else ""
    if copy.state == CATCHING_UP:
        return Finding("ENODEFILECHECK", node.name, f"{_THING} has been catching up{since}{where}", WARNING)
    if copy.state == AWAY:
        sentence = (
            f"{_THING} has been left out{since}{where}{why}; once the node answers it catches up by itself; if it is "
            f"not to come back: gnt-node modify --offline yes {node.name}"
        )
        return Finding("ENODERPC", node.name, sentence, WARNING)
    code, remedy = _BEHIND.get(word, ("ENODEFILECHECK", ""))
    todo = f"; {remedy}" if remedy and word in (copy.reason, *_NEVER_SAID) else ""
    return Finding(code, node.name, f"{_THING} has been behind{since}{where}{why}{todo}")


def _candidates(view: ConfigView) -> list[Node]:
    """Those that have copies, the master among them, in the order of their names."""
    found = [
        node
        for node in view.nodes()
        if (node.master_candidate or node.uuid == view.cluster.master_node) and not node.offline
    ]
    return sorted(found, key=lambda node: natural_key(node.name))


def _in_sync(copies: Copies, node: Node) -> bool:
    copy = copies.nodes.get(node.uuid)
    return copy is not None and copy.in_sync
