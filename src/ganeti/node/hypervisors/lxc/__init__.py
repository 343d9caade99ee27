# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``lxc``: containers of Debian's LXC on the instance's first disk.

Places below ``run/ganeti/lxc``: ``NAME/config``, ``NAME/rootfs`` (the mounted disk), ``NAME/monitor.pid``, and
``NAME.started``. The submitter of a job need not be root of the node: what a container is allowed (`parameters`,
`configuration`) is widened by a file of root's on that node alone, ``/etc/ganeti/lxc/NAME.conf``.
"""
