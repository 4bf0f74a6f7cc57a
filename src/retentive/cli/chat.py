import typer


def chat(ctx: typer.Context) -> None:
    """Chat."""
