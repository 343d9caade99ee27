# SPDX-License-Identifier: BSD-2-Clause
"""Taking and giving up the cluster's address, on real interfaces of a network namespace of the test's own."""

import ast
import shutil
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, socket, subprocess
from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.mastership import MasterAddress, NodeActivateMasterIp, NodeDeactivateMasterIp
from ganeti.node.actions.master_ip import fault_of_place, node_activate_master_ip, node_deactivate_master_ip
from ganeti.node.state import NodeState
from ganeti.noded.world import RealNodeWorld

for words in ("link set lo up", "link add br0 type bridge", "link set br0 up", "addr add 192.0.2.10/24 dev br0"):
    subprocess.run(["ip", *words.split()], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
os.mkdir("/run/ganeti")
world = RealNodeWorld(Paths(), "node1")
world.log = print
node = NodeState(world, None, None)

async def hooks_have_their_say(address):
    subprocess.run(["mount", "-t", "tmpfs", "none", "/etc"], check=True)  # this namespace's alone
    for path in ("turnup-pre", "turnup-post", "turndown-pre", "turndown-post"):
        directory = f"/etc/ganeti/hooks/master-ip-{path}.d"
        os.makedirs(directory)
        with open(f"{directory}/10-site", "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as script:
            script.write("#!/bin/sh\\necho $GANETI_HOOKS_PATH-$GANETI_HOOKS_PHASE $GANETI_MASTER_IP >> /run/told\\n"
                         "! test -e /run/refuse || { echo not now; exit 1; }\\n")
    await node_activate_master_ip(node, NodeActivateMasterIp(master=address))
    open("/run/refuse", "w").close()
    try:
        await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address, on_purpose=True))
    except GanetiError as err:
        print("refused:", err)
    assert shown() and not os.path.exists(node.paths.given_up_address_file)
    await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address))
    assert not shown(), "a node that is the master no longer gives the address up whatever a hook says"
    try:
        await node_activate_master_ip(node, NodeActivateMasterIp(master=address))
    except GanetiError as err:
        print("refused:", err)
    assert not shown()
    os.unlink("/run/refuse")
    print("told:", open("/run/told").read().split("\\n"))

def places():
    # br0 leads to 192.0.2.0/24, br1 is up and leads nowhere, br2 is down.
    for words in ("link add br1 type bridge", "link set br1 up", "link add br2 type bridge"):
        subprocess.run(["ip", *words.split()], check=True)
    for words in ("br0 32", "br0 24", "br1 32", "br1 24", "br1 16", "br2 32", "lo 32", "none 32"):
        netdev, netmask = words.split()[0], int(words.split()[1])
        print("place:", words, fault_of_place(MasterAddress(ip="192.0.2.1", netdev=netdev, netmask=netmask)))
    six = MasterAddress(ip="2001:db8::1", netdev="br1", netmask=64, ip_family=10)
    print("place: six", fault_of_place(six))
    subprocess.run("ip addr add 2001:db8::9/64 dev br0 nodad".split(), check=True)
    print("place: six", fault_of_place(six))

def shown():
    return "192.0.2.1/32" in subprocess.run(["ip", "-o", "addr", "show", "br0"], capture_output=True, text=True).stdout

async def main():
    address = MasterAddress(ip="192.0.2.1", netdev="br0", netmask=32)
    for _ in range(2):
        await node_activate_master_ip(node, NodeActivateMasterIp(master=address))
        assert shown()
    for _ in range(2):
        await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address))
        assert not shown()
    for wrong in (MasterAddress(ip="192.0.2.1", netdev="none", netmask=32),
                  MasterAddress(ip="192.0.2.1", netdev="br0", netmask=64)):
        try:
            await node_activate_master_ip(node, NodeActivateMasterIp(master=wrong))
        except GanetiError as err:
            print("refused:", err)
        else:
            raise AssertionError(wrong)
    for on_purpose in (False, True):
        await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address, on_purpose=on_purpose))
        assert os.path.exists(node.paths.given_up_address_file) == on_purpose
    await asyncio.gather(*(node_activate_master_ip(node, NodeActivateMasterIp(master=address)) for _ in range(20)))
    assert shown() and not os.path.exists(node.paths.given_up_address_file)
    await asyncio.gather(*(node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address)) for _ in range(20)))
    assert not shown()
    await hooks_have_their_say(address)
    six = MasterAddress(ip="2001:db8::1", netdev="br0", netmask=128, ip_family=10)
    await node_activate_master_ip(node, NodeActivateMasterIp(master=six))
    await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=six))

places()
asyncio.run(main())
"""


def test_the_master_ip_comes_and_goes() -> None:
    if shutil.which("ip") is None or subprocess.run(["unshare", "-n", "-m", "true"]).returncode:
        pytest.skip("network namespaces are for root")
    done = subprocess.run(
        ["unshare", "-n", "-m", sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    places = [line.removeprefix("place: ").strip() for line in said if line.startswith("place: ")]
    said = said[len(places) :]
    leads = "br0 leads to {}, which would go to br1: take that device, or the netmask {}"
    assert places == [
        "br0 32",
        "br0 24",
        "br1 32",
        f"br1 24 {leads.format('192.0.2.0/24', 32)}",
        "br1 16",
        "br2 32 br2 is down",
        "lo 32 lo is the node's own device: no other machine reaches it",
        "none 32 there is no network device none",
        "six",
        f"six {leads.format('2001:db8::/64', 128)}",
    ]
    assert said[:2] == ["master IP 192.0.2.1 is on br0 now", "master IP 192.0.2.1 is off br0 now"]
    assert "needs the interface none, which is not there" in said[2]
    assert "Prefix length 64 is not between 1 and 32" in said[3]
    assert "refused: Hooks refused it: script master-ip-turndown-pre.d/10-site: not now" in said
    assert "refused: Hooks refused it: script master-ip-turnup-pre.d/10-site: not now" in said
    (told,) = [ast.literal_eval(line.removeprefix("told: ")) for line in said if line.startswith("told: ")]
    words = ("turnup-pre", "turnup-post", "turndown-pre", "turndown-pre", "turndown-post", "turnup-pre")
    assert told == [*(f"master-ip-{word} 192.0.2.1" for word in words), ""]
