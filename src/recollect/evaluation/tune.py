"""Tuning: which knobs find more, chosen on some questions and measured on others.

Questions are parted into folds, by project where there are several. For each fold a tuning is chosen on all the other
folds and its questions are asked with it, through the engine, beside the present tuning. So no figure here comes from
a question that had a say in the tuning it was asked with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import numpy as np

from recollect.engine import Engine
from recollect.errors import Invalid
from recollect.evaluation.judged import JudgedSet, Question
from recollect.evaluation.knobs import differences
from recollect.evaluation.metrics import METRICS, Metric, Values, library, measure
from recollect.evaluation.ranking_again import ranking_again
from recollect.evaluation.result import Progress, no_progress
from recollect.evaluation.run import ask
from recollect.evaluation.search import Places, Scores, search
from recollect.evaluation.statistics import Interval, intervals, p_value
from recollect.models import Plain
from recollect.ranking import Tuning

FOLDS = 5
FEWEST = 10
"""With fewer questions than this no gain could be told from chance."""

METRIC: Metric = "nDCG@10"
BUDGET, SAMPLE, SEED = 150, 300, 1

Verdict = Literal["better", "stands"]


@dataclass(frozen=True, slots=True)
class HeldOut(Plain):
    """One metric on the held-out folds, before and after tuning, and the gain, each with its 95 % interval."""

    before: float
    before_interval: Interval
    after: float
    after_interval: Interval
    gain: float
    gain_interval: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found: the present tuning, the one found on all questions, and what tuning gains on held-out ones."""

    set: str
    metric: str
    questions: int
    searched: int
    folds: int
    by: Literal["project", "question"]
    tunings: int
    present: Tuning
    found: Tuning
    held_out: Mapping[str, HeldOut]
    scores: Scores

    @property
    def knobs(self) -> dict[str, tuple[Any, Any]]:
        """Each knob that the tuning found turns, from what to what."""
        return differences(self.present, self.found)

    @property
    def verdict(self) -> Verdict:
        """Better only where the held-out gain is above 0 through its whole interval, and there is a knob to turn."""
        real = self.held_out[self.metric].gain_interval.low > 0
        return "better" if real and self.knobs else "stands"

    def to_dict(self) -> dict[str, Any]:
        """This result as plain values."""
        return {
            "set": self.set,
            "metric": self.metric,
            "n": self.questions,
            "searched": self.searched,
            "folds": self.folds,
            "folds_by": self.by,
            "tunings": self.tunings,
            "verdict": self.verdict,
            "knobs": {knob: {"before": old, "after": new} for knob, (old, new) in self.knobs.items()},
            "held_out": {name: figures.to_dict() for name, figures in self.held_out.items()},
            "tuning": self.found.model_dump(),
        }


def tune(
    engine: Engine,
    judged: JudgedSet,
    *,
    present: Tuning,
    metric: str = METRIC,
    budget: int = BUDGET,
    sample: int = SAMPLE,
    seed: int = SEED,
    progress: Progress = no_progress,
) -> Tuned:
    """The tuning that finds most of what a set asks for, by an engine that holds its memories, and whether to trust it.

    `budget` is how many tunings each search may look at, `sample` on how many questions; the verdict is on all.
    """
    library()
    _check(judged, metric, budget, sample)
    # The cross-encoder costs half a second a question and comes after everything that is tuned here.
    start = present.with_knobs(rerank=0)
    parts, by = folds(judged.questions, seed=seed)
    sampled = _sampled(len(judged.questions), sample, seed)
    rank = ranking_again(engine, now=engine.now())
    scores = Scores([judged.questions[place] for place in sampled], rank, metric, judged.identify)
    everything = np.arange(len(sampled))
    with progress("searching", total=budget * (len(parts) + 1)) as step:
        options: dict[str, Any] = {"start": start, "budget": budget, "seed": seed, "step": step}
        others = [everything[~np.isin(sampled, part)] for part in parts]
        chosen = [search(scores, places, **options) for places in others]
        found = search(scores, everything, **options)
    with progress("asking held-out questions", total=len(judged.questions)) as asked:
        values = _ask_held_out(engine, judged, start, list(zip(parts, chosen, strict=True)), asked)
    return Tuned(
        set=judged.name,
        metric=metric,
        questions=len(judged.questions),
        searched=len(sampled),
        folds=len(parts),
        by=by,
        tunings=scores.tunings,
        present=present,
        found=found.with_knobs(rerank=present.rerank),
        held_out=_compared(*values),
        scores=scores,
    )


def _check(judged: JudgedSet, metric: str, budget: int, sample: int) -> None:
    if metric not in METRICS:
        raise Invalid(f"there is no metric '{metric}'; the metrics are {', '.join(METRICS)}")
    if budget < 1 or sample < FEWEST:
        raise Invalid(f"the budget is a number from 1 and the sample one from {FEWEST}, not {budget} and {sample}")
    if len(judged.questions) < FEWEST:
        raise Invalid(
            f"tuning needs at least {FEWEST} questions with an answer, and {judged.name} has {len(judged.questions)}; "
            "judge more with: recollect judge"
        )


def folds(questions: Sequence[Question], *, seed: int = SEED) -> tuple[list[Places], Literal["project", "question"]]:
    """The places of the questions of each fold: whole projects, of about equal size, or else single questions."""
    places: dict[str | None, list[int]] = {}
    for at, question in enumerate(questions):
        places.setdefault(question.project, []).append(at)
    random = Random(seed)  # noqa: S311 - nothing secret
    groups = list(places.values()) if len(places) > 1 else [[at] for at in range(len(questions))]
    random.shuffle(groups)
    parts: list[list[int]] = [[] for _ in range(min(FOLDS, len(groups)))]
    for group in sorted(groups, key=len, reverse=True):
        min(parts, key=len).extend(group)
    return [np.array(sorted(part), np.intp) for part in parts], "project" if len(places) > 1 else "question"


def _sampled(count: int, sample: int, seed: int) -> Places:
    """The places of the questions to search on, in an order of chance."""
    return np.random.default_rng(seed).permutation(count)[:sample].astype(np.intp)


def _ask_held_out(
    engine: Engine,
    judged: JudgedSet,
    present: Tuning,
    chosen: Sequence[tuple[Places, Tuning]],
    progress: Callable[[int], None],
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Each metric's values for every question, with the present tuning and with the one chosen without its fold."""
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    for places, tuning in chosen:
        for question in (judged.questions[place] for place in places):
            before[question.id] = ask(engine, question, present, identify=judged.identify)
            same = tuning == present
            after[question.id] = (
                before[question.id] if same else ask(engine, question, tuning, identify=judged.identify)
            )
            progress(1)
    return measure(judged.questions, before), measure(judged.questions, after)


def _compared(before: Mapping[str, Values], after: Mapping[str, Values]) -> dict[str, HeldOut]:
    gains = {name: after[name] - before[name] for name in before}
    ranges = [intervals(values) for values in (before, after, gains)]
    return {
        name: HeldOut(
            before=float(before[name].mean()),
            before_interval=ranges[0][name],
            after=float(after[name].mean()),
            after_interval=ranges[1][name],
            gain=float(gains[name].mean()),
            gain_interval=ranges[2][name],
            p_value=p_value(after[name], before[name]),
        )
        for name in before
    }
