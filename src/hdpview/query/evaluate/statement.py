"""Take a statement apart: scans of the view, and the tree in which tables replace them.

sqlglot names every column and folds row-level subqueries. Aggregates of a SELECT over the view become SQL
over base sums, and DuckDB runs the rest of the statement unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from hdpview.domain import Category
from hdpview.errors import QueryError, shortened, unknown_name
from hdpview.query.evaluate import allowed, folding
from hdpview.query.evaluate.aggregates import Aggregates, aggregates_in, has_aggregate
from hdpview.query.evaluate.database import SECRET, ViewDatabase, complaint
from hdpview.query.evaluate.expressions import BIN, key_name, text_of
from hdpview.query.evaluate.scan import Scan
from hdpview.query.question import conditions
from hdpview.query.question.where import MIRRORED

_ROWS = (
    "A view holds counts, not rows. Count them: SELECT x, COUNT(*) FROM view GROUP BY x. "
    "For synthetic records use view.sample(n)."
)
# Values of one series of numbers or dates.
MAX_SERIES = 10_000
# Groups with an estimated count below this are treated as absent when groups are counted.
PRESENT = 0.5
OF_VIEW = f"{SECRET}v"  # the table of columns that are attributes of the view
ESTIMATED_SUBQUERY = "Subquery results are treated as exact; intervals do not include their uncertainty."


class Statement:
    """A statement over a view, ready to run.

    tree: the statement with a table for each scan. names: of its outputs. notes: sentences for people.
    ends: outputs that are an end of an interval (DP_INTERVAL_LOW, DP_INTERVAL_HIGH) → −1 or 1.
    probabilities: outputs that are the probability of a condition (DP_PROBABILITY).
    answer: answers a subquery on the estimate: names of its outputs, its rows, and whether it reads the view.
    """

    def __init__(
        self,
        database: ViewDatabase,
        tree: exp.Expr,
        dialect: str,
        cursor: Any,
        answer: Callable[[exp.Expr], tuple[list[str], list[tuple[Any, ...]], bool]],
    ) -> None:
        self.database, self.cursor, self._answer = database, cursor, answer
        self.scans: list[Scan] = []
        self.notes: list[str] = []
        self.ends: dict[int, int] = {}
        self.probabilities: set[int] = set()
        allowed.check(tree)
        tree = self._prepared(tree.copy(), dialect)
        self.names = [row[0] for row in self._ask(f"DESCRIBE {text_of(tree)}")]
        schema: dict[str, object] = {"view": database.types}
        try:
            self.tree = qualify(
                tree, schema=schema, dialect="duckdb", quote_identifiers=True, validate_qualify_columns=False
            )
        except sqlglot.errors.SqlglotError as problem:
            raise QueryError(f"Cannot read the statement: {shortened(str(problem))}") from None
        folding.fold(self.tree, self._answered)
        for select in list(self.tree.find_all(exp.Select)):
            if select.root() is self.tree and folding.reads_view(select):
                self._answer_subqueries(select)
        for select in reversed(list(self.tree.find_all(exp.Select))):
            if select.root() is self.tree and folding.reads_view(select):
                self._scan(select)
        folding.divide_counts(self.tree)

    # Preparation.

    def _prepared(self, tree: exp.Expr, dialect: str) -> exp.Expr:
        """The statement in DuckDB's SQL, with tables by their plain names."""
        if not isinstance(tree, (exp.Query, exp.Pivot)):
            raise QueryError(f"Give one SELECT statement. {allowed.WHAT_WORKS}")
        tree = folding.rewritten(tree, dialect, self.database)
        for series in list(tree.find_all(exp.GenerateSeries)):
            self._check_series(series)
        for i, item in enumerate(tree.selects if isinstance(tree, exp.Select) else []):
            inner = item.unalias()
            name = inner.name.lower() if isinstance(inner, exp.Anonymous) else ""
            if name in ("dp_interval_low", "dp_interval_high") and len(inner.expressions) == 1:
                self.ends[i] = -1 if name.endswith("low") else 1
                item.replace(exp.alias_(inner.expressions[0].copy(), item.alias or name))
            if name == "dp_probability" and len(inner.expressions) == 1:
                self.probabilities.add(i)
                shown = item.alias or "dp_probability"
                item.replace(exp.alias_(exp.cast(inner.expressions[0].copy(), "INT"), shown))
        if any(node.name.lower().startswith("dp_") for node in tree.find_all(exp.Anonymous)):
            raise QueryError(
                "DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_PROBABILITY must be whole outputs of a SELECT: "
                "SELECT x, DP_INTERVAL_LOW(COUNT(*)) AS low FROM view GROUP BY x."
            )
        return tree

    def _check_series(self, series: exp.GenerateSeries) -> None:
        """Refuse series that are long, or whose ends are not plain values."""
        step = series.args.get("step") or exp.Literal.number(1)
        is_time = step.find(exp.Interval) is not None
        if series.find(exp.Column, exp.Query) is not None:
            raise QueryError("GENERATE_SERIES takes plain numbers or dates.")
        start, end = (text_of(series.args[name]) for name in ("start", "end"))
        if is_time:
            start, end = (f"epoch(CAST({moment} AS TIMESTAMP))" for moment in (start, end))
        by = f"epoch({text_of(step)})" if is_time else text_of(step)
        length = self._ask(f"SELECT ABS(({end} - {start}) / ({by}))")[0][0]
        if length is None or not length <= MAX_SERIES:
            raise QueryError(f"GENERATE_SERIES is limited to {MAX_SERIES:,} values.")

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self.fetch(lambda: self.cursor.execute(sql).fetchall()))

    def fetch(self, ask: Callable[[], Any]) -> Any:
        """DuckDB's answer; its errors become refusals, unless a limit of time or memory stops it."""
        import duckdb

        try:
            return ask()
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise
        except duckdb.Error as problem:
            raise self._refusal(problem) from problem

    def _refusal(self, problem: Exception) -> QueryError:
        """DuckDB's error as a message for users."""
        text = str(problem).replace(SECRET, "")
        if isinstance(problem, RecursionError) or "expression depth" in text.lower():
            return QueryError("The statement is nested too deeply.")
        missing = re.search(r'Referenced column "(.*?)" (?:not found|was not found)', text)
        if missing is not None:
            return QueryError(
                unknown_name("attribute", missing.group(1), self.database.names, "This view has")
            )
        keys = [key for scan in self.scans for key in scan.keys if isinstance(key, exp.Column)]
        binned = next((key.name.removesuffix(BIN) for key in keys if key.name.endswith(BIN)), None)
        if binned is not None and re.search(r"ENUM|VARCHAR|Conversion", text):
            return QueryError(
                f"{binned!r} is counted in bins, so a group is a bin and not a number. "
                f"Group by an expression of it, such as FLOOR({binned} / 10) * 10."
            )
        return QueryError(f"Not valid SQL: {complaint(problem)}")

    def _answered(self, query: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names and rows of a subquery, which is answered first, on the estimate."""
        sources = list(query.find_all(exp.Table, exp.Subquery, exp.Values))
        known = {source.alias_or_name for source in sources}
        for column in query.find_all(exp.Column):
            if column.table and column.table not in known:
                raise _correlated(column)
        whole, used = query.copy(), {source.name for source in sources}
        ctes: list[exp.Expr] = []
        for cte in reversed(list(self.tree.find_all(exp.CTE))):
            if cte.alias in used:
                ctes.insert(0, cte.copy())
                used |= {table.name for table in cte.find_all(exp.Table)}
        if ctes and not whole.args.get("with_"):
            whole.set("with_", exp.With(expressions=ctes))
        names, rows, is_estimate = self._answer(whole)
        if is_estimate:
            self.note(ESTIMATED_SUBQUERY)
        return names, rows

    # Scans.

    def _scan(self, select: exp.Select) -> None:
        source = folding.source_of(select)
        assert source is not None
        if select.args.get("joins") or select.args.get("laterals"):
            raise QueryError(folding.ONE_TABLE)
        if any(item.find(exp.Explode) for item in select.selects):
            raise QueryError("UNNEST cannot be combined with aggregates. Join it as a separate subquery.")
        alias = source.alias_or_name
        for column in select.find_all(exp.Column):
            if column.table in (alias, "view") and column.find_ancestor(exp.Select) is select:
                column.set("table", exp.to_identifier(OF_VIEW))
            elif column.table and column.find_ancestor(exp.Select) is select:
                raise _correlated(column)
        self._adapt(select)
        keys, is_rolled = self._keys(select)
        where = select.args.get("where")
        distinct = {text_of(key): key for key in keys}
        scan = Scan(
            self.database, len(self.scans), [self.bin_of(k) for k in distinct.values()],
            [where.this] if where else [],
        )  # fmt: skip
        is_distinct = bool(select.args.get("distinct")) and select.args.get("group") is None
        is_nested = select is not self.tree and not _is_top(select, self.tree)
        aggregates = Aggregates(self, scan, is_rolled)
        parts = [
            *select.selects,
            *(select.args[k] for k in ("having", "qualify", "order") if select.args.get(k)),
        ]
        parts += select.args.get("windows") or []
        number = {key: i for i, key in enumerate(distinct.values())}
        for part in parts:
            folding.write_whole_counts(part)
        of_records = [one for part in parts for one in aggregates_in(part)]
        for node in of_records:
            self._replace_aggregate(node, aggregates, number)
        self.scans.append(scan)
        _use_keys(select, number)
        select.set("where", None)
        for column in select.find_all(exp.Column):
            if column.table == OF_VIEW:
                raise QueryError(f"{column.name!r} must appear in GROUP BY or inside an aggregate.")
        if is_distinct:
            select.set("distinct", None)
        group = select.args.get("group")
        if not is_rolled and group is not None:
            select.set("group", None)
        having = select.args.get("having")
        if having is not None and not is_rolled:
            select.set("where", exp.Where(this=having.this))
            select.set("having", None)
        has_windows = any(part.find(exp.Window) for part in parts)
        if distinct and not is_rolled and (is_distinct or is_nested or has_windows):
            # Keep groups that are estimated to exist, not all possible ones.
            select.where(exp.column(scan.column(())) >= PRESENT, copy=False)
        scan.counts_groups = is_nested and not of_records
        table = exp.Table(
            this=exp.to_identifier(f"{SECRET}_scan{scan.number}"),
            alias=exp.TableAlias(this=exp.to_identifier(f"{SECRET}s")),
        )
        select.set("from_", exp.From(this=table))

    def _replace_aggregate(self, node: exp.Expr, aggregates: Aggregates, number: dict[exp.Expr, int]) -> None:
        argument = node.this if isinstance(node, (exp.Min, exp.Max, exp.AnyValue, exp.First)) else None
        if argument is not None and (argument in number or argument.find(exp.Column) is None):
            node.replace(argument.copy())  # the same for all records of a group
            return
        node.replace(exp.paren(sqlglot.parse_one(aggregates.sql(node), read="duckdb")))

    def _keys(self, select: exp.Select) -> tuple[list[exp.Expr], bool]:
        """Group keys, each once, and whether groups are added up further."""
        group = select.args.get("group")
        if group is None:
            parts = [*select.selects, *(select.args[k] for k in ("having", "order") if select.args.get(k))]
            if any(map(has_aggregate, parts)):
                return [], False
            if any(item.find(exp.Window) for item in select.selects):
                raise QueryError("Windows over rows cannot be answered: a view holds no rows.")
            if not select.args.get("distinct"):
                raise QueryError(_ROWS)
            return [item.unalias().unnest() for item in select.selects], False
        if group.args.get("all"):
            keys = [item.unalias() for item in select.selects if not has_aggregate(item)]
            group.set("all", None)
            group.set("expressions", [key.copy() for key in keys])
        parts = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            parts += group.args.get(kind) or []
        keys = [key.unnest() for part in parts for key in _members(part)]
        is_rolled = any(isinstance(part, folding.SETS) for part in parts)
        return [key for key in keys if not isinstance(key, exp.Literal)], is_rolled

    def _answer_subqueries(self, select: exp.Select) -> None:
        """Answer subqueries in conditions and aggregates first, on the estimate."""
        where = select.args.get("where")
        places = [where] if where is not None else []
        places += [one for item in select.selects for one in aggregates_in(item)]
        for place in places:
            for node in list(place.find_all(exp.In, exp.Subquery)):
                if node.root() is self.tree and not isinstance(node.parent, (exp.From, exp.Join)):
                    self._as_values(node)

    def _as_values(self, node: exp.Expr) -> None:
        query = node.args.get("query") if isinstance(node, exp.In) else node
        if query is None or (isinstance(node.parent, exp.In) and node.arg_key == "query"):
            return
        _, rows = self._answered(query.this if isinstance(query, exp.Subquery) else query)
        if isinstance(node, exp.In):
            node.set("query", None)
            values = [[folding.literal(value) for value in row] for row in rows]
            items = [exp.Tuple(expressions=row) if len(row) > 1 else row[0] for row in values]
            node.set("expressions", items or [exp.Null()])
        else:
            node.replace(folding.literal(rows[0][0]) if rows else exp.Null())

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # The meaning of comparisons.

    def _adapt(self, select: exp.Select) -> None:
        """Adapt comparisons of categories with values to the schema."""
        signs = exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between
        for node in list(select.find_all(*signs)):
            sides = _sides(node)
            columns = [side for side in sides if isinstance(side.unnest(), exp.Column)]
            if len(columns) != 1 or node.find_ancestor(exp.Select) is not select:
                continue
            column = columns[0].unnest()
            a = self.database.number.get(column.name.lower())
            attribute = None if a is None else self.database.schema.attributes[a]
            if isinstance(attribute, Category) and isinstance(column, exp.Column) and column.table == OF_VIEW:
                self._adapt_category(node, attribute, column, [s for s in sides if s is not columns[0]])

    def _adapt_category(
        self, node: exp.Expr, attribute: Category, column: exp.Expr, values: Sequence[exp.Expr]
    ) -> None:
        texts = [v.unnest() for v in values]
        if isinstance(node, (exp.EQ, exp.NEQ, exp.In)):
            for value in texts:
                if isinstance(value, exp.Literal):
                    conditions.compare(attribute, "=", value.this)  # refuses values that are not declared
            return
        if not attribute.ordered or not all(isinstance(value, exp.Literal) for value in texts):
            return
        if isinstance(node, exp.Between):
            kept = conditions.between(attribute, texts[0].this, texts[1].this)
        else:
            sign = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}[node.key]
            is_left = isinstance(node.this.unnest(), exp.Column)
            kept = conditions.compare(attribute, sign if is_left else MIRRORED[sign], texts[0].this)
        listed: list[exp.Expr] = [
            exp.Literal.string(value)
            for value, share in zip(attribute.values, conditions.code_shares(attribute, kept), strict=False)
            if share
        ]
        node.replace(exp.In(this=column.copy(), expressions=listed or [exp.Null()]))

    def bin_of(self, key: exp.Expr) -> exp.Expr:
        """Replace a plain binned attribute in a key by its bins."""
        if isinstance(key, exp.Column) and key.table == OF_VIEW:
            a = self.database.number.get(key.name.lower())
            if a is not None and self.database.is_binned(a):
                return exp.column(key.name + BIN, quoted=True)
        return key

    def kind_of(self, node: exp.Expr) -> str:
        """DuckDB's type of an expression of attributes."""
        whole = node.unnest()
        if isinstance(whole, exp.Column) and whole.name.lower() in self.database.types:
            return self.database.types[whole.name.lower()]
        return str(self._ask(f'DESCRIBE SELECT {text_of(node)} FROM "view" AS {OF_VIEW}')[0][1])

    def constant(self, node: exp.Expr) -> Any:
        """The value of an expression without attributes."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return float(node.this)
        return self._ask(f"SELECT {text_of(node)}")[0][0]


def _correlated(column: exp.Column) -> QueryError:
    return QueryError(
        f"A subquery depends on the statement around it ({column.table}.{column.name}), which cannot be "
        "answered. Ask it separately."
    )


def _members(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, exp.Paren):
        return _members(part.this)
    if isinstance(part, (exp.Tuple, *folding.SETS)):
        return [one for inner in part.expressions for one in _members(inner)]
    return [part]


def _use_keys(select: exp.Select, number: dict[exp.Expr, int]) -> None:
    """Replace key expressions by the scan's columns."""

    def to_key(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Select) and node is not select:
            return node
        if isinstance(node, (exp.Alias, exp.Identifier)):
            return node
        i = number.get(node)
        return node if i is None else exp.column(key_name(i), table=f"{SECRET}s")

    for name in ("expressions", "having", "qualify", "order", "group", "windows"):
        value = select.args.get(name)
        if isinstance(value, list):
            select.set(name, [node.transform(to_key) for node in value])
        elif value is not None:
            select.set(name, value.transform(to_key))


def _sides(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, node.expression]


def _is_top(select: exp.Expr, tree: exp.Expr) -> bool:
    """True if a SELECT gives rows of the result itself, perhaps as a side of a UNION."""
    place: exp.Expr | None = select
    while place is not None and place is not tree:
        place = place.parent
        if not isinstance(place, (exp.SetOperation, exp.Subquery)) or isinstance(place.parent, exp.From):
            return False
    return True
