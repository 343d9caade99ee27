# SPDX-License-Identifier: BSD-2-Clause
"""From a process's words to its exit status; what it costs to start."""

import os
import pty
import re
import resource
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_master import Turns, load

from ganeti.base.command import Argument, Command
from ganeti.base.paths import Paths
from ganeti.cli import environment, failures, generate, main
from ganeti.cli.commands import plain
from ganeti.cli.table import CommandRow

SOURCE = Path(main.__file__).parents[2]
PROGRAMS = sorted(path.stem.replace("_", "-") for path in generate.TABLES.glob("gnt_*.py"))
LAUNCHER = "import sys; sys.path.insert(0, {source!r}); from ganeti.cli.main import run; sys.exit(run({program!r}))"


def command(program, *words):
    return [sys.executable, "-I", "-S", "-c", LAUNCHER.format(source=str(SOURCE), program=program), *words]


def test_version(gnt):
    ran = gnt("gnt-instance --version")
    assert (ran.status, ran.out) == (0, "gnt-instance (ganeti v3.1.0) 3.1.0\n")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_can_explain_itself(gnt, program):
    listed = gnt(f"{program} --help")
    assert listed.status == 0
    table = main._load_table(program)
    for row in table:
        assert f"\n  {row[0]} " in listed.out
        helped = gnt(f"{program} {row[0]} --help")
        assert helped.status == 0
        assert helped.out.startswith(f"Usage: {program} {row[0]} [options…]")
        for option in CommandRow(program, row).options:
            assert (f" {option.flags[0]}" in helped.out) == bool(option.help)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_handler_is_there(program):
    for row in main._load_table(program):
        assert callable(main._handler(CommandRow(program, row)))


def test_no_words_show_the_commands(gnt):
    ran = gnt("gnt-node")
    assert (ran.status, ran.out) == (1, "")
    assert "Commands:" in ran.err


def test_an_unknown_command_is_answered_with_those_there_are(gnt):
    ran = gnt("gnt-instance ad")
    assert ran.status == 1
    assert ran.err.startswith(
        "gnt-instance has no command 'ad'; did you mean 'add'?\nCommands: activate-disks, add, add-tags, "
    )


def test_an_alias_is_the_same_command(gnt, master):
    master.answers["QueryJobs"] = [[None] * 12]
    assert gnt("gnt-job show 1").err == gnt("gnt-job info 1").err


def test_wrong_options_are_status_2(gnt):
    assert gnt("gnt-instance add --nonsense web1").status == 2
    assert gnt("gnt-instance add").status == 1


def test_a_fault_of_the_program_is_one_line(gnt, monkeypatch):
    monkeypatch.setattr(main, "_handler", lambda command: lambda call: 1 / 0)
    ran = gnt("gnt-job info 1")
    assert ran.status == 1
    assert ran.err.startswith("gnt-job: unexpected ZeroDivisionError: division by zero (run it again with -d")
    with pytest.raises(ZeroDivisionError):
        gnt("gnt-job info -d 1")


def test_an_error_of_the_system_names_the_file(gnt, monkeypatch):
    monkeypatch.setattr(main, "_handler", lambda command: lambda call: os.stat("/no/such"))
    assert gnt("gnt-job info 1").err == "gnt-job: /no/such: No such file or directory\n"


def test_plain_commands_ask_their_question(gnt, monkeypatch, master):
    command = Command("gnt-x act", "acts", (Argument("name", "name"),), confirm="Act on {name}?", op_id="OP_A")
    row = load(generate.table_text("gnt-x", [command]))[0]
    asked = []
    monkeypatch.setattr(plain.confirm, "ask", lambda question: asked.append(question) or True)
    monkeypatch.setattr(main, "_load_table", lambda program: (row,))
    master.job()
    assert gnt("gnt-x act web1").status == 0
    assert asked == ["Act on web1?"]
    assert master.submitted() == [{"OP_ID": "OP_A", "name": "web1"}]


def test_paths_are_those_of_the_product(monkeypatch, tmp_path):
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path) + "/")
    paths = Paths(str(tmp_path))
    assert environment.socket_path() == paths.luxi_socket
    monkeypatch.setenv("FORCE_LUXI_SOCKET", "master")
    assert environment.socket_path() == paths.master_socket
    Path(paths.data_dir).mkdir(parents=True)
    Path(paths.ssconf_file("master_node")).write_text("a\n")
    assert environment.ssconf("master_node") == "a"


def test_exit_statuses_are_those_of_the_error_tree():
    from ganeti.base import errors

    for name in ("EXIT_FAILURE", "EXIT_NO_CLUSTER", "EXIT_NOT_MASTER", "EXIT_NODE_SETUP"):
        assert getattr(failures, name) == getattr(errors, name)
    assert failures.EXIT_CONFIRMATION == errors.EXIT_CONFIRMATION
    assert failures.EXIT_UNKNOWN_FIELD == errors.EXIT_UNKNOWN_FIELD


def test_every_error_of_the_tree_has_a_text():
    from ganeti.base.errors import _CLASSES

    for name in _CLASSES:
        assert failures.describe(name, ["what happened"]).splitlines()[0]
        assert name not in failures.describe(name, ["what happened"]), "reads like a class name"


