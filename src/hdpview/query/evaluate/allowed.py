"""What a statement may hold: a positive list over its syntax tree. Whatever is not listed is refused.

DuckDB alone cannot be trusted with a stranger's statement: `repeat('x', 2e9)` runs past every limit, and
table functions read files, settings and other tables.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice

from sqlglot import exp

from hdpview.errors import QueryError, shortened

MAX_NODES = 20_000
MAX_DEPTH = 200
# Scans of the view take 5 to 20 ms each; tools ask for up to 10 in one statement.
MAX_SELECTS = 100
# Characters that one call of a function may make of nothing.
MAX_PADDING = 1_000
# Outputs of a SELECT: each takes up to 5 ms.
MAX_OUTPUTS = 500
# Functions that compare two texts take time by the product of their lengths.
MAX_LITERAL = 10_000
# How many times longer REPEAT, REPLACE and || may make a text between them.
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
    select from table identifier column literal star where group having order ordered limit offset
    fetch limitoptions subquery union except intersect with cte tablealias alias aliases paren tuple
    values join qualify window windowspec filter withingroup distinct rollup cube groupingsets null
    boolean var datatype datatypeparam interval intervalspan hint dot eq neq gt gte lt lte is
    nullsafeeq nullsafeneq between in like ilike not neg add sub mul div intdiv mod dpipe bitwiseand
    bitwiseor bitwisexor bitwisenot bitwiseleftshift bitwiserightshift similarto escape attimezone
    array slice bracket pivot any all collate ignorenulls respectnulls
    """
)
# Functions that the parser knows by a class of their own.
_FUNCTIONS = words(
    """
    and or xor case if coalesce nullif cast trycast greatest least nullifzero extract in between
    distinct count countif sum avg median mode stddev stddevpop stddevsamp variance variancepop
    varpop varsamp corr covarpop covarsamp skewness kurtosis kurtosispop regrslope regrintercept
    regrr2 regrcount regravgx regravgy regrsxx regrsyy regrsxy quantile approxquantile
    percentilecont percentiledisc logicaland logicalor min max approxdistinct arrayagg groupconcat
    anyvalue argmax argmin first last grouping groupingid rownumber rank denserank percentrank
    cumedist ntile lag lead firstvalue lastvalue nthvalue abs ceil floor round trunc sqrt cbrt exp
    ln log pow sign mod pi degrees radians sin cos tan cot asin acos atan atan2 sinh cosh tanh
    safedivide isnan isinf intdiv bitwisecount upper lower length charlength trim ltrim rtrim
    substring left right replace concat concatws reverse initcap startswith endswith contains
    strposition stringposition instr regexplike regexpilike regexpreplace regexpextract splitpart
    repeat pad ascii chr unicode translate overlay levenshtein currentdate currenttimestamp
    currenttime localtimestamp localtime now date datefromparts timestampfromparts datetrunc
    timestamptrunc datediff timestampdiff dateadd datesub tsordsadd tsordsdiff tsordstotime
    tsordstodate tsordstotimestamp tsordstodatestr timetostr strtotime strtodate tochar tonumber
    timestrtotime datestrtodate strtotimestamp strtounix unixtotime year month quarter week
    weekofyear day dayofmonth dayofweek dayofweekiso dayofyear dayname monthname hour minute second
    lastday todays makeinterval epoch date_part datepart timestampadd datetime timestamp time
    timetounix isodow arraycontains approxquantiles timestampsub datebin monthsbetween addmonths
    widthbucket exists array
    """
)
# Functions by the names that DuckDB and PostgreSQL give them.
_NAMED = words(
    """
    ratio_to_report odds_ratio risk_ratio risk_difference dp_interval_low dp_interval_high
    dp_probability mean quantile_cont
    quantile_disc favg fsum kahan_sum sum_no_overflow count_star count_if var_pop var_samp variance
    stddev stddev_pop stddev_samp covar_pop covar_samp regr_slope regr_intercept regr_r2 regr_count
    regr_avgx regr_avgy skewness kurtosis kurtosis_pop list string_agg array_agg group_concat
    listagg bool_and bool_or any_value arg_max arg_min arbitrary max_by min_by first last
    approx_count_distinct approx_quantile entropy mad bit_and bit_or bit_xor product date_part
    datepart date_trunc datetrunc date_diff datediff date_add date_sub datesub dateadd dayname
    monthname last_day make_date make_timestamp make_time strftime strptime try_strptime to_date
    to_timestamp to_char dayofweek isodow weekday dayofmonth dayofyear weekofyear yearweek isoyear
    century decade millennium era year quarter month week day hour minute second millisecond
    microsecond epoch epoch_ms epoch_us timezone to_days to_weeks to_months to_years to_hours
    to_minutes to_seconds to_quarters age time_bucket today current_date current_timestamp now
    get_current_timestamp transaction_timestamp localtimestamp datetime contains starts_with
    ends_with prefix suffix regexp_matches regexp_full_match regexp_replace regexp_extract
    split_part strpos instr position lcase ucase length strlen len char_length character_length left
    right left_grapheme substr substring substring_grapheme trim ltrim rtrim lpad rpad repeat
    replace reverse concat concat_ws initcap ascii ord chr unicode translate levenshtein editdist3
    jaccard hamming damerau_levenshtein strip_accents nfc_normalize upper lower like_escape
    not_like_escape btrim abs ceil ceiling floor round trunc round_even even sign sqrt cbrt exp ln
    log log2 log10 pow power mod fmod fdiv pi degrees radians sin cos tan cot asin acos atan atan2
    gcd lcm divide multiply add subtract isnan isinf isfinite nextafter signbit xor bit_count
    width_bucket ifnull nvl coalesce nullif greatest least if iff typeof list_value row_number rank
    dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value grouping
    grouping_id
    """
)
_TABLES = ("view",)


