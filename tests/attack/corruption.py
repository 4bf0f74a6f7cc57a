"""Damage in a closed SQLite file: flipped bits, pages of zeros or noise, swapped pages, a file that is cut off.

A text must never be returned that was not stored: a damaged memory is left out, or there is an error. `doctor` must say
so, and `recover` must save every memory whose pages are intact.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.models import Memory
from retentive.stores import open_store
from retentive.stores.sqlite import SqliteStore
from retentive.stores.sqlite.recovery import recover
from tests.attack.harness import Child, Run, TextVectors, all_memories, children, main, words
from tests.stores.build import id_of

COUNTED = ("damaged files", "refused", "unchanged", "repaired", "recovered memories")
WRONG = ("wrong texts", "not reported", "not saved", "problems")

PAGE = 4096
MEMORIES = 250
PER_CHILD = 8
"""How many files one process reads; a new one does not inherit what an earlier file has done to it."""

PATIENCE = 120
"""Seconds for one file, after which the process counts as stuck."""


def make_store(path: Path, dice: random.Random) -> dict[str, str]:
    """Write a store with sessions, vectors, judgements and long texts, close it, and return its texts."""
    texts = {}
    with Engine(open_store(str(path)), TextVectors()) as engine:
        drafts = []
        for number in range(MEMORIES):
            text = f"memory {number} {words(dice, dice.choice((5, 20, 20, 60, 1500)))}"
            texts[id_of(number)] = text
            session = f"s{number % 7}" if number % 3 else None
            drafts.append({"id": id_of(number), "text": text, "session": session, "metadata": {"n": number}})
        engine.remember_many(drafts)
        engine.judge("which one?", good=[id_of(3)], bad=[id_of(4)])
        removed = [id_of(number) for number in range(0, MEMORIES, 11)]
        engine.forget(*removed)
        for id in removed:
            del texts[id]
    return texts


def pages_of(content: bytes, texts: Mapping[str, str]) -> dict[str, set[int]]:
    """The pages on which each memory's id or text is; memories that fill several pages are left out."""
    found: dict[str, set[int]] = {}
    for id, text in texts.items():
        if len(text) > 1000:
            continue
        places = [*_places(content, id.encode()), *_places(content, text.encode())]
        found[id] = {place // PAGE for place in places} | {(place + 1000) // PAGE for place in places}
    return found


def _places(content: bytes, text: bytes) -> Iterator[int]:
    at = content.find(text)
    while at >= 0:
        yield at
        at = content.find(text, at + 1)


def damage(content: bytearray, dice: random.Random) -> set[int]:
    """Damage the contents of a file and return the pages that it concerns."""
    pages = len(content) // PAGE
    kind = dice.choice(("bits", "bits", "bytes", "text", "zeros", "noise", "swap", "cut", "header"))
    if kind in ("bits", "bytes"):
        places = [dice.randrange(len(content)) for _ in range(dice.choice((1, 3, 20)))]
        for place in places:
            content[place] = content[place] ^ (1 << dice.randrange(8)) if kind == "bits" else dice.randrange(256)
        return {place // PAGE for place in places}
    if kind == "text":  # inside a text, where nothing but its hash can tell
        place = dice.choice(list(_places(bytes(content), b"memory ")))
        content[place + dice.randrange(20)] ^= 1 << dice.randrange(8)
        return {place // PAGE, (place + 20) // PAGE}
    if kind == "cut":
        del content[dice.randrange(1, len(content)) :]
        return set(range(len(content) // PAGE, pages))
    if kind == "swap":
        first, second = dice.sample(range(pages), 2)
        one, two = slice(first * PAGE, (first + 1) * PAGE), slice(second * PAGE, (second + 1) * PAGE)
        content[one], content[two] = content[two], content[one]
        return {first, second}
    chosen = {0} if kind == "header" else set(dice.sample(range(pages), dice.choice((1, 1, 3))))
    for page in chosen:
        size = 100 if kind == "header" else PAGE
        content[page * PAGE : page * PAGE + size] = bytes(size) if kind == "zeros" else dice.randbytes(size)
    return chosen


class _File:
    """One damaged file, and what is found wrong with how it is read."""

    def __init__(self, path: Path, texts: Mapping[str, str], safe: set[str]) -> None:
        self.path, self._texts, self._safe = path, texts, safe
        self.counts: dict[str, int] = {}
        self.wrong: list[tuple[str, str]] = []

    def read(self) -> None:
        """Read everything in every way, then check."""
        seen: dict[str, str] = {}
        failed = False
        try:
            with Engine(open_store(str(self.path)), TextVectors()) as engine:
                failed = self._read_all(engine, seen)
                problems = self._problems(engine)
        except RetentiveError:
            self.counts["refused"] = 1
            return
        if (failed or seen != self._texts) and not problems:
            missing = len(self._texts.keys() - seen.keys())
            self.wrong.append(("not reported", f"doctor finds nothing, and {missing} memories are missing"))
        if not problems:
            self.counts["unchanged"] = 1

    def _read_all(self, engine: Engine, seen: dict[str, str]) -> bool:
        """Note every text that is returned; return whether a read failed."""
        failed = False
        for read in (self._by_id, self._by_list, self._by_recall, lambda engine: all_memories(engine.store).values()):
            try:
                for memory in read(engine):
                    self._note(memory.id, memory.text, f"by {getattr(read, '__name__', 'scan').strip('_<>')}")
                    seen[memory.id] = memory.text
            except RetentiveError:
                failed = True
        return failed

    def _note(self, id: str, text: str, how: str) -> None:
        """Check a text. An id that was damaged may be that of no memory; its text must be one that was stored."""
        if self._texts.get(id) != text and (id in self._texts or text not in self._texts.values()):
            self.wrong.append(("wrong texts", f"{id} has '{text[:60]}' {how}, not '{self._texts.get(id, '')[:60]}'"))

    def _by_id(self, engine: Engine) -> Iterator[Memory]:
        for id in self._texts:
            yield from engine.get_many([id])

    def _by_list(self, engine: Engine) -> Iterator[Memory]:
        page = engine.list(limit=100)
        yield from page.memories
        while page.next_cursor:
            page = engine.list(limit=100, cursor=page.next_cursor)
            yield from page.memories

    def _by_recall(self, engine: Engine) -> Iterator[Memory]:
        for query in ("memory 17", "bolo", "damira kelo memory 5", next(iter(self._texts.values()))[:80]):
            for hit in engine.recall(query, limit=30, record_use=False):
                yield hit.memory

    def _problems(self, engine: Engine) -> list[str]:
        try:
            return list(engine.check())
        except RetentiveError as error:
            return [str(error)]

    def repair(self, copy: Path) -> None:
        """Repair a copy: afterwards `doctor` finds nothing, and texts are the stored ones or reported as changed."""
        try:
            with Engine(open_store(str(copy)), TextVectors()) as engine:
                done = engine.repair()
                problems = engine.check()
                for id, memory in all_memories(engine.store).items():
                    if id not in done.changed:
                        self._note(id, memory.text, "after a repair")
        except RetentiveError:
            return
        self.counts["repaired"] = 1
        if problems:
            self.wrong.append(("problems", f"after a repair: {problems[0][:200]}"))

    def recover(self, target: Path) -> None:
        """Recover what can be read: every memory on intact pages, and no text but the stored or reported ones."""
        saved: dict[str, str] = {}
        store = SqliteStore(target)
        try:
            done = recover(self.path, store)
            saved = {id: memory.text for id, memory in all_memories(store).items() if id not in done.changed}
        except RetentiveError as error:
            if self._safe:
                self.wrong.append(("not saved", f"recover refused {len(self._safe)} intact memories: {error}"))
            return
        finally:
            store.close()
        self.counts["recovered memories"] = len(saved)
        for id, text in saved.items():
            self._note(id, text, "recovered")
        missing = self._safe - saved.keys()
        if missing:
            self.wrong.append(("not saved", f"recover left out {len(missing)} intact memories: {min(missing)}"))


def read_files(source: str, texts: dict[str, str], seeds: list[float], line: Connection) -> None:
    """Damage, read, repair and recover files; send what was found for each."""
    logging.disable(logging.WARNING)  # each recall that leaves something out says so
    content = Path(source).read_bytes()
    pages = pages_of(content, texts)
    folder = Path(source).parent / f"work{seeds[0]}"
    for seed in seeds:
        folder.mkdir()
        changed = bytearray(content)
        concerned = damage(changed, random.Random(seed))
        (folder / "damaged.db").write_bytes(changed)
        shutil.copy(folder / "damaged.db", folder / "repaired.db")
        shutil.copy(folder / "damaged.db", folder / "original.db")
        file = _File(folder / "damaged.db", texts, {id for id, on in pages.items() if not on & concerned})
        try:
            file.read()
            file.repair(folder / "repaired.db")
            file.path = folder / "original.db"
            file.recover(folder / "recovered.db")
        except Exception as error:
            file.wrong.append(("problems", f"{type(error).__name__}: {error}"))
        line.send((file.counts, file.wrong))
        shutil.rmtree(folder)


def attack(run: Run) -> None:
    """Damage copies of one file, some of them in each process."""
    source = run.folder / "source.db"
    texts = make_store(source, run.dice)
    for _ in run.rounds():
        seeds = [run.dice.random() for _ in range(PER_CHILD)]
        with children(Child(read_files, str(source), texts, seeds)) as (child,):
            for seed in seeds:
                if run.remaining < 0:
                    break
                try:
                    counts, wrong = child.receive(PATIENCE)
                except (EOFError, TimeoutError) as error:
                    child.process.join(5)
                    run.fail("problems", f"damage {seed}: {type(error).__name__}, exit code {child.process.exitcode}")
                    break
                run.count("damaged files")
                for what, number in counts.items():
                    run.count(what, number)
                for what, sentence in wrong:
                    run.fail(what, f"damage {seed}: {sentence}")


if __name__ == "__main__":
    main("corruption")
