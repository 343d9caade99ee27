# SPDX-License-Identifier: BSD-2-Clause
"""`check-cert-expired FILE`: exit status 0 if the certificate has expired, for scripts that renew it then."""

import sys
import time
from collections.abc import Sequence

NAME = "check-cert-expired"
USAGE = f"Usage: {NAME} CERTIFICATE_FILE (exit status 0 if it has expired, 1 if not)"
EXPIRED, NOT_EXPIRED = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return NOT_EXPIRED
    from cryptography import x509

    try:
        with open(words[0], "rb") as file:
            certificate = x509.load_pem_x509_certificate(file.read())
    except OSError as err:
        print(f"{NAME}: {words[0]} cannot be read: {err.strerror}", file=sys.stderr)
        return NOT_EXPIRED
    except ValueError:
        print(f"{NAME}: {words[0]} holds no certificate in PEM format", file=sys.stderr)
        return NOT_EXPIRED
    return EXPIRED if certificate.not_valid_after_utc.timestamp() < time.time() else NOT_EXPIRED


if __name__ == "__main__":
    sys.exit(main())
