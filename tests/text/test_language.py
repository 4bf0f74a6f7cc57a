"""The language of a text, and what it does to its terms."""

from __future__ import annotations

import unicodedata

import pytest

from retentive.text.language import detect
from retentive.text.terms import index_terms, query_terms


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("ich wohne jetzt in den grossen hausern von berlin", "german"),
        ("las casas grandes son de mi madre", "spanish"),
        ("les chevaux sont dans le pre", "french"),
        ("он живет в больших домах", "russian"),
        ("evlerimiz cok guzel ve buyuk", "turkish"),
        ("τα σπίτια είναι μεγάλα", "greek"),
        ("he said that the film die hard is what he likes", None),
        ("caroline went to the support group in de moines", None),
        ("deploy auth service to staging", None),
        ("він живе в великому місті", None),
        ("TNF-α and IL-1β were raised in 23 patients with μ-opioid receptors", None),
        ("我上周搬到了柏林", None),
        ("", None),
    ],
)
def test_function_words_and_script_tell_the_language_where_it_is_clear(text: str, language: str | None) -> None:
    assert detect(text, text.split()) == language


@pytest.mark.parametrize(
    ("memory", "query", "term"),
    [
        ("Wir haben die alten Häuser von Oma verkauft", "wo ist das Haus?", "haus"),
        ("Мы продали большие дома", "какой дом", "дом"),
        ("Nous avons vu les chevaux dans le pré", "où est le cheval", "cheval"),
    ],
)
def test_a_word_is_found_by_another_form_in_its_language(memory: str, query: str, term: str) -> None:
    assert term in index_terms(memory)
    assert term in query_terms(query)


def test_a_word_is_found_as_written_even_if_only_one_side_tells_its_language() -> None:
    memory = index_terms("Wir haben die alten Häuser von Oma verkauft")

    assert set(query_terms("Häuser")) <= set(memory)


def test_english_texts_have_no_terms_of_another_language() -> None:
    assert index_terms("The old houses were sold in May") == ["the", "old", "hous", "were", "sold", "in", "may"]


EXPANDING = [
    char
    for char in map(chr, range(0x10000))
    if not char.isspace() and any(" " in unicodedata.normalize(form, char) for form in ("NFKC", "NFKD"))
]
"""Characters that Unicode decomposes to several words, such as U+FDFA, and marks that stand alone."""


@pytest.mark.parametrize("text", ["قال النبي{}مح إنما الأعمال", "هذا {} كتاب", "die Häu{}ser und das Haus", "tea{}pot"])
def test_no_term_has_a_space_whatever_a_character_decomposes_to(text: str) -> None:
    texts = [text.format(char) for char in EXPANDING]

    terms = {term for one in texts for term in (*index_terms(one), *query_terms(one))}

    assert "\ufdfa" in EXPANDING
    assert {term for term in terms if term.split() != [term]} == set()


def test_a_store_agrees_with_a_text_whose_characters_decompose_to_several_words(open_engine) -> None:
    engine = open_engine(None)
    engine.remember("قال النبي\ufdfa إنما الأعمال")

    assert engine.store.check() == []
