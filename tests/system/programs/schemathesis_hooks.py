# SPDX-License-Identifier: BSD-2-Clause
"""Loaded by Schemathesis: each valid Idempotency-Key becomes one of its own, or most requests would be 422."""

import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 1 <= len(key) <= 128 and key.isascii() and key.isprintable() and " " not in key:
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
