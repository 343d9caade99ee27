# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job: its commands, and what they print."""
