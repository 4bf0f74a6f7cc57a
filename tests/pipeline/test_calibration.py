"""Calibration of the relevance without a judge: by the store, by judgements, and what each interface gives out."""

from __future__ import annotations

from statistics import fmean

import pytest

from retentive import Engine
from retentive.chat.context import assemble
from retentive.chat.proxy import with_context
from retentive.evaluation.own_relevance import fit_correction, fit_own_relevance
from retentive.inference.judge import JUDGE_SHA256
from retentive.models import DEFAULT_MIN_RELEVANCE
from retentive.pipeline.embeddings import REFINED_SECONDS, Calibrations, Refinement
from retentive.tenancy import ProfileView
from retentive.transfer.samples import QUERIES, load_samples

UNJUDGED = {"judge": "off"}
NOISE = ("hello", "thanks!", "asdfghjkl", "lattice quantum chromodynamics", "zzqx")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    with Engine.open(tmp_path_factory.mktemp("samples") / "memories.db", tuning=UNJUDGED) as engine:
        load_samples(engine)
        yield engine


@pytest.mark.parametrize("judge", ["off", "filter"])
@pytest.mark.parametrize("text", NOISE)
def test_a_text_that_asks_for_nothing_gets_no_memory_in_a_prompt(samples, text, judge):
    context = assemble(ProfileView(samples, "default"), text, tuning={"judge": judge})

    assert context.items == ()
    assert context.text == ""
    assert context.note == "nothing relevant is stored"
    assert set(context.left_out_counts) <= {"irrelevant", "unjudged"}
    assert samples.recall(text, tuning=samples.tuning.for_prompt({"judge": judge})).hits == ()


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_about_the_samples_gets_its_best_memory(samples, query):
    every, relevant = samples.recall(query), samples.recall(query, tuning=samples.tuning.for_prompt())

    assert relevant.hits
    assert relevant.hits[0].id == every.hits[0].id
    assert every.relevance >= max(hit.relevance for hit in every)
    assert all(hit.relevance >= DEFAULT_MIN_RELEVANCE for hit in relevant)


def test_the_library_gives_out_everything_unless_it_is_asked_not_to(samples):
    assert len(samples.recall("zzqx").hits) == 10
    none = samples.recall("zzqx", tuning={"min_relevance": 0.5})
    assert none.hits == ()
    assert str(none).startswith("nothing relevant is stored")
    assert all(hit.why[-1].step == "min_relevance" for hit in none.dropped)


def test_an_explanation_says_that_a_memory_is_not_relevant_enough(samples):
    first = samples.recall("zzqx").hits[0]

    explained = samples.explain("zzqx", first.id, tuning={"min_relevance": 0.5})

    assert explained.outcome == "irrelevant"
    assert "min_relevance is 0.5" in explained.sentence


def test_a_threshold_that_is_set_anywhere_takes_the_place_of_the_default(samples):
    assert samples.tuning.for_prompt().min_relevance == DEFAULT_MIN_RELEVANCE
    assert samples.tuning.for_prompt({"minRelevance": 0}).min_relevance == 0
    samples.tuning.save({"min_relevance": 0.4})
    try:
        assert samples.tuning.for_prompt().min_relevance == 0.4
        assert samples.tuning.for_prompt("classic-rrf").min_relevance == 0.4
        assert samples.tuning.for_prompt({"preset": "classic-rrf"}).min_relevance == 0.4
        samples.tuning.save({"min_relevance": 0})
        assert samples.tuning.for_prompt("classic-rrf").min_relevance == 0
        samples.tuning.save({"preset": "classic-rrf"})
        assert samples.tuning.for_prompt().min_relevance == 0
        samples.tuning.save({"preset": None})
        assert samples.tuning.for_prompt().min_relevance == DEFAULT_MIN_RELEVANCE
    finally:
        samples.tuning.save({"min_relevance": None})


def test_the_context_stands_after_the_history_so_that_a_provider_can_cache_it(samples):
    context = assemble(ProfileView(samples, "default"), QUERIES[3], nonce="n0nce")
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    history += [{"role": "assistant", "content": "hello"}, {"role": "user", "content": QUERIES[3]}]

    sent = with_context(history, context)

    assert sent[:3] == history[:3]
    assert sent[4] == history[3]
    assert "n0nce" not in sent[3]["content"].split("<memory")[0]


def test_an_older_note_that_says_something_similar_names_the_time_of_the_newer_one(tmp_path):
    with Engine.open(tmp_path / "memories.db", tuning=UNJUDGED) as engine:
        engine.remember("The meeting about the roof is on Monday", occurred="2026-05-01T10:00:00Z")
        engine.remember("The meeting about the roof is on Friday", occurred="2026-05-03T10:00:00Z")

        context = assemble(
            ProfileView(engine, "default"), "When is the meeting about the roof?", tuning={"dedup": True}
        )

    newer = {item.text[-6:]: item.newer and item.newer.day for item in context.items}
    assert newer == {"Monday": 3, "Friday": None}
    assert '"newer": "2026-05-03 10:00Z"' in context.text


