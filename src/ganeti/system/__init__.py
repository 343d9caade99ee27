# SPDX-License-Identifier: BSD-2-Clause
"""The operating system below everything: files, processes, lock files, sockets, TLS, clock, boot, logs.

Imports `base` and `wire` alone, so that drivers, stores and daemons can all use it.
"""
