# SPDX-License-Identifier: BSD-2-Clause
"""What every node can do: node calls, hypervisors, storage, OS definitions, hooks, collectors."""
