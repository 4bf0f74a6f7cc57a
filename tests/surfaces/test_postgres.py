"""The command line and the service on a PostgreSQL store, without a password in any output."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.stores import open_store
from tests.stores import postgres_server
from tests.stores.postgres_proxy import proxied
from tests.surfaces.service import run, served
from tests.surfaces.test_cli import run as here


@pytest.fixture
def address() -> str:
    """A store that is asked for with a password, which the server does not look at."""
    return postgres_server.address().replace("postgres@", "postgres:horse@", 1)


def test_the_command_line_remembers_recalls_and_checks(address: str):
    here("remember", "the spare key is under the blue pot", "--session", "home", env={"RETENTIVE_STORE": address})
    found = run("recall", "how do I get into the house?", "--json", store=address)
    others = [here(words, env={"RETENTIVE_STORE": address}) for words in ("doctor", "samples")]

    assert json.loads(found.stdout)["hits"][0]["memory"]["text"] == "the spare key is under the blue pot"
    assert "postgres:***@" in others[1].stdout
    assert not any("horse" in text for one in (found, *others) for text in (one.stdout, one.stderr))


def test_a_server_that_is_not_there_ends_the_program_with_a_sentence():
    done = run("recall", "tea", "--store", "postgresql://ana:horse@/x?host=/nowhere", embedder="none")

    assert done.returncode != 0
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    assert "horse" not in done.stderr


def test_the_service_serves_it_and_two_services_share_it(address: str):
    with served(address, embedder="none") as one, served(address, embedder="none") as two:
        assert one.remember("green tea with lemon").status == 201
        answer = two.recall("tea")
        status = two.ask("GET", "/v1/status")

        assert [hit["memory"]["text"] for hit in answer.body["hits"]] == ["green tea with lemon"]
        assert status.body["store"].startswith("postgresql://retentive_")
        assert two.ask("GET", "/readyz").status == 200
        for service in (one, two):
            assert service.end() == 0
        assert "horse" not in one.said + two.said + json.dumps(status.body)


def test_a_service_that_loses_its_server_tells_its_clients_neither_password_nor_address(address: str):
    with proxied(address) as proxy:
        slow = proxy.address.replace("postgres@", "ana:ho#r?se@", 1) + "&user=postgres&deadline=0.5"
        with served(slow, embedder="none") as service:
            assert service.remember("green tea with lemon").status == 201
            proxy.cut_once(b"BEGIN", behind=False)
            proxy.close()
            answers = [service.recall("tea"), service.ask("GET", "/v1/sessions")]

            assert [answer.status for answer in answers] == [503, 503]
            told = json.dumps([answer.body for answer in answers])
            assert "cannot be reached" in told
            assert not [part for part in ("ho#", "r?se", "@", str(proxy.folder)) if part in told]
            assert service.end() == 0
            assert "r?se" not in service.said


@pytest.mark.parametrize("password", ["ho/rse", "ho#/rse", "ho%rse", "ho@rse", "1/?x=horse"])
def test_an_address_that_is_no_url_is_refused_without_showing_its_password(password: str):
    done = run("status", "--store", f"postgresql://ana:{password}@db/memories", embedder="none")

    assert done.returncode != 0
    assert "the address of a PostgreSQL store" in done.stderr
    assert "rse" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_an_engine_tells_its_address_without_the_password(address: str):
    with Engine.open(address, embedder="none") as engine:
        assert engine.remember("tea").text == "tea"
        assert engine.settings.public_store == address.replace("horse", "***")
    store = open_store(address)
    assert store.stats().memories == 1
    store.close()


def test_what_the_page_on_postgresql_shows_works(address: str, capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text(encoding="utf-8")
    shown = "postgresql://ana:secret@db.example/memories"
    [program] = re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL)
    lines = [line for line in re.findall(r"^retentive (.*)$", page, flags=re.MULTILINE) if line != "serve"]

    exec(compile(program.replace(shown, address), "a block of docs/postgres.md", "exec"), {})
    done = [here(*shlex.split(line), env={"RETENTIVE_STORE": address}) for line in lines]

    assert "allergic to peanuts" in capsys.readouterr().out
    assert len(done) == 3
    assert "blue pot" in done[1].stdout
