# SPDX-License-Identifier: BSD-2-Clause
"""Our placement tools beside Debian's (Ganeti 3.0.2) on the same random clusters, byte for byte.

    .venv/bin/python -m tests.differential.run 0-199 --tools hbal,hail --keep /tmp/differences

``cases`` turns a seed into files and command lines, ``execution`` runs one side, ``differences`` says what differs and
knows what 3.1 does otherwise than 3.0.2 (that list is short, and each entry has its reason), ``replay`` holds our plans
to the definition, whatever the peer says. ``tests/system/test_htools_peer.py`` runs a few seeds of each tool.
"""
