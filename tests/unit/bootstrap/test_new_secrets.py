# SPDX-License-Identifier: BSD-2-Clause
"""Secrets that renew-crypto takes from files: what does not belong together is refused, and nothing is written."""

from pathlib import Path

import pytest
from cryptography import x509

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.new_secrets import make_secrets
from ganeti.node.certificates import create_self_signed, first_certificate


def test_an_authority_that_has_not_signed_the_certificate_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Clients that are given it could open no display."""
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: cls(str(tmp_path))))
    own, other = create_self_signed("cluster"), create_self_signed("cluster")
    for name, text in (("own", own), ("other", other)):
        (tmp_path / name).write_text(text)
    options = {"spice_certificate_file": f"{tmp_path}/own", "spice_ca_file": f"{tmp_path}/other"}
    with pytest.raises(PrerequisiteError, match=r"other has not signed the certificate in .*own: name the authority"):
        make_secrets(options)
    assert list(Path(paths.data_dir).iterdir()) == []
    make_secrets({**options, "spice_ca_file": f"{tmp_path}/own"})
    assert Path(paths.data_dir, "spice-ca.pem").read_text() == first_certificate(own)


def test_a_new_certificate_of_the_remote_api_names_what_clients_call_it(tmp_path: Path, monkeypatch) -> None:
    """All nodes show the same one, and the cluster's name and address move from node to node."""
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    for key, value in (("cluster_name", "ganeti.example.com"), ("master_ip", "192.0.2.9")):
        Path(paths.ssconf_file(key)).write_text(f"{value}\n")
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: cls(str(tmp_path), "node1.example.com")))
    make_secrets({"new_rapi_certificate": True})
    found = x509.load_pem_x509_certificate(Path(paths.data_dir, "rapi.pem").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["ganeti.example.com", "node1.example.com"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.9"]
