# SPDX-License-Identifier: BSD-2-Clause
"""Where instances go: scores, checks, allocation and evacuation as pure functions over a picture of the cluster.

Nothing here reads a clock, a file or a random number; the same input gives the same answer, byte for byte.
The rooms that only describe things (``cluster``, ``request``) load nothing
compiled, so that a process which merely asks stays small; the kernel is loaded by the first question.
"""
