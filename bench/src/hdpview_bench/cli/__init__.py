"""The commands under `hdpview bench`. Thin: they read options, measure and print."""

from __future__ import annotations

import typer

from hdpview_bench.cli import accuracy, coverage, growth, paper, serve, spark, speed

app = typer.Typer(no_args_is_help=True)
app.command("accuracy")(accuracy.accuracy)
app.command("coverage")(coverage.coverage)
app.command("growth")(growth.growth)
app.command("paper")(paper.paper)
app.command("speed")(speed.speed)
app.command("serve")(serve.serve)
app.command("spark")(spark.spark)

__all__ = ["app"]
