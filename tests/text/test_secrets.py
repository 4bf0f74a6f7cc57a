"""Secrets are replaced, and nothing else is."""

from __future__ import annotations

import pytest

from retentive.text.secrets import without_secrets

PEM = "-----BEGIN RSA {0}-----\nMIIE\nabc\n-----END RSA {0}-----\nthanks".format("PRIVATE" + " KEY")

SECRETS = {
    "my token is ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789": "my token is [secret: GitHub token]",
    "export OPENAI_API_KEY=sk-proj-" + "abc123DEF456ghi789JKL012mno": "export OPENAI_API_KEY=[secret: OpenAI key]",
    "the id AKIA" + "IOSFODNN7EXAMPLE, ok": "the id [secret: AWS key], ok",
    "postgresql://ana:p@ss#w0rd@db.host/x": "postgresql://ana:[secret: password]@db.host/x",
    "redis://:s3cretpw@localhost:6379/0": "redis://:[secret: password]@localhost:6379/0",
    "the wifi password is Sunflower-22!": "the wifi password is [secret: password]",
    "Passwort: hunter2": "Passwort: [secret: password]",
    "密码是abc12345": "密码是[secret: password]",
    "PIN is 4821": "PIN is [secret: code]",
    "card 4242 4242 4242 4242 exp 12/27": "card [secret: card number] exp 12/27",
    "IBAN DE89 3704 0044 0532 0130 00 please": "IBAN [secret: bank account] please",
    "Authorization: Bearer abcdef0123456789abcdef0123": "Authorization: Bearer [secret: token]",
    "token = 'a8f5f167f44f4964e6c998dee827110c'": "token = '[secret: token]'",
    "DB_PASSWORD=correct-horse": "DB_PASSWORD=[secret: password]",
    PEM: "[secret: private key]\nthanks",
    "hello <private>my salary is 5</private>there": "hello there",
    "note <PRIVATE>never ended": "note",
}

HARMLESS = (
    "password: required", "the token is 3 words long", "max_tokens: 4096", "token: str", "my password is long",
    "api_key = os.environ['X']", "api_key: ${API_KEY}", "PASSWORD=$PASSWORD", "order 1234 5678 9012 3456",
    "phone +49 170 1234567 89", "the secret is patience", "postgresql://user:password@localhost/db",
    "commit 4a63479e96d65ae8cf26e77ea64f90c504428acf", "id 550e8400-e29b-41d4-a716-446655440000", "sk-learn",
    "token: refresh()", "he told me the password is in the safe", "reset_token: uuid4()", "[secret: GitHub token]",
)  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_replaced_by_its_kind(text: str):
    assert without_secrets(text) == SECRETS[text]
    assert without_secrets(SECRETS[text]) == SECRETS[text]


def test_what_only_looks_like_a_secret_stays():
    assert [text for text in HARMLESS if without_secrets(text) != text] == []
