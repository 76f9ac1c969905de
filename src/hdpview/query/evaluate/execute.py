"""Run a statement: once on the estimate, and once on all draws inside one LATERAL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.query.errors.fields import ErrorScan, draw_errors, n_draws_for, seed_of
from hdpview.query.evaluate.cells import errors_in_cells
from hdpview.query.evaluate.clusters import for_errors
from hdpview.query.evaluate.database import SECRET, ViewDatabase
from hdpview.query.evaluate.expressions import BIN, key_name, text_of
from hdpview.query.evaluate.heaps import Heaps
from hdpview.query.evaluate.lineage import HIDDEN, add_hidden_key, uncertain_outputs
from hdpview.query.evaluate.quantiles import ordered_values
from hdpview.query.evaluate.scan import Scan
from hdpview.query.evaluate.statement import Statement

Floats = NDArray[np.float64]
ESTIMATE = -1  # the number of the estimate among draws


class Execution:
    """One statement on one cursor."""

    def __init__(
        self, database: ViewDatabase, tree: exp.Expr, dialect: str, cursor: Any, raw: bool = False
    ) -> None:
        self.database, self.cursor, self.raw = database, cursor, raw
        self._loaded: dict[int, int] = {}
        self.statement = Statement(database, tree, dialect, cursor, self._answer_subquery)
        self.uncertain = uncertain_outputs(self.statement.tree)

    # Tables.

    def _compile(self, scan: Scan) -> None:
        if not scan.clusters:
            scan.compile(self.cursor, self.raw)
            for column in scan.ordered:
                column.scan.compile(self.cursor, self.raw)

    def _load(
        self, scan: Scan, errors: dict[int, Floats] | None, n_draws: int, heaps: Heaps | None = None
    ) -> None:
        """Register a scan's tables: keys, and base sums of the estimate and of draws."""
        self._compile(scan)
        if self._loaded.get(scan.number, -1) >= n_draws:
            return
        n = scan.n_groups
        draws = np.repeat(np.arange(ESTIMATE, n_draws, dtype=np.int32), n)
        columns: dict[str, Any] = {
            f"{SECRET}d": draws,
            f"{SECRET}g": np.tile(np.arange(n, dtype=np.int32), n_draws + 1),
        }

        def drawn(one: Scan, j: int) -> Floats:
            of_draws = errors[id(one)][:, j] if errors else np.zeros((0, one.n_groups))
            return np.concatenate([one.estimate[None, j], one.estimate[j] + of_draws])

        for j in range(len(scan.bases)):
            columns[f"{SECRET}b{j}"] = drawn(scan, j).reshape(-1)
        for j in scan.limited:
            for name, end in zip("lu", scan.limits(j), strict=True):
                columns[f"{SECRET}{name}{j}"] = np.tile(end, n_draws + 1)
        for ordered in scan.ordered:
            counts = drawn(ordered.scan, 0)
            columns[ordered.column] = ordered_values(scan, ordered, counts, self.cursor, heaps)
        self.cursor.register(f"{SECRET}_b{scan.number}", pa.table(columns))
        if scan.number not in self._loaded:
            self._register_keys(scan)
        self._loaded[scan.number] = n_draws

    def _register_keys(self, scan: Scan) -> None:
        self.cursor.register(f"{SECRET}_keys{scan.number}", scan.key_table())
        casts = []
        for i, key in enumerate(scan.keys):
            if isinstance(key, exp.Column):
                a = self.database.number[key.name.removesuffix(BIN).lower()]
                if self.database.has_ordered_labels(a):
                    casts.append(f"CAST({key_name(i)} AS {SECRET}_labels{a}) AS {key_name(i)}")
        replaced = f" REPLACE ({', '.join(casts)})" if casts else ""
        self.cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW {SECRET}_k{scan.number} AS "
            f"SELECT *{replaced} FROM {SECRET}_keys{scan.number}"
        )

    def _answer_subquery(self, tree: exp.Expr) -> tuple[list[str], list[tuple[Any, ...]], bool]:
        """Names and rows of a subquery on the estimate, and whether it reads the view."""
        with self.database.cursor() as cursor:
            inner = Execution(self.database, tree, "duckdb", cursor, self.raw)
            table = inner.estimate()
        columns = [table.column(i).to_pylist() for i in range(table.num_columns - 1)]
        return inner.statement.names, list(zip(*columns, strict=True)), bool(inner.statement.scans)

    # Running.

    def estimate(self) -> pa.Table:
        """The outputs on the estimate, with the hidden key as the last column."""
        for scan in self.statement.scans:
            self._load(scan, None, 0)
        add_hidden_key(self.statement.tree)
        text = text_of(self.statement.tree)
        self.seed, sql = seed_of(self.database.checksum, text.replace(SECRET, "")), with_tables(text)
        return self.cursor.sql(sql).to_arrow_table()

    def draw(self, table: pa.Table, n_draws: int, seed: int, with_ranks: bool = False) -> dict[int, Floats]:
        """Outputs of every draw, output → shape (n_rows, n_draws); NaN where a draw has none."""
        wanted = [
            i
            for i, is_uncertain in enumerate(self.uncertain)
            if is_uncertain and _is_number(table.schema.field(i).type)
        ]
        if not table.num_rows or not (wanted or with_ranks):
            return {}
        scans = [one for one in self._all_scans() if one.bases]
        view, heaps = self.database.view, Heaps(self.database.view, n_draws, seed)
        wrapped = [
            ErrorScan(
                [for_errors(c, heaps.margin) for c in scan.clusters],
                [base.is_count for base in scan.bases],
                scan.estimate,
                scan.signature,
            )
            for scan in scans
        ]
        drawn = [np.zeros((n_draws, len(scan.bases), scan.n_groups)) for scan in scans]
        for number, part in enumerate(view.parts):
            for total, own in zip(drawn, draw_errors(part, wrapped, n_draws, seed + number), strict=True):
                total += own
        for total, scan in zip(drawn, scans, strict=True):
            for inside in (heaps.errors(scan), errors_in_cells(heaps, scan)):
                if inside is not None:
                    total += inside
        errors = {id(scan): own for scan, own in zip(scans, drawn, strict=True)}
        for scan in self.statement.scans:
            self._load(scan, errors, n_draws, heaps)
        return self._outputs_of_draws(table, wanted, n_draws)

    def _outputs_of_draws(self, table: pa.Table, wanted: list[int], n_draws: int) -> dict[int, Floats]:
        inner = self._without_outermost_filters()
        names = [f"o{i}" for i in range(table.num_columns - 1)] + [HIDDEN]
        kept = pa.table(
            {"h": table.column(table.num_columns - 1), "r": np.arange(table.num_rows, dtype=np.int32)}
        )
        self.cursor.register(f"{SECRET}_kept", kept)
        outs = ", ".join(_as_number(f"q.o{i}", table.schema.field(i).type) + f" AS o{i}" for i in wanted)
        sql = (
            f"SELECT kept.r, q.d, {outs} FROM ({self._lateral(inner, names, n_draws)}) AS q "
            f"JOIN {SECRET}_kept AS kept ON kept.h IS NOT DISTINCT FROM q.{HIDDEN}"
        )
        rows = self.cursor.execute(sql).fetchnumpy()
        r, d = rows["r"].astype(np.int64), rows["d"].astype(np.int64)
        outputs = {}
        for i in wanted:
            values = np.full((table.num_rows, n_draws), np.nan)
            values[r, d] = np.ma.filled(rows[f"o{i}"].astype(np.float64), np.nan)
            values[~np.isfinite(values)] = np.nan
            outputs[i] = values
        return outputs

    def _lateral(self, tree: exp.Expr, names: list[str], n_draws: int) -> str:
        body = with_tables(text_of(tree), f"{SECRET}d0.{SECRET}d")
        return (
            f"SELECT {SECRET}d0.{SECRET}d AS d, q0.* FROM (SELECT range::INT AS {SECRET}d FROM "
            f"range({n_draws})) AS {SECRET}d0, LATERAL ({body}) AS q0({', '.join(names)})"
        )

    def _without_outermost_filters(self) -> exp.Expr:
        """The statement over the estimate's rows before QUALIFY and LIMIT, over which windows range."""
        inner = self.statement.tree.copy()
        for part in ("order", "limit", "offset"):
            inner.set(part, None)
        if not isinstance(inner, exp.Select):
            return inner
        inner.set("qualify", None)
        if inner.args.get("group") is not None:
            inner.set("having", None)
            return inner
        key = inner.selects[-1].unalias()
        if inner.args.get("where") is not None and not isinstance(key, exp.Literal):
            sql = f"SELECT {HIDDEN} AS h FROM ({with_tables(text_of(inner))})"
            self.cursor.register(f"{SECRET}_passed", self.cursor.sql(sql).to_arrow_table())
            test = sqlglot.parse_one(f"({text_of(key)}) IN (SELECT h FROM {SECRET}_passed)", read="duckdb")
            inner.set("where", exp.Where(this=test))
        return inner

    def ranks(self, table: pa.Table, n_draws: int, confidence: float) -> Ranks:
        """The probability that each row of the estimate belongs to the answer, and its ranks, from the loaded
        draws.
        """
        tree, order = self.statement.tree.copy(), self.statement.tree.args.get("order")
        assert isinstance(tree, exp.Query)
        terms = _order_terms(tree, list(order.expressions) if order is not None else [])
        first, n = _limits_of_rows(tree)
        for part in ("order", "limit", "offset"):
            tree.set(part, None)
        names = [f"o{i}" for i in range(table.num_columns - 1)] + [HIDDEN]
        names += [f"s{i}" for i in range(len(tree.selects) - len(names))]
        over = f" ORDER BY {', '.join(terms)}" if terms else ""
        shown = [f"o{i}" for i, is_uncertain in enumerate(self.uncertain) if not is_uncertain]
        label = f"concat_ws(', ', {', '.join(shown)})" if shown else "''"
        sql = (
            f"SELECT {HIDDEN} AS h, any_value(label), count(*) FILTER (r > {first} AND r <= {first + n}), "
            f"list(r) FROM (SELECT {HIDDEN}, {label} AS label, ROW_NUMBER() OVER (PARTITION BY d{over}) AS r "
            f"FROM ({self._lateral(tree, names, n_draws)})) GROUP BY 1"
        )
        rows = self.cursor.execute(sql).fetchall()
        by_key = {key: (label, count / n_draws, places) for key, label, count, places in rows}
        keys, missing = table.column(table.num_columns - 1).to_pylist(), ("", 0.0, [np.nan])
        own = [by_key.pop(key, missing) for key in keys]
        tails = (1.0 - confidence) / 2, (1.0 + confidence) / 2
        ends = np.array([np.quantile(each[2], tails, method="nearest") for each in own]).reshape(-1, 2)
        place = np.arange(len(own)) + first + 1.0
        best, worst = (np.fmin(ends[:, 0], place), np.fmax(ends[:, 1], place)) if terms else (None, None)
        left_out = max(by_key.values(), key=lambda each: each[1], default=missing)
        return Ranks(np.array([each[1] for each in own]), best, worst, left_out[0], left_out[1])

    @property
    def is_cut_off(self) -> bool:
        """True if an uncertain order and a limit decide which rows are shown."""
        tree = self.statement.tree
        order = tree.args.get("order")
        if order is None or tree.args.get("limit") is None or not isinstance(tree, exp.Query):
            return False
        names, known = tree.named_selects, dict(zip(tree.named_selects, self.uncertain, strict=False))
        columns = [column.name for term in order.expressions for column in term.find_all(exp.Column)]
        return any(known.get(name, name not in names and name.startswith(f"{SECRET}b")) for name in columns)

    def n_draws(self) -> int:
        """The number of draws: more for fewer groups."""
        return n_draws_for(max((scan.n_groups for scan in self._all_scans()), default=1))

    def _all_scans(self) -> list[Scan]:
        return [one for scan in self.statement.scans for one in (scan, *(o.scan for o in scan.ordered))]


