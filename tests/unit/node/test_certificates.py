# SPDX-License-Identifier: BSD-2-Clause
"""The authority of a cluster and what it signs."""

import hashlib
import ssl

import pytest
from cryptography import x509

from ganeti.base.errors import ParameterError
from ganeti.node.certificates import (
    VALIDITY,
    Authority,
    create_authority,
    create_self_signed,
    digest,
    first_certificate,
    issue_node_certificate,
    issuer_in,
    trusted_for,
)


def _names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_a_node_certificate_names_node_cluster_and_addresses() -> None:
    authority = create_authority("cluster.example.com")
    pem = issue_node_certificate(authority, "node1.example.com", "cluster.example.com", ["192.0.2.1", "2001:db8::1"])
    certificate = x509.load_pem_x509_certificate(pem.encode())
    names = _names(certificate)
    assert names.get_values_for_type(x509.DNSName) == ["node1.example.com", "cluster.example.com"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "2001:db8::1"]
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc > VALIDITY
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    assert pem.count("BEGIN CERTIFICATE") == 2
    assert pem.count("PRIVATE KEY") == 2


def test_the_digest_is_sha256_in_lower_case_of_the_first_certificate() -> None:
    authority = create_authority("c")
    pem = issue_node_certificate(authority, "n", "c")
    first = pem[pem.index("-----BEGIN CERT") : pem.index("-----END CERT")] + "-----END CERTIFICATE-----\n"
    assert digest(pem) == hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()
    assert digest(pem) != digest(authority.certificate)


def test_each_certificate_has_its_own_key() -> None:
    authority = create_authority("c")
    assert digest(issue_node_certificate(authority, "n", "c")) != digest(issue_node_certificate(authority, "n", "c"))


def test_a_name_longer_than_a_common_name_is_whole_in_the_names() -> None:
    name = ".".join(["node1", "x" * 60, "example.com"])
    certificate = x509.load_pem_x509_certificate(issue_node_certificate(create_authority("c"), name, "c").encode())
    assert _names(certificate).get_values_for_type(x509.DNSName)[0] == name


def test_a_former_key_signs_nothing_beside_a_new_authority() -> None:
    """The former certificate is trusted for a while, but whatever it signs now would have to be renewed again."""
    former, new = create_authority("c"), create_authority("c")
    trusted = new.certificate + former.certificate
    assert issuer_in(issue_node_certificate(Authority(new.key, trusted), "n", "c"), trusted) == new.certificate
    with pytest.raises(ParameterError, match="renew-crypto --new-cluster-certificate"):
        issue_node_certificate(Authority(former.key, trusted), "n", "c")


def test_which_authority_is_trusted_for_a_certificate_and_those_that_follow_it() -> None:
    root, other = create_authority("c"), create_authority("c")
    middle = issue_node_certificate(root, "middle", "c")
    between = first_certificate(middle) or ""
    pem = first_certificate(issue_node_certificate(Authority(middle, between), "n", "c")) or ""
    assert trusted_for(pem, other.certificate + between) == between
    assert trusted_for(pem + between, root.certificate) == root.certificate
    assert trusted_for(pem, root.certificate) is None
    assert trusted_for(pem + between, other.certificate) is None
    own = create_self_signed("n")
    assert trusted_for(own, own) == first_certificate(own)


def test_rubbish_is_told() -> None:
    authority = create_authority("c")
    with pytest.raises(ParameterError, match="authority cannot be read"):
        issue_node_certificate(type(authority)("rubbish", authority.certificate), "n", "c")
    with pytest.raises(ParameterError, match="certificate cannot be read"):
        digest("rubbish")