def check(tree: exp.Expr) -> None:
    """Raise a QueryError for the first thing in a statement that is not on the list."""
    names = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    nodes = list(islice(tree.walk(), MAX_NODES + 1))
    sizes = [len(node.expressions) for node in nodes if isinstance(node, exp.Select)]
    if len(nodes) > MAX_NODES or len(sizes) > MAX_SELECTS or max(sizes, default=0) > MAX_OUTPUTS:
        raise QueryError("The statement is too large. Split it into several.")
    if nodes[-1].depth > MAX_DEPTH:  # the walk is breadth first
        raise QueryError("The statement is nested too deeply.")
    if math.prod(_check_node(node, names) for node in nodes) > MAX_GROWTH:
        raise QueryError("REPEAT, REPLACE and || would make texts that are too long.")


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
        raise QueryError("EXISTS(…) looks for rows; a view holds counts. Compare COUNT(*) with 0.")
    elif isinstance(node, exp.Anonymous):
        if node.name.lower() not in _NAMED:
            raise _unknown_function(node.name)
    elif isinstance(node, exp.Func):
        names_of = {name.lower() for name in node.sql_names()}
        if node.key not in _FUNCTIONS and node.key not in _STRUCTURE and not names_of & _NAMED:
            raise _unknown_function(node.sql_name())
    elif node.key not in _STRUCTURE:
        raise QueryError(f"{shortened(node.key.upper())} is not supported. {WHAT_WORKS}")
    return _check_size(node)


def _unknown_function(name: str) -> QueryError:
    return QueryError(f"The function {shortened(name.upper())} is not supported. {WHAT_WORKS}")


def _check_table(node: exp.Table, names: set[str]) -> None:
    schema, catalog = node.text("db").lower(), node.text("catalog").lower()
    is_plain = isinstance(node.this, exp.Identifier) and not any(
        node.args.get(part) for part in ("sample", "joins", "laterals", "changes")
    )
    known = (node.name.lower() in _TABLES and schema in ("", "public", "main")) or (
        not schema and node.name.lower() in names
    )
    if not is_plain or not known or (catalog and not schema):
        raise QueryError(
            f"There is one table, view; not {shortened(node.sql('duckdb'))}. A view is one table, and "
            "holds no rows that a join could match."
        )


def _check_size(node: exp.Expr) -> int:
    """How many times longer a function may make its text. Lengths are short, plain numbers."""
    if isinstance(node, exp.Literal) and len(node.this) > MAX_LITERAL:
        raise QueryError(f"A text is longer than {MAX_LITERAL:,} characters.")
    if isinstance(node, exp.DPipe | exp.Concat) and not isinstance(node.parent, exp.DPipe | exp.Concat):
        return max(Counter(column.sql() for column in node.find_all(exp.Column)).values(), default=1)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    if name in ("replace", "regexpreplace", "regexp_replace"):
        given = node.args.get("replacement") or node.expression
        return max(len(given.this), 1) if isinstance(given, exp.Literal) else 1
    if name not in ("repeat", "pad", "lpad", "rpad"):
        return 1
    arguments = node.expressions if isinstance(node, exp.Anonymous) else []
    length = arguments[1] if len(arguments) > 1 else node.args.get("times") or node.args.get("expression")
    if not (isinstance(length, exp.Literal) and length.is_int and int(length.this) <= MAX_PADDING):
        raise QueryError(f"REPEAT, LPAD and RPAD take a plain number up to {MAX_PADDING:,}.")
    return max(int(length.this), 1) if name == "repeat" else 1
