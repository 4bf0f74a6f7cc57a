"""Long texts are split into passages that fit, have their lines and headings, and lose nothing."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from retentive.inference.embedders import Embedder
from retentive.transfer.formats import passages
from retentive.transfer.formats.passages import MAX_CHARACTERS, Passage, passage_limit, split_blocks, split_passages

LINES = st.lists(
    st.one_of(
        st.sampled_from(["", "  ", "# One", "## Two", "### Three ###", "Under", "====", "----", "```", "~~~", "| a |"]),
        st.text(alphabet="ab .!#`\u2028\x0cé", max_size=30),
    ),
    max_size=30,
)  # fmt: skip


def at_most(limit: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= limit


def cut(text: str, limit: int = 10_000, **options) -> list[Passage]:
    return list(split_passages(text.split("\n"), fits=at_most(limit), **options))


def visible(text: str) -> str:
    return "".join(text.split())


@given(LINES, st.integers(1, 60))
def test_every_passage_fits_and_together_they_hold_every_visible_character_once(lines: list[str], limit: int):
    found = list(split_passages(lines, fits=at_most(limit)))

    assert all(len(passage.text) <= limit for passage in found)
    assert visible("".join(passage.body for passage in found)) == visible("\n".join(lines))


@given(LINES, st.integers(1, 60), st.integers(1, 100))
def test_a_passage_is_in_the_lines_that_it_names_and_no_line_is_left_out(lines: list[str], limit: int, first: int):
    found = list(split_passages(lines, fits=at_most(limit), first=first))

    named: set[int] = set()
    last = first
    for passage in found:
        assert last <= passage.first <= passage.last
        last = passage.last
        named.update(range(passage.first, passage.last + 1))
        assert passage.body in "\n".join(lines[passage.first - first : passage.last - first + 1])
    assert named >= {at + first for at, line in enumerate(lines) if line.strip()}


def test_each_section_is_a_passage_that_knows_the_headings_above_it():
    found = cut("# House\n\nBuilt 1932.\n\n## Kitchen\n\nInduction.\n\n## Attic\n\nDry.\n\n# Garden\n\nPears.")

    assert [(passage.first, passage.last, passage.headings) for passage in found] == [
        (1, 3, ("House",)),
        (5, 7, ("House", "Kitchen")),
        (9, 11, ("House", "Attic")),
        (13, 15, ("Garden",)),
    ]
    assert found[1].text == "House\n\n## Kitchen\n\nInduction."
    assert found[3].text == "# Garden\n\nPears."


def test_headings_with_nothing_between_them_open_one_passage_together():
    found = cut("# House\n\n## Kitchen\n\nInduction.\n\n## Attic\n\n## Cellar\n\nDamp.")

    assert [(passage.first, passage.last, passage.text) for passage in found] == [
        (1, 5, "# House\n\n## Kitchen\n\nInduction."),
        (7, 7, "House\n\n## Attic"),
        (9, 11, "House\n\n## Cellar\n\nDamp."),
    ]


def test_a_long_section_is_cut_between_paragraphs_and_each_part_is_led_by_its_headings():
    found = cut("# House\n\n" + "\n\n".join(f"Paragraph {number}." + " x" * 20 for number in range(4)), 130)

    assert [(passage.first, passage.last, passage.context) for passage in found] == [(1, 5, ""), (7, 9, "House")]
    assert found[1].text.startswith("House\n\nParagraph 2.")


def test_a_paragraph_that_does_not_fit_is_cut_at_a_sentence_with_the_lines_of_each_part():
    found = cut("The first sentence is here.\nThe second one follows it. The third ends it.", 60)

    assert [(passage.first, passage.last, passage.body) for passage in found] == [
        (1, 2, "The first sentence is here.\nThe second one follows it."),
        (2, 2, "The third ends it."),
    ]


def test_a_heading_or_blank_line_inside_a_code_block_does_not_cut_it():
    code = "```sh\n# not a heading\n\necho 1\n```"
    found = cut(f"Before the code, some words.\n\n{code}\n\nAfter the code, some words.", 45)

    assert [passage.body for passage in found] == [
        "Before the code, some words.",
        code,
        "After the code, some words.",
    ]


def test_a_table_that_fits_is_not_cut_and_is_no_heading():
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    found = cut("Some words before the table stand here.\n\n" + table, 45)

    assert [passage.body for passage in found] == ["Some words before the table stand here.", table]


def test_a_code_block_that_is_never_closed_ends_with_the_text():
    assert [passage.last for passage in cut("# A\n\n```\ncode\n\n")] == [4]


def test_underlined_headings_are_headings_and_lists_above_a_rule_are_not():
    found = cut("House\n=====\n\nKitchen\n---\n\nInduction.\n\n- a list\n---\n")

    assert [passage.headings for passage in found] == [("House", "Kitchen")]


def test_the_title_of_the_file_is_before_every_passage_but_not_repeated():
    assert [p.text for p in cut("Some words.", title="House")] == ["House\n\nSome words."]
    assert [(p.text, p.headings) for p in cut("# House\n\nWords.", title="House")] == [
        ("# House\n\nWords.", ("House",))
    ]


def test_headings_too_long_for_their_passage_give_way_to_the_text():
    found = cut("# " + "long " * 10 + "\n\n## Short\n\n" + "word " * 20, 60)

    assert all(len(passage.text) <= 60 for passage in found)
    assert found[-1].context == "Short"
    assert len(found[-1].headings) == 2


def test_a_line_of_megabytes_is_measured_a_few_times_for_each_passage():
    measured: list[int] = []

    def fits(text: str) -> bool:
        measured.append(len(text))
        return len(text) <= MAX_CHARACTERS

    found = list(split_passages(["word " * 400_000], fits=fits))

    assert {(passage.first, passage.last) for passage in found} == {(1, 1)}
    assert max(len(passage.text) for passage in found) <= MAX_CHARACTERS
    assert len(measured) < 30 * len(found)
    assert sum(measured) < 30 * 2_000_000 * 2


def test_a_rule_inside_a_code_block_does_not_make_its_first_line_a_heading():
    found = cut("# House\n\n```markdown\n---\ntitle: x\n---\n\n## Not a heading\n```\n\n## Attic\n\nDry.")

    assert [passage.headings for passage in found] == [("House",), ("House", "Attic")]


def test_headings_in_comments_and_indented_code_are_text():
    found = cut("# House\n\n<!--\n# hidden\n-->\n\n    # code\n\nWords.")

    assert [(passage.first, passage.last, passage.headings) for passage in found] == [(1, 9, ("House",))]


def test_blocks_are_the_same_however_many_lines_are_parsed_at_once(monkeypatch):
    fenced, unclosed = "```\n\n# no\n\n\n```\n", "~~~\nnever closed\n\n"
    lines = f"# A\n\ntext\nmore\n\nUnder\n=====\n\n{fenced}- a\n- b\n\n{unclosed}".splitlines()
    whole = list(split_blocks(lines))

    for size in range(1, len(lines)):
        monkeypatch.setattr(passages, "_PARSED_LINES", size)
        assert list(split_blocks(lines)) == whole


def test_a_passage_is_one_part_to_the_model(model: Embedder):
    text = "日本語の文章です。" * 400 + "\n\n" + "An English sentence about the kitchen, not very long. " * 80

    found = list(split_passages(text.split("\n"), fits=passage_limit(model)))

    assert len(found) > 4
    assert all(len(model.split(passage.text)) == 1 for passage in found)
