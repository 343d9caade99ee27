# SPDX-License-Identifier: BSD-2-Clause
"""From words to values."""

import pytest

from ganeti.cli.failures import UsageError
from ganeti.cli.parser import parse
from ganeti.cli.table import CommandRow

OPTIONS = (
    (("-f", "--force"), "force", "flag", "", True, None, (), "", False),
    (("-n", "--node"), "nodes", "string", "", None, None, (), "NODE", True),
    (("--disk",), "disks", "disks", "", None, None, (), "", True),
    (("-t", "--type"), "kind", "string", "", None, "hard", ("soft", "hard"), "", False),
    (("--tags",), "tags", "list", "", None, None, (), "", True),
    (("--no-start",), "start", "flag", "", False, None, (), "", False),
    (("--node-tags",), "selector", "flag", "", "node-tags", None, (), "", False),
)
ONE = ("instance_name", "instance-name", 1, 1, "string", "")
MANY = ("names", "name", 0, None, "string", "")
PAIR = ("number", "seconds", 0, 1, "float", "")


EXCLUDES = (("-n", "--no-start", "leave one out"),)


def row(*arguments, options=OPTIONS):
    rest = ((), "", "", True, "OP_TEST", False, True, False, "", (), (), EXCLUDES, ())
    return CommandRow("gnt-test", ("act", "acts", arguments, options, *rest))


def read(text, *arguments):
    values = parse(row(*(arguments or (ONE,))), text.split())
    return {key: value for key, value in values.items() if key != "debug"}


def test_options_before_arguments():
    assert read("-f -n a --node=b -nc --type soft web1") == {
        "force": True,
        "nodes": ["a", "b", "c"],
        "kind": "soft",
        "instance_name": "web1",
    }


def test_what_is_not_given_is_absent_but_for_defaults():
    assert read("web1") == {"kind": "hard", "instance_name": "web1"}


def test_a_flag_may_store_something_else_than_true():
    assert read("--no-start --node-tags web1")["start"] is False
    assert read("--no-start --node-tags web1")["selector"] == "node-tags"


def test_short_flags_may_stand_together():
    values = parse(row(ONE), ["-fdd", "-fnx", "web1"])
    assert (values["force"], values["debug"], values["nodes"]) == (True, 2, ["x"])


def test_long_options_may_be_cut_short():
    assert read("--forc --ty soft web1")["kind"] == "soft"
    with pytest.raises(UsageError, match="--no could be any of --no-start, --node, --node-tags"):
        read("--no web1")


def test_lists_of_repeated_options_are_joined():
    assert read("--tags a,b --tags c web1")["tags"] == ["a", "b", "c"]


def test_two_dashes_end_the_options():
    assert read("-f -- -x", MANY) == {"force": True, "kind": "hard", "names": ["-x"]}


def test_an_argument_may_have_a_kind():
    assert read("1.5", PAIR)["number"] == 1.5
    with pytest.raises(UsageError, match="seconds: 'x' is not a number"):
        read("x", PAIR)


def test_job_options_come_with_every_job():
    assert read("--submit --print-jobid --dry-run --priority low --reason why web1") == {
        "kind": "hard",
        "submit": True,
        "print_jobid": True,
        "dry_run": True,
        "priority": "low",
        "reason": "why",
        "instance_name": "web1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--forse web1", "there is no option --forse; see 'gnt-test act --help'"),
        ("--ignore-consistncy web1", "there is no option --ignore-consistncy; see 'gnt-test act --help'"),
        ("-x web1", "there is no option -x"),
        ("-fx web1", "there is no option -x in -fx"),
        ("-n", "option -n needs NODE after it"),
        ("--force=yes web1", "option --force takes no value"),
        ("--node=a --no-start web1", "-n and --no-start exclude each other: leave one out"),
        ("--type big web1", "--type: 'big' is not possible: it must be one of soft, hard"),
        ("--priority urgent web1", "one of low, normal, high"),
        ("--disk 0:size=1x web1", "'1x' is not a size"),
        ("web1 -f", "option -f comes after an argument"),
        ("", "takes 1 argument, not 0: gnt-test act"),
        ("web1 web2", "takes 1 argument, not 2"),
    ],
)
def test_wrong_words_get_one_sentence(text, message):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert message in caught.value.text
    assert "\n" not in caught.value.text


def test_help_needs_no_arguments():
    assert read("--help")["help"] is True


def test_help_is_given_wherever_it_is_asked_for():
    assert read("web1 web2 --help")["help"] is True
    assert not read("-- --help").get("help")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("gnt-job list --bogus", 2),
        ("gnt-job list --separator", 2),
        ("gnt-instance migrate --migration-mode=bogus web1", 2),
        ("gnt-cluster modify -C abc", 2),
        ("gnt-cluster epo --oob-timeout=abc --all", 2),
        ("gnt-instance modify -m abc web1", 2),
        ("gnt-instance reboot --shutdown-timeout=abc web1", 2),
        ("gnt-instance remove -f --shutdown-timeout=-1 web1", 1),
        ("gnt-job autoarchive 1y", 1),
        ("gnt-cluster modify --maintain-node-health=maybe", 1),
        ("gnt-cluster modify --uid-pool=5-1", 1),
        ("gnt-cluster modify --disk-state=bogus", 1),
        ("gnt-cluster modify --ipolicy-bounds-specs=bogus", 1),
        ("gnt-cluster modify --ipolicy-vcpu-ratio=abc", 1),
        ("gnt-cluster modify --data-collector-interval=lv=abc", 1),
        ("gnt-instance add -t file -n node1 -I hail web1", 1),
        ("gnt-instance add -t file --disk 0:size=-1 web1", 1),
        ("gnt-instance add -t file --disk abc:size=1g web1", 1),
        ("gnt-instance add -t file --net abc:ip=192.0.2.1 web1", 1),
        ("gnt-instance add -t file -H bogus=1 web1", 1),
        ("gnt-instance modify --disk add:size=abc web1", 1),
        ("gnt-instance grow-disk web1 0 abc", 1),
        ("gnt-instance replace-disks -p -s web1", 1),
        ("gnt-instance replace-disks web1", 1),
        ("gnt-instance recreate-disks --disk abc web1", 1),
        ("gnt-instance reboot --all web1", 1),
    ],
)
def test_the_status_tells_what_was_not_read_from_what_was_refused(gnt, line, status):
    """As Debian's Ganeti 3.0 ends with the same words."""
    ran = gnt(line)
    assert (ran.status, ran.out) == (status, "") and ran.err
