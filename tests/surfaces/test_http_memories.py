"""Memories over HTTP: all or none are stored, and none twice."""

from __future__ import annotations

import io
import json
import zipfile

import httpx
import pytest

from retentive.engine import Engine
from retentive.stores import open_store
from tests.pipeline.test_update_races import GatedCompass, assert_vector_is_of_the_text
from tests.stores.openers import OPENERS
from tests.surfaces.serving import client, listening, problem, wrong_fields
from tests.transfer.formats.samples import a_chatgpt_conversation


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


@pytest.fixture
def asking(engine):
    return client(engine)


def texts(engine):
    return [memory.text for memory in engine.list().memories]


def test_one_memory_comes_back_as_it_was_stored(asking):
    answer = asking.post(
        "/v1/memories",
        json={
            "text": "I am allergic to peanuts",
            "session": "s",
            "speaker": "Ana",
            "importance": 1,
            "metadata": {"someKey": {"snake_key": [1, None, "é"]}},
            "occurred": "2026-05-08T13:56:00+02:00",
        },
    )

    assert answer.status_code == 201
    memory = answer.json()
    assert memory["metadata"] == {"someKey": {"snake_key": [1, None, "é"]}}
    assert (memory["position"], memory["accessCount"], memory["evergreen"]) == (0, 0, False)
    assert asking.get(f"/v1/memories/{memory['id'].upper()}").json()["speaker"] == "Ana"


def test_many_memories_are_stored_in_their_order(asking, engine):
    answer = asking.post("/v1/memories", json={"memories": [{"text": "one"}, {"text": "two", "kind": "semantic"}]})

    assert answer.status_code == 201
    assert [memory["text"] for memory in answer.json()["memories"]] == ["one", "two"]
    assert sorted(texts(engine)) == ["one", "two"]


def test_a_batch_of_which_one_is_wrong_stores_nothing_and_names_it(asking, engine):
    batch = [{"text": "one"}, {"text": "two", "importance": 2}, {"text": " "}, {"txt": "four"}]

    wrong = wrong_fields(asking.post("/v1/memories", json={"memories": batch}))

    assert wrong == ["memories.1.importance", "memories.2.text", "memories.3.text", "memories.3.txt"]
    assert texts(engine) == []


def test_a_batch_that_contradicts_the_store_stores_nothing(asking, engine):
    known = engine.remember("known")

    refused = asking.post("/v1/memories", json={"memories": [{"text": "new"}, {"text": "again", "id": known.id}]})

    problem(refused, 409, "conflict")
    assert texts(engine) == ["known"]


def test_a_batch_has_a_limit_that_the_settings_name(engine):
    asking = client(engine, max_batch=2)
    batch = [{"text": f"number {number}"} for number in range(3)]

    refused = asking.post("/v1/memories", json={"memories": batch})

    assert wrong_fields(refused) == ["memories"]
    assert "at most 2 memories" in refused.json()["detail"]
    assert asking.post("/v1/memories", json={"memories": batch[:2]}).status_code == 201