@pytest.mark.parametrize("judge", ["off", "order"])
def test_judgements_refine_relevance_and_doctor_can_tell(tmp_path, judge):
    with Engine.open(tmp_path / "memories.db", tuning={"judge": judge}) as engine:
        load_samples(engine)
        queries = (*QUERIES, "when is the flight?", "who takes the alert?")
        for query in queries:
            hits = engine.recall(query).hits
            engine.judge(query, good=[hits[0].id], bad=[hit.id for hit in hits[1:6]])
        model = engine.stats().model

        def judged() -> float:
            """The mean relevance of the hits that were judged, of which one of six is good."""
            found = [engine.recall(query, tuning={"min_relevance": 0}).hits[:6] for query in queries]
            return fmean(hit.relevance for hits in found for hit in hits)

        before = judged()

        refined = fit_own_relevance(engine)
        assert refined is not None
        assert refined.corrects == (model.fingerprint if judge == "off" else JUDGE_SHA256)
        assert refined.judged == 36
        refined.save(engine)

        report = engine.calibrations.describe(model)
        assert abs(judged() - 1 / 6) < max(abs(before - 1 / 6), 0.05)
        assert report.judgements == 36
        assert "refined by 36 judgements" in report.sentence
        assert engine.tuning.current().min_relevance == refined.min_relevance


def test_a_correction_without_evidence_is_none():
    import numpy as np

    slope, offset = fit_correction(np.zeros(0), np.zeros(0))

    assert (slope, offset) == (1.0, 0.0)


FOODS = ("hay", "kibble", "tuna", "seeds", "carrots", "pellets", "worms", "lettuce")
PETS = [
    f"The {pet} eats {food} {time}"
    for pet in ("cat", "dog", "parrot", "hamster", "rabbit", "pony", "goldfish", "turtle")
    for food in FOODS
    for time in ("in the morning", "on Sundays")
]
UNANSWERED = "what does the snake drink?"


def test_relevance_follows_a_store_that_grows_and_shrinks_while_it_is_open(tmp_path):
    path = tmp_path / "memories.db"
    with Engine.open(path, tuning=UNJUDGED) as engine:
        for number in range(70):
            engine.remember(f"Kitchen plan item {number}: the carpenter measured the oak worktop number {number}")
        before = engine.recall(UNANSWERED).relevance

        pets = [engine.remember(text) for text in PETS]

        grown = engine.recall(UNANSWERED).relevance
        with Engine.open(path, tuning=UNJUDGED) as new:
            assert grown == pytest.approx(new.recall(UNANSWERED).relevance)
        engine.forget(*(memory.id for memory in pets))
        assert engine.recall(UNANSWERED).relevance == pytest.approx(before)
    assert grown < DEFAULT_MIN_RELEVANCE


def test_a_sample_is_read_again_when_memories_are_embedded_later(tmp_path):
    path = tmp_path / "memories.db"
    with Engine.open(path, embedder="none") as engine:
        memories = [engine.remember(text) for text in PETS[:30]]
    with Engine.open(path, tuning=UNJUDGED) as engine:
        engine.remember("The roof needs new tiles")
        few = engine.recall(UNANSWERED).relevance
        engine.embeddings.reembed()

        assert len(engine.recall(UNANSWERED).hits) == 10
        (sample,) = engine.calibrations.samples
        assert len(sample.vectors) == len(memories) + 1
        assert engine.recall(UNANSWERED).relevance != few


@pytest.mark.parametrize("judge", ["off", "order"])
def test_a_refinement_that_another_process_saves_is_seen_after_some_seconds(tmp_path, judge):
    path, now, tuning = tmp_path / "memories.db", [0.0], {"judge": judge}
    with Engine.open(path, tuning=tuning) as engine, Engine.open(path, tuning=tuning) as other:
        load_samples(engine)
        engine.calibrations = Calibrations(engine.store, clock=lambda: now[0])
        before = engine.recall(QUERIES[0]).relevance

        of = other.stats().model.fingerprint if judge == "off" else JUDGE_SHA256
        other.calibrations.refine(of, Refinement(1.0, -3.0, 20))

        now[0] = REFINED_SECONDS / 2
        assert engine.recall(QUERIES[0]).relevance == before
        now[0] = REFINED_SECONDS
        assert engine.recall(QUERIES[0]).relevance < before
        assert engine.recall(QUERIES[0]).relevance == pytest.approx(other.recall(QUERIES[0]).relevance)
