# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster token and audit: who may use the remote API, and what was asked of it."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time

from ganeti.base.terminal import on_one_line
from ganeti.cli import jobs
from ganeti.cli.environment import audit_log_path, tokens_path
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out
from ganeti.cli.values import read_duration
from ganeti.wire.api_tokens import ROLES, Token, hash_of, read_scope, read_tokens, shown_once, write_tokens
from ganeti.wire.audit_lines import AuditFault, verified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_SECRET_BYTES = 32
_ID_BYTES = 5
_MODE = 0o640


def token(call: Invocation) -> int:
    action = call.values["action"]
    if action == "list":
        return _list()
    if action not in ("add", "revoke"):
        raise Failure(f"Command '{action}' is not valid: give add, list or revoke after '{call.command.line}'")
    name = call.get("name")
    if not name:
        raise Failure(f"Say which token: '{call.command.line} {action} NAME'")
    tokens = _read()
    if action == "add":
        _add(call, tokens, name)
    else:
        found = [each.id for each in tokens.values() if name in (each.name, each.id)]
        if not found:
            raise Failure(f"There is no token '{name}': '{call.command.line} list' shows all")
        for each in found:
            del tokens[each]
        _write(tokens)
        out(f"Token {name} is revoked.")
    jobs.ask(call, {"OP_ID": "OP_CLUSTER_REDIST_CONF"})
    return 0


def _add(call: Invocation, tokens: dict[str, Token], name: str) -> None:
    if any(each.name == name for each in tokens.values()):
        raise Failure(f"There is a token '{name}' already: revoke it first, or choose another name")
    if not name.isprintable() or len(name) > 64:
        raise Failure("The name of a token has at most 64 printable characters")
    role, scopes = call.get("role"), list(call.get("scope") or ())
    if role:
        scopes += ROLES[role]
    if not scopes:
        raise Failure(
            "Say what the token is for: --role ROLE, or --scope KIND:read or KIND:write (@TAG for tagged objects)"
        )
    try:
        scopes = [str(read_scope(scope)) for scope in scopes]
    except ValueError as error:
        raise Failure(str(error)) from None
    lasts = call.get("expires")
    now = int(time.time())
    expires = None if lasts is None else now + int(read_duration("--expires", lasts))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    token_id = secrets.token_hex(_ID_BYTES)
    tokens[token_id] = Token(token_id, name, hash_of(secret), tuple(scopes), now, expires)
    _write(tokens)
    err("This is the token. It is shown once only; the cluster keeps a hash of it:")
    out(shown_once(token_id, secret))


def _list() -> int:
    now_s = time.time()
    for each in sorted(_read().values(), key=lambda one: one.name):
        until = (
            "for ever"
            if each.expires is None
            else f"until {time.strftime('%Y-%m-%d %H:%M', time.localtime(each.expires))}"
        )
        over = " (over)" if each.is_over(now_s) else ""
        out(f"{each.name}  {each.id}  {','.join(each.scopes)}  {until}{over}")
    return 0


def _read() -> dict[str, Token]:
    try:
        with open(tokens_path(), encoding="utf-8") as file:
            return read_tokens(file.read())
    except FileNotFoundError:
        return {}


def _write(tokens: dict[str, Token]) -> None:
    """Replace the file in one step; it belongs to whom its directory belongs to."""
    path = tokens_path()
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o750, exist_ok=True)
    owner = os.stat(directory)
    descriptor, draft = tempfile.mkstemp(dir=directory)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(write_tokens(tokens))
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), _MODE)
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def audit(call: Invocation) -> int:
    action, path = call.values["action"], call.get("file") or audit_log_path()
    if action not in ("show", "verify"):
        raise Failure(f"Command '{action}' is not valid: give show or verify after '{call.command.line}'")
    if not os.path.exists(path):
        raise Failure(
            f"There is no audit log {path}: it begins with the first change over the remote API, on the master"
        )
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.rstrip("\n") for line in file]
    if action == "verify":
        return _verify(path, lines, call.get("hash"))
    for line in lines[-call.get("lines", 20) :]:
        try:
            out(_sentence(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            out(f"(cannot be read) {line}")
    return 0


def _verify(path: str, lines: list[str], wanted: str | None) -> int:
    try:
        count, last = verified(lines)
    except AuditFault as fault:
        raise Failure(f"{path} is not as it was written: {fault}") from None
    if wanted is not None and not any(f'"hash":"{wanted}"' in line for line in lines):
        raise Failure(f"{path} has no line with the hash {wanted}: lines were cut off at its end")
    out(f"{path}: {count} lines, each as it was written. The last hash is {last}")
    return 0


def _sentence(entry: dict[str, object]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(str(entry["time"]))))
    what = entry.get("summary") or entry.get("operation") or f"{entry['method']} {entry['path']}"
    job = f", job {entry['job']}" if entry.get("job") else ""
    line = f"{when} {entry['who'] or 'somebody'} from {entry['from']}: {what}{job} ({entry['status']})"
    return on_one_line(line)  # anybody chooses the path: it must not look like another line
