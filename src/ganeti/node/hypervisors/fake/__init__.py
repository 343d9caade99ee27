# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``fake``: guests that are files, for trying and testing a cluster without virtual machines.

Below ``run/ganeti/fake-hypervisor``:

    NAME              one guest as JSON. A guest dies with its node: files of another boot count for nothing
    .load             JSON, by name of a guest how many processors it keeps busy (1 without it)
    .capacity         JSON that replaces keys of `NodeCapacity` (memory_total, cpu_total, memory_dom0, …), for big nodes
    .fail/METHOD      makes a method of the interface go wrong; METHOD@INSTANCE does so for one instance only. Content:
                      ``fail [sentence]`` (or nothing) refuse before anything happened
                      ``fail-after [sentence]`` do it, then report a failure
                      ``hang [seconds]`` wait that long first, without a number until the file is removed

A migration goes through the states of a real one: ``active`` for a moment, then the guest is paused at
``pre-switchover`` until told to go on. The guest's state travels in `migration_info` and the target's file.
A guest writes nothing, so the disks that it takes along to another node stay as they were made there: empty.
"""
