"""A statement taken apart: scans of the view, and the tree in which tables stand for them.

sqlglot names every column and folds row-level subqueries; what a SELECT over the view computes from counts
becomes SQL over base sums, and DuckDB runs the rest of the statement as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from hdpview.domain import Category, Datetime
from hdpview.errors import QueryError, shortened, unknown_name
from hdpview.query.evaluate import allowed
from hdpview.query.evaluate.aggregates import Aggregates, aggregates_in, has_aggregate
from hdpview.query.evaluate.database import SECRET, ViewDatabase, shortened_line
from hdpview.query.evaluate.dialects import to_duckdb
from hdpview.query.evaluate.scan import BIN, Scan, key_name, text_of
from hdpview.query.question import conditions
from hdpview.query.question.where import MIRRORED

_ROWS = (
    "A view holds no rows; it holds counts. Count them: SELECT x, COUNT(*) FROM view GROUP BY x. "
    "For synthetic records use view.sample(n)."
)
_ONE_TABLE = (
    "A view is one table, and holds no rows that a join could match. Build the view from the joined "
    "table, or filter with WHERE."
)
# An estimated count below this is taken for a group that does not exist, where groups are counted.
PRESENT = 0.5
OF_VIEW = f"{SECRET}v"  # the table of columns that are attributes of the view
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_ROW_LEVEL_LACKS = ("group", "having", "distinct", "limit", "offset", "qualify", "joins", "windows")
ESTIMATED_SUBQUERY = "Subquery results are treated as exact; intervals do not include their uncertainty."


class Statement:
    """A statement over a view, ready to run.

    tree: the statement with a table for each scan. names: of its outputs. notes: sentences for people.
    ends: outputs that are an end of an interval (DP_INTERVAL_LOW, DP_INTERVAL_HIGH) → −1 or 1.
    probabilities: outputs that are the probability of a condition (DP_PROBABILITY).
    values: runs a subquery of scans on the estimate and gives its rows; groups: the same of one that is not
        taken apart yet.
    """

    def __init__(
        self,
        database: ViewDatabase,
        tree: exp.Expr,
        dialect: str,
        cursor: Any,
        values: Callable[[Statement, exp.Expr], list[tuple[Any, ...]]],
        groups: Callable[[exp.Expr, list[exp.CTE]], list[tuple[Any, ...]]],
    ) -> None:
        self.database, self.cursor, self._values, self._groups = database, cursor, values, groups
        self.scans: list[Scan] = []
        self.notes: list[str] = []
        self.ends: dict[int, int] = {}
        self.probabilities: set[int] = set()
        allowed.check(tree)
        tree = self._prepared(tree.copy(), dialect)
        self.names = self._names(text_of(tree))
        schema: dict[str, object] = {"view": database.types}
        try:
            self.tree = qualify(
                tree, schema=schema, dialect="duckdb", quote_identifiers=True, validate_qualify_columns=False
            )
        except sqlglot.errors.SqlglotError as problem:
            raise QueryError(f"Cannot read the statement: {shortened(str(problem))}") from None
        self._fold()
        for select in reversed(list(self.tree.find_all(exp.Select))):
            if _is_inside(select, self.tree) and _reads_view(select):
                self._scan(select)
        _divide_counts(self.tree)

    # Preparation.

    def _prepared(self, tree: exp.Expr, dialect: str) -> exp.Expr:
        """The statement in DuckDB's SQL, with tables by their plain names."""
        if isinstance(tree, exp.Pivot):
            tree = _pivoted(tree, self.database)
        for source in [node for node in tree.find_all(exp.Subquery) if node.args.get("pivots")]:
            source.replace(_pivoted_subquery(source))
        if not isinstance(tree, exp.Query):
            raise QueryError(f"Give one SELECT statement. {allowed.WHAT_WORKS}")
        tree = to_duckdb(tree, dialect, self.database.types)
        for table in tree.find_all(exp.Table):
            if table.name.lower() == "view":
                table.set("db", None)
                table.set("catalog", None)
                table.set("this", exp.to_identifier("view", quoted=True))
        for column in tree.find_all(exp.Column):
            if column.table.lower() == "view":
                column.set("table", exp.to_identifier("view", quoted=True))
                column.set("db", None)
                column.set("catalog", None)
        for limit in list(tree.find_all(exp.Limit)):
            if isinstance(limit.expression, exp.Var):
                limit.parent.set("limit", None)  # type: ignore[union-attr]
        for fetch in list(tree.find_all(exp.Fetch)):
            parent = fetch.parent
            assert parent is not None
            parent.set("limit", exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))
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
                "DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_PROBABILITY stand alone as outputs of a SELECT: "
                "SELECT x, DP_INTERVAL_LOW(COUNT(*)) AS low FROM view GROUP BY x."
            )
        return tree

    def _names(self, sql: str) -> list[str]:
        """Names that DuckDB gives the statement's outputs, over an empty table."""
        import duckdb

        try:
            rows = self.cursor.execute(f"DESCRIBE {sql}").fetchall()
        except duckdb.Error as problem:
            raise self.refusal(problem) from None
        return [row[0] for row in rows]

    def refusal(self, problem: Exception) -> QueryError:
        """DuckDB's complaint, in words for people."""
        text = str(problem).replace(SECRET, "")
        if isinstance(problem, RecursionError) or "expression depth" in text.lower():
            return QueryError("The statement is nested too deeply.")
        missing = re.search(r'Referenced column "(.*?)" (?:not found|was not found)', text)
        if missing is not None:
            return QueryError(
                unknown_name("attribute", missing.group(1), self.database.names, "This view has")
            )
        binned = self._binned_key()
        if binned is not None and re.search(r"ENUM|VARCHAR|Conversion", text):
            return QueryError(
                f"{binned!r} is counted in bins, so a group is a bin and not a number. "
                f"Group by an expression of it, such as FLOOR({binned} / 10) * 10."
            )
        first = re.sub(r"^\w+ Error:\s*", "", text.strip().splitlines()[0] if text.strip() else "unreadable")
        return QueryError(f"Not valid SQL: {shortened_line(first)}")

    def _binned_key(self) -> str | None:
        for scan in self.scans:
            for key in scan.keys:
                if isinstance(key, exp.Column) and key.name.endswith(BIN):
                    return key.name.removesuffix(BIN)
        return None

    # Rows of subqueries.

    def _fold(self) -> None:
        """Make SELECTs over rows of the view, as subqueries or WITH, part of the SELECT around them."""
        changed = True
        while changed:
            changed = False
            ctes = {cte.alias: cte for cte in self.tree.find_all(exp.CTE)}
            for select in list(self.tree.find_all(exp.Select)):
                changed |= self._fold_joins(select, ctes)
                source = _source(select)
                if source is None or select.args.get("joins"):
                    continue
                inner = _inner(source, ctes)
                if isinstance(inner, exp.Select) and self._is_row_level(inner) and inner is not select:
                    _merge(select, source, inner)
                    changed = True
        for cte in list(self.tree.find_all(exp.CTE)):
            if isinstance(cte.this, exp.Select) and self._is_row_level(cte.this):
                _drop(cte)

    def _is_row_level(self, select: exp.Select) -> bool:
        return (
            _reads_view(select)
            and not any(select.args.get(key) for key in _ROW_LEVEL_LACKS)
            and not any(map(has_aggregate, select.selects))
            and not any(isinstance(item, exp.Star) or item.find(exp.Window) for item in select.selects)
        )

    def _fold_joins(self, select: exp.Select, ctes: dict[str, exp.CTE]) -> bool:
        """Replace joins of the view with a list of VALUES by CASE expressions."""
        joins, changed = select.args.get("joins") or [], False
        if not joins or not _reads_view(select):
            return False
        for join in list(joins):
            lookup = _lookup(join, ctes) or self._groups_as_lookup(join, ctes)
            if lookup is None:
                raise QueryError(_ONE_TABLE)
            self._fold_lookup(select, join, *lookup)
            joins = [other for other in joins if other is not join]
            select.set("joins", joins or None)
            changed = True
        return changed

    def _groups_as_lookup(
        self, join: exp.Join, ctes: dict[str, exp.CTE]
    ) -> tuple[str, list[str], list[list[exp.Expr]]] | None:
        """A joined subquery of groups: answered first, on the estimate."""
        inner = _inner(join.this, ctes)
        if not isinstance(inner, exp.Query) or (isinstance(inner, exp.Select) and self._is_row_level(inner)):
            return None
        rows = self._groups(inner, list(ctes.values()))
        self.note(ESTIMATED_SUBQUERY)
        return join.this.alias_or_name, inner.named_selects, [[literal(v) for v in row] for row in rows]

    def _fold_lookup(
        self, select: exp.Select, join: exp.Join, alias: str, names: list[str], rows: list[list[exp.Expr]]
    ) -> None:
        condition = join.args.get("on")
        side = (join.side or "").upper()
        if not isinstance(condition, exp.EQ) or side not in ("", "LEFT") or join.kind.upper() == "CROSS":
            raise QueryError(_ONE_TABLE)
        ends = [condition.this, condition.expression]
        own = next((e for e in ends if isinstance(e, exp.Column) and e.table == alias), None)
        other = next((e for e in ends if e is not own), None)
        if own is None or other is None or own.name not in names:
            raise QueryError(_ONE_TABLE)
        at = names.index(own.name)
        if len({text_of(row[at]) for row in rows}) < len(rows):
            raise QueryError(f"{_ONE_TABLE} The list names a key twice.")

        def value(column: str) -> exp.Expr:
            case = exp.Case()
            for row in rows:
                case.append(
                    "ifs",
                    exp.If(
                        this=exp.EQ(this=other.copy(), expression=row[at].copy()),
                        true=row[names.index(column)].copy(),
                    ),
                )
            return exp.paren(case)

        for column in list(select.find_all(exp.Column)):
            if column.table == alias and column is not own and column.name in names:
                column.replace(value(column.name))
        if side != "LEFT":
            inside = exp.In(this=other.copy(), expressions=[row[at].copy() for row in rows])
            where = select.args.get("where")
            select.set("where", exp.Where(this=exp.and_(where.this, inside) if where else inside))

    # Scans.

    def _scan(self, select: exp.Select) -> None:
        source = _source(select)
        assert source is not None
        if select.args.get("joins") or select.args.get("laterals"):
            raise QueryError(_ONE_TABLE)
        alias = source.alias_or_name
        for column in select.find_all(exp.Column):
            if column.table in (alias, "view") and column.find_ancestor(exp.Select) is select:
                column.set("table", exp.to_identifier(OF_VIEW))
            elif column.table and column.find_ancestor(exp.Select) is select:
                raise QueryError(
                    f"A subquery names columns of the statement around it ({column.table}.{column.name}), "
                    "which cannot be answered. Ask it by itself."
                )
        where = select.args.get("where")
        self._answer_subqueries(select, where)
        keys, is_rolled = self._keys(select)
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
        number = {key: i for i, key in enumerate(distinct)}
        of_records = [one for part in parts for one in aggregates_in(part)]
        for part in parts:
            _write_whole_counts(part)
        of_records = [one for part in parts for one in aggregates_in(part)]
        for node in of_records:
            self._replace_aggregate(node, aggregates, number)
        self.scans.append(scan)
        _use_keys(select, number)
        select.set("where", None)
        self._check_grouped(select)
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
            self._only_present(select, scan)
        scan.counts_groups = is_nested and not of_records
        table = exp.Table(
            this=exp.to_identifier(f"{SECRET}_scan{scan.number}"),
            alias=exp.TableAlias(this=exp.to_identifier(f"{SECRET}s")),
        )
        select.set("from_", exp.From(this=table))

    def _replace_aggregate(self, node: exp.Expr, aggregates: Aggregates, number: dict[str, int]) -> None:
        argument = node.this if isinstance(node, (exp.Min, exp.Max, exp.AnyValue, exp.First)) else None
        if argument is not None and text_of(argument) in number:
            node.replace(argument.copy())  # the same in all records of a group
            return
        node.replace(exp.paren(sqlglot.parse_one(aggregates.sql(node), read="duckdb")))

    def _only_present(self, select: exp.Select, scan: Scan) -> None:
        """Keep groups that are estimated to exist: a possible group is not a group."""
        count = exp.column(scan.column(()))
        condition = exp.GTE(this=count, expression=exp.Literal.number(PRESENT))
        where = select.args.get("where")
        select.set("where", exp.Where(this=exp.and_(where.this, condition) if where else condition))

    def _keys(self, select: exp.Select) -> tuple[list[exp.Expr], bool]:
        """Group keys, each once, and whether groups are added up further."""
        group = select.args.get("group")
        if group is None:
            if select.args.get("distinct") and not any(map(has_aggregate, select.selects)):
                if any(item.find(exp.Window) for item in select.selects):
                    raise QueryError("Windows over rows cannot be answered: a view holds no rows.")
                return [item.unalias().unnest() for item in select.selects], False
            parts = [*select.selects, *(select.args[k] for k in ("having", "order") if select.args.get(k))]
            if not any(map(has_aggregate, parts)):
                if any(item.find(exp.Window) for item in select.selects):
                    raise QueryError("Windows over rows cannot be answered: a view holds no rows.")
                raise QueryError(_ROWS)
            return [], False
        keys: list[exp.Expr] = []
        is_rolled = False
        if group.args.get("all"):
            keys = [item.unalias() for item in select.selects if not has_aggregate(item)]
            group.set("all", None)
            group.set("expressions", [key.copy() for key in keys])
        parts = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            parts += group.args.get(kind) or []
        for part in [] if keys else parts:
            if isinstance(part, _SETS):
                is_rolled = True
                for inner in part.expressions:
                    keys += _members(inner)
            else:
                keys += _members(part)
        return [key.unnest() for key in keys if not isinstance(key.unnest(), exp.Literal)], is_rolled

    def _answer_subqueries(self, select: exp.Select, where: exp.Expr | None) -> None:
        """Answer subqueries of conditions and aggregates first, on the estimate."""
        places = [where] if where is not None else []
        places += [one for item in select.selects for one in aggregates_in(item)]
        for place in places:
            for node in list(place.find_all(exp.In, exp.Subquery, exp.Any, exp.All)):
                if _is_inside(node, place):
                    self._as_values(node)

    def _as_values(self, node: exp.Expr) -> None:
        query = (
            node.args.get("query")
            if isinstance(node, exp.In)
            else node
            if isinstance(node, exp.Subquery)
            else None
        )
        if query is None or isinstance(node.parent, (exp.From, exp.Join)):
            return
        if isinstance(node, exp.Subquery) and isinstance(node.parent, exp.In) and node.arg_key == "query":
            return
        inner = query.this if isinstance(query, exp.Subquery) else query
        rows = self._values(self, inner)
        self.note(ESTIMATED_SUBQUERY)
        if isinstance(node, exp.In):
            node.set("query", None)
            items = [
                exp.Tuple(expressions=[literal(value) for value in row]) if len(row) > 1 else literal(row[0])
                for row in rows
            ]
            node.set("expressions", items or [exp.Null()])
        else:
            node.replace(literal(rows[0][0]) if rows else exp.Null())

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # What comparisons mean.

    def _adapt(self, select: exp.Select) -> None:
        """Comparisons of attributes with values, as the schema means them."""
        for node in list(
            select.find_all(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
        ):
            if node.find_ancestor(exp.Select) is not select:
                continue
            self._adapt_comparison(node)

    def _adapt_comparison(self, node: exp.Expr) -> None:
        sides = _sides(node)
        columns = [side for side in sides if isinstance(side.unnest(), exp.Column)]
        if len(columns) != 1:
            return
        column = columns[0].unnest()
        assert isinstance(column, exp.Column)
        a = self.database.number.get(column.name.lower())
        if a is None or column.table != OF_VIEW:
            return
        attribute, values = self.database.schema.attributes[a], [s for s in sides if s is not columns[0]]
        if isinstance(attribute, Datetime) and attribute.kind == "datetime":
            if not attribute.counts_days and all(isinstance(v.unnest(), exp.Literal) for v in values):
                for value in values:
                    value.replace(exp.cast(value.copy(), "DATE" if self._is_day(value) else "TIMESTAMP"))
        elif isinstance(attribute, Category):
            self._adapt_category(node, attribute, column, values)

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
        listed: list[exp.Expr] = [exp.Literal.string(attribute.values[code]) for code in sorted(kept.codes)]
        node.replace(exp.In(this=column.copy(), expressions=listed or [exp.Null()]))

    def _is_day(self, node: exp.Expr) -> bool:
        """True for a constant that is a plain date."""
        whole = node.unnest()
        if isinstance(whole, exp.Literal):
            return whole.is_string and re.fullmatch(r"\s*\d{4}-\d{1,2}-\d{1,2}\s*", whole.this) is not None
        if isinstance(whole, exp.Null):
            return True
        if whole.find(exp.Column, exp.Subquery):
            return False
        if isinstance(whole, exp.Cast) and isinstance(whole.this, exp.Literal):
            return whole.to.is_type("date")
        return self.kind_of(whole) == "DATE"

    def bin_of(self, key: exp.Expr) -> exp.Expr:
        """A plain binned attribute as a key means its bins."""
        if isinstance(key, exp.Column) and key.table == OF_VIEW:
            a = self.database.number.get(key.name.lower())
            if a is not None and self.database.is_binned(a):
                return exp.column(key.name + BIN, quoted=True)
        return key

    def kind_of(self, node: exp.Expr) -> str:
        """DuckDB's type of an expression about attributes."""
        import duckdb

        whole = node.unnest()
        if isinstance(whole, exp.Column) and whole.name.lower() in self.database.types:
            return self.database.types[whole.name.lower()]
        try:
            rows = self.cursor.execute(f'DESCRIBE SELECT {text_of(node)} FROM "view" AS {OF_VIEW}').fetchall()
        except duckdb.Error as problem:
            raise self.refusal(problem) from None
        kind: str = rows[0][1]
        return kind

    def constant(self, node: exp.Expr) -> Any:
        """The value of an expression without attributes."""
        import duckdb

        if isinstance(node, exp.Literal) and not node.is_string:
            return float(node.this)
        try:
            return self.cursor.execute(f"SELECT {text_of(node)}").fetchall()[0][0]
        except duckdb.Error as problem:
            raise self.refusal(problem) from None

    def _check_grouped(self, select: exp.Select) -> None:
        for column in select.find_all(exp.Column):
            if column.table == OF_VIEW:
                raise QueryError(f"{column.name!r} must stand in GROUP BY or in an aggregate.")


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.Literal.number(str(value))
    return exp.convert(value)


def _divide_counts(tree: exp.Expr) -> None:
    """Estimates have fractions, so `//` of counts has to cut them off."""
    for node in list(tree.find_all(exp.IntDiv)):
        has_fractions = node.find(exp.Div, exp.Avg) is not None or any(
            not number.is_string and not number.is_int for number in node.find_all(exp.Literal)
        )
        if not has_fractions:
            sides = [exp.paren(side.copy()) for side in (node.this, node.expression)]
            whole = exp.Div(this=sides[0], expression=sides[1], typed=False, safe=False)
            node.replace(exp.func("trunc", whole))


_OF_WHOLE = (exp.Count, exp.CountIf, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Round, exp.Literal)
_TEXTS = exp.DataType.TEXT_TYPES


def _write_whole_counts(root: exp.Expr) -> None:
    """Counts written into texts are whole numbers."""
    for node in list(root.find_all(exp.Cast, exp.DPipe, exp.Concat, exp.ConcatWs)):
        if isinstance(node, exp.Cast) and not node.to.is_type(*_TEXTS):
            continue
        for side in [node.this] if isinstance(node, exp.Cast) else list(node.iter_expressions()):
            whole = side.unnest()
            if isinstance(whole, _OF_WHOLE) and whole.find(exp.Count, exp.CountIf) and _is_whole(whole):
                side.replace(exp.cast(exp.func("round", side.copy()), "BIGINT"))


def _is_whole(node: exp.Expr) -> bool:
    """True for arithmetic of counts and whole numbers."""
    if isinstance(node, (exp.Count, exp.CountIf)):
        return True
    if isinstance(node, exp.Literal):
        return node.is_int
    return isinstance(node, _OF_WHOLE) and all(map(_is_whole, node.iter_expressions()))


def _source(select: exp.Expr) -> exp.Expr | None:
    source = select.args.get("from_")
    source_node: exp.Expr | None = None if source is None else source.this
    return source_node


def _reads_view(select: exp.Expr) -> bool:
    source = _source(select)
    return isinstance(source, exp.Table) and source.name == "view" and not source.args.get("pivots")


def _inner(source: exp.Expr, ctes: dict[str, exp.CTE]) -> exp.Expr | None:
    inner: exp.Expr | None = None
    if isinstance(source, exp.Subquery):
        inner = source.this
    elif isinstance(source, exp.Table) and source.name in ctes:
        inner = ctes[source.name].this
    return inner


def _merge(select: exp.Select, source: exp.Expr, inner: exp.Select) -> None:
    """Put a row-level SELECT into the one that reads from it."""
    name = source.alias_or_name
    values = {item.alias_or_name: item.unalias() for item in inner.selects}
    for column in list(select.find_all(exp.Column)):
        if column.table == name and column.name in values:
            value = values[column.name]
            column.replace(value.copy() if isinstance(value, exp.Column) else exp.paren(value.copy()))
    from_ = select.args["from_"]
    own_source = _source(inner)
    assert own_source is not None
    from_.set("this", own_source.copy())
    where = inner.args.get("where")
    if where is not None:
        outer = select.args.get("where")
        both = exp.and_(where.this.copy(), outer.this) if outer else where.this.copy()
        select.set("where", exp.Where(this=both))


def _drop(cte: exp.CTE) -> None:
    whole = cte.parent
    assert whole is not None
    whole.set("expressions", [other for other in whole.expressions if other is not cte])
    if not whole.expressions and whole.parent is not None:
        whole.parent.set("with_", None)


def _lookup(join: exp.Join, ctes: dict[str, exp.CTE]) -> tuple[str, list[str], list[list[exp.Expr]]] | None:
    """Alias, column names and rows of a joined list of VALUES; None for anything else."""
    source = join.this
    values = _inner(source, ctes) or source
    names = None
    if isinstance(values, exp.Select) and isinstance(_source(values), exp.Values):
        names = {item.alias_or_name: item.unalias().name for item in values.selects}
        values = _source(values)
    if not isinstance(values, exp.Values):
        return None
    alias = next(
        (a for node in (source, values) if (a := node.args.get("alias")) is not None and a.columns), None
    )
    if alias is None:
        return None
    columns = [column.name for column in alias.columns]
    names = names or dict(zip(columns, columns, strict=True))
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    if any(cell.find(exp.Column) for row in rows for cell in row) or not set(names.values()) <= set(columns):
        return None
    chosen = [columns.index(column) for column in names.values()]
    return source.alias_or_name, list(names), [[row[i] for i in chosen] for row in rows]


def _members(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, exp.Tuple):
        return [one for inner in part.expressions for one in _members(inner)]
    if isinstance(part, exp.Paren):
        return _members(part.this)
    if isinstance(part, _SETS):
        return [one for inner in part.expressions for one in _members(inner)]
    return [part]


def _use_keys(select: exp.Select, number: dict[str, int]) -> None:
    """Replace key expressions by the scan's columns."""

    def to_key(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Select) and node is not select:
            return node
        if isinstance(node, (exp.Alias, exp.Identifier)):
            return node
        i = number.get(text_of(node)) if not isinstance(node, exp.Ordered) else None
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


def _is_inside(node: exp.Expr, root: exp.Expr) -> bool:
    place: exp.Expr | None = node
    while place is not None:
        if place is root:
            return True
        place = place.parent
    return False


def _is_top(select: exp.Expr, tree: exp.Expr) -> bool:
    """True if a SELECT gives rows of the result itself, perhaps as a side of a UNION."""
    place: exp.Expr | None = select
    while place is not None and place is not tree:
        place = place.parent
        if not isinstance(place, (exp.SetOperation, exp.Subquery)) or isinstance(place.parent, exp.From):
            return False
    return True


def _pivoted(pivot: exp.Pivot, database: ViewDatabase) -> exp.Expr:
    """PIVOT … ON attribute USING aggregates GROUP BY keys, as a SELECT with FILTERs."""
    table, ons, using = pivot.this, pivot.expressions, pivot.args.get("using") or [exp.Count(this=exp.Star())]
    if not isinstance(table, exp.Table) or len(ons) != 1:
        raise QueryError("PIVOT takes one attribute: PIVOT view ON attribute USING COUNT(*) GROUP BY key.")
    on, listed = ons[0], None
    if isinstance(on, exp.In):
        on, listed = (
            on.this,
            [value.this for value in on.expressions if isinstance(value.unnest(), exp.Literal)],
        )
    a = database.number.get(on.name.lower()) if isinstance(on, exp.Column) else None
    if a is None:
        raise QueryError("PIVOT takes a plain attribute after ON.")
    attribute = database.schema.attributes[a]
    if database.is_binned(a):
        raise QueryError(f"{attribute.name!r} is counted in bins, so PIVOT has no values for its columns.")
    labels = listed if listed is not None else sorted(attribute.value_labels())
    group = pivot.args.get("group")
    keys = list(group.expressions) if group is not None else []
    return _with_filters(table, keys, on, {label: exp.Literal.string(label) for label in labels}, using)


def _pivoted_subquery(source: exp.Subquery) -> exp.Expr:
    """(SELECT …) PIVOT (aggregates FOR column IN (values)), as a subquery with FILTERs."""
    (pivot, *others), inner = source.args["pivots"], source.this
    fields = pivot.args.get("fields") or []
    if others or len(fields) != 1 or pivot.args.get("unpivot") or not isinstance(fields[0], exp.In):
        raise QueryError("PIVOT takes one column: PIVOT (COUNT(*) FOR column IN ('a', 'b')).")
    on, using = fields[0].this, pivot.expressions
    values = {value.alias or value.unalias().name: value.unalias() for value in fields[0].expressions}
    used = {column.name for node in [on, *using] for column in node.find_all(exp.Column)}
    keys = [exp.column(name) for name in inner.named_selects if name not in used]
    plain = source.copy()
    plain.set("pivots", None)
    plain.set("alias", exp.TableAlias(this=exp.to_identifier(f"{SECRET}p")))
    alias = pivot.alias or source.alias or f"{SECRET}q"
    return _with_filters(plain, keys, on, values, using).subquery(alias)


def _with_filters(
    source: exp.Expr,
    keys: Sequence[exp.Expr],
    on: exp.Expr,
    values: Mapping[str, exp.Expr],
    using: Sequence[exp.Expr],
) -> exp.Select:
    """A SELECT with a column per value and aggregate."""
    select = exp.Select(expressions=[key.copy() for key in keys])
    for label, value in values.items():
        for one in using:
            test = exp.EQ(this=on.copy(), expression=value.copy())
            item = exp.Filter(this=one.unalias().copy(), expression=exp.Where(this=test))
            suffix = f"_{one.alias or text_of(one)}" if len(using) > 1 or one.alias else ""
            select.append("expressions", exp.alias_(item, f"{label}{suffix}", quoted=True))
    select.set("from_", exp.From(this=source.copy()))
    if keys:
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return select
