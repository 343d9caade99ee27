# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisors ``xen-pvm`` and ``xen-hvm``: guests of Xen, driven by its tool ``xl``.

``/etc/xen/NAME`` is what a guest was created with, as 3.1 writes it; below ``run/ganeti/xen`` are ``NAME.started`` and,
during a migration, ``NAME.migration``. No machine of the tests runs Xen: what ``xl``
says in tests is written by hand in the form of xl 4.17.
"""