def test_a_name_that_cannot_be_resolved_is_told_as_any_refused_request():
    told = [failures.describe(name, ["No such host", "resolver_error"]) for name in ("ResolverError", "OpPrereqError")]
    assert told[0] == told[1]
    assert failures.describe("ResolverError", ["web1", -2, "Name unknown"]) == "Failure: can't resolve hostname 'web1'"


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        ["sh", "-c", 'exec 3>&1; "$@" 3>&1 | true', "sh", *command("gnt-instance", "--help")],
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""


def test_a_closed_output_is_no_traceback():
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command("gnt-instance", "--help")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("words", [["gnt-instance", "--help"], ["gnt-instance", "--version"]])
def test_an_output_that_cannot_be_written_is_named(words):
    done = subprocess.run(
        ["sh", "-c", '"$@" >/dev/full', "sh", *command(*words)], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "gnt-instance: cannot write the output: No space left on device"
    assert "Traceback" not in done.stderr and done.returncode == 1


def cpu_s(words, runs=7):
    spent = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def test_a_command_starts_in_milliseconds():
    bare = cpu_s([sys.executable, "-I", "-S", "-c", "pass"])
    assert cpu_s(command("gnt-instance", "--version")) < bare + 0.01
    assert cpu_s(command("gnt-instance", "add", "--help")) < bare + 0.02


def test_nothing_heavy_is_imported_to_start():
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); sys.argv = ['gnt-node', 'list']\n"
        "from ganeti.cli.main import run\n"
        "run('gnt-node')\n"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-ISc", program],
        env={"GANETI_ROOTDIR": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "ganeti.wire.framing_sync" in loaded
    heavy = {"argparse", "dataclasses", "inspect", "asyncio", "logging", "subprocess", "msgspec", "difflib", "shlex"}
    assert not loaded & heavy
    assert not any(name.startswith(("ganeti.model", "ganeti.master", "ganeti.system")) for name in loaded)


def on_a_terminal(words, master_path, *, columns=40, answers=b""):
    """Run a command with a terminal of its own; give its output and status."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(FORCE_LUXI_SOCKET=str(master_path), TZ="UTC")
        os.execv(words[0], words)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    if answers:
        os.write(terminal, answers)
    text = b""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and select.select([terminal], [], [], 20)[0]:
        try:
            block = os.read(terminal, 4096)
        except OSError:
            break
        if not block:
            break
        text += block
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return text.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def test_a_table_fits_the_terminal(master, tmp_path):
    field = {"kind": "text", "doc": ""}
    master.answers["Query"] = {
        "fields": [{"name": "name", "title": "Name", **field}, {"name": "os", "title": "OS", **field}],
        "data": [[[0, "web1.example.com"], [0, "a-very-long-operating-system+variant"]]],
    }
    text, status = on_a_terminal(command("gnt-instance", "list"), tmp_path / "luxi")
    assert status == 0
    assert [len(line) for line in text.splitlines()[1:]] == [40]
    assert "…" in text
    text, _ = on_a_terminal(command("gnt-instance", "list", "--separator=|", "--no-headers"), tmp_path / "luxi")
    assert text == "web1.example.com|a-very-long-operating-system+variant\n"


def test_a_bar_on_a_terminal(master, tmp_path):
    master.job()
    master.answers["WaitForJobChange"] = Turns(
        [["running", [["memory", 25, 100]]], []],
        [["running", [["memory", 50, 100]]], [[1, [0, 0], "message", "half"]]],
        [["success", [None]], [[2, [0, 0], "message", "memory: done"]]],
    )
    text, status = on_a_terminal(command("gnt-debug", "delay", "1"), tmp_path / "luxi")
    assert status == 0
    assert re.findall(r"(\d+)%", text) == ["25", "50"]
    assert master.calls("WaitForJobChange")[0][1] == ["status", "opprogress"]
    lines = [line.rpartition("\r")[2] for line in text.strip("\n").split("\n")]
    assert lines == ["Thu Jan  1 00:00:00 1970 half", "Thu Jan  1 00:00:00 1970 memory: done"]


@pytest.mark.parametrize(("typed", "status", "submitted"), [(b"y\n", 0, 1), (b"\n", 1, 0), (b"?\nno\n", 1, 0)])
def test_a_question_on_a_terminal(master, tmp_path, typed, status, submitted):
    master.answers["Query"] = {"fields": [], "data": [[[0, "web1"]]]}
    master.job()
    text, ended = on_a_terminal(command("gnt-instance", "remove", "web1"), tmp_path / "luxi", answers=typed)
    assert ended == status
    assert "This will remove the instance web1" in text
    assert len(master.submitted()) == submitted


NEED_ROOT = (
    *(f"gnt-cluster {name}" for name in ("init", "destroy", "command", "copyfile", "rename", "master-failover")),
    *("gnt-cluster renew-crypto", "gnt-node add", "gnt-node remove", "gnt-instance console"),
)


@pytest.mark.requirement("S1.109")
def test_some_commands_need_root():
    rows = [CommandRow(program, row) for program in PROGRAMS for row in main._load_table(program)]
    found = {row.line for row in rows if row.needs_root}
    assert found >= {row.line for row in rows if row.line in NEED_ROOT}


LEAVING = "import sys; sys.path.insert(0, {source!r}); from ganeti.cli.main import leave; {before}; leave(3)"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("sys.stdout.write('a' * 200_000)", "a" * 200_000),
        ("import atexit; atexit.register(print, 'done')", "done\n"),
    ],
)
def test_a_command_leaves_with_its_status_and_nothing_undone(before, said):
    program = LEAVING.format(source=str(SOURCE), before=before)
    done = subprocess.run([sys.executable, "-ISc", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, said, "")
