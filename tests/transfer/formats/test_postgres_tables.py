"""Memories of other programs in PostgreSQL, with their vectors if these are of the same model; on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from retentive.engine import Engine
from retentive.errors import Invalid, Unavailable
from retentive.inference.embedders import Matrix
from retentive.models import Scope
from retentive.transfer.formats.base import ImportItem, ReadWarning
from retentive.transfer.formats.tables import read_row
from tests.compass import Compass
from tests.stores import postgres_server
from tests.surfaces.test_cli import json_of, run

TABLES = """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE projects (id uuid PRIMARY KEY, name text);
    INSERT INTO projects VALUES ('00000000-0000-0000-0000-000000000007', 'harbour');
    CREATE TABLE episodic_memories (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), session_id text, project_id uuid,
        role text, content text NOT NULL, created_at timestamptz, metadata jsonb, importance numeric,
        embedding vector(2), embedding_model text);
    CREATE TABLE semantic_memories (id bigserial PRIMARY KEY, content text, created_at timestamp, embedding halfvec(2));
    CREATE TABLE identity_memories (id serial PRIMARY KEY, content text, user_id text);
    INSERT INTO episodic_memories (session_id, project_id, role, content, created_at, metadata, importance, embedding,
        embedding_model) VALUES
        ('s1', '00000000-0000-0000-0000-000000000007', 'user', 'sail at10', '2026-05-08 13:56+02', '{"wind": 5}', 0.8,
         '[9.8,1.99]', 'compass-small'),
        ('s1', NULL, 'assistant', 'anchor at80', '2026-05-09', NULL, NULL, '[1,0]', 'another-model');
    INSERT INTO semantic_memories (content, created_at, embedding) VALUES ('the pier at40', '2026-05-01', '[0,1]');
    INSERT INTO identity_memories (content, user_id) VALUES ('Ana sails', 'ana'), (NULL, 'ana');
"""


class Counting(Compass):
    """An embedder that records what it embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []

    def embed(self, texts: list[str]) -> Matrix:
        self.embedded += texts
        return super().embed(texts)


