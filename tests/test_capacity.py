"""The sizes in docs/scaling.md are those that the formulas give."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.capacity import GIB, LAYOUTS, Layout, Server, Shape, tables

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", tables(Shape(), LAYOUTS), ids=lambda table: table.splitlines()[0])
def test_every_table_that_is_printed_stands_on_the_page(table):
    assert table in PAGE


def test_the_command_prints_these_tables_and_takes_other_figures():
    def printed(*words: str) -> str:
        command = [sys.executable, "-m", "bench.capacity", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    assert printed().strip() == "\n\n".join(tables(Shape(), LAYOUTS))
    assert "| 4e8 | binary, on disk | 1 | 154 GB |" in printed(
        "--memories", "4e8", "--dimension", "512", "--parts", "1", "--quantisation", "binary", "--on-disk",
        "--replicas", "1", "--payload", "0", "--indexes", "0",
    )  # fmt: skip


def test_the_parts_of_a_memory_by_hand():
    shape = Shape(dimension=100, parts=2, payload=30, m=8, graphs=1, indexes=3, hot=0.5)

    assert (shape.vectors, shape.quantised("int8"), shape.quantised("binary")) == (400, 200, 25)
    assert (shape.links, shape.bookkeeping, shape.payload) == (64, 214, 30)
    assert shape.ram("none") == 1.5 * (400 + 64 + 214 + 0.5 * 30)
    assert shape.ram("int8") == 1.5 * (200 + 64 + 214 + 0.5 * (400 + 30))
    assert shape.ram("int8", on_disk=True) == 1.5 * (200 + 214 + 0.5 * (400 + 64 + 30))
    assert shape.disk("binary") == 1.5 * (400 + 25 + 64 + 214 + 30)
    assert Server(shape, page=1).index == 2 * (2 * 100 + 8 + 6 * 16 + 60)


def test_machines_hold_all_copies_and_one_may_fail():
    shape = Shape()
    for layout in LAYOUTS:
        room = layout.nodes(shape) * 0.8 * GIB
        assert layout.ram(shape) <= room * layout.node_ram
        assert layout.disk(shape) <= room * layout.node_disk
        assert layout.nodes(shape) >= 3
        assert layout.shards(shape) % layout.nodes(shape) == 0
    assert replace(LAYOUTS[0], replicas=1).nodes(shape) == 1
    assert Layout(1e8, "int8", 128, 100).nodes(shape) > Layout(1e8, "int8", 128, 2000).nodes(shape)


def test_figures_that_the_page_takes_from_elsewhere_are_there():
    measured = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    disk = re.search(
        r"## 100,000 memories.*?\| Retentive \| [\d.,]+ \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \| ([\d.]+) \|",
        measured,
        re.DOTALL,
    )

    prose = " ".join(PAGE.split())
    assert disk
    assert f"the file has {disk[2]} MiB" in prose
    assert f"{round(int(disk[1]), -1)} MiB of private memory" in prose
