# SPDX-License-Identifier: BSD-2-Clause
"""In all system tests a change of what its job has not locked fails (S2.58)."""

import os

from ganeti.wconfd.lock_check import STRICT

os.environ[STRICT] = "1"
