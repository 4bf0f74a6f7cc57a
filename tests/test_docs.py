"""Every block of the documents runs, and their tables agree with the program."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from itertools import pairwise

import pytest
from rich.console import Console

from retentive import AsyncEngine, Engine
from retentive.cli import show
from retentive.ranking import PRESETS, Tuning
from retentive.server.http.app import create_app
from retentive.transfer.samples import QUERIES, load_samples
from tests.documents.blocks import GENERATED, OTHER_RUNNERS, ROOT, Block, blocks, has_other_runner, pages, text_of
from tests.documents.comparison import matches_json, matches_text
from tests.documents.page_runner import COMMANDS, RUNNERS, PageRunner

PAGES = [page for page in pages() if not has_other_runner(page)]
LANGUAGES = {*COMMANDS, *RUNNERS}

SHOWN = {
    "a picture in characters": 1,
    "how files look": 1,
    "needs a container engine": 1,
    "needs root": 2,
    "names a server that is not here": 7,  # the tests of that store run the same on a real server
}
"""The allowed reasons for not running a block, and the number of blocks with each."""


def runs(block: Block) -> bool:
    """Whether a block is run. Usage lines in generated pages are not: the program itself wrote them."""
    return block.option("shown") is None and not (block.page in GENERATED and block.language == "text")


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(runs, blocks(page)))])
def test_every_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(show, "console", Console(highlight=False, soft_wrap=True, width=80))

    with contextlib.ExitStack() as stack:
        runner = PageRunner(tmp_path, model, stack)
        for block in filter(runs, blocks(page)):
            runner.run(block)


def test_every_block_is_run_or_gives_the_reason():
    found = [block for page in PAGES for block in blocks(page)]
    reasons = Counter(reason for block in found if (reason := block.option("shown")) is not None)
    unknown = [str(block) for block in found if runs(block) and not _has_runner(block)]
    notes = [
        f"{block}: {block.note}" for block in found if not re.fullmatch(r"|output|(file|exits|shown): .+", block.note)
    ]

    assert {**dict.fromkeys(SHOWN, 0), **reasons} == SHOWN
    assert unknown == [], "blocks of an unknown language"
    assert notes == [], "unknown comments"
    assert len(found) > 100


def _has_runner(block: Block) -> bool:
    return block.language in LANGUAGES or block.note == "output" or block.option("file") is not None


def test_every_fence_belongs_to_a_block():
    for page in PAGES:
        fences = re.findall(r"^\s*(?:```|~~~)", text_of(page), flags=re.MULTILINE)

        assert len(fences) == 2 * len(blocks(page)), f"{page} has a fence that is not read as a block"


def test_the_rows_of_a_table_follow_its_head():
    for page in pages():
        lines = text_of(page).splitlines()
        for line, below in pairwise(lines):
            # Any other line, a comment too, ends the table: its rows become one paragraph.
            assert not re.fullmatch(r"\|[ :|-]+\|", line) or below.startswith("|"), (page, below)


@pytest.mark.parametrize(("folder", "test"), OTHER_RUNNERS.items())
def test_the_blocks_of_other_folders_have_a_test_of_their_own(folder, test):
    there = [page for page in pages() if page.startswith(folder)]

    assert not there or any("docs/recipes" in runner.read_text("utf-8") for runner in ROOT.glob(test)), test


@pytest.mark.parametrize(
    ("language", "text", "note"),
    [
        ("python", "assert 1 == 2", ""),
        ("console", "$ retentive nonsense", ""),
        ("console", "$ retentive status\nsomething else\n", ""),
        ("console", "$ retentive status", "exits: 4"),
        ("sh", "rm -rf /", ""),
        ("sh", "make nothing-of-the-kind", ""),
        ("sh", "pip install another-project", ""),
        ("sh", "pip install 'retentive[nothing]'", ""),
        ("sh", "retentive serve --host 203.0.113.7", ""),
        ("curl", "curl http://127.0.0.1:4000/v1/nothing", ""),
        ("json", "{'text': 1}", ""),
        ("toml", "[tuning]\nkeyword_wight = 1", ""),
        ("sql", "SELECT 1", ""),
    ],
)
def test_a_wrong_block_fails(language, text, note, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)

    with contextlib.ExitStack() as stack, pytest.raises(Exception):  # noqa: B017 - each raises another exception
        PageRunner(tmp_path, model, stack).run(Block("a page", 1, language, text, note))


def test_shown_output_may_differ_only_where_runs_differ():
    real = "  1  0.973  Ben: Induction\n     id 01a1\n     ████  +0.5833\n\nend\n"

    assert matches_text("1  0.980  Ben: …\n…\n██ +0.58\n\nend", real)
    assert matches_text("…\nend", real)
    assert not matches_text("1  0.900  Ben: …\n…", real)
    assert not matches_text("1  0.973  Ben: Induction", real)
    assert not matches_text("1  0.973  Ana: …\n…", real)
    assert matches_json({"a": [1, "…"], "b": "…"}, {"a": [1, 2, 3], "b": {}, "c": 4})
    assert not matches_json({"a": [1]}, {"a": [1, 2]})
    assert not matches_json({"d": 1}, {"a": 1})


def test_every_make_target_in_the_documents_is_in_the_makefile():
    makefile = text_of("Makefile")

    for page in PAGES:
        for target in re.findall(r"(?:\$ |`)make ([a-z-]+)", text_of(page)):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), (page, target)


def test_the_parameters_in_the_settings_have_their_defaults_and_ranges():
    rows = re.findall(
        r"^\| `(\w+)` \| `(.*?)` \| (.*?) \|", text_of("docs/settings.md").split("## Parameters")[1], flags=re.MULTILINE
    )
    parameters, schema = Tuning().model_dump(), Tuning.model_json_schema(by_alias=False)["properties"]

    assert {name for name, *_ in rows} == parameters.keys()
    for name, default, span in rows:
        value = parameters[name]
        assert default == (f"{value:g}" if isinstance(value, float) else str(value).lower()), name
        if re.fullmatch(r"[-\d.,]+ – [\d.,]+", span):
            low, high = (float(bound.replace(",", "")) for bound in span.split(" – "))
            assert (schema[name]["minimum"], schema[name]["maximum"]) == (low, high), name


def test_the_speeds_in_the_readme_are_those_of_the_benchmarks():
    table = text_of("README.md").split("<!-- speed")[1].split("\n\n")[1]
    shown = re.findall(r"\| ([\d.,]+)(?: ms| MiB)? (?=\|)", table)
    printed = text_of("docs/benchmarks.md").split("## 100,000 memories")[1].split("\n## ")[0]
    measured = [float(figure.replace(",", "")) for figure in re.findall(r"(?<=\| )[\d.,]+(?= \|)", printed)]

    assert len(shown) == 12
    for figure in shown:
        digits = len(figure.partition(".")[2])
        assert any(f"{one:,.{digits}f}" == figure for one in measured), figure


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_in_the_settings(name):
    assert f"| `{name}` |" in text_of("docs/settings.md").split("## Presets")[1]


def public_names(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize("verb", sorted({*public_names(Engine), *public_names(AsyncEngine)}))
def test_the_page_of_the_library_names_and_uses_every_verb(verb):
    page = text_of("docs/library.md")
    programs = "".join(block.text for block in blocks("docs/library.md") if block.language == "python")

    assert f"`{verb}" in page or f".{verb}(" in page, f"docs/library.md does not name {verb}"
    assert f".{verb}" in programs, f"no example in docs/library.md uses {verb}"


@pytest.mark.parametrize("group", ["tuning", "tokens", "judgements", "reviews", "imports", "embeddings"])
def test_the_page_of_the_library_uses_every_verb_of_every_group(group, engine):
    programs = "".join(block.text for block in blocks("docs/library.md") if block.language == "python")

    for verb in public_names(type(getattr(engine, group))):
        if callable(getattr(type(getattr(engine, group)), verb)) and verb not in INTERNAL_VERBS:
            assert f".{group}.{verb}" in programs, f"no example in docs/library.md uses engine.{group}.{verb}"


INTERNAL_VERBS = {"available", "close", "embed_missing", "add", "drop_forgotten", "record_proposal"}
INTERNAL_VERBS |= {"suggest", "suggest_again"}
"""Verbs of `engine.embeddings` and `engine.reviews` that only the program itself calls."""


def test_the_page_of_the_service_names_every_endpoint(engine):
    page = text_of("docs/service.md")

    for path in create_app(engine).openapi()["paths"]:
        assert re.search(rf"{re.escape(path)}[`? ]", page), path


def test_the_layout_in_contributing_names_every_module():
    layout = text_of("CONTRIBUTING.md")
    modules = [module.stem for module in (ROOT / "src/retentive").iterdir() if not module.name.startswith("_")]

    for module in set(modules) - {"py"}:
        assert re.search(rf"`{module}(\.py|/)`", layout), module


def test_the_layers_in_contributing_are_those_of_the_import_contract():
    contract = text_of("pyproject.toml").split("layers = [")[1].split("]")[0]
    layers = [re.findall(r"retentive\.(\w+)", line) for line in contract.strip().splitlines()]
    picture = text_of("CONTRIBUTING.md").split("<!-- shown: a picture in characters -->\n```text\n")[1].split("```")[0]

    assert [sorted(line.split()) for line in picture.splitlines()] == [sorted(layer) for layer in layers]


def test_the_table_of_reasons_has_every_step_that_records_one():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/retentive/ranking").glob("*.py"))
    steps = {*re.findall(r'(?:\.after|\breason)\(\s*"(\w+)"', source), "semantic", "keyword", "relevance"}
    table = text_of("docs/how-a-recall-works.md").split("## The reasons")[1].split("\n## ")[0]

    assert {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    } == steps


def test_the_figures_in_the_picture_of_a_recall_are_those_of_the_recall(engine):
    load_samples(engine)
    hit = engine.recall(QUERIES[0]).hits[1]
    picture = (ROOT / "docs/images/recall-path.svg").read_text(encoding="utf-8")
    drawn = [float(figure.replace("−", "-")) for figure in re.findall(r">([+−]?0\.\d{3})<", picture)]

    assert QUERIES[0] in picture
    assert "asthma" in hit.memory.text
    assert drawn == pytest.approx([*(one.change for one in hit.why if one.step != "relevance"), hit.score], abs=0.02)


def test_every_link_to_a_file_leads_to_one():
    for page in pages():
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)):
            assert link.startswith("http") or ((ROOT / page).parent / link).exists(), (page, link)


def test_every_reference_of_a_link_is_defined_and_every_definition_is_used():
    for page in pages():
        prose = re.sub(r"```.*?```|`[^`]*`", "", text_of(page), flags=re.DOTALL)
        used = set(re.findall(r"\[[^\[\]]+\]\[([\w-]+)\]", prose))
        defined = re.findall(r"^\[([\w-]+)\]: https://\S+$", prose, flags=re.MULTILINE)

        assert sorted(used) == sorted(defined), page
