"""Readers of the source repositories: each takes the folder of a clone and yields lines of the packed form.

A name is that of a source in `sources.toml`, or one of the names that a source has there under `also`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from training.packed import Conversation
from training.sources import (
    crd3,
    dialogues,
    knowledge,
    memory_benchmarks,
    passages,
    realmem,
    tasks,
    texts,
    vehicles,
)
from training.sources.reading import Line

CONVERSATIONS: dict[str, Callable[[Path], Iterator[Conversation]]] = {
    "friendsqa": dialogues.friendsqa,
    "molweni": dialogues.molweni,
    "qmsum": dialogues.qmsum,
    "realmem": realmem.realmem,
    "madial": memory_benchmarks.madial,
    "ikat-ptkb": memory_benchmarks.ikat,
    "vehiclemem": vehicles.vehiclemem,
    "recall-bench": memory_benchmarks.recall_bench,
    "proactivemem": memory_benchmarks.proactivemem,
    "precisionmem": dialogues.precisionmem,
    "crd3-weak": crd3.crd3,
    "synthetic-persona-chat-weak": dialogues.persona_chat,
    "sgd-template": tasks.sgd,
}
PASSAGES: dict[str, Callable[[Path], Iterator[Line]]] = {
    "wow++": passages.wow,
    "dstc9-10-faq": knowledge.dstc9_questions,
    "xquad-en": passages.xquad,
    "realmem-memory": realmem.realmem_memories,
    "squad-sentences(nqg)": texts.squad_sentences,
    "disfl-qa": texts.disfl_qa,
    "dstc11-faq": knowledge.dstc11_questions,
    "dstc11-review": knowledge.dstc11_reviewed,
    "ikat-response": memory_benchmarks.ikat_responses,
    "proactivemem-unit": memory_benchmarks.proactivemem_units,
    "sharc": passages.sharc,
}
TEXTS: dict[str, Callable[[Path], Iterator[Line]]] = {
    "sgd": tasks.sgd_texts,
    "synthetic-persona-chat": dialogues.persona_texts,
    "taskmaster4": tasks.taskmaster,
    "crd3": crd3.crd3_texts,
    "topical-chat": texts.topical_chat,
    "dstc11-reviews": knowledge.dstc11_texts,
    "clinc-oos": texts.clinc,
    "wow++": passages.wow_texts,
}

__all__ = ["CONVERSATIONS", "PASSAGES", "TEXTS"]