@dataclass(frozen=True, eq=False)
class Ranks:
    """Per row: the share of draws in which it belongs to the answer, and the range of its rank, if any."""

    presence: Floats
    best: Floats | None
    worst: Floats | None
    left_out: str
    left_out_presence: float


def _order_terms(tree: exp.Query, order: list[exp.Expr]) -> list[str]:
    """ORDER BY over a lateral: outputs by their place, other expressions as further columns."""
    names = [name.lower() for name in tree.named_selects]
    terms: list[str] = []
    for term in order:
        node = term.this
        if isinstance(node, exp.Literal) and node.is_int:
            column = f"o{int(node.this) - 1}"
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() in names:
            column = f"o{names.index(node.name.lower())}"
        elif isinstance(tree, exp.Select):
            column = f"s{sum(own.startswith('s') for own in terms)}"
            tree.append("expressions", exp.alias_(node.copy(), f"{SECRET}{column}"))
        else:
            continue
        side = "DESC" if term.args.get("desc") else "ASC"
        terms.append(f"{column} {side} NULLS {'FIRST' if term.args.get('nulls_first') else 'LAST'}")
    return terms


def _limits_of_rows(tree: exp.Expr) -> tuple[int, int]:
    """The numbers of rows to skip and to return at most."""
    given = [node and node.expression for node in map(tree.args.get, ("offset", "limit"))]
    skipped, most = (int(node.this) if node is not None and node.is_int else None for node in given)
    return skipped or 0, 2**31 if most is None else most


def with_tables(text: str, draw: str = str(ESTIMATE)) -> str:
    """SQL in which scans are the rows of one draw."""

    def rows(place: re.Match[str]) -> str:
        i = place.group(1)
        return (
            f"(SELECT k.*, b.* EXCLUDE ({SECRET}g, {SECRET}d) FROM {SECRET}_b{i} AS b "
            f"JOIN {SECRET}_k{i} AS k USING ({SECRET}g) WHERE b.{SECRET}d = {draw})"
        )

    return re.sub(rf'"?{SECRET}_scan(\d+)"?', rows, text)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)
        or types.is_timestamp(kind) or types.is_date(kind)
    )  # fmt: skip


def _as_number(sql: str, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return f"CAST(epoch_us(CAST({sql} AS TIMESTAMP)) AS DOUBLE)"
    return f"CAST({sql} AS DOUBLE)"


def numbers_of(column: pa.ChunkedArray) -> Floats:
    """A column as numbers: microseconds for datetimes, NaN for NULL."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
