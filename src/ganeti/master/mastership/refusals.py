# SPDX-License-Identifier: BSD-2-Clause
"""The sentences of a take-over: why not, and what would make it possible; what a forced one may lose."""

from collections.abc import Iterable, Mapping

from ganeti.master.mastership.messages import Claim, Refuse
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

COMMAND = "gnt-cluster master-failover"
START = "daemon-util start-master"


def name_of(claim: Claim, node: str) -> str:
    """Give the name of a node; one that is offline or unknown here has only its UUID."""
    return claim.names.get(node, node)


def _names(claim: Claim, nodes: Iterable[str]) -> str:
    return ", ".join(sorted(name_of(claim, node) for node in nodes))


def no_candidate(claim: Claim) -> Refuse:
    others = [node for node in claim.candidates if node != claim.old_master]
    where = f"run {COMMAND} on {_names(claim, others)}" if others else "the master has no other candidate"
    return Refuse(
        f"{name_of(claim, claim.me)} is not a master candidate: it has no copy of the cluster to go on with",
        f"{where}; a node becomes a candidate with gnt-node modify --master-candidate=yes, on the master",
    )


def already_master(claim: Claim) -> Refuse:
    return Refuse(
        f"{name_of(claim, claim.me)} is the master already: there is nobody to take over from",
        f"if its daemons do not run, start them with {START}",
    )


def another_master(claim: Claim, master: str) -> Refuse:
    return Refuse(f"{name_of(claim, master)} is the master by now", "look with gnt-cluster getmaster")


def overtaken(claim: Claim, answer: CopyAnswer) -> Refuse:
    other = name_of(claim, answer.holder) if answer.holder else "another node"
    return Refuse(
        f"The take-over that {name_of(claim, claim.me)} began is over: epoch {answer.promised} is promised to {other}",
        f"look with gnt-cluster getmaster; to make this node the master nevertheless, run {COMMAND}",
    )


def not_fenced_off(claim: Claim, master: str, against: int) -> Refuse:
    name, me = name_of(claim, master), name_of(claim, claim.me)
    return Refuse(
        f"{name} answers, and {against} of {len(claim.candidates)} master candidates name another: {name} can go on as "
        "the master",
        f"if its daemons do not run, start them there with {START}; or run {COMMAND} on {me}",
    )


def own_daemon_silent(name: str, why: str) -> Refuse:
    reason = f": {why}" if why else ""
    return Refuse(
        f"The node daemon of this node, {name}, does not answer{reason}",
        "start it with daemon-util start ganeti-noded",
    )


def own_copy_unfit(name: str, answer: CopyAnswer) -> Refuse:
    why = answer.sentence or answer.refused or "its copy cannot be used"
    return Refuse(f"This node, {name}, cannot take over: {why}", f"run {COMMAND} on another master candidate")


def promised_away(claim: Claim, answer: CopyAnswer) -> Refuse:
    other = name_of(claim, str(answer.holder))
    return Refuse(
        f"{other} is taking over at the same time: epoch {answer.promised} is promised to it",
        f"look with gnt-cluster getmaster whether it became the master; if not, run {COMMAND} again",
    )


def minority(claim: Claim, counted: int, needed: int, away: Mapping[str, str]) -> Refuse:
    missing = "; ".join(f"{name_of(claim, node)}: {why}" for node, why in sorted(away.items()))
    total = len(claim.candidates)
    return Refuse(
        f"{counted} of {total} master candidates can be counted on, and {needed} are needed ({missing})",
        "bring one of them back; or, if they are down for good and none of them is master, add --no-voting, which may "
        "lose what only they have",
    )


def behind(
    claim: Claim, newest: Membership | None, old_master: str, usable: Iterable[str], silent: Mapping[str, str]
) -> Refuse:
    """The claimant has not everything that was acknowledged; some other node has."""
    me = name_of(claim, claim.me)
    if newest is None:
        return Refuse(
            f"No node that answers knows which copies are in sync, so {me} may lack what was acknowledged",
            "let the master run with this release; if it is gone for good, add --no-voting, which may lose changes",
        )
    why = f"{me} is behind: only {_names(claim, newest.members)} had everything when that was noted last"
    able = [node for node in newest.members if node in set(usable) and node != old_master]
    if able:
        return Refuse(why, f"run {COMMAND} on {' or '.join(_names(claim, able).split(', '))}")
    away = [node for node in newest.members if node in silent]
    wanted = _names(claim, away or newest.members)
    return Refuse(
        why,
        f"bring {wanted} back; if that cannot be, add --no-voting, which loses what {me} lacks",
    )


def forced_behind(claim: Claim, newest: Membership | None) -> str:
    epoch, serial = claim.position
    who = "No node says which copies are in sync" if newest is None else f"Only {_names(claim, newest.members)} had all"
    return f"{who}: what was changed after {epoch}.{serial} is lost if {name_of(claim, claim.me)} did not get it"


def old_master_not_told(name: str, why: str) -> str:
    return (
        f"The old master {name} could not be told ({why}): if it still runs, its daemons end when it meets another node"
    )


def after_stop(refusal: Refuse, old_master: str) -> Refuse:
    return Refuse(
        refusal.why, f"{refusal.remedy}. {old_master} was stopped for this: start it again there with {START}"
    )
