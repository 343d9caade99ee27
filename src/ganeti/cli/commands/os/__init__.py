# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os: its commands, and what they print."""
