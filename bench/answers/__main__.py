"""The command line of the answers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.answers.model import ChatModel
from bench.answers.run import answer_all, questions, to_markdown
from bench.answers.service import serving
from bench.peers.run import spread
from bench.progress import Progress
from retentive.evaluation.benchmarks import Benchmark, read_benchmark
from retentive.settings import LlmSettings, load_settings

BENCHMARKS = ("LoCoMo", "LongMemEval")


def _arguments() -> tuple[argparse.Namespace, Benchmark]:
    parser = argparse.ArgumentParser(
        prog="python -m bench.answers",
        description="Answer LoCoMo's or LongMemEval's questions with a language model, and judge the answers. The "
        "model is the one of RETENTIVE_LLM_URL, RETENTIVE_LLM_MODEL and RETENTIVE_LLM_API_KEY.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="locomo10.json, or a file of LongMemEval")
    parser.add_argument("--queries", type=int, metavar="N", help="ask N questions, spread over the file (default: all)")
    parser.add_argument("--budget", type=int, default=2000, metavar="N", help="tokens of context (default: 2000)")
    parser.add_argument("--judge", metavar="MODEL", help="the model that judges (default: the one that answers)")
    parser.add_argument(
        "--price", type=float, nargs=2, metavar=("IN", "OUT"), help="prices of a million prompt and completion tokens"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every answer and verdict as JSON lines")
    options = parser.parse_args()
    benchmark = read_benchmark(options.file) if options.file.exists() else None
    if benchmark is None or benchmark.name not in BENCHMARKS:
        parser.error(f"{options.file} is not a file of {' or '.join(BENCHMARKS)}")
    return options, benchmark


def _open_model(settings: LlmSettings, name: str | None) -> ChatModel:
    chosen = name or settings.model
    if not settings.url or not chosen:
        raise SystemExit("set RETENTIVE_LLM_URL and RETENTIVE_LLM_MODEL to a server with chat completions")
    return ChatModel(settings.url, chosen, key=settings.api_key.get_secret_value() if settings.api_key else None)


def main() -> None:
    """Load the benchmark, answer and judge, and print the table, the tokens and the cost."""
    options, benchmark = _arguments()
    settings, progress = load_settings({}), Progress()
    model, judge = _open_model(settings.llm, None), _open_model(settings.llm, options.judge)
    asked = spread(questions(benchmark), options.queries)
    with (
        serving(benchmark, settings.embedder, progress) as service,
        progress.task("answer and judge", total=len(asked)) as advance,
    ):
        answered = list(answer_all(asked, service, model, judge, budget=options.budget, advance=advance))
    print(f"{benchmark.name}: {len(asked):,} of {len(questions(benchmark)):,} questions, answers by {model.name}, "
          f"judged by {judge.name}, at most {options.budget:,} tokens of context\n")  # fmt: skip
    print(to_markdown(answered), end="\n\n")
    for role, one in (("answers", model), ("judging", judge)):
        used = one.usage
        cost = f", cost {used.cost(tuple(options.price)):.4f}" if options.price else ""
        print(f"{role}: {used.requests:,} requests, {used.prompt_tokens:,} prompt and {used.completion_tokens:,} "
              f"completion tokens{cost}")  # fmt: skip
        one.close()
    if options.json:
        lines = (json.dumps(one.to_dict(), ensure_ascii=False) for one in answered)
        options.json.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
