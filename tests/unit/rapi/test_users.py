# SPDX-License-Identifier: BSD-2-Clause
"""The users file of the remote API: all forms of a password, rights, and changes."""

import base64
import hashlib
from pathlib import Path

from ganeti.rapi.users import REALM, UsersFile, credentials, read_users

DIGEST = hashlib.md5(f"carol:{REALM}:secret".encode()).hexdigest()
TEXT = f"""# who
alice pass write
bob {{ClearText}}word read
carol {{ha1}}{DIGEST.upper()} read,write
dan {{MD4}}x write
"""


def test_all_forms_of_a_password():
    users = read_users(TEXT)
    assert users.keys() == {"alice", "bob", "carol"}
    assert users["alice"].has_password("pass") and not users["alice"].has_password("Pass")
    assert users["bob"].has_password("word") and not users["bob"].has_password("{ClearText}word")
    assert users["carol"].has_password("secret") and not users["carol"].has_password(DIGEST)
    assert users["alice"].rights == {"read", "write"} and users["bob"].rights == {"read"}


def test_the_file_is_read_again_when_it_changes(tmp_path: Path):
    place = tmp_path / "users"
    users = UsersFile(str(place))
    assert users.find("alice", "pass") is None
    place.write_text(TEXT)
    assert users.find("alice", "pass") is not None
    place.write_text("alice other write\n")
    assert users.find("alice", "pass") is None
    place.unlink()
    assert users.find("alice", "other") is None


def test_headers_that_hold_no_credentials():
    good = base64.b64encode(b"a:b:c").decode()
    assert credentials(f"basic {good}") == ("a", "b:c")
    for header in (
        "",
        "Basic",
        "Basic !",
        f"Bearer {good}",
        "Basic " + base64.b64encode(b"nobody").decode(),
        "Basic é",
        "Basic \udcff",
    ):
        assert credentials(header) is None, header


def test_one_line_that_is_no_text_locks_nobody_else_out(tmp_path):
    place = tmp_path / "users"
    place.write_bytes(b"# J\xfcrgen\njack abc write\nj\xfcrgen abc write\n")
    users = UsersFile(str(place))
    assert users.find("jack", "abc") is not None
    assert users.find("jürgen", "abc") is None


def test_a_file_that_cannot_be_read_is_named_once(tmp_path, caplog):
    place = tmp_path / "users"
    place.mkdir()
    users = UsersFile(str(place))
    assert [users.find("jack", "abc") for _ in range(3)] == [None] * 3
    assert caplog.messages == [f"nobody is let in by a password: {place}: It is a directory, not a file: move it away"]


def test_a_file_that_was_not_there_at_first_is_named_too(tmp_path, caplog):
    """As an administrator makes it: the daemon runs, and the file comes with rights that keep the daemon out."""
    place = tmp_path / "users"
    users = UsersFile(str(place))
    assert users.find("jack", "abc") is None and not caplog.messages
    place.mkdir()
    assert [users.find("jack", "abc") for _ in range(3)] == [None] * 3
    place.rmdir()
    assert users.find("jack", "abc") is None
    place.mkdir()
    assert users.find("jack", "abc") is None
    sentence = f"nobody is let in by a password: {place}: It is a directory, not a file: move it away"
    assert caplog.messages == [sentence] * 2
