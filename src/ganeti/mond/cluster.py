# SPDX-License-Identifier: BSD-2-Clause
"""What the cluster says of this node and its monitoring, asked of ConfDs: they answer without a master (S2.17)."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from ganeti.calls.confd_client import ConfdClient, SilentError, volumes_by_confd
from ganeti.node.collectors.instances import UP
from ganeti.node.collectors.interface import ConfiguredInstance, Setting, Settings
from ganeti.node.collectors.owners import Owned
from ganeti.wire.confd import Kind

KEPT_S = 15.0
"""As long as 3.1 keeps the answers of ConfD."""
_DIAGNOSE_SETTING = "diagnose_data_collector_filename"
_log = logging.getLogger(__name__)


class ConfdView:
    """`ClusterView` by ConfDs; *client* makes one for the candidates of now, or raises `OSError`."""

    def __init__(self, client: Callable[[], ConfdClient], node_name: str) -> None:
        self._client = client
        self._node_name = node_name
        self._settings = Settings()
        self._owners = _Kept(self._ask_owners)
        self._instances = _Kept(self._ask_instances)
        self._wanted: frozenset[str] | None = None

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def wanted(self) -> frozenset[str] | None:
        """Names of the instances that should run here, as `follow` was told last; None while nobody says it."""
        return self._wanted

    async def follow(self) -> None:
        """Keep the settings, and what should run here, up to date until cancelled."""
        silent = False
        while True:
            try:
                found = await asyncio.to_thread(self._ask_settings)
                if found != self._settings:
                    _log.info("collectors switched off: %s", ", ".join(_off(found)) or "none")
                self._settings, silent = found, False
            except (OSError, SilentError) as err:
                if not silent:
                    _log.warning("no ConfD says what to collect: %s", err)
                silent = True
            known = await self.instances()
            self._wanted = None if known is None else frozenset(each.name for each in known if each.admin_state == UP)
            await asyncio.sleep(KEPT_S)

    async def owners(self) -> Owned:
        return await self._owners.get() or Owned()

    async def instances(self) -> list[ConfiguredInstance] | None:
        """The primary instances of this node; None where nobody says it."""
        found: list[ConfiguredInstance] | None = await self._instances.get()
        return found

    def _ask_settings(self) -> Settings:
        client = self._client()
        collectors = client.ask(Kind.COLLECTORS, None, client.deadline_s())
        command = client.ask(Kind.CONFIG, f"/cluster/{_DIAGNOSE_SETTING}", client.deadline_s())
        return Settings(settings_of(collectors), command if isinstance(command, str) else "")

    def _ask_owners(self) -> Owned | None:
        return volumes_by_confd(self._client(), self._node_name)

    def _ask_instances(self) -> list[ConfiguredInstance] | None:
        client = self._client()
        found = client.ask(Kind.PRIMARY_INSTANCES, self._node_name, client.deadline_s())
        return [ConfiguredInstance(*each) for each in found] if isinstance(found, list) else None


class _Kept:
    """An answer that is asked for again when it is old; several who want it at once wait for one question."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._value: Any = None
        self._until_s = 0.0
        self._asking = asyncio.Lock()

    async def get(self) -> Any:
        async with self._asking:
            if time.monotonic() >= self._until_s:
                try:
                    self._value = await asyncio.to_thread(self._ask)
                except (OSError, SilentError):
                    self._value = None
                self._until_s = time.monotonic() + KEPT_S
            return self._value


def settings_of(collectors: Any) -> dict[str, Setting]:
    """Read the cluster's settings; what is no setting leaves a collector as it is without one."""
    found = {}
    for name, plain in collectors.items() if isinstance(collectors, dict) else ():
        match plain:
            case {"active": bool(active), **rest}:
                interval = rest.get("interval")
                match rest.get("interval"):
                    case int(interval) if interval > 0:
                        found[name] = Setting(active, interval)
                    case _:
                        found[name] = Setting(active)
    return found


def _off(settings: Settings) -> list[str]:
    return [name for name, setting in settings.collectors.items() if not setting.active]
