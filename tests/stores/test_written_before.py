"""A store file of the first schema that is upgraded: it opens, and everything in it is there.

The file has five memories in two profiles, saved tuning, a judgement and an access token.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import NotFound
from retentive.inference.embedders import Embedder
from retentive.models import Scope
from retentive.stores.sqlite import SqliteStore
from retentive.stores.values import Profile, Project

FILE = Path(__file__).parent / "files" / "written_before.db.xz"
SECRET = "rcl_CSMjq7X9ND_r94dpRs_V4F-dv8suYxQlWCM8FefKZ2U"
KEY, DEPLOYS, LISBON, PROXY = (
    f"01a1e09f-{rest}"
    for rest in (
        "ac16-7244-993b-2473355bbec8",
        "ad8e-709e-a335-9e34afd56dc9",
        "ad95-758f-9df5-1c100cac2553",
        "ad9b-7165-80ea-036451471f58",
    )
)


@pytest.fixture
def old(tmp_path: Path, model: Embedder) -> Iterator[Engine]:
    """An engine on a copy of the file."""
    path = tmp_path / "written_before.db"
    path.write_bytes(lzma.decompress(FILE.read_bytes()))
    with Engine.open(path, embedder=model) as engine:
        engine.embeddings.reembed()
        yield engine


def test_its_vectors_are_of_another_model_and_a_recall_says_what_to_do(tmp_path: Path, model: Embedder):
    path = tmp_path / "written_before.db"
    path.write_bytes(lzma.decompress(FILE.read_bytes()))

    with Engine.open(path, embedder=model) as engine:
        answer = engine.recall("where is the key?")

    assert (answer.hits[0].id, answer.degraded) == (KEY, "keyword-only")
    assert "run: retentive reembed" in answer.degraded_reason


def test_its_memories_have_every_field(old: Engine):
    key, deploys, lisbon, proxy = old.get_many([KEY, DEPLOYS, LISBON, PROXY])

    assert (key.text, key.project, key.session, key.position) == (
        "The spare key is under the blue pot.",
        "home",
        "s1",
        0,
    )
    assert (key.speaker, key.importance, key.occurred) == ("Ana", 0.9, datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert (key.created, key.accessed) == (
        datetime(2026, 11, 15, 19, 12, 3, 94352, UTC),
        datetime(2026, 11, 15, 19, 12, 3, 512790, UTC),
    )
    assert (key.access_count, key.content_hash) == (1, "62bf5a50554c96d7e62cae4220bab32d")
    assert (deploys.kind, deploys.project, deploys.metadata) == ("semantic", "work", {"team": "infra"})
    assert (lisbon.kind, lisbon.evergreen, lisbon.session) == ("identity", True, None)
    assert (proxy.text, proxy.session, proxy.source) == (
        "Error ERR_CONN_42 means the proxy is down.",
        "loose",
        "notes/errors.md",
    )


def test_its_catalogue_is_complete(old: Engine):
    assert [one.id for one in old.list().memories] == [PROXY, LISBON, DEPLOYS, KEY]
    assert [one.text for one in old.list(Scope("other")).memories] == ["Somebody else's memory."]
    assert old.profiles() == [Profile("default", 2, 2, 4), Profile("other", 0, 0, 1)]
    assert old.projects() == [Project("home", "default", 1, 1), Project("work", "default", 0, 1)]
    assert [(one.name, one.project, one.memories) for one in old.sessions()] == [("loose", None, 1), ("s1", "home", 1)]
    assert (old.stats().memories, old.stats().vectors, old.stats().unembedded) == (5, 5, 0)
    assert old.check() == []


def test_two_projects_can_have_a_session_of_the_same_name_in_it(old: Engine):
    new = old.remember("The gate has two locks.", project="work", session="s1")

    assert (new.project, new.position) == ("work", 0)
    assert [(one.project, one.memories) for one in old.sessions() if one.name == "s1"] == [("home", 1), ("work", 1)]
    assert old.remember("The blue pot is new.", project="home", session="s1").position == 1
    assert old.check() == []


@pytest.mark.parametrize(
    ("query", "best"),
    [("where is the key?", KEY), ("ERR_CONN_42", PROXY), ("which city is home to Ana?", LISBON), ("deploys", DEPLOYS)],
)
def test_both_retrievers_find_its_memories(old: Engine, query: str, best: str):
    answer = old.recall(query)

    assert answer.hits[0].id == best
    assert answer.degraded is None
    assert [one.found for one in answer.retrievers if one.name == "semantic"] == [4]


def test_all_its_memories_are_embedded_again(old: Engine):
    assert old.embeddings.problem() is None
    assert old.embeddings.count_missing() == 0


def test_its_saved_tuning_applies_with_its_history(old: Engine):
    assert old.tuning.saved() == {"keyword_weight": 0.8}
    assert old.tuning.current().keyword_weight == 0.8
    [change] = old.tuning.history()
    assert (change.id, change.by, change.before, change.after) == (1, "fixture", {}, {"keyword_weight": 0.8})
    assert change.at == datetime(2026, 11, 15, 19, 12, 3, 510399, UTC)

    old.tuning.undo()

    assert old.tuning.saved() == {}
    assert len(old.tuning.history()) == 2


def test_its_judgement_is_there(old: Engine):
    [judgement] = old.judgements.list()

    assert (judgement.query, judgement.memory, judgement.relevance) == ("where does Ana live?", LISBON, 1)


def test_its_token_is_accepted_until_it_is_revoked(old: Engine):
    token = old.tokens.find(SECRET)

    assert token is not None
    assert (token.id, token.profile, token.access, token.note) == ("653f927a", "default", "read", "fixture")
    assert old.tokens.list() == [token]
    old.tokens.revoke(token.id)
    assert old.tokens.find(SECRET) is None


def test_it_can_be_written(old: Engine):
    added = old.remember("The gate code is 4711.", session="s1")
    assert (added.project, added.position) == ("home", 1)
    assert old.recall("gate code").hits[0].id == added.id

    old.forget(KEY)

    with pytest.raises(NotFound):
        old.get(KEY)
    assert old.check() == []


def test_vectors_without_a_hash_are_taken_to_be_right_and_new_ones_have_the_hash_of_their_text(old: Engine):
    store = old.store
    assert isinstance(store, SqliteStore)
    with store._write() as connection:
        connection.execute("UPDATE vectors SET text_hash = NULL")
    assert (old.check(), old.embeddings.repair()) == ([], 0)

    old.update(LISBON, text="Ana lives in Porto.")
    old.update(KEY, importance=0.1)

    with store._connections.read() as connection:
        statement = "SELECT m.id, v.text_hash FROM vectors AS v JOIN memories AS m ON m.key = v.memory"
        hashes = dict(connection.execute(statement))
    assert {id for id, text_hash in hashes.items() if text_hash is not None} == {LISBON}
    assert hashes[LISBON].hex() == old.get(LISBON).text_hash
    assert old.check() == []
