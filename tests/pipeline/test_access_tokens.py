from __future__ import annotations

import pytest

from retentive.errors import Invalid, NotFound
from retentive.pipeline.access_tokens import create_token, find_token, list_tokens, revoke_token
from retentive.stores.in_memory import InMemoryStore
from tests.conftest import NOW


def test_a_token_is_found_by_its_secret_alone():
    store = InMemoryStore()
    token, secret = create_token(store, profile="ana", access="write", note="laptop", now=NOW)

    assert find_token(store, secret) == token
    assert (token.profile, token.access, token.note, token.created) == ("ana", "write", "laptop", NOW)
    for wrong in ("", secret[:-1], secret + "x", token.id, "\ud800", secret.upper()):
        assert find_token(store, wrong) is None


def test_the_store_keeps_nothing_to_come_in_with():
    store = InMemoryStore()
    _, secret = create_token(store, profile="ana", access="read", now=NOW)

    kept = " ".join(f"{name} {value}" for name, value in store.list_values("").items())

    assert secret not in kept
    assert secret.removeprefix("rcl_") not in kept
    assert all(find_token(store, word) is None for word in kept.replace("/", " ").split())


def test_no_two_secrets_are_alike_and_all_are_long():
    secrets = {create_token(InMemoryStore(), profile="p", access="read", now=NOW)[1] for _ in range(100)}

    assert len(secrets) == 100
    assert min(map(len, secrets)) >= 40


def test_a_token_that_was_taken_back_lets_nobody_in():
    store = InMemoryStore()
    kept, kept_secret = create_token(store, profile="ana", access="read", now=NOW)
    token, secret = create_token(store, profile="ana", access="admin", now=NOW)

    assert revoke_token(store, token.id) == token

    assert find_token(store, secret) is None
    assert find_token(store, kept_secret) == kept
    assert list_tokens(store) == [kept]
    with pytest.raises(NotFound, match=token.id):
        revoke_token(store, token.id)


def test_an_access_that_is_not_there_is_named():
    with pytest.raises(Invalid, match="no access 'root'; there are read, write, admin"):
        create_token(InMemoryStore(), profile="p", access="root", now=NOW)