def execute(address: str, script: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(script)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    address = postgres_server.address(empty=True)
    execute(address, TABLES)
    yield address
    postgres_server.drop(postgres_server.name_of(address))


@pytest.fixture
def tables(database: str) -> str:
    """A database with other tables, in the schema `other`."""
    execute(database, "DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other")
    return f"{database}&schema=other"


def test_every_table_is_a_kind_with_projects_sessions_times_and_metadata(open_engine, database):
    engine: Engine = open_engine(Compass())

    done = engine.import_from(database)

    assert (done.format, done.added, done.skipped) == ("postgres", 4, {"no text": 1})
    assert done.profiles == {"default": 3, "ana": 1}
    by_text = {one.text: one for one in (*engine.list().memories, *engine.list(Scope("ana")).memories)}
    sail, pier, ana = by_text["sail at10"], by_text["the pier at40"], by_text["Ana sails"]
    assert (sail.kind, sail.project, sail.session, sail.speaker) == ("episodic", "harbour", "s1", "user")
    assert (sail.importance, sail.metadata["wind"]) == (0.8, 5)
    assert sail.occurred is not None
    assert sail.occurred.isoformat() == "2026-05-08T11:56:00+00:00"
    assert (pier.kind, pier.project) == ("semantic", None)
    assert (ana.kind, ana.profile, ana.project) == ("identity", "ana", None)


def vector_of(engine: Engine, text: str) -> list[float]:
    """The stored vector of a memory."""
    (memory,) = [one for one in engine.list().memories if one.text == text]
    return list(engine.store.vectors([memory.id])[memory.id])


def test_vectors_of_the_same_model_are_taken_over_and_others_made_anew(open_engine, database):
    embedder = Counting()
    engine: Engine = open_engine(embedder)

    done = engine.import_from(database)

    assert vector_of(engine, "sail at10") == pytest.approx([0.980, 0.199], abs=0.001)  # theirs, made a unit vector
    assert vector_of(engine, "anchor at80") == pytest.approx([0.174, 0.985], abs=0.001)
    assert vector_of(engine, "the pier at40") == pytest.approx([0.766, 0.643], abs=0.001)
    assert embedder.embedded.count("sail at10") == 1  # for the comparison
    assert done.unembedded == 0
    assert done.warnings == {"vectors are not taken over: they are not of the model compass (2 d, fingerpr)": 1}


def test_vectors_of_a_side_table_are_chosen_by_their_model(open_engine, tables):
    execute(
        tables.replace("&schema=other", ""),
        """SET search_path = other, public;
        CREATE TABLE semantic_memories (id serial PRIMARY KEY, content text);
        CREATE TABLE memory_embeddings (memory_id int, model text, embedding real[], PRIMARY KEY (memory_id, model));
        INSERT INTO semantic_memories (content) VALUES ('oar at20'), ('buoy at60'), ('rope at30');
        INSERT INTO memory_embeddings VALUES (1, 'a', '{0,1}'), (1, 'b', '{0.946,0.325}'), (2, 'a', '{1,0}'),
            (2, 'b', '{0.51,0.86}'), (3, 'a', '{0,1}');""",
    )
    engine: Engine = open_engine(Compass())

    done = engine.import_from(tables)

    assert (done.added, done.existing, done.warnings) == (3, 0, {})
    assert vector_of(engine, "oar at20") == pytest.approx([0.946, 0.325], abs=0.001)
    assert vector_of(engine, "rope at30") == pytest.approx([0.866, 0.5], abs=0.001)


def test_without_an_embedder_vectors_are_left_out_with_the_reason(open_engine, database):
    done = open_engine().import_from(database)

    assert done.added == done.unembedded == 4
    assert done.warnings == {
        "vectors are not taken over: no embedder is configured, so that their model cannot be compared": 2
    }


def test_an_import_is_tried_repeated_undone_and_never_shows_the_password(database, tmp_path):
    address = f"{database}&password=secret"
    report = tmp_path / "report.jsonl"

    trial = json_of("import", address, "--dry-run", "--embedder", "none", "--report", str(report))
    done = json_of("import", address, "--embedder", "none")
    again = json_of("import", address, "--embedder", "none")

    assert (trial["added"], done["added"], again["added"], again["existing"]) == (4, 4, 0, 4)
    assert '"where": "identity_memories, id 2", "reason": "no text"' in report.read_text()
    (imported,) = json_of("imports")["imports"]
    assert imported["path"] == database + "&password=***"
    assert "secret" not in run("imports").output
    assert json_of("imports", "undo", done["run"])["memories"] == 4


def test_many_rows_are_read_as_a_stream_and_a_lost_connection_ends_it_with_the_place(open_engine, tables):
    server = tables.replace("&schema=other", "")
    execute(
        server,
        """CREATE TABLE other.identity_memories (id int PRIMARY KEY, content text);
        INSERT INTO other.identity_memories SELECT n, 'note number ' || n FROM generate_series(1, 3000) AS n;""",
    )
    engine: Engine = open_engine()

    def lose(done: int) -> None:
        execute(
            server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retentive import'",
        )

    broken = engine.import_from(tables, progress=lose)
    whole = engine.import_from(tables)

    assert 0 < broken.added < 3000
    (where,) = broken.truncated
    assert where.startswith("identity_memories, after id ")
    assert (whole.added, whole.existing) == (3000 - broken.added, broken.added)


def test_a_row_with_a_time_that_is_outside_the_calendar_in_utc_has_no_time():
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
    warning, item = read_row("memories", {"id": 1, "text": "oar", "created": last}, "episodic")
    assert warning == ReadWarning("memories, id 1", "no valid time")
    assert isinstance(item, ImportItem)
    assert "occurred" not in item.draft


def test_a_value_that_python_has_no_equal_of_is_left_out_and_its_row_and_the_others_are_imported(open_engine, tables):
    execute(
        tables.replace("&schema=other", ""),
        """SET search_path = other, public;
        CREATE TABLE semantic_memories (id serial PRIMARY KEY, content text, created_at timestamptz,
            importance numeric, metadata jsonb, deleted_at timestamp);
        INSERT INTO semantic_memories (content, created_at, importance, metadata, deleted_at) VALUES
            ('oar', '2026-05-01', 0.4, '{"wind": 5}', NULL), ('buoy', 'infinity', 0.5, NULL, NULL),
            ('rope', '10000-01-01', 'NaN', NULL, NULL), ('sail', '0044-03-15 BC', 'Infinity', NULL, NULL),
            ('mast', '2026-05-02', NULL, ('{"digits": ' || repeat('9', 5000) || '}')::jsonb, NULL),
            ('keel', '2026-05-03', NULL, NULL, 'infinity'), ('deck', '2026-05-04', 0.6, NULL, NULL);""",
    )
    engine: Engine = open_engine()

    done = engine.import_from(tables)

    assert (done.added, done.truncated, done.skipped) == (6, (), {"deleted there": 1})
    assert done.warnings == {"no valid time": 3, "an importance that is not from 0 to 1 was left out": 2}
    by_text = {one.text: one for one in engine.list().memories}
    assert {text for text, one in by_text.items() if one.occurred is None} == {"sail", "rope", "buoy"}
    assert (by_text["oar"].metadata, by_text["mast"].metadata) == ({"wind": 5}, {})
    assert (by_text["buoy"].importance, by_text["deck"].importance) == (0.5, 0.6)


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        ("{tables}", Invalid, "has no table episodic_memories, semantic_memories, identity_memories"),
        ("postgresql://nobody@127.0.0.1:1/x", Unavailable, "cannot be reached"),
        ("mysql://127.0.0.1:6333/x", Invalid, "cannot be imported from"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_with_the_reason(open_engine, tables, address, error, says):
    with pytest.raises(error, match=says):
        open_engine().import_from(address.format(tables=tables))
