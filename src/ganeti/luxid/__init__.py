# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD: LUXI calls, the job queue, queries, events and placement."""