def test_a_write_that_is_sent_again_under_its_name_is_made_once(asking, engine):
    body = {"memories": [{"text": "one"}, {"text": "two"}]}
    named = {"Idempotency-Key": "k"}

    first, second = (asking.post("/v1/memories", json=body, headers=named) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert sorted(texts(engine)) == ["one", "two"]


def test_another_write_under_the_same_name_is_refused(asking, engine):
    named = {"Idempotency-Key": "k"}
    asking.post("/v1/memories", json={"text": "one"}, headers=named)

    problem(asking.post("/v1/memories", json={"text": "two"}, headers=named), 409, "conflict")

    assert texts(engine) == ["one"]


def test_profiles_name_their_writes_independently_of_each_other(asking, engine):
    first = asking.post("/v1/memories", json={"text": "one"}, headers={"Idempotency-Key": "b/c", "X-Profile": "a"})
    second = asking.post("/v1/memories", json={"text": "two"}, headers={"Idempotency-Key": "c", "X-Profile": "a/b"})

    assert (first.json()["profile"], second.json()["profile"]) == ("a", "a/b")
    assert (first.status_code, second.status_code) == (201, 201)


def test_what_was_written_once_and_forgotten_is_not_written_again(asking, engine):
    named = {"Idempotency-Key": "k"}
    stored = asking.post("/v1/memories", json={"text": "one"}, headers=named).json()
    engine.forget(stored["id"])

    problem(asking.post("/v1/memories", json={"text": "one"}, headers=named), 404, "not_found")

    assert texts(engine) == []


def test_a_memory_can_be_changed_field_by_field(asking, engine):
    stored = engine.remember("Ana likes tea", speaker="Bo", importance=0.2)

    changed = asking.patch(f"/v1/memories/{stored.id}", json={"text": "Ana likes coffee", "speaker": None}).json()

    assert (changed["text"], changed["speaker"], changed["importance"]) == ("Ana likes coffee", None, 0.2)
    assert [hit.id for hit in engine.recall("coffee").hits] == [stored.id]
    assert engine.recall("tea").hits == ()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"text": None}, "text"),
        ({"importance": 1.5}, "importance"),
        ({"session": "x"}, "session"),
        ({"kind": 1}, "kind"),
    ],
)
def test_a_change_that_is_wrong_changes_nothing(asking, engine, changes, field):
    stored = engine.remember("Ana likes tea")

    assert wrong_fields(asking.patch(f"/v1/memories/{stored.id}", json={"evergreen": True, **changes})) == [field]

    assert engine.get(stored.id) == stored


def test_a_deleted_memory_is_gone_and_cannot_be_deleted_again(asking, engine):
    stored = engine.remember("one")

    gone = asking.delete(f"/v1/memories/{stored.id}")

    assert (gone.status_code, gone.content) == (204, b"")
    problem(asking.get(f"/v1/memories/{stored.id}"), 404, "not_found")
    problem(asking.delete(f"/v1/memories/{stored.id}"), 404, "not_found")
    problem(asking.patch(f"/v1/memories/{stored.id}", json={"text": "x"}), 404, "not_found")


def test_pages_lead_through_all_memories_newest_first(asking, engine):
    stored = engine.remember_many([{"text": f"number {number}"} for number in range(7)])
    seen, cursor = [], None

    while True:
        page = asking.get("/v1/memories", params={"limit": 3} | ({"cursor": cursor} if cursor else {})).json()
        seen += [memory["id"] for memory in page["memories"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break

    assert seen == sorted((memory.id for memory in stored), reverse=True)


def test_a_listing_keeps_to_its_scope_and_an_empty_name_finds_nothing(asking, engine):
    engine.remember("in a", session="a", project="p")
    engine.remember("in b", session="b", project="p")
    engine.remember("known", kind="semantic")

    def listed(query):
        return sorted(memory["text"] for memory in asking.get(f"/v1/memories?{query}").json()["memories"])

    assert listed("session=a") == ["in a", "in b"]
    assert listed("session=a&onlySession=true") == ["in a"]
    assert listed("session=a&session=b&only_session=true&project=p") == ["in a", "in b"]
    assert listed("kinds=semantic&kinds=identity") == ["known"]
    assert listed("session=") == []
    assert wrong_fields(asking.get("/v1/memories?sesion=a")) == ["sesion"]
    assert wrong_fields(asking.get("/v1/memories?limit=0&kinds=odd")) == ["kinds.0", "limit"]


def test_memories_are_forgotten_by_id(asking, engine):
    one, two, _ = engine.remember_many([{"text": "one"}, {"text": "two"}, {"text": "three"}])

    forgotten = asking.post("/v1/memories/forget", json={"ids": [one.id, two.id, one.id]})

    assert forgotten.json() == {"forgotten": 2}
    assert texts(engine) == ["three"]


def test_forgetting_a_session_leaves_the_rest_of_its_project(asking, engine):
    engine.remember("in a", session="a", project="p")
    engine.remember("in b", session="b", project="p")

    forgotten = asking.post("/v1/memories/forget", json={"scope": {"session": "a"}, "confirm": True})

    assert forgotten.json() == {"forgotten": 1}
    assert texts(engine) == ["in b"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"scope": {}}, ["confirm"]),
        ({"scope": {}, "confirm": False}, ["confirm"]),
        ({"scope": {}, "confirm": 1}, ["confirm"]),
        ({"scope": {"sesion": "a"}, "confirm": True}, ["scope.sesion"]),
        ({"confirm": True}, ["body"]),
        ({"project": "x", "confirm": True}, ["body"]),
        ({"ids": ["01900000-0000-7000-8000-0000000000ff"], "project": "x"}, ["project"]),
        ({"ids": ["x"]}, ["ids.0"]),
        ({"ids": []}, ["ids"]),
    ],
)
def test_nothing_is_forgotten_by_mistake(asking, engine, body, fields):
    engine.remember("one")

    assert wrong_fields(asking.post("/v1/memories/forget", json=body)) == fields

    assert texts(engine) == ["one"]


