# SPDX-License-Identifier: BSD-2-Clause
"""Tokens of an issuer of OpenID Connect, which the test plays over HTTPS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.unit.rapi.test_third import GROUP, Luxi

from ganeti.base.failed_logins import FAILURES_MAX
from ganeti.rapi.callers import Callers
from ganeti.rapi.issued import Issued
from ganeti.rapi.issued_tokens import AGAIN_S, LONGEST_S
from ganeti.rapi.issuers import read_issuers
from ganeti.rapi.server import Api
from ganeti.rapi.users import UsersFile
from ganeti.system.http_server import HttpRequest

ROLES = {"admins": ["administrator"], "shop": ["instance:write@shop", "node:read"], "none": []}
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("k1", "k2", "strange")}


class Provider:
    """An issuer at an address of its own; what it has published may change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.published = ["k1"]
        self.configuration: dict[str, Any] = {}
        self.asked: list[str] = []
        self.url = ""
        self.works = True

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Provider]:
        app = web.Application()
        app.router.add_get("/realm/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        runner = web.AppRunner(app)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(self.directory))
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = "https://127.0.0.1:{1}".format(*runner.addresses[0])
        self.configuration = {"issuer": f"{self.url}/realm", "jwks_uri": f"{self.url}/keys"}
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _configuration(self, request: web.Request) -> web.Response:
        self.asked.append("configuration")
        return web.json_response(self.configuration)

    async def _keys(self, request: web.Request) -> web.Response:
        self.asked.append("keys")
        algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
        public = {name: json.loads(algorithm.to_jwk(KEYS[name].public_key())) for name in self.published}
        keys = [{**key, "kid": name, "alg": "ES256", "use": "sig"} for name, key in public.items()]
        secret = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}
        return web.json_response({"keys": [*keys, secret, {"kty": "odd"}, 7]}, status=200 if self.works else 500)

    def token(self, key: str = "k1", **claims: Any) -> str:
        told = {
            "iss": f"{self.url}/realm",
            "aud": "ganeti",
            "exp": time.time() + 60,
            "sub": "alice",
            "groups": ["admins"],
        }
        told = {name: value for name, value in (told | claims).items() if value is not None}
        return jwt.encode(told, KEYS[key], "ES256", {"kid": key})


class Door:
    """The API, with one trusted issuer."""

    def __init__(self, directory: Path, provider: Provider, **more: Any) -> None:
        self.now = [0.0]
        trusted = {"issuer": f"{provider.url}/realm", "audience": "ganeti", "roles": ROLES}
        self.path = directory / "issuers"
        self.path.write_text(json.dumps([trusted | {"ca_file": str(directory / "issuer.pem")} | more]))
        (directory / "users").write_text("")
        self.luxi = Luxi()
        self.issued = Issued(str(self.path), lambda: self.now[0])
        self.api = Api(self.luxi, Callers(UsersFile(str(directory / "users")), None, self.issued))

    async def ask(self, token: str, path: str = "/3/whoami", body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        reply = await self.api.answer(HttpRequest(method, path, data, "192.0.2.1", None, "", headers))
        return reply.status, json.loads(reply.body)


def _certificate(directory: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), 1, now - datetime.timedelta(1), now + datetime.timedelta(1)
    )
    certificate = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    path = directory / "issuer.pem"
    path.write_bytes(pem)
    return path


def play(directory: Path, story: Any, **more: Any) -> None:
    async def whole() -> None:
        async with Provider(directory).serving() as provider:
            await story(provider, Door(directory, provider, **more))

    asyncio.run(whole())


def test_the_bearer_may_do_what_the_roles_of_the_token_allow(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        status, told = await door.ask(provider.token())
        assert (status, told) == (200, {"name": "alice at 127.0.0.1", "scopes": ["*:write"]})
        assert (await door.ask(provider.token(), "/3/operations/group-add", GROUP))[0] == 202
        assert door.luxi.jobs[0][0]["reason"][-1][1] == "alice at 127.0.0.1"
        shop = provider.token(groups=["shop", "none", "unknown", 7])
        assert (await door.ask(shop))[1]["scopes"] == ["instance:write@shop", "node:read"]
        assert (await door.ask(shop, "/3/operations/group-add", GROUP))[0] == 403
        assert (await door.ask(provider.token(groups=None), "/3/nodes"))[0] == 403
        assert provider.asked == ["configuration", "keys"]

    play(tmp_path, story)


def test_claims_of_other_names_are_read(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        claims = {"realm": {"roles": "shop admins"}, "email": "a@example.com"}
        told = (await door.ask(provider.token(**claims)))[1]
        assert told["name"] == "a@example.com at 127.0.0.1" and "*:write" in told["scopes"]
        assert (await door.ask(provider.token(**claims | {"email": "a\nb"})))[0] == 401

    play(tmp_path, story, roles_claim="realm.roles", name_claim="email")


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"nbf": 2**40},
        {"iss": "https://other.example.com"},
        {"sub": 7},
        {"key": "strange"},
    ],
)
def test_a_token_that_is_wrong_or_over_is_refused(tmp_path: Path, claims: dict[str, Any]) -> None:
    async def story(provider: Provider, door: Door) -> None:
        assert (await door.ask(provider.token(**claims)))[0] == 401

    play(tmp_path, story)


