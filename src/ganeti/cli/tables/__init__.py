# SPDX-License-Identifier: BSD-2-Clause
"""Generated tables of commands: made by `python -m ganeti.cli.generate`."""
