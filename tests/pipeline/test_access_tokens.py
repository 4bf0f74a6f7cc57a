from __future__ import annotations

import pytest

from retentive.errors import Invalid, NotFound
from retentive.pipeline.access_tokens import AccessTokens
from retentive.stores.in_memory import InMemoryStore
from tests.conftest import NOW


def tokens_in(store: InMemoryStore) -> AccessTokens:
    return AccessTokens(store, profile="default", clock=lambda: NOW)


def test_a_token_is_found_by_its_secret_alone():
    store = InMemoryStore()
    token, secret = tokens_in(store).create(profile="ana", access="write", note="laptop")

    assert tokens_in(store).find(secret) == token
    assert (token.profile, token.access, token.note, token.created) == ("ana", "write", "laptop", NOW)
    for wrong in ("", secret[:-1], secret + "x", token.id, "\ud800", secret.upper()):
        assert tokens_in(store).find(wrong) is None


def test_the_store_contains_nothing_that_works_as_a_secret():
    store = InMemoryStore()
    _, secret = tokens_in(store).create(profile="ana", access="read")

    kept = " ".join(f"{name} {value}" for name, value in store.list_values("").items())

    assert secret not in kept
    assert secret.removeprefix("rtv_") not in kept
    assert all(tokens_in(store).find(word) is None for word in kept.replace("/", " ").split())


def test_no_two_secrets_are_alike_and_all_are_long():
    secrets = {tokens_in(InMemoryStore()).create(profile="p", access="read")[1] for _ in range(100)}

    assert len(secrets) == 100
    assert min(map(len, secrets)) >= 40


def test_a_revoked_token_is_not_found():
    store = InMemoryStore()
    kept, kept_secret = tokens_in(store).create(profile="ana", access="read")
    token, secret = tokens_in(store).create(profile="ana", access="admin")

    assert tokens_in(store).revoke(token.id) == token

    assert tokens_in(store).find(secret) is None
    assert tokens_in(store).find(kept_secret) == kept
    assert tokens_in(store).list() == [kept]
    with pytest.raises(NotFound, match=token.id):
        tokens_in(store).revoke(token.id)


def test_an_unknown_access_is_refused_with_the_known_ones():
    with pytest.raises(Invalid, match="no access 'root'; use one of read, write, admin"):
        tokens_in(InMemoryStore()).create(profile="p", access="root")
