# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``chroot``: programs of the node in a directory of their own, which is no isolation.

Places below ``run/ganeti/chroot-hypervisor``: ``NAME``, where the instance's first disk is mounted, and
``NAME.started``. The disk holds a script (``init_script``) that is called with ``start``, ``stop`` and ``status``; the
exit status 0 of the last one says that the guest runs.
"""
