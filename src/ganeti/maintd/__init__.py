# SPDX-License-Identifier: BSD-2-Clause
"""The maintenance daemon: looks at the nodes by their MonDs, and has jobs do what they need (S4.1, S4.2).

What is done is decided in `master/maintenance`, over the configuration alone: so a new master goes on where the last
one stopped.
"""
