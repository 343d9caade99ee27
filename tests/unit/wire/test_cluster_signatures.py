# SPDX-License-Identifier: BSD-2-Clause
"""What two clusters show each other: taken as it was signed, refused when one letter, or the secret, is another."""

import datetime
import hashlib
import hmac

import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.node.certificates import transfer_certificate
from ganeti.wire import cluster_signatures as signatures

SECRET = "secret of both"
NOW_S = datetime.datetime.now(datetime.UTC).timestamp()


def test_digests_are_those_of_3_1() -> None:
    """HMAC-SHA1 over salt and text (protocols, section 12)."""
    digest = hmac.new(SECRET.encode(), b"s10:Hi, I'm Ganeti", hashlib.sha1).hexdigest()
    assert signatures.handshake(SECRET, "s1") == [0, digest, "s1"]
    digest = hmac.new(SECRET.encode(), b"s22:10.0.0.1:1234:magic-1", hashlib.sha1).hexdigest()
    assert signatures.disk_info(SECRET, "s2", 2, "10.0.0.1", 1234, "magic-1") == [
        *("10.0.0.1", 1234, "magic-1"),
        *(digest, "s2"),
    ]
    _, pem = transfer_certificate("x", 60)
    digest = hmac.new(SECRET.encode(), b"s3" + pem.encode(), hashlib.sha1).hexdigest()
    assert signatures.sign_certificate(SECRET, "s3", pem) == f"X-Ganeti-Signature: s3/{digest}\n\n{pem}"


def test_what_was_signed_is_taken() -> None:
    signatures.check_handshake(SECRET, signatures.handshake(SECRET, "a"))
    assert signatures.check_key_name(SECRET, signatures.key_name(SECRET, "b", "x509-1")) == "x509-1"
    shown = signatures.disk_info(SECRET, "c", 1, "::1", 4000, "abcdef")
    assert signatures.check_disk_info(SECRET, 1, shown) == ("::1", 4000, "abcdef")
    _, pem = transfer_certificate("x", 60)
    assert signatures.check_certificate(SECRET, signatures.sign_certificate(SECRET, "d", pem), NOW_S, "It") == pem


@pytest.mark.parametrize("secret", ["another", ""])
def test_another_secret_is_refused_with_the_remedy(secret: str) -> None:
    _, pem = transfer_certificate("x", 60)
    for check in (
        lambda: signatures.check_handshake(secret, signatures.handshake(SECRET, "a")),
        lambda: signatures.check_key_name(secret, signatures.key_name(SECRET, "a", "x509-1")),
        lambda: signatures.check_disk_info(secret, 0, signatures.disk_info(SECRET, "a", 0, "h", 1, "abcdef")),
        lambda: signatures.check_certificate(secret, signatures.sign_certificate(SECRET, "a", pem), NOW_S, "It"),
    ):
        with pytest.raises(PrerequisiteError, match=r"not signed by the domain secret .* both clusters need the same"):
            check()


def test_a_disk_is_not_taken_for_another() -> None:
    with pytest.raises(PrerequisiteError, match="destination of disk 1"):
        signatures.check_disk_info(SECRET, 1, signatures.disk_info(SECRET, "a", 0, "h", 1, "abcdef"))


@pytest.mark.parametrize("shown", [[], [0, "x"], [0, 1, 2], [1, "x", "y"], "text", [[], [], []]])
def test_what_has_no_form_is_refused(shown: object) -> None:
    with pytest.raises(PrerequisiteError):
        signatures.check_handshake(SECRET, shown)  # type: ignore[arg-type]
    with pytest.raises(PrerequisiteError):
        signatures.check_key_name(SECRET, shown)  # type: ignore[arg-type]
    with pytest.raises(PrerequisiteError):
        signatures.check_disk_info(SECRET, 0, shown)


@pytest.mark.parametrize(("host", "port", "magic"), [("-x", 1, "abcdef"), ("h", 0, "abcdef"), ("h", 1, "a b;c")])
def test_a_signed_destination_must_be_one_all_the_same(host: str, port: int, magic: str) -> None:
    with pytest.raises(PrerequisiteError, match="host, port or magic is not valid"):
        signatures.check_disk_info(SECRET, 0, signatures.disk_info(SECRET, "a", 0, host, port, magic))


def test_a_certificate_that_is_not_valid_now_is_refused() -> None:
    _, pem = transfer_certificate("x", 60)
    signed = signatures.sign_certificate(SECRET, "a", pem)
    with pytest.raises(PrerequisiteError, match=r"has expired on .*: prepare the export again"):
        signatures.check_certificate(SECRET, signed, NOW_S + 3600, "It")
    with pytest.raises(PrerequisiteError, match="compare the clocks of both clusters"):
        signatures.check_certificate(SECRET, signed, NOW_S - 3 * 86400, "It")
    with pytest.raises(PrerequisiteError, match="no certificate with its signature"):
        signatures.check_certificate(SECRET, pem, NOW_S, "It")
