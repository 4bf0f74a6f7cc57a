"""The commands of the program, in the order in which `--help` lists them."""

from __future__ import annotations

from functools import partial

import typer

from retentive.cli import (
    backup,
    chat,
    copying,
    evaluation,
    facts,
    hook,
    judge,
    mcp,
    memories,
    recall,
    review,
    serve,
    store,
    transfer,
    tuning,
)
from retentive.cli.help import command
from retentive.cli.options import CommandGroup, common_options

app = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: keyword and semantic search, fused, explained and tunable.\n\n"
    "--store, --profile, --embedder, --config, --json and --full can be given before or after any command.",
    epilog="retentive samples\n"
    'retentive remember "The spare key is under the blue pot" --project home\n'
    'retentive recall "where is the key?" --project home --explain',
)
app.callback()(common_options)

add = partial(command, app)

add(
    'retentive remember "The plumber comes on Monday" --project home',
    "echo 'The cat eats wet food' | retentive remember",
)(memories.remember)
add('retentive recall "when is the plumber coming?" --project home', 'retentive recall "key" --limit 3 --explain')(
    recall.recall
)
add('retentive explain "when is the plumber coming?" 0190a1b2')(recall.explain)
add("retentive get 0190a1b2")(memories.get)
add("retentive list --project home --limit 5", "retentive list --full", name="list")(memories.list_memories)
add('retentive update 0190a1b2 --text "The plumber comes on Tuesday"')(memories.update)
add("retentive forget 0190a1b2", "retentive forget --session monday")(memories.forget)
add('retentive supersede 0190a1b2 0190c3d4 --reason "new lock"')(facts.supersede)
add("retentive retract 0190a1b2 --at 2026-05-08")(facts.retract)
add("retentive restore 0190a1b2")(facts.restore)
add("retentive history 0190a1b2")(facts.history)
add("retentive sweep")(facts.sweep)
app.add_typer(review.review, name="review")
add("retentive chat", "retentive chat --project home --session evening")(chat.chat)
add("retentive import conversations.json --dry-run", "retentive import notes/ --project home", name="import")(
    transfer.import_memories
)
add("retentive export memories.jsonl --everything --vectors", "retentive export - --project home")(transfer.export)
app.add_typer(transfer.imports, name="imports")
app.add_typer(memories.sessions, name="sessions")
add("retentive projects")(memories.projects)
add("retentive status", "retentive status --json")(store.status)
add("retentive doctor", "retentive doctor --repair")(store.doctor)
add("retentive backup backups --keep 14")(backup.backup)
add("retentive recover memories.db --output saved.db")(store.recover)
add("retentive compact")(store.compact)
add("retentive reembed")(store.reembed)
add("retentive copy memories.db postgresql://localhost/memories", "retentive copy a.db b.db --verify")(copying.copy)
app.add_typer(store.config, name="config")
add("retentive samples", 'retentive samples "what does the cat eat?"')(recall.samples)
add("retentive eval set/ --report report.html", "retentive eval --own", name="eval")(evaluation.evaluate)
add("retentive judge", 'retentive judge --query "where is the key?" --good 0190a1b2=3 --bad 0190c3d4')(judge.judge)
add("retentive tune --own --dry-run", "retentive tune set/ --metric any@5 --save")(tuning.tune)
add("retentive watch notes/ --project home", "retentive watch notes/ --once")(transfer.watch)
app.add_typer(mcp.mcp, name="mcp")
app.add_typer(hook.hook, name="hook")
add("retentive serve", "retentive serve --port 8080 --open")(serve.serve)
app.add_typer(serve.token, name="token")
