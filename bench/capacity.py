"""Estimates the memory, disk and machines that a number of memories needs. Nothing is measured.

python -m bench.capacity [--memories 1e8 …] [--dimension 384] [--parts 1.2] [--text 300] [--terms 25] [--node-ram 64] …

Without arguments it prints the tables of docs/scaling.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Literal

Quantisation = Literal["none", "int8", "binary"]

GB = 1e9
GIB = 2**30
HEADROOM = 1.5
"""Qdrant's recommended allowance for point versions and for segments that are being rebuilt."""

USABLE = 0.8
"""The share of a machine's memory and disk that is planned for."""

WAL = 64e6
"""Bytes of write-ahead log per shard: two files of 32 MB."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The average size of a memory. `payload` is that of its point in the vector index, which has no text."""

    dimension: int = 384
    parts: float = 1.2
    text: int = 300
    terms: int = 25
    m: int = 16
    graphs: int = 2
    indexes: int = 6
    payload: int = 150
    hot: float = 0.1

    @property
    def vectors(self) -> float:
        """The original vectors, in half precision."""
        return self.parts * self.dimension * 2

    def quantised(self, how: Quantisation) -> float:
        """The quantised copies: a byte or a bit per number."""
        return self.parts * self.dimension * {"none": 0.0, "int8": 1.0, "binary": 1 / 8}[how]

    @property
    def links(self) -> float:
        """Up to 2·m links of 4 bytes in each graph that contains the memory; it is one node, whatever its parts."""
        return self.graphs * 2 * self.m * 4

    @property
    def bookkeeping(self) -> float:
        """The id mapping in both directions with a version, and an index entry for each filtered field."""
        return 64 + 50 * self.indexes

    def ram(self, how: Quantisation, *, on_disk: bool = False) -> float:
        """The RAM for one copy, including the hot part of what is on disk."""
        resident = self.quantised(how) + self.bookkeeping
        cached: float = self.payload
        for part, stays in ((self.vectors, how == "none"), (self.links, not on_disk)):
            resident, cached = (resident + part, cached) if stays else (resident, cached + part)
        return HEADROOM * (resident + self.hot * cached)

    def disk(self, how: Quantisation) -> float:
        """The disk for one copy."""
        everything = self.vectors + self.quantised(how) + self.links + self.bookkeeping + self.payload
        return HEADROOM * everything


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster: the memories, how they are stored, and the size of its machines."""

    memories: float
    quantisation: Quantisation
    node_ram: float
    node_disk: float
    on_disk: bool = False
    replicas: int = 2

    @property
    def name(self) -> str:
        """The name in a table."""
        where = ", on disk" if self.on_disk else ""
        return {"none": "float16", "int8": "int8", "binary": "binary"}[self.quantisation] + where

    def ram(self, shape: Shape) -> float:
        """The RAM of all copies."""
        return self.replicas * self.memories * shape.ram(self.quantisation, on_disk=self.on_disk)

    def disk(self, shape: Shape) -> float:
        """The disk of all copies, without the logs."""
        return self.replicas * self.memories * shape.disk(self.quantisation)

    def nodes(self, shape: Shape) -> int:
        """The number of machines; at least three if one may fail."""
        by_ram = ceil(self.ram(shape) / (USABLE * self.node_ram * GIB))
        by_disk = ceil(self.disk(shape) / (USABLE * self.node_disk * GIB))
        return max(by_ram, by_disk, 3 if self.replicas > 1 else 1)

    def shards(self, shape: Shape) -> int:
        """Two shards per machine, so that the number of machines can double without resharding."""
        return 2 * self.nodes(shape)


LAYOUTS = (
    Layout(1e6, "none", 16, 100),
    Layout(1e6, "int8", 16, 100),
    Layout(1e8, "none", 128, 2000),
    Layout(1e8, "int8", 128, 2000),
    Layout(1e8, "int8", 128, 2000, on_disk=True),
    Layout(1e9, "int8", 256, 8000),
    Layout(1e9, "int8", 256, 8000, on_disk=True),
    Layout(1e9, "binary", 256, 8000, on_disk=True),
)


@dataclass(frozen=True, slots=True)
class Server:
    """One PostgreSQL server: a row, its terms, and its vectors in a table and in their index."""

    shape: Shape
    fields: int = 150
    page: float = 1.2

    @property
    def index(self) -> float:
        """The HNSW index: each vector in half precision, its links of 6 bytes, and the overhead of tuples and pages."""
        one = 2 * self.shape.dimension + 8 + 6 * 2 * self.shape.m + 60
        return self.page * self.shape.parts * one

    @property
    def rest(self) -> float:
        """Row, terms, their index, the vectors in their table, and B-trees."""
        vector = self.shape.parts * (2 * self.shape.dimension + 8 + 60)
        row = self.shape.text + self.fields + 12 * self.shape.terms + 60
        postings = 2 * self.shape.terms
        return self.page * (vector + row + postings + 24 * 8)


def component_table(shape: Shape) -> str:
    """The bytes of one memory, by part."""
    rows = [
        ("vectors, float16", "parts · d · 2", shape.vectors),
        ("quantised, int8", "parts · d", shape.quantised("int8")),
        ("quantised, binary", "parts · d / 8", shape.quantised("binary")),
        ("HNSW links", "graphs · 2m · 4", shape.links),
        ("ids and indexed fields", "64 + 50 · indexes", shape.bookkeeping),
        ("payload", "payload", shape.payload),
        ("RAM, float16", "1.5 · (vectors + links + ids + hot · payload)", shape.ram("none")),
        ("RAM, int8", "1.5 · (int8 + links + ids + hot · (vectors + payload))", shape.ram("int8")),
        (
            "RAM, int8, on disk",
            "1.5 · (int8 + ids + hot · (vectors + links + payload))",
            shape.ram("int8", on_disk=True),
        ),
        (
            "RAM, binary, on disk",
            "1.5 · (binary + ids + hot · (vectors + links + payload))",
            shape.ram("binary", on_disk=True),
        ),
        ("disk, int8", "1.5 · (vectors + int8 + links + ids + payload)", shape.disk("int8")),
    ]
    return _pipes(("of one memory", "formula", "bytes"), ((name, how, f"{size:,.0f}") for name, how, size in rows))


def layout_table(layouts: Iterable[Layout], shape: Shape) -> str:
    """The RAM, disk, machines and shards of clusters."""
    columns = (
        "memories", "vectors in RAM", "copies", "RAM, all copies", "disk, all copies", "machines", "shards",
        "memories a shard",
    )  # fmt: skip
    return _pipes(columns, (_layout_row(layout, shape) for layout in layouts))


def _layout_row(layout: Layout, shape: Shape) -> tuple[str, ...]:
    shards = layout.shards(shape)
    return (
        f"{layout.memories:.0e}".replace("e+0", "e"),
        layout.name,
        str(layout.replicas),
        _size(layout.ram(shape)),
        _size(layout.disk(shape) + layout.replicas * shards * WAL),
        f"{layout.nodes(shape)} of {layout.node_ram:g} GiB, {layout.node_disk:g} GiB disk",
        str(shards),
        f"{layout.memories / shards:,.0f}",
    )


def server_table(sizes: Sequence[float], shape: Shape) -> str:
    """The RAM and disk of one PostgreSQL server."""
    server = Server(shape)
    columns = ("memories", "HNSW index, to be in RAM", "everything else", "on disk")
    return _pipes(
        columns,
        (
            (
                f"{size:.0e}".replace("e+0", "e"),
                _size(size * server.index),
                _size(size * server.rest),
                _size(size * (server.index + server.rest)),
            )
            for size in sizes
        ),
    )


def _size(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} B"


def _pipes(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(shape: Shape, layouts: Sequence[Layout]) -> list[str]:
    """Return all tables of docs/scaling.md."""
    return [server_table((1e5, 1e6, 1e7), shape), component_table(shape), layout_table(layouts, shape)]


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.capacity", description="Estimate the memory, disk and machines that memories need."
    )
    parser.add_argument("--memories", type=float, nargs="+", metavar="N", help="for these numbers, such as 1e8")
    for item in fields(Shape):
        kind = float if item.type == "float" else int
        parser.add_argument(f"--{item.name}", type=kind, default=item.default, help=f"default: {item.default}")
    parser.add_argument("--quantisation", choices=["none", "int8", "binary"], default="int8")
    parser.add_argument("--on-disk", action="store_true", help="read links, terms and vectors from disk")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--node-ram", type=float, default=128, metavar="GIB")
    parser.add_argument("--node-disk", type=float, default=2000, metavar="GIB")
    options = parser.parse_args()
    shape = Shape(**{item.name: getattr(options, item.name) for item in fields(Shape)})
    layouts: Sequence[Layout] = LAYOUTS
    if options.memories:
        one = Layout(0, options.quantisation, options.node_ram, options.node_disk, options.on_disk, options.replicas)
        layouts = [replace(one, memories=memories) for memories in options.memories]
    print("\n\n".join(tables(shape, layouts)))


if __name__ == "__main__":
    _main()
