"""What remains of forgotten memories in the files of a SQLite store; `tests.attack.forgotten` runs longer."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import apsw

from retentive.stores.sqlite.checkpoints import clear_unallocated
from tests.attack.forgotten import Writer, readable, write_and_search
from tests.stores.build import MODEL, embedded, id_of, keyword_ids
from tests.stores.sqlite_file import opened

PAGE = 4096


def churn(path: str, *, seed: int, operations: int) -> set[str]:
    """Write, change and forget memories at random, close the store, and return the words that are gone."""
    writer = Writer(seed, 0).operations(path)
    gone = {word for words in islice(writer, operations) for word in words}
    writer.close()
    return gone


def test_after_many_changes_no_forgotten_word_is_readable_in_the_closed_file(path: str):
    gone = churn(path, seed=6, operations=150)

    assert len(gone) > 500
    assert readable(path, gone) == set()
    with opened(path) as store:
        assert store.check() == []


def test_no_page_of_the_closed_file_has_bytes_outside_its_rows(path: str):
    churn(path, seed=1, operations=60)

    content = Path(path).read_bytes()
    connection = apsw.Connection(path)
    of_rows = [
        number for (number,) in connection.execute("SELECT pageno FROM dbstat WHERE pagetype IN ('leaf', 'internal')")
    ]
    connection.close()
    dirty = []
    for number in of_rows:
        page = content[(number - 1) * PAGE : number * PAGE]
        if clear_unallocated(page, first=number == 1) != page:
            dirty.append(number)
    assert len(of_rows) > 50
    assert dirty == []


def test_a_forgotten_term_that_separated_two_pages_of_the_keyword_index_is_not_in_the_file(path: str):
    with opened(path) as store:
        store.add([embedded(n, f"number{n:05d}") for n in range(10000, 13000)], model=MODEL)
        separators = separators_of(path)
        assert len(separators) > 3

        store.remove([id_of(int(term[-5:])) for term in separators])

        for term in separators:
            assert keyword_ids(store, term) == []
            assert keyword_ids(store, f"number{int(term[-5:]) + 1}") == [id_of(int(term[-5:]) + 1)]
        assert store.check() == []
        fts_check(path)
    content = Path(path).read_bytes()
    assert [term for term in separators if term.encode() in content] == []


def separators_of(path: str) -> list[str]:
    """The whole terms that the keyword index has beside its pages."""
    connection = apsw.Connection(path)
    found = [term[1:].decode() for (term,) in connection.execute("SELECT term FROM words_idx")]
    connection.close()
    return [term for term in found if len(term) == len("number00000")]


def fts_check(path: str) -> None:
    connection = apsw.Connection(path)
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()


def test_nothing_forgotten_is_readable_after_several_processes_of_which_some_are_killed(path: str):
    result = write_and_search(path, 7, rounds=2, seconds=60, processes=2, operations=30, kills=1)

    assert result.kills == 2
    assert result.forgotten > 50
    assert (result.readable, result.problems) == (set(), [])


def test_a_page_that_is_no_page_of_rows_is_not_changed():
    overflow = bytes([0, 0, 0, 9]) + b"text" * 1023
    broken = bytes([13, 0, 0, 255, 255, 0, 9]) + b"x" * (PAGE - 7)
    full = bytes([13, 0, 0, 0, 1, 0, 10, 0, 0, 10]) + b"x" * (PAGE - 10)

    assert [clear_unallocated(page) for page in (overflow, broken, full)] == [overflow, broken, full]


def test_the_part_of_a_page_between_its_pointers_and_its_rows_is_cleared():
    header = bytes([13, 0, 0, 0, 1, 15, 0, 0, 15, 0])
    row = b"r" * (PAGE - 15 * 256)

    cleared = clear_unallocated(header + b"old text" + bytes(15 * 256 - 18) + row)

    assert cleared == header + bytes(15 * 256 - 10) + row
