# SPDX-License-Identifier: BSD-2-Clause
"""Wrong input to every command: one sentence with the remedy, the exit status of 3.1, and nothing has changed."""

from __future__ import annotations

import os
import re

import pytest
from tests.fakes import bed_addresses
from tests.fakes.bad_parameters import MISSED, OURS, UNKNOWN, good, missing_object
from tests.system.fake_bed import FakeBed
from tests.system.forbidden_opcodes import FORBIDDEN, NOTHING_FORBIDDEN, THERE, Door

from ganeti.tools.testbed import bed, cluster, machine

pytestmark = [
    pytest.mark.daemons,
    bed_addresses.of_ipv4_alone("it types such addresses; test_addresses.py has those of IPv6"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
FAILED, USAGE, UNKNOWN_FIELD = 1, 2, 14
CONFIRM = 1
NOT_MIGRATED, NOT_FAILED_OVER = 13, 2
"""What 3.1 gives for nodes where nobody answers its question."""
LONG = "a" * 300
BROKEN = "\"$(printf 'a\\nb')\""
HUGE = "99999999999999999999"

NO_MESSAGE = r"Traceback|[a-z]Error\b(?!:? \()|this is a bug|`|\$\."

ADD = "gnt-instance add -t sharedfile -s 8m -o noop+default "
DISK = "gnt-instance add -t sharedfile -o noop+default --disk "
BARE = "gnt-instance add -t diskless -o noop+default "

# What is typed, the exit status, and words of the answer: what is wrong, and what would be right.
COMMANDS = [
    ("gnt-instance bogus", FAILED, "no command 'bogus'"),
    ("gnt-instance lst", FAILED, "did you mean 'list'"),
    ("gnt-instance remov inst1", FAILED, "no command 'remov'\nCommands: activate-disks"),
    ("gnt-cluster destory --yes-do-it", FAILED, "no command 'destory'\nCommands: activate"),
    ("gnt-instance remove --forse inst1", USAGE, "no option --forse; see 'gnt-instance remove --help'"),
    ("gnt-node bogus", FAILED, "no command 'bogus'"),
    ("gnt-cluster --bogus", FAILED, "no option '--bogus'"),
    ("gnt-os list bogus", FAILED, "takes no arguments, not 1"),
    ("gnt-instance list --bogus", USAGE, "no option --bogus"),
    ("gnt-instance list --separator", USAGE, "--separator needs TEXT"),
    ("gnt-instance list inst1 --units m", FAILED, "put all options before the arguments"),
    ("gnt-instance remove inst1 -f", FAILED, "put all options before the arguments"),
    ("GNT_INSTANCE_LIST=--bogus gnt-instance list", USAGE, "no option --bogus"),
    ("GNT_INSTANCE_LIST='-o \"name' gnt-instance list", USAGE, "GNT_INSTANCE_LIST cannot be read"),
]

LISTS = [
    ("gnt-instance list nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance list inst1 nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance list -o name,bogus", UNKNOWN_FIELD, "Unknown field: bogus; see 'gnt-instance list-fields'"),
    ("gnt-instance list --no-headers --separator=: -o bogus", UNKNOWN_FIELD, "Unknown field: bogus"),
    ("gnt-instance list -o ''", FAILED, "-o needs at least one field"),
    ("gnt-instance list --units x", USAGE, "one of h, m, g, t"),
    ("gnt-instance list-fields bogus", UNKNOWN_FIELD, "Unknown field: bogus"),
    ("gnt-network list-fields bogus", UNKNOWN_FIELD, "Unknown field: bogus; see 'gnt-network list-fields'"),
    ("gnt-group list -o bogus", UNKNOWN_FIELD, "see 'gnt-group list-fields'"),
    ("gnt-instance list -F 'name =='", FAILED, "expected a number or a text in quotes"),
    ("gnt-instance list -F 'name == \"inst1'", FAILED, "expected a field, an operator or a value"),
    ("gnt-instance list -F 'bogus == 1'", FAILED, "field 'bogus', which does not exist"),
    ("gnt-instance list -F 'status == 1'", FAILED, "cannot be compared with 1"),
    ("gnt-instance list -F 'be/vcpus == \"x\"'", FAILED, "is a number: it cannot be compared with 'x'"),
    ("gnt-instance list -F 'name =~ \"(\"'", FAILED, "no regular expression"),
    ("gnt-instance info", FAILED, "the name of an instance, or --all"),
    ("gnt-instance info nosuch", FAILED, "Instance 'nosuch' not known: there are"),
    ("gnt-node list nosuch", FAILED, "Node 'nosuch' not known"),
    ("gnt-node list -o bogus", UNKNOWN_FIELD, "see 'gnt-node list-fields'"),
    ("gnt-node info nosuch", FAILED, "Node 'nosuch' not known"),
    ("gnt-debug locks -o bogus", UNKNOWN_FIELD, "there are name, mode, owner, pending"),
    ("gnt-debug locks --interval x", USAGE, "'x' is not a number"),
]

NAMES = [
    ("gnt-instance add", FAILED, "takes 1 argument, not 0"),
    (ADD + "--net 0:link=br9 -n node2 new1", FAILED, "Missing bridges on node node2"),
    (ADD + "new1 new2", FAILED, "takes 1 argument, not 2"),
    (ADD + "inst1", FAILED, "already in the cluster: choose another name"),
    (ADD + "'bad name'", FAILED, "not a valid instance name: use letters"),
    (ADD + "../x", FAILED, "not a valid instance name"),
    (ADD + "''", FAILED, "'' is not a valid instance name"),
    (ADD + "-- -x", FAILED, "not a valid instance name"),
    (ADD + LONG, FAILED, "too long: it has 300 bytes, 255 are the most"),
    (ADD + LONG[:254], FAILED, "not a valid instance name"),
    (ADD + "127.0.0.1", FAILED, "'127.0.0.1' is not a valid instance name: it would be read as an IP address"),
    (ADD + "web.1", FAILED, "use a name whose last part is no number"),
    (ADD + BROKEN, FAILED, r"cannot be 'a\\nb': it holds a control character, such as a line break"),
    (ADD + "--tags " + BROKEN + " new1", FAILED, r"'a\\nb' is not a valid tag"),
    ("gnt-instance remove -f " + BROKEN, FAILED, r"cannot be 'a\\nb'"),
    ("gnt-instance info " + BROKEN, FAILED, r"cannot be 'a\\nb'"),
    (ADD + "naïve", FAILED, "not a valid instance name"),
    (ADD + "$(printf 'a\\344')", FAILED, "not text in UTF-8"),
    (ADD + "--name-check new1", FAILED, "The name 'new1' has no IPv4 address"),
    (ADD + "--ip-check new1", FAILED, "add --name-check"),
    (ADD + "--tags 'a b' new1", FAILED, "not a valid tag: use 1 to 128 letters"),
    (ADD + "--tags 'a;b' new1", FAILED, "not a valid tag"),
    (ADD + "--priority bogus new1", USAGE, "one of low, normal, high"),
    (ADD + "--helper-startup-timeout x new1", USAGE, "'x' is not a time: write a number"),
    (DISK + "0:size=8m,spindles=2 new1", FAILED, "spindles are counted with exclusive storage only"),
    (DISK + "0:size=8m,access=userspace new1", FAILED, "access userspace is not possible"),
    ("gnt-cluster modify --install-image install.img", FAILED, "cannot be the install image: give an absolute path"),
    ("gnt-cluster modify --reserved-lvs 'a/(b'", FAILED, r"'a/\(b' is no regular expression"),
    ("gnt-cluster modify --zeroing-image zero.img", FAILED, "cannot be the zeroing image: give an absolute path"),
    ("gnt-cluster modify --compression-tools lzop", FAILED, "The compression tool gzip cannot be left out"),
    (ADD + "-O os-image=base.raw new1", FAILED, "cannot be the OS parameter os-image: give an absolute path"),
    (ADD + "--communication=yes new1", FAILED, "leave --communication out"),
    (BARE + "--commit new1", FAILED, "Instance 'new1' not known"),
]

SIZES = [
    ("gnt-instance add -t sharedfile -s 8x -o noop+default new1", USAGE, "'8x' is not a size: write a number"),
    ("gnt-instance add -t sharedfile -s -8m -o noop+default new1", USAGE, "'-8m' is not a size"),
    ("gnt-instance add -t sharedfile -s 1e3 -o noop+default new1", USAGE, "'1e3' is not a size"),
    ("gnt-instance add -t sharedfile -s 0 -o noop+default new1", FAILED, "size must be more than zero"),
    (
        "gnt-instance add -t sharedfile -s 8t -o noop+default new1",
        FAILED,
        "Nearest fit: node1, with 7,168 GiB less disk",
    ),
    (f"gnt-instance add -t sharedfile -s {HUGE}t -o noop+default new1", FAILED, "MiB at most"),
    (DISK + "0:size=2t -n node1 new1", FAILED, "size of a disk is 2097152 MiB, allowed are 1 to 1048576 MiB"),
    (DISK + "0:size=abc new1", FAILED, "'abc' is not a size"),
    (DISK + "0:bogus=abc new1", FAILED, "size is missing: write --disk 0:size=SIZE"),
    (DISK + "0:size=8m,bogus=1 new1", FAILED, "unknown parameter 'bogus': there are"),
    (DISK + "0:size=8m,size=9m new1", FAILED, "'size' is given twice"),
    (DISK + "0:size=8m,mode=x new1", FAILED, "access mode 'x' is unknown: use ro or rw"),
    (DISK + "0:size=8m,access=x new1", FAILED, "access 'x' is unknown: use kernelspace or userspace"),
    (DISK + "0:size=8m,dev_type=plain new1", FAILED, "all disks have the instance's template"),
    (DISK + "0:size=8m,format=x new1", FAILED, "format 'x' is unknown: there are raw, qcow2"),
    (DISK + "0:size=8m,spindles=x new1", FAILED, "'x' is not a whole number"),
    (DISK + "0:size=8m,name=7 new1", FAILED, "a number alone would be taken for an index"),
    (DISK + "0:size=8m,name=-1 new1", FAILED, "a number alone would be taken for an index"),
    (DISK + "0:size=8m,name=a --disk 1:size=8m,name=a new1", FAILED, "a name of its own"),
    (DISK + "0: new1", FAILED, "size is missing"),
    (DISK + "a:size=8m new1", FAILED, "'a' is not an index from 0 to 15"),
    (DISK + "99:size=8m new1", FAILED, "'99' is not an index from 0 to 15"),
    (DISK + "1:size=8m new1", FAILED, "--disk 0: the size is missing"),
    (DISK + "0:size=8m --disk 0:size=8m new1", FAILED, "index 0 is given twice"),
    (DISK + "0:size=8m -s 8m new1", FAILED, "-s and --disk exclude each other"),
    ("gnt-instance add -t sharedfile -o noop+default new1", FAILED, "add --disk 0:size=SIZE"),
    (BARE + "-s 8m new1", FAILED, "leave --disk out"),
]

TEMPLATES = [
    (
        "gnt-instance add -t bogus -s 8m -o noop+default new1",
        FAILED,
        "'bogus': there are .*diskless, .*file, .*mirror, ",
    ),
    ("gnt-instance add -t drbd -s 8m -o noop+default new1", FAILED, "'drbd' is not enabled in cluster"),
    (ADD + "--file-storage-dir /etc new1", FAILED, "must be relative to the cluster's"),
    (ADD + "--file-storage-dir ../x new1", FAILED, r"'../x': it must be written without '\.\.'"),
    (ADD + "--file-storage-dir " + BROKEN + " new1", FAILED, r"cannot be 'a\\nb': it holds a control character"),
    (ADD + f"--file-storage-dir {LONG} new1", FAILED, "a part of it is too long: 255 bytes are the most"),
    (
        "gnt-instance add --no-install -t diskless -o ../x new1",
        FAILED,
        "cannot be '../x': it cannot be the name of an OS",
    ),
    ("gnt-instance startup -H kernel_path=/" + BROKEN + " down1", FAILED, "control character"),
    (ADD + "--file-driver bogus new1", USAGE, "one of loop, blktap, blktap2"),
    (ADD + "-H kvm new1", FAILED, "kvm is not enabled in the cluster: use one of fake"),
    (ADD + "-H bogus new1", FAILED, "bogus"),
    (ADD + "-H fake:bogus=1 new1", FAILED, "Unknown hypervisor parameter 'bogus'"),
    (ADD + "-H fake:migration_mode=live new1", FAILED, "can only be set for the whole cluster"),
    (ADD + "-H fake -H kvm new1", FAILED, "one hypervisor, not 2"),
]

PARAMETERS = [
    (ADD + "-B memory=abc new1", FAILED, "must be a size such as 512m"),
    (ADD + "-B memory=0 new1", FAILED, "the least is 1"),
    (ADD + f"-B memory={HUGE} new1", FAILED, "the most is 2147483647"),
    (ADD + "-B memory=1t new1", FAILED, "Nearest fit: node[12], with .* less memory"),
    (ADD + "-n node1 -B memory=30g new1", FAILED, "needed 30720 MiB, available"),
    (ADD + "-B vcpus=100 new1", FAILED, "allows at most 8 vcpus, the instance has 100"),
    (ADD + "-n node1 -B vcpus=9 new1", FAILED, "processors is 9, allowed are 1 to 8"),
    (ADD + f"-B vcpus={HUGE} new1", FAILED, "the most is 2147483647"),
    (ADD + "-B vcpus=-1 new1", FAILED, "the least is 1"),
    (ADD + "-B vcpus=1.5 new1", FAILED, "must be a whole number"),
    (ADD + "-B auto_balance=maybe new1", FAILED, "must be true or false"),
    (ADD + "-B no_vcpus new1", FAILED, "must be a whole number"),
    (ADD + "-B =5 new1", FAILED, "write KEY=VALUE"),
    (ADD + "-B vcpus=2,vcpus=3 new1", FAILED, "'vcpus' is given twice"),
    (ADD + "-B bogus=1 new1", FAILED, "Unknown backend parameter 'bogus': there are"),
    (ADD + "-B minmem=512,maxmem=256 new1", FAILED, "above the maximum"),
    (
        "gnt-instance add -t sharedfile -s 8m new1",
        FAILED,
        "add -o OS, an image with -O os-image=IMAGE, or --no-install",
    ),
    ("gnt-instance add -t sharedfile -s 8m -o nosuch new1", FAILED, "OS 'nosuch' not known: there are heartbeat, noop"),
    ("gnt-instance add -t sharedfile -s 8m -o noop new1", FAILED, r"write noop\+VARIANT, with default"),
    ("gnt-instance add -t sharedfile -s 8m -o noop+bogus new1", FAILED, "no variant 'bogus': there are default"),
    ("gnt-instance add -t sharedfile -s 8m -o ../noop+default new1", FAILED, "cannot be the name of an OS"),
    (ADD + "-O bogus=1 new1", FAILED, "Unknown parameter of OS 'noop': bogus"),
    ("gnt-instance add -t diskless -o heartbeat+default -O rate=x new1", FAILED, "not a number of beats per second"),
]

PLACES = [
    (ADD + "-n node9 new1", FAILED, "Node 'node9' not known: there are node1, node2"),
    (ADD + "-n : new1", FAILED, "write NODE or NODE:SECONDARY"),
    (ADD + "-n node1 -I hail new1", FAILED, "exclude each other"),
    (ADD + "-n node1 -g default new1", FAILED, "exclude each other"),
    (ADD + "-I bogus new1", FAILED, "no program of that name in"),
    (ADD + "-I ../hail new1", FAILED, "hail"),
    (ADD + "-g nosuch new1", FAILED, "Group 'nosuch' not known: there are default"),
]

NICS = [
    (ADD + "--net 0:mac=zz new1", FAILED, "not a MAC address: write aa:bb:cc:dd:ee:ff or auto"),
    (ADD + "--net 0:ip=1.2.3 new1", FAILED, "'1.2.3' is not an IP address"),
    (ADD + "--net 0:mode=bogus new1", FAILED, "one of bridged, routed, openvswitch"),
    (ADD + "--net 0:mode=routed new1", FAILED, "add ip=ADDRESS"),
    (ADD + "--net 0:vlan=foo new1", FAILED, "write .N, .N:M or :N:M"),
    (ADD + "--net 0:network=foo new1", FAILED, "Network 'foo' not known"),
    (ADD + "--net 0:bogus=1 new1", FAILED, "there is no 'bogus' in it: there are bridge, ip"),
    (ADD + "--net x:mode=routed new1", FAILED, "'x' is not an index from 0 to 7"),
    (ADD + "--net 8 new1", FAILED, "'8' is not an index from 0 to 7"),
    (ADD + "--net 0:name=5 new1", FAILED, "a number alone would be taken for an index"),
    (ADD + "--no-nics --net 0 new1", FAILED, "exclude each other"),
]

RUNNING = [
    ("gnt-instance startup", FAILED, "needs the name of an instance, or --all"),
    ("gnt-instance startup nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance startup inst1 nosuch", CONFIRM, "give --force-multiple"),
    ("gnt-instance startup --tags nosuch", FAILED, "No instance matches"),
    ("gnt-instance startup --node node9", FAILED, "Node 'node9' not known"),
    ("gnt-instance startup -H bogus=1 down1", FAILED, "Unknown hypervisor parameter 'bogus'"),
    ("gnt-instance startup -B bogus=1 down1", FAILED, "Unknown backend parameter 'bogus'"),
    ("gnt-instance startup -B memory=x down1", FAILED, "must be a size such as"),
    ("gnt-instance shutdown nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance shutdown --timeout x inst1", USAGE, "'x' is not a time"),
    ("gnt-instance shutdown --timeout=-5 inst1", FAILED, "'-5' is not a time"),
    ("gnt-instance reboot nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance reboot -t bogus inst1", USAGE, "one of soft, hard, full"),
    ("gnt-instance reboot --shutdown-timeout=x inst1", USAGE, "'x' is not a time"),
    ("gnt-instance remove nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance remove -f nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance rename inst1 inst/9", FAILED, "is not a valid instance name"),
    ("gnt-instance rename inst1 inst9", FAILED, "so it cannot be renamed: shut it down first"),
    ("gnt-instance rename --ip-check inst1 inst9", FAILED, "add --name-check"),
    ("gnt-instance reinstall inst1", CONFIRM, "give --force to go on"),
    ("gnt-instance reinstall -f inst1", FAILED, "so it cannot be reinstalled: shut it down first"),
    ("gnt-instance move -n node2 inst1", CONFIRM, "give -f to go on"),
    ("gnt-instance move -f -n node9 inst1", FAILED, "Node 'node9' not known: there are"),
    (
        "gnt-instance move -f --compress=lzma -n node2 inst1",
        FAILED,
        "Compression 'lzma' is not enabled in the cluster: use one of",
    ),
    ("gnt-instance change-group --to bogus inst1", FAILED, "'bogus' not known"),
    ("gnt-instance change-group --to default inst1", FAILED, "is in node group default: name another one"),
    ("gnt-instance batch-create /nowhere.json", FAILED, "/nowhere.json cannot be read: No such file"),
    ("gnt-instance remove inst1", CONFIRM, "give -f to go on"),
    ("gnt-instance remove --shutdown-timeout=x inst1", USAGE, "'x' is not a time"),
    ("gnt-instance console nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance console down1", FAILED, "start it with gnt-instance startup down1"),
]

MOVES = [
    ("gnt-instance migrate -f nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance migrate inst1", CONFIRM, "give -f to go on"),
    ("gnt-instance migrate -f -n node9 inst1", FAILED, "Node 'node9' not known: there are"),
    ("gnt-instance migrate -f -n node1 inst1", FAILED, "already on node node1: name another one"),
    ("gnt-instance migrate -f -n node2 -I hail inst1", FAILED, "exclude each other"),
    ("gnt-instance migrate -f -I bogus inst1", FAILED, "no program of that name"),
    ("gnt-instance migrate -f --migration-mode bogus inst1", USAGE, "one of live, non-live"),
    ("gnt-instance migrate -f file1", FAILED, "file"),
    ("gnt-instance failover -f nosuch", FAILED, "Instance 'nosuch' not known"),
    ("gnt-instance failover inst1", CONFIRM, "give -f to go on"),
    ("gnt-instance failover -f -n node9 inst1", FAILED, "Node 'node9' not known: there are"),
    ("gnt-instance failover -f -n node1 inst1", FAILED, "already on node node1: name another one"),
    ("gnt-instance failover -f -n node2 -I hail inst1", FAILED, "exclude each other"),
    ("gnt-instance failover -f --shutdown-timeout x inst1", USAGE, "'x' is not a time"),
    ("gnt-instance failover -f file1", FAILED, "file"),
]

NODES = [
    ("gnt-node add", FAILED, "takes 1 argument, not 0"),
    ("gnt-node add node2", FAILED, "retry with '--readd'"),
    ("gnt-node add --readd node3", FAILED, "retry without '--readd'"),
    ("gnt-node add 10.77.0.3", FAILED, "'10.77.0.3' cannot be the name of a node: it would be read as an IP address"),
    ("gnt-node add a..b", FAILED, "'a..b' has no IPv4 address"),
    ("gnt-node add nosuchhost", FAILED, "enter it into the DNS or /etc/hosts"),
    ("gnt-node add 'bad name'", FAILED, "'bad name' has no IPv4 address"),
    ("gnt-node add -g nosuch node3", FAILED, "Group 'nosuch' not known"),
    ("gnt-node add -s 1.2.3 node3", FAILED, "valid IPv4 address"),
    ("gnt-node add -s 10.77.0.2 node3", FAILED, "conflict with existing node node2"),
    ("gnt-node add -s 10.99.0.3 node3", FAILED, "leave it out"),
    ("gnt-node add --node-parameters bogus=1 node3", FAILED, "Unknown node parameter 'bogus'"),
    ("gnt-node add --node-parameters ssh_port=x node3", FAILED, "not a whole number"),
    ("gnt-node add --master-capable=maybe node3", FAILED, "neither yes nor no"),
    ("gnt-node modify node2", FAILED, "at least one of the parameters"),
    ("gnt-node modify -O maybe node2", FAILED, "neither yes nor no"),
    ("gnt-node modify -O yes node9", FAILED, "Node 'node9' not known"),
    ("gnt-node modify -O yes -D yes node2", FAILED, "more than one state"),
    ("gnt-node modify -O yes node1", FAILED, "master-failover"),
    ("gnt-node modify -C no node1", FAILED, "master-failover"),
    ("gnt-node modify -s 1.2.3 node2", FAILED, "valid IPv4 address"),
    ("gnt-node modify -s 10.77.0.1 node2", FAILED, "conflict with existing node node1"),
    ("gnt-node modify --node-parameters bogus=1 node2", FAILED, "Unknown node parameter 'bogus': there are"),
    ("gnt-node modify --node-parameters ssh_port=x node2", FAILED, "must be a whole number"),
    ("gnt-node modify --node-parameters ssh_port=99999 node2", FAILED, "the most is 65535"),
    ("gnt-node modify --master-capable=no node1", FAILED, "is the master"),
    ("gnt-node modify --vm-capable=no node1", FAILED, "move them first"),
    ("gnt-node remove", FAILED, "takes 1 argument, not 0"),
    ("gnt-node remove node9", FAILED, "Node 'node9' not known: there are"),
    ("gnt-node remove node1", FAILED, "is the master"),
    ("gnt-node migrate node9", FAILED, "Node 'node9' not known"),
    ("gnt-node migrate node1", NOT_MIGRATED, "give -f to go on"),
    ("gnt-node migrate -f -n node9 node1", FAILED, "Node 'node9' not known"),
    ("gnt-node migrate -f --migration-mode=bogus node1", USAGE, "one of live, non-live"),
    ("gnt-node failover node9", FAILED, "Node 'node9' not known"),
    ("gnt-node failover node1", NOT_FAILED_OVER, "give -f to go on"),
    ("gnt-node failover -f -I bogus node1", FAILED, r"3 error\(s\) out of 3 instance"),
]


def submit(text: str) -> str:
    return f"echo '{text}' | gnt-debug submit-job -"


JOBS = [
    ("gnt-job list bogus", FAILED, "'bogus' is not a job id: it must be a number"),
    ("gnt-job list -o bogus 1", UNKNOWN_FIELD, "Unknown field: bogus"),
    ("gnt-job info", FAILED, "at least 1 argument"),
    ("gnt-job info bogus", FAILED, "is not a job id"),
    ("gnt-job watch 9999", FAILED, "Job ID 9999 not found"),
    ("gnt-job watch bogus", FAILED, "is not a job id"),
    ("gnt-job wait 9999", FAILED, "Job ID 9999 not found"),
    ("gnt-job wait bogus", FAILED, "is not a job id"),
    ("gnt-job cancel", FAILED, "either job ids or one of --pending"),
    ("gnt-job cancel 9999", FAILED, "Job 9999 not found in queue"),
    ("gnt-job cancel bogus", FAILED, "is not a job id"),
    ("gnt-job cancel --kill 1", FAILED, "confirm it with --yes-do-it"),
    ("gnt-debug delay", FAILED, "takes 1 argument, not 0"),
    ("gnt-debug delay bogus", FAILED, "'bogus' is not a number"),
    ("gnt-debug delay -- -5", FAILED, "-5 is less than nothing"),
    ("gnt-debug delay -n node9 1", FAILED, "Node 'node9' not known"),
    ("gnt-debug delay -r x 1", USAGE, "'x' is not a whole number"),
    ("gnt-debug submit-job", FAILED, "at least 1 argument"),
    ("gnt-debug submit-job /nosuch", FAILED, "Cannot read /nosuch: No such file"),
    (submit("{"), FAILED, "is not JSON"),
    (submit("[]"), FAILED, "a JSON list of at least one opcode"),
    (submit("[1]"), FAILED, "an object with the key 'OP_ID'"),
    (submit('[{"OP_ID": "OP_BOGUS"}]'), FAILED, "OP_BOGUS is not known"),
    (submit('[{"OP_ID": "OP_INSTANCE_REMOVE"}]'), FAILED, "the parameter 'instance_name' is missing"),
    (submit('[{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": 5}]'), FAILED, "must be text, not a whole number"),
    (submit('[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "bogus": 1}]'), FAILED, "there is no parameter 'bogus'"),
    (submit('[{"OP_ID": "OP_TEST_DELAY", "duration": "x"}]'), FAILED, "must be a number, not text"),
    (submit('[{"OP_ID": "OP_TEST_DELAY", "duration": 1e400}]'), FAILED, "1e400 is too large"),
    (submit('[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "priority": 7}]'), FAILED, "use one of -10, 0, 10"),
]

CLUSTER = [
    ("gnt-cluster init", FAILED, "takes 1 argument, not 0"),
    ("gnt-cluster init cluster", FAILED, "There is a cluster on this machine already"),
    ("gnt-cluster destroy", FAILED, "supply the --yes-do-it option"),
    ("gnt-cluster destroy --yes-do-it", FAILED, "still"),
    ("gnt-cluster verify -g nosuch", FAILED, "Group 'nosuch' not known: there are default"),
    ("gnt-cluster verify -I BOGUS", FAILED, "Unknown error code 'BOGUS': there are"),
    ("gnt-cluster verify bogus", FAILED, "takes no arguments, not 1"),
    ("gnt-cluster info bogus", FAILED, "takes no arguments, not 1"),
    ("gnt-cluster version bogus", FAILED, "takes no arguments, not 1"),
    ("gnt-cluster getmaster bogus", FAILED, "takes no arguments, not 1"),
]

FILES = "--enabled-disk-templates file,sharedfile "
"""Else a volume group that another test has at the moment would be taken."""
INIT = "gnt-cluster init --no-etc-hosts --master-netdev eth0 --enabled-hypervisors fake " + FILES
ELSEWHERE = [
    (INIT + "'bad name'", FAILED, "bad name"),
    (INIT + "nosuchhost", FAILED, "nosuchhost"),
    (INIT + "10.77.0.9", FAILED, "'10.77.0.9' cannot be the name of a cluster: it would be read as an IP address"),
    (INIT + "--file-storage-dir /srv/" + BROKEN + " cluster", FAILED, r"'/srv/a\\nb' cannot"),
    (INIT + "--shared-file-storage-dir /srv/../etc cluster", FAILED, r"without '\.', '\.\.'"),
    (INIT + "--enabled-hypervisors bogus cluster", FAILED, "bogus"),
    (INIT + "--enabled-disk-templates bogus cluster", FAILED, "bogus"),
    (INIT + "--master-netdev nosuch0 cluster", FAILED, "nosuch0"),
    (INIT + "--master-netmask 77 cluster", FAILED, "77"),
    (INIT + "--mac-prefix zz cluster", FAILED, "zz"),
    (INIT + "-B bogus=1 cluster", FAILED, "bogus"),
    (INIT + "-B vcpus=x cluster", FAILED, "whole number"),
    (INIT + "-N mode=bogus cluster", FAILED, "one of bridged"),
    (INIT + "--candidate-pool-size 0 cluster", FAILED, "0"),
    (INIT + "--candidate-pool-size x cluster", USAGE, "not a whole number"),
    (INIT + "--ipolicy-bounds-specs bogus cluster", FAILED, "bogus"),
    (INIT + "-s 1.2.3 cluster", FAILED, "1.2.3"),
    ("gnt-cluster info", 5, "gnt-cluster init"),
    ("gnt-instance list", 5, "gnt-cluster init"),
]


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory):
    """A cluster of two nodes with three instances; the third node has not joined."""
    layout = bed.up(tmp_path_factory.mktemp("bad-input").resolve(), 3, "fake", watcher_interval_s=86400, ip="4")
    try:
        found = FakeBed(layout)
        found.run(*cluster.init_command(layout))
        found.run("gnt-node", "add", "--no-ssh-key-check", "node2")
        add = ("gnt-instance", "add", "-n", "node1", "-o", "noop+default")
        found.run(*add, "-t", "sharedfile", "-s", "8m", "inst1")
        found.run(*add, "-t", "diskless", "--no-start", "down1")
        found.run(*add, "-t", "file", "-s", "8m", "file1")
        yield found
    finally:
        bed.down(layout)


def state_of(fake_bed: FakeBed) -> tuple[object, ...]:
    configuration = (fake_bed.data("node1") / "config.data").read_bytes()
    joined = sorted(os.listdir(fake_bed.data("node3"))) if fake_bed.data("node3").exists() else []
    return configuration, fake_bed.shared_files(), joined


def refused(fake_bed: FakeBed, line: str, status: int, words: str, node: str = "node1") -> None:
    before = state_of(fake_bed)
    done = machine.run(fake_bed.layout, node, "sh", "-c", line, timeout_s=60)
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert re.search(words, said), said
    assert not re.search(NO_MESSAGE, said), said
    assert state_of(fake_bed) == before


ON_MASTER = [
    *(COMMANDS + LISTS + NAMES + SIZES + TEMPLATES + PARAMETERS + PLACES + NICS + RUNNING + MOVES + NODES),
    *(JOBS + CLUSTER),
]


@pytest.mark.parametrize(("line", "status", "words"), ON_MASTER, ids=[row[0] for row in ON_MASTER])
def test_refused(fake_bed, line, status, words):
    refused(fake_bed, line, status, words)


@pytest.mark.parametrize(("line", "status", "words"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
def test_refused_without_a_cluster(fake_bed, line, status, words):
    refused(fake_bed, line, status, words, "node3")


OF_INSTANCES = [op_id for op_id in OURS if op_id.startswith("OP_INSTANCE_")]


@pytest.mark.parametrize("op_id", OF_INSTANCES)
def test_opcodes_of_instances_are_refused_over_luxi(fake_bed, op_id):
    """An object that is not there, values that exclude each other: one message, and the serial number stands."""
    rows = [
        (good(op_id, THERE) | {field.name: missing_object(field)}, UNKNOWN) for owner, field in MISSED if owner == op_id
    ]
    rows += FORBIDDEN.get(op_id, [])
    assert (op_id in FORBIDDEN) is not (op_id in NOTHING_FORBIDDEN)
    door = Door(fake_bed)
    before, serial = state_of(fake_bed), door.serial()
    refusals = door.refusals([{"OP_ID": op_id, **parameters} for parameters, _ in rows])
    faults = [
        f"{parameters} was answered: {said}"
        for (parameters, words), said in zip(rows, refusals, strict=True)
        if words not in said or not said.isprintable() or re.search(NO_MESSAGE, said)
    ]
    assert not faults, "\n".join(faults)
    assert (state_of(fake_bed), door.serial()) == (before, serial)


def test_the_undo_of_a_disk_that_its_node_refuses_leaves_nothing_to_do(fake_bed):
    """The master cannot know where a node allows disks: the node says no, and to the undo that there is nothing."""
    paths = "/etc/ganeti/file-storage-paths"
    fake_bed.run("sh", "-c", f"cp {paths} {paths}.kept; echo /srv/elsewhere > {paths}")
    try:
        said = fake_bed.run(
            *["gnt-instance", "add", "-n", "node1", "-t", "file", "-s", "8m", "-o", "noop+default", "new1"], expect=1
        )
    finally:
        fake_bed.run("mv", f"{paths}.kept", paths)
    assert "cannot hold a disk: it is not below /srv/elsewhere" in said
    assert "could not undo" not in said
    assert "new1" not in fake_bed.run("gnt-instance", "list")
    assert "ERROR" not in fake_bed.run("gnt-cluster", "verify")


def test_nothing_runs_or_is_left_after_all_this(fake_bed):
    """The guests of the fixture are where they were, nothing is locked, and verification is clean."""
    assert fake_bed.guests() == {"inst1": ["node1"], "file1": ["node1"]}
    assert "ERROR" not in fake_bed.run("gnt-cluster", "verify")
    fake_bed.wait(fake_bed._no_lock_is_held, "no lock is held")


def test_a_last_disk_takes_its_directories_along(fake_bed):
    add = ("gnt-instance", "add", "-t", "sharedfile", "-s", "8m", "-o", "noop+default", "--file-storage-dir", "a/b")
    fake_bed.run(*add, "new1")
    assert (fake_bed.layout.shared / "a/b/new1").is_dir()
    fake_bed.run("gnt-instance", "remove", "-f", "new1")
    assert not (fake_bed.layout.shared / "a").exists()
    assert "ERROR" not in fake_bed.run("gnt-cluster", "verify")
