"""Sessions of the same name in two projects, through the command line, HTTP, MCP and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict
from retentive.server.mcp.tools import open_scope
from retentive.stores import open_store
from retentive.tenancy import ProfileView
from tests.surfaces.serving import client, problem, token
from tests.surfaces.test_cli import json_of, remember, run


@pytest.fixture
def engine():
    with Engine(open_store("memory://"), embedder=None) as engine:
        yield engine


def homes(sessions: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(one["name"], one["project"], one["memories"]) for one in sessions]


def test_the_command_line_keeps_them_apart_and_a_move_names_the_project():
    remember("tea at home", "--session", "s", "--project", "home")
    remember("tea at work", "--session", "s", "--project", "work")

    found = {
        project: [
            hit["memory"]["text"] for hit in json_of("recall", "tea", "--session", "s", "--project", project)["hits"]
        ]
        for project in ("home", "work")
    }
    assert found == {"home": ["tea at home"], "work": ["tea at work"]}
    assert len(json_of("recall", "tea", "--session", "s")["hits"]) == 2
    assert "name the project" in run("sessions", "move", "s", "--project", "garden", code=4).stderr
    moved = json_of("sessions", "move", "s", "--from", "work", "--project", "garden")
    assert (moved["project"], moved["memories"]) == ("garden", 1)
    assert homes(json_of("sessions")["sessions"]) == [("s", "garden", 1), ("s", "home", 1)]


def test_an_export_and_its_import_keep_every_session_where_it_was(tmp_path: Path):
    lines = [
        {"text": "tea at home", "session": "s", "project": "home"},
        {"text": "tea at work", "session": "s", "project": "work"},
        {"text": "tea outside", "session": "s"},
    ]
    source, target = open_store("memory://"), open_store("memory://")
    with Engine(source, embedder=None) as one, Engine(target, embedder=None) as other:
        stored = one.remember_many(lines[2:] + lines[:2])
        other.remember("tea in the garden", session="s", project="garden")
        one.export_to(tmp_path / "all.jsonl")
        other.import_from(tmp_path / "all.jsonl")

        assert [memory.project for memory in stored] == [None, "home", "work"]
        assert [(session.project, session.memories) for session in other.sessions()] == [
            (None, 1), ("garden", 1), ("home", 1), ("work", 1),
        ]  # fmt: skip


def test_over_http_and_in_a_view_of_a_project_the_sessions_of_others_are_never_seen(engine: Engine):
    for profile in ("ada", "bob"):
        for project in ("p", "q"):
            engine.remember(f"{profile} in {project}: note", session="s", project=project, profile=profile)

    for profile in ("ada", "bob"):
        asking = client(engine, token=token(engine, profile))
        for project, own in (("p", ["p"]), ("q", ["q"]), (None, ["p", "q"])):
            expected = {f"{profile} in {one}: note" for one in own}
            scope = {"session": "s", **({"project": project} if project else {})}
            hits = asking.post("/v1/recall", json={"query": "note", **scope}).json()["hits"]
            listed = asking.get("/v1/memories", params=scope).json()["memories"]
            view = ProfileView(engine, profile, project=project).list(session="s").memories
            for found in (
                [hit["memory"]["text"] for hit in hits],
                [one["text"] for one in listed],
                [one.text for one in view],
            ):
                assert set(found) == expected
    asking = client(engine, token=token(engine, "ada"))
    forgotten = asking.post("/v1/memories/forget", json={"scope": {"session": "s", "project": "p"}, "confirm": True})
    assert forgotten.json() == {"forgotten": 1}
    assert engine.stats().memories == 3


def test_over_http_a_move_names_the_project_of_the_session(engine: Engine):
    for project in ("p", "q"):
        engine.remember("note", session="s", project=project)
    asking = client(engine)

    problem(asking.patch("/v1/sessions/s", json={"project": "r"}), 409, "conflict")
    moved = asking.patch("/v1/sessions/s", json={"project": "r", "fromProject": "q"}).json()

    assert (moved["project"], moved["memories"]) == ("r", 1)
    assert [one.project for one in engine.sessions()] == ["p", "r"]


def test_the_tools_of_a_session_that_several_projects_have_need_a_project(engine: Engine):
    for project in ("p", "q"):
        engine.remember("note", session="s", project=project)

    with pytest.raises(Conflict, match="name the project"):
        open_scope(engine, session="s")

    assert open_scope(engine, project="q", session="s").latest(9)[0].project == "q"
