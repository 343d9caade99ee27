# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug: its commands, and what they print."""
