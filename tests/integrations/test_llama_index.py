"""The retriever in LlamaIndex."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode

from retentive.errors import Invalid
from retentive.integrations.llama_index import RetentiveRetriever
from retentive.tenancy import ProfileView


def test_nodes_are_the_hits_of_a_recall_with_their_ids_texts_and_scores(household):
    hits = household.recall("where is the key?", project="home", limit=2, record_use=False).hits

    nodes = RetentiveRetriever(household, project="home", limit=2).retrieve("where is the key?")

    assert [(one.node.node_id, one.text, one.score) for one in nodes] == [
        (hit.id, hit.memory.text, hit.score) for hit in hits
    ]
    assert nodes[0].metadata["room"] == "porch"
    assert nodes[0].metadata["rank"] == 1


def test_it_retrieves_the_same_when_awaited(household):
    retriever = RetentiveRetriever(household, limit=3)

    awaited = asyncio.run(retriever.aretrieve("what about the boiler?"))

    assert [one.node_id for one in awaited] == [one.node_id for one in retriever.retrieve("what about the boiler?")]
    assert awaited[0].text == "The boiler was serviced in April"


def test_a_model_reads_the_text_with_its_time_and_speaker_and_no_bookkeeping(household):
    node = RetentiveRetriever(household, limit=1).retrieve("where is the key?")[0].node

    assert sorted(node.get_content(MetadataMode.LLM).splitlines()) == [
        "",
        "The spare key is under the blue pot",
        "room: porch",
        "speaker: Ana",
        "when: 2026-06-01T12:00:00+00:00",
    ]


def test_it_sees_one_profile_alone(household):
    own = RetentiveRetriever(household, limit=50).retrieve("spare key")
    theirs = RetentiveRetriever(ProfileView(household, "neighbours"), limit=50).retrieve("spare key")

    assert {one.text for one in own}.isdisjoint({one.text for one in theirs})
    assert [one.text for one in theirs] == ["The spare key of the neighbours is in the mailbox"]


def test_a_query_engine_answers_from_it(household):
    query_engine = RetrieverQueryEngine(
        retriever=RetentiveRetriever(household, limit=3),
        response_synthesizer=get_response_synthesizer(llm=MockLLM()),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.3)],
    )

    answer = query_engine.query("where is the spare key?")

    assert "under the blue pot" in str(answer)  # this model repeats its prompt
    assert all(one.score >= 0.3 for one in answer.source_nodes)


def test_a_misspelt_option_is_refused_when_it_is_made(household):
    with pytest.raises(Invalid, match="unexpected option 'projects'"):
        RetentiveRetriever(household, projects="home")  # type: ignore[call-arg]
