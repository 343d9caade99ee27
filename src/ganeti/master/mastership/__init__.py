# SPDX-License-Identifier: BSD-2-Clause
"""Who is master, and how another node becomes it."""