def test_forgetting_without_ids_and_scope_shows_both_forms(asking):
    refused = problem(asking.post("/v1/memories/forget", json={"project": "x", "confirm": True}), 422, "invalid")

    assert refused["detail"] == (
        'body: it has neither ids nor a scope; send {"ids": ["…"]}, or {"scope": {"project": "…"}, "confirm": true} '
        "for all memories of a scope"
    )


def test_a_change_under_a_key_is_made_once_whatever_came_after_it(engine):
    asking = client(engine)
    address = f"/v1/memories/{asking.post('/v1/memories', json={'text': 'one'}).json()['id']}"
    named = {"Idempotency-Key": "k"}

    asking.patch(address, json={"text": "two"}, headers=named)
    asking.patch(address, json={"text": "three"})
    again = asking.patch(address, json={"text": "two"}, headers=named)

    assert (again.status_code, again.json()["text"]) == (200, "three")
    problem(asking.patch(address, json={"text": "four"}, headers=named), 409, "conflict")


def test_forgetting_under_a_key_may_be_sent_again(engine):
    asking = client(engine)
    address = f"/v1/memories/{asking.post('/v1/memories', json={'text': 'one'}).json()['id']}"
    named = {"Idempotency-Key": "k"}

    assert [asking.delete(address, headers=named).status_code for _ in range(2)] == [204, 204]
    assert asking.delete(address).status_code == 404


def test_settings_under_a_key_are_changed_once_whatever_came_after_it(engine):
    asking = client(engine)
    named = {"Idempotency-Key": "k"}

    asking.patch("/settings", json={"rrfK": 2}, headers=named)
    asking.patch("/settings", json={"rrfK": 3})
    again = asking.patch("/settings", json={"rrfK": 2}, headers=named)
    assert again.json()["rrfK"] == 3

    undone = [asking.post("/settings/undo", headers={"Idempotency-Key": "u"}).json()["rrfK"] for _ in range(2)]
    assert undone == [2, 2]


# Versions


def test_a_memory_has_an_etag_that_changes_with_it_but_not_with_its_use(asking, engine):
    created = asking.post("/v1/memories", json={"text": "tea"})
    path = f"/v1/memories/{created.json()['id']}"
    engine.store.touch([created.json()["id"]], at=engine.now())
    read = asking.get(path)

    assert read.headers["etag"] == created.headers["etag"] == f'"{engine.get(created.json()["id"]).version}"'
    assert read.json()["accessCount"] == 1
    changed = asking.patch(path, json={"importance": 1})
    assert changed.headers["etag"] == asking.get(path).headers["etag"] != read.headers["etag"]


