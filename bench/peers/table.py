"""The tables of a comparison, as Markdown, and where they are written in a document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.environments import OURS
from bench.peers.run import Comparison, PeerResult
from bench.report import number
from retentive.evaluation.metrics import format_metric
from retentive.evaluation.statistics import intervals, p_value

METRICS = ("any@1", "any@5", "any@10", "all@5", "nDCG@10")
TITLES = {
    "retentive": "**Retentive**",
    "retentive_without_judge": "Retentive, without the judge",
    "retentive_one_vector": "Retentive, one vector",
    "chroma": "Chroma",
    "haystack": "Haystack",
    "lancedb": "LanceDB",
    "langchain": "LangChain",
    "langmem": "LangMem",
    "llama_index": "LlamaIndex",
    "basic_memory": "Basic Memory",
    "mcp_memory_service": "mcp-memory-service",
    "mem0": "mem0",
    "mempalace": "MemPalace",
    "memsearch": "memsearch",
    "memweave": "memweave",
    "openclaw": "OpenClaw",
    "txtai": "txtai",
}


def to_markdown(comparison: Comparison, machine: Mapping[str, str]) -> str:
    """Return the tables of a comparison: quality, tests against ours, costs, versions."""
    ours = next((result for result in comparison.results if result.name == OURS), None)
    ordered = sorted(comparison.results, key=lambda result: -float(result.values["nDCG@10"].mean()))
    parts = [_heading(comparison, machine), _quality(ordered)]
    if ours is not None:
        parts += ["p of the difference from Retentive:", _tests(ordered, ours)]
    parts += [_costs(ordered), *_versions(ordered)]
    parts += [f"{_title(name)} did not run: {_one_line(reason)}" for name, reason in comparison.failures.items()]
    return "\n\n".join(parts) + "\n"


def _heading(comparison: Comparison, machine: Mapping[str, str]) -> str:
    projects = f" in {comparison.projects} projects" if comparison.projects else ""
    of = "" if comparison.queries == comparison.all_queries else f" of {comparison.all_queries:,}"
    loads = ", ".join(f"{when} {load:.1f}" for when, load in comparison.load.items())
    return (
        f"{comparison.set}: {comparison.queries:,}{of} queries, {comparison.memories:,} memories{projects}; a query "
        f"searches {comparison.searched:,.0f} (median). {machine['processor']}, {machine['cores']} cores; load average "
        f"{loads}; {comparison.seconds:.0f} s in all."
    )


def _quality(results: Sequence[PeerResult]) -> str:
    def row(result: PeerResult) -> Iterator[str]:
        yield _title(result.name)
        spread = intervals({name: result.values[name] for name in METRICS})
        for name in METRICS:
            low, high = (format_metric(name, edge) for edge in spread[name])
            yield f"{format_metric(name, float(result.values[name].mean()))} ({low}–{high})"

    return pipes(("", *METRICS), map(row, results))


def _tests(results: Sequence[PeerResult], ours: PeerResult) -> str:
    def row(result: PeerResult) -> Iterator[str]:
        yield _title(result.name)
        for name in METRICS:
            p = p_value(result.values[name], ours.values[name])
            yield "< .001" if p < 0.001 else f"{p:.3f}"

    return pipes(("", *METRICS), (row(result) for result in results if result.name != ours.name))


def _costs(results: Sequence[PeerResult]) -> str:
    def row(result: PeerResult) -> Iterator[str]:
        yield _title(result.name)
        yield number(result.memories / max(result.ingest_seconds, 1e-9))
        for percentile in (50, 95):
            yield number(float(np.percentile(result.milliseconds, percentile)))
        yield number(float(result.cpu_milliseconds.mean()))
        yield number(result.size.rss / 2**20)
        yield number(result.size.disk / 2**20) if result.size.disk else "in memory"

    columns = ("", "memories/s", "p50, ms", "p95, ms", "CPU, ms", "resident, MiB", "disk, MiB")
    return pipes(columns, map(row, results))


def _versions(results: Sequence[PeerResult]) -> Iterator[str]:
    def row(result: PeerResult) -> Iterator[str]:
        yield _title(result.name)
        yield ", ".join(f"{name} {version}" for name, version in result.opened.versions.items())
        yield result.opened.configuration

    yield pipes(("", "versions", "configuration"), map(row, results), numbers=False)


def _title(name: str) -> str:
    return TITLES.get(name, name)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def pipes(columns: Sequence[str], rows: Any, *, numbers: bool = True) -> str:
    """Return a table; the columns after the first are numbers unless told otherwise."""
    rule = ["---", *("---:" if numbers else "---" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *rows))


def write_into(page: Path, name: str, markdown: str) -> None:
    """Replace what is between the page's comments for this set; add them at its end if it has none."""
    begin, end = f"<!-- peers: {name} -->", f"<!-- end of peers: {name} -->"
    text = page.read_text(encoding="utf-8")
    block = f"{begin}\n\n{markdown}\n{end}"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    replaced, count = found.subn(lambda _: block, text)
    text = replaced if count else f"{text.rstrip()}\n\n{block}\n"
    page.write_text(text, encoding="utf-8")
