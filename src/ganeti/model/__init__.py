# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as typed data: objects of `config.data`, views, drafts, parameters, traits, lock plans."""