def test_if_match_changes_a_memory_only_as_it_was_read(asking, engine):
    memory = engine.remember("tea")
    path, read = f"/v1/memories/{memory.id}", f'"{memory.version}"'

    first = asking.patch(path, json={"importance": 1}, headers={"If-Match": read})
    second = asking.patch(path, json={"text": "coffee"}, headers={"If-Match": read})
    empty = asking.patch(path, json={}, headers={"If-Match": read})

    assert (first.status_code, first.json()["importance"]) == (200, 1)
    for refused in (second, empty):
        assert "has changed since it was read" in problem(refused, 412, "version_conflict")["detail"]
    assert engine.get(memory.id).text == "tea"
    for header in (first.headers["etag"], f"W/{first.headers['etag']}", "*"):
        assert asking.patch(path, json={"importance": 1}, headers={"If-Match": header}).status_code == 200
    problem(asking.patch(path, json={"importance": 1}, headers={"If-Match": '"other"'}), 412, "version_conflict")


def test_if_match_deletes_a_memory_only_as_it_was_read(asking, engine):
    memory = engine.remember("tea")
    path, read = f"/v1/memories/{memory.id}", f'"{memory.version}"'
    changed = asking.patch(path, json={"importance": 1})

    refused = asking.delete(path, headers={"If-Match": read})

    assert "has changed since it was read" in problem(refused, 412, "version_conflict")["detail"]
    assert engine.get(memory.id).importance == 1
    assert asking.delete(path, headers={"If-Match": changed.headers["etag"]}).status_code == 204
    problem(asking.delete(path, headers={"If-Match": "*"}), 404, "not_found")


def test_a_request_that_is_sent_again_is_answered_although_the_version_has_changed(asking, engine):
    memory = engine.remember("tea")
    headers = {"If-Match": f'"{memory.version}"', "Idempotency-Key": "once"}

    answers = [asking.patch(f"/v1/memories/{memory.id}", json={"importance": 1}, headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_requests_that_change_one_memory_at_the_same_time_are_both_kept(kind, tmp_path):
    compass = GatedCompass()
    with Engine(OPENERS[kind](tmp_path), compass) as engine, listening(client(engine).app) as port:
        memory = engine.remember("start at10", importance=0.1)
        path = f"http://127.0.0.1:{port}/v1/memories/{memory.id}"
        with compass.held(lambda: httpx.patch(path, json={"text": "new at40"}, timeout=60)) as slow:
            quick = httpx.patch(path, json={"importance": 0.9}, timeout=60)

        assert (slow.result().status_code, quick.status_code) == (200, 200)
        found = engine.get(memory.id)
        assert (found.text, found.importance) == ("new at40", 0.9)
        assert_vector_is_of_the_text(engine, memory.id)


def test_a_listing_is_filtered_by_period_and_metadata(asking, engine):
    for day, channel in ((1, "mail"), (2, "phone"), (3, "mail")):
        engine.remember(f"{day}", occurred=f"2026-05-0{day}T12:00:00Z", metadata={"channel": channel})

    def texts(**query):
        return [memory["text"] for memory in asking.get("/v1/memories", params=query).json()["memories"]]

    assert texts(since="2026-05-02", until="2026-05-03") == ["3", "2"]
    assert texts(metadata='{"channel": "mail"}', until="2026-05-02") == ["1"]
    assert wrong_fields(asking.get("/v1/memories", params={"metadata": "mail"})) == ["metadata"]
    assert wrong_fields(asking.get("/v1/memories", params={"metadata": '{"channel": []}'})) == ["metadata"]
    assert wrong_fields(asking.get("/v1/memories", params={"since": "soon"})) == ["since"]


def test_a_zip_archive_of_chatgpt_is_imported_into_the_profile_once(asking, engine):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("conversations.json", json.dumps([a_chatgpt_conversation()]))
    send = {
        "params": {"name": "export.zip", "project": "chats"},
        "headers": {"X-Profile": "ana", "Content-Type": "application/octet-stream"},
    }

    done = asking.post("/v1/import", content=archive.getvalue(), **send).json()
    again = asking.post("/v1/import", content=archive.getvalue(), **send).json()

    assert (done["format"], done["added"]) == ("chatgpt", 3)
    assert (again["added"], again["existing"]) == (0, 3)
    assert len(engine.list(profile="ana", project="chats")) == 3
    problem(
        asking.post("/v1/import", content=b"nothing", headers=send["headers"], params={"name": "../x.zip"}),
        422,
        "invalid",
    )
