"""Metrics of retrieval by `ir_measures`, a value for each query.

any@k     1 if any relevant memory is among the first k (Success@k)
all@5     1 if every relevant memory is among the first 5; with more than 5 of them it is always 0
R@k       the share of the relevant memories that are among the first k
nDCG@10   gain by grade, discounted by the logarithm of the place, against the best possible order
MRR       one divided by the place of the first relevant memory, 0 if none is among the 10 recalled
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from retentive.errors import MissingExtra
from retentive.evaluation.evaluation_set import EvaluationQuery

Values = npt.NDArray[np.float64]

Metric = Literal["any@1", "any@5", "any@10", "all@5", "R@5", "R@10", "nDCG@10", "MRR"]
METRICS: tuple[Metric, ...] = get_args(Metric)
SHARES = METRICS[:6]
"""Metrics that people read as percentages."""

_IN_LIBRARY = {
    "any@1": "Success@1",
    "any@5": "Success@5",
    "any@10": "Success@10",
    "R@5": "R@5",
    "R@10": "R@10",
    "nDCG@10": "nDCG@10",
    "MRR": "RR",
}


def library() -> Any:
    """The library of metrics. It brings scipy with it, so it is an extra and loaded on first use."""
    try:
        return importlib.import_module("ir_measures")
    except ImportError:
        raise MissingExtra("measuring", "eval") from None


def measure(queries: Sequence[EvaluationQuery], found: Mapping[str, Sequence[str]]) -> dict[str, Values]:
    """Each metric's values in the order of the queries, from the documents found for each, best first."""
    lib = library()
    names = {lib.parse_measure(spelled): name for name, spelled in _IN_LIBRARY.items()}
    qrels = [lib.Qrel(q.id, document, grade) for q in queries for document, grade in q.relevance.items()]
    # The library orders by score and settles ties by id; places as scores keep the order we were given.
    run = [
        lib.ScoredDoc(q.id, document, float(-place))
        for q in queries
        for place, document in enumerate(found.get(q.id, ()))
    ]
    place_of = {query.id: at for at, query in enumerate(queries)}
    values = {name: np.zeros(len(queries)) for name in _IN_LIBRARY}
    for result in lib.iter_calc(list(names), qrels, run):
        values[names[result.measure]][place_of[result.query_id]] = result.value
    values["all@5"] = (values["R@5"] == 1.0).astype(np.float64)
    return {name: values[name] for name in METRICS}
