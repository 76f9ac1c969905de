"""The allow-list of statements, checked on the syntax tree. Everything else is refused.

DuckDB alone does not make untrusted statements safe: `repeat('x', 2e9)` runs past every limit, and table
functions read files, settings and other tables.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import islice

from sqlglot import exp

from hdpview.errors import QueryError, shortened

MAX_NODES = 20_000
MAX_DEPTH = 200
# Scans of the view take 5 to 20 ms each; tools ask for up to 10 in one statement.
MAX_SELECTS = 100
# Maximum characters that one function call may create, whatever its arguments.
MAX_PADDING = 1_000
# Maximum number of outputs of a SELECT; each takes up to 5 ms.
MAX_OUTPUTS = 500
# Functions that compare two texts take time proportional to the product of their lengths.
MAX_LITERAL = 10_000
# Factor by which REPEAT, REPLACE and || together may lengthen a text.
MAX_GROWTH = 100_000

WHAT_WORKS = (
    "A view answers SELECT … FROM view [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT …] with "
    "COUNT, SUM, AVG and quantiles."
)


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Nodes of the tree that are not functions.
_STRUCTURE = words(
    """
    select from table identifier column literal star where group having order ordered limit offset fetch
    limitoptions subquery union except intersect with cte tablealias alias aliases paren tuple values
    join qualify window windowspec filter withingroup distinct rollup cube groupingsets null boolean var
    datatype datatypeparam interval intervalspan hint dot eq neq gt gte lt lte is nullsafeeq nullsafeneq
    between in like ilike not neg add sub mul div intdiv mod dpipe bitwiseand bitwiseor bitwisexor
    bitwisenot bitwiseleftshift bitwiserightshift similarto escape attimezone array slice bracket pivot
    any all collate ignorenulls respectnulls
    """
)
# Functions by their names in sqlglot, DuckDB and PostgreSQL, without underscores.
_FUNCTIONS = words(
    """
    and or xor case if coalesce nullif cast trycast greatest least nullifzero extract in between distinct
    count countif sum avg median mode stddev stddevpop stddevsamp variance variancepop varpop varsamp
    corr covarpop covarsamp skewness kurtosis kurtosispop regrslope regrintercept regrr2 regrcount
    regravgx regravgy regrsxx regrsyy regrsxy quantile approxquantile percentilecont percentiledisc
    logicaland logicalor min max approxdistinct arrayagg groupconcat anyvalue argmax argmin first last
    grouping groupingid rownumber rank denserank percentrank cumedist ntile lag lead firstvalue lastvalue
    nthvalue abs ceil floor round trunc sqrt cbrt exp ln log pow sign mod pi degrees radians sin cos tan
    cot asin acos atan atan2 sinh cosh tanh safedivide isnan isinf intdiv bitwisecount upper lower length
    charlength trim ltrim rtrim substring left right replace concat concatws reverse initcap startswith
    endswith contains strposition stringposition instr regexplike regexpilike regexpreplace regexpextract
    splitpart repeat pad ascii chr unicode translate overlay levenshtein currentdate currenttimestamp
    currenttime localtimestamp localtime now date datefromparts timestampfromparts datetrunc
    timestamptrunc datediff timestampdiff dateadd datesub tsordsadd tsordsdiff tsordstotime tsordstodate
    tsordstotimestamp tsordstodatestr timetostr strtotime strtodate tochar tonumber timestrtotime
    datestrtodate strtotimestamp strtounix unixtotime year month quarter week weekofyear day dayofmonth
    dayofweek dayofweekiso dayofyear dayname monthname hour minute second lastday todays makeinterval
    epoch datepart timestampadd datetime timestamp time timetounix isodow arraycontains approxquantiles
    timestampsub datebin monthsbetween addmonths widthbucket exists array ratiotoreport oddsratio
    riskratio riskdifference dpintervallow dpintervalhigh dpprobability mean quantilecont quantiledisc
    favg fsum kahansum sumnooverflow countstar list stringagg listagg booland boolor arbitrary maxby
    all minby approxcountdistinct entropy mad bitand bitor bitxor product makedate maketimestamp maketime
    strftime strptime trystrptime todate totimestamp weekday yearweek isoyear century decade millennium
    era millisecond microsecond epochms epochus timezone toweeks tomonths toyears tohours tominutes
    toseconds toquarters age timebucket today getcurrenttimestamp transactiontimestamp prefix suffix
    regexpmatches regexpfullmatch strpos position lcase ucase strlen len characterlength leftgrapheme
    substr substringgrapheme lpad rpad ord editdist3 jaccard hamming dameraulevenshtein stripaccents
    nfcnormalize likeescape notlikeescape btrim ceiling roundeven even log2 log10 power fmod fdiv gcd lcm
    generateseries explodinggenerateseries explode unnest format printf md5
    convert decodecase weekstart field var varp stdevp isnull total split
    divide multiply add subtract isfinite nextafter signbit bitcount ifnull nvl iff typeof listvalue
    """
)
_TABLES = ("view",)


def check(tree: exp.Expr) -> None:
    """Raise a QueryError for the first part of a statement that is not on the list."""
    names = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    nodes = list(islice(tree.walk(), MAX_NODES + 1))
    sizes = [len(node.expressions) for node in nodes if isinstance(node, exp.Select)]
    if len(nodes) > MAX_NODES or len(sizes) > MAX_SELECTS or max(sizes, default=0) > MAX_OUTPUTS:
        raise QueryError("The statement is too large. Split it into several.")
    if nodes[-1].depth > MAX_DEPTH:  # the traversal is breadth first
        raise QueryError("The statement is nested too deeply.")
    if math.prod(_check_node(node, names) for node in nodes) > MAX_GROWTH:
        raise QueryError("REPEAT, REPLACE, FORMAT and || would make texts that are too long.")


def _check_node(node: exp.Expr, names: set[str]) -> int:
    if isinstance(node, exp.With) and node.args.get("recursive"):
        raise QueryError("WITH RECURSIVE is not supported. Write the steps out.")
    if isinstance(node, exp.Table):
        _check_table(node, names)
    elif isinstance(node, exp.TableSample):
        raise QueryError(
            "The view's SQL has no rows to sample. Use view.sample(n) or `hdpview sample` for synthetic "
            "records."
        )
    elif isinstance(node, exp.Exists):
        raise QueryError("EXISTS(…) looks for rows, but a view holds counts. Compare COUNT(*) with 0.")
    elif isinstance(node, exp.Anonymous):
        if plain_name(node.name) not in _FUNCTIONS:
            raise _unknown_function(node.name)
    elif isinstance(node, exp.Func):
        if node.key not in _STRUCTURE and not _FUNCTIONS & {node.key, *map(plain_name, node.sql_names())}:
            raise _unknown_function(node.sql_name())
    elif node.key not in _STRUCTURE:
        raise QueryError(f"{shortened(node.key.upper())} is not supported. {WHAT_WORKS}")
    return _check_size(node)


def plain_name(name: str) -> str:
    """A function's name as the lists spell it."""
    return name.lower().replace("_", "")


