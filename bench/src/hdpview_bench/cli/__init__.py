"""The commands `hdpview audit` and `hdpview bench …`: they parse options, measure and print."""

from __future__ import annotations

import typer

from hdpview_bench.cli import accuracy, audit, coverage, growth, paper, refine, serve, spark, speed, useful

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Measure: every figure in the documentation is printed by one of these.",
)
app.command("accuracy")(accuracy.accuracy)
app.command("coverage")(coverage.coverage)
app.command("useful")(useful.useful)
app.command("growth")(growth.growth)
app.command("refine")(refine.refine)
app.command("paper")(paper.paper)
app.command("speed")(speed.speed)
app.command("serve")(serve.serve)
app.command("spark")(spark.spark)

audit_app = typer.Typer(add_completion=False)
audit_app.command("audit")(audit.audit)

__all__ = ["app", "audit_app"]