def test_only_signatures_by_public_keys_count(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        claims = jwt.decode(provider.token(), options={"verify_signature": False})
        good = provider.token()
        rsa_key = rsa.generate_private_key(65537, 2048)
        for token in (
            jwt.encode(claims, "", "none", {"kid": "k1"}),
            jwt.encode(claims, "secret-secret-secret-secret-secret", "HS256", {"kid": "shared"}),
            jwt.encode(claims, rsa_key, "RS256", {"kid": "k1"}),
            jwt.encode(claims, KEYS["strange"], "ES256", {"kid": "k1"}),
            jwt.encode(claims, KEYS["k1"], "ES256", {"kid": "k1", "crit": ["shop"], "shop": 1}),
            jwt.encode(claims, KEYS["k1"], "ES256"),
            good[:-8] + "AAAAAAAA",
        ):
            assert (await door.ask(token))[0] == 401
        assert (await door.ask(good))[0] == 200

    play(tmp_path, story)


def test_clocks_may_differ_by_the_tolerance(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        now_s = time.time()
        for claims, status in (
            ({"exp": now_s - 20}, 200),
            ({"exp": now_s - 40}, 401),
            ({"iat": now_s + 20, "nbf": now_s + 20}, 200),
            ({"iat": now_s + 60}, 401),
            ({"nbf": now_s + 60}, 401),
            ({"aud": ["other", "ganeti"]}, 200),
            ({"aud": ["other"]}, 401),
        ):
            assert (await door.ask(provider.token(**claims)))[0] == status, claims

    play(tmp_path, story)


def test_keys_are_fetched_again_once_a_new_one_is_used(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        assert (await door.ask(provider.token()))[0] == 200
        provider.published = ["k2"]
        for _ in range(3):
            assert (await door.ask(provider.token("k2")))[0] == 401
        assert provider.asked == ["configuration", "keys"]
        door.now[0] += AGAIN_S
        assert (await door.ask(provider.token("k2")))[0] == 200
        assert (await door.ask(provider.token("k1")))[0] == 401

    play(tmp_path, story)


def test_what_an_issuer_does_not_answer_is_no_failed_log_in(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        provider.works = False
        for _ in range(FAILURES_MAX + 1):
            status, told = await door.ask(provider.token())
            assert status == 503 and "answers with 500" in told["detail"]
        assert len(provider.asked) == 2
        provider.works = True
        door.now[0] += AGAIN_S
        assert (await door.ask(provider.token()))[0] == 200
        provider.works = False
        door.now[0] += 7200
        assert (await door.ask(provider.token()))[0] == 200

    play(tmp_path, story)


def test_keys_that_are_withdrawn_or_were_not_seen_for_a_day_do_not_count(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        assert (await door.ask(provider.token()))[0] == 200
        provider.works = False
        door.now[0] += LONGEST_S + 1
        assert (await door.ask(provider.token()))[0] == 503
        provider.works, provider.published = True, []
        door.now[0] += AGAIN_S
        assert (await door.ask(provider.token()))[0] == 401

    play(tmp_path, story)


def test_the_configuration_must_be_that_of_the_issuer(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        provider.configuration["issuer"] = "https://other.example.com"
        assert "its configuration is that of https://other" in (await door.ask(provider.token()))[1]["detail"]

    play(tmp_path, story)


def test_the_certificate_of_the_issuer_must_be_known(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        assert (await door.ask(provider.token()))[0] == 503
        assert not provider.asked

    play(tmp_path, story, ca_file=None)


def test_an_issuer_that_is_taken_out_of_the_file_lets_nobody_in(tmp_path: Path) -> None:
    async def story(provider: Provider, door: Door) -> None:
        assert (await door.ask(provider.token()))[0] == 200
        door.path.write_text("[]")
        assert (await door.ask(provider.token()))[0] == 401
        door.path.write_text("nonsense")
        assert (await door.ask(provider.token()))[0] == 401

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"issuer": "http://a.example.com"}, "begins with https://"),
        ({"jwks_uri": "file:///etc/passwd"}, "begins with https://"),
        ({"algorithms": ["HS256"]}, "no algorithm that is taken"),
        ({"roles": {"a": ["emperor"]}}, "'emperor' is no scope"),
        ({"audience": ""}, "may not be empty"),
        ({"colour": "red"}, "unknown field"),
    ],
)
def test_a_file_that_is_wrong_is_refused(more: dict[str, Any], said: str) -> None:
    good = {"issuer": "https://a.example.com", "audience": "ganeti", "roles": {}}
    assert read_issuers(json.dumps([good]).encode())
    with pytest.raises(ValueError, match=said):
        read_issuers(json.dumps([good | more]).encode())


def test_the_file_of_the_documentation_is_read() -> None:
    text = (Path(__file__).parents[3] / "docs/operator/remote-api.md").read_text()
    [issuer] = read_issuers(text.partition("```json\n")[2].partition("```")[0].encode()).values()
    scopes = issuer.allowed({"realm_access": {"roles": ["vm-admins", "shop"]}})
    assert [str(scope) for scope in scopes] == ["*:write", "instance:write@shop", "node:read"]