def _unknown_function(name: str) -> QueryError:
    return QueryError(f"The function {shortened(name.upper())} is not supported. {WHAT_WORKS}")


def _check_table(node: exp.Table, names: set[str]) -> None:
    schema, catalog = node.text("db").lower(), node.text("catalog").lower()
    if isinstance(node.this, exp.GenerateSeries):
        return
    is_plain = isinstance(node.this, exp.Identifier) and not any(
        node.args.get(part) for part in ("sample", "joins", "laterals", "changes")
    )
    known = (node.name.lower() in _TABLES and schema in ("", "public", "main")) or (
        not schema and node.name.lower() in names
    )
    if not is_plain or not known or (catalog and not schema):
        raise QueryError(
            f"There is no table {shortened(node.sql('duckdb'))}; the only table is view. A view holds no "
            "rows that a join could match."
        )


def _check_size(node: exp.Expr) -> int:
    """The factor by which a function may lengthen its text. Lengths must be short number literals."""
    if isinstance(node, exp.Literal) and len(node.this) > MAX_LITERAL:
        raise QueryError(f"A text is longer than {MAX_LITERAL:,} characters.")
    if isinstance(node, exp.DPipe | exp.Concat) and not isinstance(node.parent, exp.DPipe | exp.Concat):
        return max(Counter(column.sql() for column in node.find_all(exp.Column)).values(), default=1)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    if name in ("replace", "regexpreplace", "regexp_replace"):
        given = node.args.get("replacement") or node.expression
        return max(len(given.this), 1) if isinstance(given, exp.Literal) else 1
    if name in ("format", "printf"):
        pattern = node.this if isinstance(node, exp.Format) else next(iter(node.expressions), None)
        if not isinstance(pattern, exp.Literal) or re.search(r"\d{4}|\*|{[^}]*{", pattern.this):
            raise QueryError("FORMAT and PRINTF take a plain text as their pattern, with widths up to 999.")
        return max(sum(map(int, re.findall(r"\d+", pattern.this))), 1)
    if name not in ("repeat", "pad", "lpad", "rpad"):
        return 1
    arguments = node.expressions if isinstance(node, exp.Anonymous) else []
    length = arguments[1] if len(arguments) > 1 else node.args.get("times") or node.args.get("expression")
    if not (isinstance(length, exp.Literal) and length.is_int and int(length.this) <= MAX_PADDING):
        raise QueryError(f"REPEAT, LPAD and RPAD take a plain number up to {MAX_PADDING:,}.")
    return max(int(length.this), 1) if name == "repeat" else 1
