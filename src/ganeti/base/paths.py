# SPDX-License-Identifier: BSD-2-Clause
"""Where everything lies on a node: 3.1's default paths, below an optional root (protocols, section 1).

`GANETI_ROOTDIR` puts one node of a virtual cluster below a prefix; who reads the environment passes it here.
Standard library only: the command line imports this.
"""

from dataclasses import dataclass

NODED_PORT = 1811
OS_SEARCH_PATH = ("/srv/ganeti/os", "/usr/local/lib/ganeti/os", "/usr/lib/ganeti/os", "/usr/share/ganeti/os")
IALLOCATOR_SEARCH_PATH = ("/usr/local/lib/ganeti/iallocators", "/usr/lib/ganeti/iallocators")
EXTSTORAGE_SEARCH_PATH = (
    "/srv/ganeti/extstorage",
    "/usr/local/lib/ganeti/extstorage",
    "/usr/lib/ganeti/extstorage",
    "/usr/share/ganeti/extstorage",
)


def database_uri(path: str, mode: str) -> str:
    """How SQLite is told to open the file at *path* in *mode* (`ro`, `rw`), whatever letters the path has."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode={mode}"


@dataclass(frozen=True)
class Paths:
    """All paths of one node; *root* is empty on a real node."""

    root: str = ""

    def under(self, path: str) -> str:
        """Give an absolute path below the root; a path already below it is left alone."""
        if not self.root or path == self.root or path.startswith(self.root + "/"):
            return path
        return self.root + path

    @property
    def data_dir(self) -> str:
        return self.under("/var/lib/ganeti")

    @property
    def run_dir(self) -> str:
        return self.under("/run/ganeti")

    @property
    def answers_file(self) -> str:
        """What the node daemon has answered to numbered calls since the last power-on."""
        return f"{self.run_dir}/node-answers.jsonl"

    @property
    def given_up_address_file(self) -> str:
        """Says, until the next power-on, that the cluster's address was taken down on purpose."""
        return f"{self.run_dir}/master-ip-given-up"

    @property
    def socket_dir(self) -> str:
        return f"{self.run_dir}/socket"

    @property
    def log_dir(self) -> str:
        return self.under("/var/log/ganeti")

    @property
    def lock_dir(self) -> str:
        return self.under("/run/lock")

    @property
    def sysconf_dir(self) -> str:
        return self.under("/etc/ganeti")

    @property
    def config_file(self) -> str:
        return f"{self.data_dir}/config.data"

    @property
    def config_database(self) -> str:
        """The authoritative store of WConfD (D6); `config.data` is published from it."""
        return f"{self.data_dir}/config.sqlite"

    @property
    def queue_dir(self) -> str:
        return f"{self.data_dir}/queue"

    @property
    def livelock_dir(self) -> str:
        return f"{self.run_dir}/livelocks"

    @property
    def luxi_socket(self) -> str:
        return f"{self.socket_dir}/ganeti-query"

    @property
    def master_socket(self) -> str:
        """The old name of the LUXI socket; both answer."""
        return f"{self.socket_dir}/ganeti-master"

    @property
    def wconfd_socket(self) -> str:
        return f"{self.socket_dir}/ganeti-wconfd"

    @property
    def server_cert(self) -> str:
        """This node's key and certificate, and the cluster's authority, as one PEM file."""
        return f"{self.data_dir}/server.pem"

    @property
    def client_cert(self) -> str:
        return f"{self.data_dir}/client.pem"

    def former_client_cert(self, time_s: str) -> str:
        """What this node has shown until then (seconds since the epoch, or ``*``): a node may know it by that alone."""
        return f"{self.data_dir}/client-former.{time_s}.pem"

    @property
    def spared_file(self) -> str:
        """A former certificate that the node daemon still takes, and until when."""
        return f"{self.run_dir}/spared-certificate.json"

    @property
    def renewed_key(self) -> str:
        """The key of a certificate that this node has asked for."""
        return f"{self.data_dir}/renewed.key"

    @property
    def renewed_cert(self) -> str:
        """What `server.pem` and `client.pem` are to become."""
        return f"{self.data_dir}/renewed.pem"

    @property
    def joining_record(self) -> str:
        """What was here before this machine began to join a cluster, until the cluster has taken it in."""
        return f"{self.data_dir}/joining"

    @property
    def joining_records(self) -> tuple[str, str]:
        """One of them is there while a joining is under way or was interrupted: the record, or it being begun."""
        return self.joining_record, f"{self.joining_record}.new"

    @property
    def authority_cert(self) -> str:
        """The cluster's certificate authority (public part); while it is renewed, and as long as a node needs it, the
        former one after it."""
        return f"{self.data_dir}/ca.pem"

    @property
    def authority_key(self) -> str:
        """The authority's key: master candidates only, mode 0400."""
        return f"{self.data_dir}/ca.key"

    @property
    def hmac_key(self) -> str:
        return f"{self.data_dir}/hmac.key"

    @property
    def cluster_domain_secret(self) -> str:
        return f"{self.data_dir}/cluster-domain-secret"

    @property
    def known_hosts(self) -> str:
        return f"{self.data_dir}/known_hosts"

    @property
    def public_keys(self) -> str:
        """The public ssh keys of all candidates, each line after the uuid of its node."""
        return f"{self.data_dir}/ganeti_pub_keys"

    @property
    def authorized_keys(self) -> str:
        """Whom sshd lets in as root."""
        return self.under("/root/.ssh/authorized_keys")

    @property
    def epoch_file(self) -> str:
        """The highest epoch and the superseded attempts this node has seen (D5)."""
        return f"{self.data_dir}/noded-epoch.json"

    @property
    def file_storage_paths_file(self) -> str:
        return f"{self.sysconf_dir}/file-storage-paths"

    @property
    def diagnose_commands_dir(self) -> str:
        """What may be run to find out whether the node is well (S4.11)."""
        return f"{self.sysconf_dir}/node-diagnose-commands"

    @property
    def restricted_commands_dir(self) -> str:
        """What `gnt-node restricted-command` may run; where it is missing, nothing may."""
        return f"{self.sysconf_dir}/restricted-commands"

    @property
    def repair_commands_dir(self) -> str:
        """What may be run to repair the node (S4.12)."""
        return f"{self.sysconf_dir}/node-repair-commands"

    @property
    def restricted_commands_lock(self) -> str:
        """Held while one of these is looked up: mistakes are told slowly, one at a time."""
        return f"{self.lock_dir}/ganeti-restricted-commands.lock"

    @property
    def hooks_dir(self) -> str:
        return f"{self.sysconf_dir}/hooks"

    @property
    def export_dir(self) -> str:
        return self.under("/srv/ganeti/export")

    @property
    def backup_dir(self) -> str:
        """Where this node keeps incremental backups; whatever file system is mounted there."""
        return self.under("/srv/ganeti/backup")

    @property
    def backup_store_file(self) -> str:
        """Says where backups are kept instead, with the keys of that place; for root alone."""
        return f"{self.sysconf_dir}/backup-store.json"

    @property
    def backup_scratch_dir(self) -> str:
        """What guests overwrite while their backups are read: much, so not beside the configuration."""
        return self.under("/srv/ganeti/backup-scratch")

    @property
    def backup_chains_dir(self) -> str:
        """Directories of the processes that serve the disks of a backup."""
        return f"{self.run_dir}/backup-chains"

    @property
    def backup_chain(self) -> str:
        """The program that serves the disks of a backup."""
        return self.under("/usr/lib/ganeti/backup-chain")

    @property
    def backup_files_dir(self) -> str:
        """Files that were read out of backups, on the master."""
        return self.under("/srv/ganeti/backup-files")

    @property
    def transfers_dir(self) -> str:
        """Directories of disks on their way to or from another cluster."""
        return f"{self.run_dir}/import-export"

    @property
    def transfer_keys_dir(self) -> str:
        return f"{self.run_dir}/crypto"

    @property
    def import_export(self) -> str:
        """The program that brings one disk to another cluster."""
        return self.under("/usr/lib/ganeti/import-export")

    @property
    def audit_log(self) -> str:
        return f"{self.log_dir}/rapi-audit.log"

    @property
    def api_tokens(self) -> str:
        return f"{self.data_dir}/rapi/tokens"

    @property
    def tracing_file(self) -> str:
        return f"{self.sysconf_dir}/tracing.json"

    @property
    def api_issuers(self) -> str:
        return f"{self.data_dir}/rapi/issuers"

    @property
    def os_log_dir(self) -> str:
        return f"{self.log_dir}/os"

    @property
    def watcher_pause_file(self) -> str:
        return f"{self.data_dir}/watcher.pause"

    def ssconf_file(self, key: str) -> str:
        return f"{self.data_dir}/ssconf_{key}"

    def pid_file(self, daemon: str) -> str:
        return f"{self.run_dir}/{daemon}.pid"
