"""A store copied into another one: what goes along, what does not, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from retentive.errors import Conflict, Invalid
from retentive.models import Scope
from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.tuning_history import history, save_parameters, saved_parameters
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.values import Record
from retentive.transfer.copying import CopyOptions, copier, copy_store, verify_stores
from retentive.transfer.copying.copier import UNFINISHED
from tests.stores.build import MODEL, NOW, OTHER, everything, id_of, listed, rows, vector
from tests.stores.openers import OPENERS
from tests.transfer.copying.build import copied, fill, judgement, records, verdicts


@pytest.fixture
def open_one(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []

    def open_it(name: str, kind: str = "sqlite") -> Store:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        opened.append(OPENERS[kind](folder))
        return opened[-1]

    yield open_it
    for store in opened:
        assert store.check() == []
        store.close()


# Every kind from SQLite and to it: what two others agree on with SQLite, they agree on with each other.
PAIRS = [("sqlite", kind) for kind in OPENERS] + [(kind, "sqlite") for kind in OPENERS if kind != "sqlite"]


@dataclass(frozen=True)
class Pair:
    source: Store
    target: Store


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, open_one: Callable[..., Store]) -> Pair:
    one, other = request.param
    return Pair(open_one("source", one), open_one("target", other))


def seen(store: Store) -> list[object]:
    judged = [store.judgements(profile.name) for profile in store.profiles()]
    return [*everything(store, "default", "ada"), judged, replace(store.stats(), bytes=0)]


def broken_off(source: Store, target: Store, *, after: int, monkeypatch: pytest.MonkeyPatch, **options: bool) -> None:
    """A copy that is interrupted after so many memories."""
    with monkeypatch.context() as patch:
        patch.setattr(copier, "PAGE", 10)

        def stop(done: int, seen: list[int] = []) -> None:  # noqa: B006
            seen.append(done)
            if sum(seen) >= after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_store(source, target, name="source", options=CopyOptions(**options), progress=stop)


def test_a_copy_is_an_equal_store_whatever_the_two_kinds(pair):
    source, target = pair.source, pair.target
    fill(source, 50)
    before = seen(source)

    done, verified = copied(source, target)

    assert verified.agrees, verified
    assert (done.memories, done.judgements, done.settings, done.conflicts) == (50, 8, 2, ())
    assert seen(target) == seen(source) == before
    assert saved_parameters(target) == {"keyword_weight": 1.1}
    assert history(target) == history(source)
    assert target.get_value(UNFINISHED) is None


def test_a_copy_of_a_copy_has_the_same_checksums(open_one):
    source, middle, last = open_one("source"), open_one("middle", "memory"), open_one("last")
    fill(source)

    copied(source, middle)
    _, verified = copied(middle, last)

    sums = {check.name: check.target for check in verified.checks}
    again = verify_stores(source, last, options=CopyOptions())
    assert again.agrees
    assert {check.name: check.source for check in again.checks if len(check.source) == 32} == {
        name: figure for name, figure in sums.items() if len(figure) == 32
    }
    assert len([figure for figure in sums.values() if len(figure) == 32]) == 5


def test_an_empty_store_is_copied_into_an_empty_store(open_one):
    _, verified = copied(open_one("source"), open_one("target"))

    assert verified.agrees


def test_tokens_are_copied_only_if_requested(open_one):
    source, target, other = open_one("source"), open_one("target"), open_one("other")
    fill(source)

    without, _ = copied(source, target)
    with_them, verified = copied(source, other, tokens=True)

    assert (
        without.tokens,
        without.tokens_skipped,
        AccessTokens(target, profile="default", clock=lambda: NOW).list(),
    ) == (0, 1, [])
    assert (
        with_them.tokens,
        with_them.tokens_skipped,
        AccessTokens(other, profile="default", clock=lambda: NOW).list(),
    ) == (1, 0, AccessTokens(source, profile="default", clock=lambda: NOW).list())
    assert verified.agrees


# Truncated off and gone on with


@pytest.mark.parametrize("after", [10, 50, 120])
def test_an_interrupted_copy_continues_and_copies_nothing_twice(open_one, monkeypatch, after):
    source, target = open_one("source"), open_one("target")
    fill(source)
    broken_off(source, target, after=after, monkeypatch=monkeypatch)
    there = target.stats().memories

    done, verified = copied(source, target)

    assert there == after
    assert (done.memories, done.existing) == (120 - after, after)
    assert verified.agrees
    assert seen(target) == seen(source)


def test_an_unfinished_copy_continues_only_from_its_own_source(open_one, monkeypatch):
    source, target, other = open_one("source"), open_one("target"), open_one("other")
    fill(source)
    broken_off(source, target, after=50, monkeypatch=monkeypatch)
    before = seen(target)

    with pytest.raises(Conflict, match="unfinished copy of source"):
        copied(other, target, name="other")
    with pytest.raises(Conflict, match="itself an unfinished copy"):
        copied(target, other)
    assert seen(target) == before


def test_a_memory_that_was_added_while_a_copy_was_interrupted_is_copied(open_one, monkeypatch):
    source, target = open_one("source"), open_one("target")
    made = fill(source)
    broken_off(source, target, after=120, monkeypatch=monkeypatch)
    early = replace(made[0], memory=made[0].memory._replace(id="00000000-0000-7000-8000-000000000000"))
    source.add([early], model=MODEL)

    done, verified = copied(source, target)

    assert (done.memories, verified.agrees) == (1, True)


def test_a_copy_made_by_an_earlier_version_is_completed_and_its_entries_are_not_copied(open_one):
    source, target, last = open_one("source"), open_one("target"), open_one("last")
    fill(source)
    target.compare_and_set({"copy": json.dumps({"source": "source", "vectors": True, "cursor": "x", "done": 50})})
    target.compare_and_set({"copy/source": "{}", "copied/1": "{}"})

    assert copied(source, target)[1].agrees
    assert copied(target, last)[1].agrees
    assert last.list_values("cop") == {}


# What is refused


def test_a_store_that_is_not_empty_is_not_copied_into(open_one):
    source, target = open_one("source"), open_one("target")
    fill(source)
    target.add(records(1, start=900), model=None)
    before = seen(target)

    with pytest.raises(Conflict, match="not empty"):
        copied(source, target)

    assert seen(target) == before
    assert target.get_value(UNFINISHED) is None


def test_settings_of_its_own_make_a_store_not_empty(open_one):
    source, target = open_one("source"), open_one("target")
    save_parameters(target, {"keyword_weight": 3.0}, by="", now=NOW)

    with pytest.raises(Conflict, match="not empty"):
        copied(source, target)


def test_a_store_is_not_copied_into_itself_under_another_name(open_one):
    source, again = open_one("source"), open_one("source")
    source.add(records(3), model=MODEL)

    with pytest.raises(Invalid, match="same store"):
        copied(source, again, into=True)

    assert source.get_value(UNFINISHED) is None
    assert source.stats().memories == 3


def test_vectors_of_another_model_are_not_mixed_in(open_one):
    source, target = open_one("source"), open_one("target")
    fill(source)
    target.add([replace(record, vectors=rows(vector(1))) for record in records(1, start=900)], model=OTHER)

    with pytest.raises(Conflict, match="--without-vectors"):
        copied(source, target, into=True)

    done, verified = copied(source, target, into=True, vectors=False)
    assert (done.memories, verified.agrees, verdicts(verified)["vectors"]) == (120, True, None)
    assert target.model() == OTHER
    assert target.count_unembedded(OTHER) == 120


# Into a store that holds something


def test_a_copy_into_others_memories_adds_what_is_not_there(open_one):
    source, target = open_one("source"), open_one("target")
    made = fill(source)
    target.add([*made[:20], *records(5, start=900)], model=MODEL)

    done, verified = copied(source, target, into=True)

    assert (done.memories, done.existing, done.conflicts) == (100, 20, ())
    assert verified.agrees
    assert target.stats().memories == 125
    assert copied(source, target, into=True)[0].memories == 0


def test_ids_with_other_contents_are_listed_and_stay_as_they_are(open_one):
    source, target = open_one("source"), open_one("target")
    made = fill(source)
    other = made[3].memory._replace(text="something else")
    target.add([Record(other), *made[7:9]], model=MODEL)

    done, verified = copied(source, target, into=True)

    assert done.conflicts == (other.id,)
    assert (done.memories, done.existing) == (117, 2)
    assert verdicts(verified)["contents"] is False
    assert target.get([other.id])[0].text == "something else"


def test_being_used_meanwhile_is_no_conflict(open_one):
    source, target = open_one("source"), open_one("target")
    made = fill(source)
    target.add(made[:20], model=MODEL)
    source.touch([made[3].memory.id], at=NOW)

    done, verified = copied(source, target, into=True)

    assert done.conflicts == ()
    assert verified.agrees


def test_a_session_of_the_same_name_in_another_project_of_the_target_stays_as_it_is(open_one):
    source, target = open_one("source"), open_one("target")
    source.add([record for record in records(20) if record.memory.profile == "default"], model=MODEL)
    [other] = records(1, start=900)
    placed = other.memory._replace(profile="default", session="a", project="elsewhere")
    target.add([Record(placed)], model=None)

    done, _ = copied(source, target, into=True)

    assert done.conflicts == ()
    assert target.get([placed.id])[0].project == "elsewhere"
    ours, theirs = (
        {(one.name, one.project, one.memories) for one in of.sessions("default")} for of in (source, target)
    )
    assert theirs == ours | {("a", "elsewhere", 1)}


def test_judgements_and_settings_that_are_there_stay(open_one):
    source, target = open_one("source"), open_one("target")
    made = fill(source)
    target.add(made[-9:], model=MODEL)
    target.judge([judgement(1, of=made[-1], relevance=0)])
    save_parameters(target, {"keyword_weight": 3.0}, by="", now=NOW)

    done, verified = copied(source, target, into=True)

    assert verified.agrees
    assert (done.judgements, done.settings) == (7, 0)
    assert done.target_kept == 3  # the judgement, the parameters and their history
    assert saved_parameters(target) == {"keyword_weight": 3.0}
    ours = [one for one in target.judgements(made[-1].memory.profile) if one.memory == made[-1].memory.id]
    assert [one.relevance for one in ours] == [0]


def test_the_scope_of_nobody_grows_by_a_copy(open_one):
    source, target = open_one("source"), open_one("target")
    fill(source)
    copied(source, target)

    for scope in (Scope("ada"), Scope("default", sessions=("a",), only_sessions=True), Scope("nobody")):
        assert listed(target, scope) == listed(source, scope)
    assert id_of(0) in listed(target, Scope("ada")) + listed(target, Scope("default"))
    assert open_store("memory://").profiles() == []
