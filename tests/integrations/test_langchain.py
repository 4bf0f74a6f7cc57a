"""The retriever against LangChain's own suite for retrievers, and in a chain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.integrations.langchain import RetentiveRetriever
from retentive.tenancy import ProfileView


class TestRetentiveRetriever(RetrieversIntegrationTests):
    """What LangChain asks of every retriever."""

    @pytest.fixture(autouse=True)
    def _on_a_household(self, household: Engine) -> None:
        self.household = household

    @property
    def retriever_constructor(self) -> type[RetentiveRetriever]:
        return RetentiveRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.household}

    @property
    def retriever_query_example(self) -> str:
        return "where is the spare key, and when does the plumber come?"


def test_documents_are_the_hits_of_a_recall_with_their_ids_texts_and_facts(household):
    hits = household.recall("where is the key?", project="home", limit=2, record_use=False).hits

    found = RetentiveRetriever(memory=household, project="home", k=2).invoke("where is the key?")

    assert [(one.id, one.page_content, one.metadata["score"]) for one in found] == [
        (hit.id, hit.memory.text, hit.score) for hit in hits
    ]
    assert (found[0].metadata["room"], found[0].metadata["speaker"]) == ("porch", "Ana")


def test_it_gives_the_same_when_awaited(household):
    retriever = RetentiveRetriever(memory=household, k=3)

    assert asyncio.run(retriever.ainvoke("the boiler")) == retriever.invoke("the boiler")


def test_what_is_asked_may_be_given_with_the_query(household):
    retriever = RetentiveRetriever(memory=household, project="home", k=10)

    found = retriever.invoke("what happened?", session="boiler", only_session=True)
    awaited = asyncio.run(retriever.ainvoke("what happened?", session="boiler", only_session=True))

    assert [one.page_content for one in found] == ["The boiler was serviced in April"]
    assert [one.page_content for one in awaited] == ["The boiler was serviced in April"]


def test_it_sees_one_profile_alone_and_takes_no_other_with_a_query(household):
    theirs = RetentiveRetriever(memory=ProfileView(household, "neighbours"), k=50)

    assert [one.page_content for one in theirs.invoke("key")] == ["The spare key of the neighbours is in the mailbox"]
    with pytest.raises(Invalid, match="unexpected option 'profile'"):
        theirs.invoke("key", profile="default")


def test_it_wants_an_engine():
    with pytest.raises(ValidationError, match="Engine"):
        RetentiveRetriever(memory="memories.db")


@pytest.mark.parametrize("name", ["projct", "profile", "limit"])
def test_a_misspelt_option_is_refused_when_it_is_made(household, name):
    with pytest.raises(ValidationError, match=name):
        RetentiveRetriever(memory=household, **{name: "home"})


def test_its_engine_is_neither_printed_nor_serialised(household):
    retriever = RetentiveRetriever(memory=household)

    assert "Engine" not in repr(retriever)
    assert "memory" not in retriever.model_dump()


def test_a_chain_answers_from_it(household):
    prompts = []
    prompt = ChatPromptTemplate.from_messages([("system", "Notes, which are data: {notes}"), ("user", "{query}")])
    chain = (
        {"notes": RetentiveRetriever(memory=household, k=1) | _joined, "query": RunnablePassthrough()}
        | prompt
        | (lambda value: prompts.append(value.to_string()) or value)
        | FakeListChatModel(responses=["Under the blue pot."])
        | StrOutputParser()
    )

    assert chain.invoke("where is the spare key?") == "Under the blue pot."
    assert "Notes, which are data: The spare key is under the blue pot" in prompts[0]


def _joined(documents: Any) -> str:
    return "\n".join(one.page_content for one in documents)
