# SPDX-License-Identifier: BSD-2-Clause
"""Hints after a mistyped word: never to what stops, removes or forces anything."""

import itertools

import pytest

from ganeti.cli import generate, main
from ganeti.cli.suggestions import command_hint, option_hint
from ganeti.cli.table import CommandRow

PROGRAMS = sorted(path.stem.replace("_", "-") for path in generate.TABLES.glob("gnt_*.py"))
HARMLESS = {
    *("add", "add-tags", "capacity", "change-priority", "console", "delay", "events", "getmaster", "health", "info"),
    *("iallocator", "allocator", "list", "list-fields", "list-tags", "locks", "master-ping", "modify", "search-tags"),
    *("show", "start", "startup", "verify", "version", "wait", "watch", "why"),
}
OF_OTHER_RELEASES = (
    *("rename", "move", "reinstall", "grow-disk", "replace-disks", "recreate-disks", "replace-primary", "deactivate"),
    *("evacuate", "assign-nodes", "redist-conf", "repair-disk-sizes", "renew-crypto", "export", "removes", "remov"),
    *("destory", "delet", "stopp", "shutdow", "fail-over", "archiv", "cancle", "cleanup", "drain", "powercycle"),
)


def words_of(program):
    return [word for row in main._load_table(program) for word in (row[0], *row[4])]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_hint_leads_to_what_takes_something_away(program):
    known = words_of(program)
    misspelt = [word[:at] + word[at + 1 :] for word in known for at in range(len(word))]
    for word in itertools.chain(OF_OTHER_RELEASES, misspelt):
        hint = command_hint(word, known)
        assert not hint or hint.split("'")[1] in HARMLESS, f"{program} {word}: {hint}"


@pytest.mark.parametrize("word", ["remov", "removes"])
def test_a_wrong_word_near_remove_gets_the_list_of_commands(gnt, word):
    ran = gnt(f"gnt-instance {word} web1")
    assert ran.status == 1
    assert ran.err.startswith(f"gnt-instance has no command '{word}'\nCommands: activate-disks, add, ")


def test_a_harmless_word_is_still_suggested():
    assert command_hint("lst", words_of("gnt-instance")) == "; did you mean 'list'?"


def test_a_harmless_option_is_still_suggested():
    assert option_hint("--vebrose", ["--verbose", "--force"]) == "; did you mean '--verbose'?"


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_hint_forces_anything(program):
    for row in main._load_table(program):
        flags = [flag for option in CommandRow(program, row).options for flag in option.flags]
        for flag in ("--forse", "--forc", "--yes-doit", "--ignore-failure", "--ignore-consistancy", "--kil", "-x"):
            hint = option_hint(flag, flags)
            assert not any(word in hint for word in ("force", "yes-do-it", "ignore", "kill")), f"{flag}: {hint}"
