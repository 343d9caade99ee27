# SPDX-License-Identifier: BSD-2-Clause
"""The certificate that a server shows to strangers: read again when it is renewed, without a restart."""

import os
import ssl
import tempfile
from collections.abc import Sequence

from ganeti.base.errors import PrerequisiteError
from ganeti.system.files import check_plain, plain_file
from ganeti.system.tls import renewing


class ShownCertificate:
    """A TLS context with the certificate of the first of *paths* that exists.

    *chain* holds those between it and a known authority.
    """

    def __init__(self, paths: Sequence[str], key: str | None = None, chain: str | None = None) -> None:
        """Raises `PrerequisiteError` for files that cannot be used."""
        self._paths = paths
        self._key = key
        self._chain = chain
        self.context = renewing(self._load, (*paths, key or "", chain or ""))

    @property
    def path(self) -> str:
        return next((path for path in self._paths if os.path.exists(path)), self._paths[-1])

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            for path in filter(None, (self.path, self._key, self._chain)):
                check_plain(path)
            if self._chain is None:
                context.load_cert_chain(self.path, self._key)
                return context
            with tempfile.NamedTemporaryFile("wb") as whole:  # of certificates alone: nothing in it is secret
                whole.write(_certificates(self.path) + _certificates(self._chain, besides=_certificates(self.path)))
                whole.flush()
                context.load_cert_chain(whole.name, self._key or self.path)
                return context
        except (OSError, ValueError) as err:
            reason = err.strerror if isinstance(err, OSError) and err.errno and err.errno > 0 else str(err)
            made_anew = os.path.basename(self.path) == "rapi.pem" and self._key is None
            remedy = "make it anew with 'gnt-cluster renew-crypto --new-rapi-certificate', or " if made_anew else ""
            raise PrerequisiteError(
                f"The certificate {self.path} cannot be used: {reason}; {remedy}name one with -C"
            ) from err


def _certificates(path: str, besides: bytes = b"") -> bytes:
    """Give the certificates of a PEM file, without keys, and without the one that *besides* begins with."""
    with open(path, "rb", opener=plain_file) as file:
        text = file.read()
    end = b"-----END CERTIFICATE-----"
    found = [
        b"-----BEGIN CERTIFICATE-----" + part.partition(end)[0] + end + b"\n"
        for part in text.split(b"-----BEGIN CERTIFICATE-----")[1:]
    ]
    return b"".join(each for each in found if each != besides)
