# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance: its commands, and what they print."""
