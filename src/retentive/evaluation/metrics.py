"""Retrieval metrics by `ir_measures`, with one value for each query.

any@k     1 if any relevant memory is among the first k (Success@k)
all@5     1 if every relevant memory is among the first 5; with more than 5 of them it is always 0
R@k       the share of the relevant memories that are among the first k
nDCG@10   gain by grade, discounted by the logarithm of the rank, divided by that of the best possible order
MRR       1 divided by the rank of the first relevant memory, 0 if none is among the 10 recalled
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.extras import needs_extra

Values = npt.NDArray[np.float64]

Metric = Literal["any@1", "any@5", "any@10", "all@5", "R@5", "R@10", "nDCG@10", "MRR"]
METRICS: tuple[Metric, ...] = get_args(Metric)
PERCENTAGES = METRICS[:6]
"""Metrics that are printed as percentages."""

_IN_LIBRARY = {
    "any@1": ("Success", 1),
    "any@5": ("Success", 5),
    "any@10": ("Success", 10),
    "R@5": ("R", 5),
    "R@10": ("R", 10),
    "nDCG@10": ("nDCG", 10),
    "MRR": ("RR", None),
}
"""The measure of the library and its cutoff. Its parser of names needs a part of `ast` that Python 3.14 removed."""


def load_library() -> Any:
    """Import `ir_measures`; `MissingExtra` if it is not installed. It imports scipy, so it is loaded at first use."""
    with needs_extra("evaluation", "eval"):
        return importlib.import_module("ir_measures")


def measure(queries: Sequence[EvaluationQuery], found: Mapping[str, Sequence[str]]) -> dict[str, Values]:
    """Return the values of each metric in the order of the queries, from the documents found for each, best first."""
    library = load_library()
    measures = {name: (getattr(library, measure), cutoff) for name, (measure, cutoff) in _IN_LIBRARY.items()}
    names = {measure @ cutoff if cutoff else measure: name for name, (measure, cutoff) in measures.items()}
    qrels = [
        library.Qrel(query.id, document, grade) for query in queries for document, grade in query.relevance.items()
    ]
    # The library sorts by score and breaks ties by id; negated ranks as scores keep the given order.
    run = [
        library.ScoredDoc(query.id, document, float(-rank))
        for query in queries
        for rank, document in enumerate(found.get(query.id, ()))
    ]
    index_of = {query.id: index for index, query in enumerate(queries)}
    values = {name: np.zeros(len(queries)) for name in _IN_LIBRARY}
    for result in library.iter_calc(list(names), qrels, run):
        values[names[result.measure]][index_of[result.query_id]] = result.value
    values["all@5"] = (values["R@5"] == 1.0).astype(np.float64)
    return {name: values[name] for name in METRICS}


def format_metric(name: str, value: float) -> str:
    """A value of a metric for people to read: a percentage with one decimal, or three decimals."""
    return f"{100 * value:.1f}" if name in PERCENTAGES else f"{value:.3f}"
