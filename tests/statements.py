"""Random SQL statements that a view and a database should answer alike."""

from random import Random

NUMBERS = ("age", "income", "children")  # single whole numbers; income may be missing
TEXTS = ("region", "sex")
TRUTHS = ("smoker", "urban")
SIMPLE_KEYS = ("region", "sex", "smoker", "urban", "children", "month(joined)", "dayname(joined)", "age // 3")
REGIONS = ("North", "South", "East", "West", "O''Hara")
PRESENT = " HAVING COUNT(*) > 0.5"  # groups without records are left out on both sides


def listed(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(";")]


class Statements:
    """Statements over a table of people, drawn from a grammar of what views answer."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def statement(self) -> str:
        """One statement. Rows come in a full order."""
        form = self.random.choice(
            ["plain", "plain", "plain", "with", "subquery", "over groups", "no groups", "distinct"]
            + ["rolled", "united", "windows", "shares", "joined"]
        )
        where = f" WHERE {self.condition()}" if self.random.random() < 0.7 else ""
        if form in ("rolled", "united", "windows", "shares", "joined"):
            return self._of_groups(form, where)
        if form == "no groups":
            return f"SELECT {self._aggregates(1, 4)} FROM view{where}"
        if form == "distinct":
            names = ", ".join(self.random.sample([*TEXTS, *TRUTHS], self.random.randint(1, 2)))
            return f"SELECT {names} FROM view{where} GROUP BY {names}{PRESENT} ORDER BY {names}"
        source, columns = "view", ""
        if form == "with":
            columns = f"WITH t AS (SELECT * FROM view{where}), u AS (SELECT *, age + children AS both FROM t "
            columns += f"WHERE {self.condition()}) "
            source, where = "u", ""
        elif form == "subquery":
            source, where = f"(SELECT * FROM view{where}) AS s", f" WHERE {self.condition()}"
        keys = [self._key() for _ in range(self.random.choice([1, 1, 1, 2, 2, 3]))]
        named = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        by = {
            "names": ", ".join(f"k{i}" for i in range(len(keys))),
            "positions": ", ".join(str(i + 1) for i in range(len(keys))),
            "expressions": ", ".join(keys),
        }[self.random.choice(["names", "positions", "expressions"])]
        having = PRESENT + (f" AND {self._having()}" if self.random.random() < 0.4 else "")
        inner = (
            f"SELECT {', '.join(named)}, {self._aggregates(1, 3)} FROM {source}{where} GROUP BY {by}{having}"
        )
        orders = ["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]
        order = ", ".join(f"k{i}{self.random.choice(orders)}" for i in range(len(keys)))
        first = "a0 DESC, " if self.random.random() < 0.3 else ""
        limit = self.random.choice(["", "", "", " LIMIT 5", " LIMIT 3 OFFSET 1", " LIMIT 0"])
        if form == "over groups":
            return f"WITH g AS ({inner}) SELECT * FROM g WHERE a0 IS NOT NULL ORDER BY {first}{order}{limit}"
        return f"{columns}{inner} ORDER BY {first}{order}{limit}"

    def _of_groups(self, form: str, where: str) -> str:
        """Sums of sums, unions, windows, shares and joins."""
        pick = self.random.choice
        a, b = self.random.sample(SIMPLE_KEYS, 2)
        aggregate = self._aggregate()
        if form == "rolled":
            sets = pick([f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})", f"GROUPING SETS (({a}), ({b}), ())"])
            filtered = f"COUNT(*) FILTER (WHERE {self._leaf()})"
            plain = pick(["COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(income)", filtered])
            return (
                f"SELECT {a} AS k0, {b} AS k1, GROUPING({a}) AS g0, GROUPING({b}) AS g1, {plain} AS a0 FROM "
                f"view{where} GROUP BY {sets}{PRESENT} ORDER BY g0, g1, k0 NULLS LAST, k1 NULLS LAST"
            )
        one = f"SELECT {a} AS k0, {aggregate} AS a0 FROM view{where} GROUP BY k0{PRESENT}"
        if form == "united":
            other = f"SELECT {a}, {aggregate} FROM view WHERE {self.condition()} GROUP BY 1{PRESENT}"
            return f"SELECT *, 1 AS side FROM ({one}) UNION ALL SELECT *, 2 FROM ({other}) ORDER BY side, k0"
        count = f"SELECT {a} AS k0, COUNT(*) AS a0 FROM view{where} GROUP BY k0{PRESENT}"
        if form == "windows":
            window = pick(listed("""
                SUM(a0) OVER (ORDER BY k0 ROWS UNBOUNDED PRECEDING); a0 - LAG(a0) OVER (ORDER BY k0);
                AVG(a0) OVER (ORDER BY k0 ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING); MAX(a0) OVER ();
                FIRST_VALUE(a0) OVER (ORDER BY k0); RANK() OVER (ORDER BY a0)
            """))  # fmt: skip
            return f"SELECT k0, {window} AS w FROM ({count}) AS g ORDER BY k0"
        if form == "shares":
            whole = pick(
                listed("(SELECT COUNT(*) FROM view); SUM(COUNT(*)) OVER (); (SELECT SUM(age) + 1 FROM view)")
            )
            share = f"COUNT(*) * 1.0 / {whole} AS a0"
            return f"SELECT {a} AS k0, {share} FROM view{where} GROUP BY k0{PRESENT} ORDER BY k0"
        return (
            f"WITH p AS ({count}), q AS (SELECT {a} AS k0, SUM(age) AS s FROM view GROUP BY 1{PRESENT}) "
            f"SELECT p.k0, a0, s / a0 AS r FROM p JOIN q ON p.k0 = q.k0 ORDER BY p.k0"
        )

    def condition(self, depth: int = 0) -> str:
        choose = self.random.random
        if depth < 3 and choose() < 0.45:
            joint = self.random.choice(["AND", "OR"])
            left, right = self.condition(depth + 1), self.condition(depth + 1)
            negation = "NOT " if choose() < 0.2 else ""
            return f"{negation}(({left}) {joint} ({right}))"
        return self._leaf()

    def _leaf(self) -> str:
        pick, number, day = self.random.choice, self._number, self._day
        name, text, truth = pick(NUMBERS), pick(TEXTS), pick(TRUTHS)
        value = f"'{pick(REGIONS)}'" if text == "region" else pick(["'F'", "'M'"])
        return pick(listed(f"""
            {name} {pick(['=', '<>', '<', '<=', '>', '>='])} {number()};
            {number()} {pick(['<', '>='])} {name};
            {name} {pick(['', 'NOT '])}BETWEEN {number()} AND {number()};
            {name} {pick(['', 'NOT '])}IN ({number()}, {number()}, {number()});
            {text} {pick(['=', '<>'])} {value};
            region {pick(['', 'NOT '])}LIKE '{pick(['%th', 'N%', '_est', '%o%'])}';
            {pick([*NUMBERS, *TEXTS, *TRUTHS])} IS {pick(['', 'NOT '])}NULL;
            {truth}; NOT {truth}; {truth} IS {pick(['', 'NOT '])}TRUE; {name} % 3 = {pick([0, 1])};
            upper(sex) = '{pick('FM')}'; joined {pick(['=', '<', '>=', '<>'])} '{day()}';
            joined BETWEEN DATE '{day()}' AND DATE '2024-01-31';
            joined > DATE '{day()}' - INTERVAL {pick([3, 10])} DAY;
            dayofweek(joined) {pick(['= 0', 'IN (1, 2)', '> 3'])};
            date_diff('day', joined, DATE '{day()}') < 9; age > children * 3; income + age < 60
        """))  # fmt: skip

    def _number(self) -> str:
        whole = [str(self.random.randint(-3, 12)), str(self.random.randint(0, 60))]
        return self.random.choice([*whole, "7 / 2", "2.5", "1 + 3"])

    def _day(self) -> str:
        return self.random.choice(["2023-12-24", "2024-01-01", "2024-01-15", "2024-02-01"])

    def _key(self) -> str:
        return self.random.choice(listed(f"""
            age; children; region; sex; smoker; urban; floor(income / 10) * 10; floor(age / 3); income // 20;
            age % 2; age >= 5; upper(region); substr(region, 1, 1); round(income, -1);
            coalesce(region, 'unknown'); sex || '-' || region;
            CASE WHEN age < 3 THEN 'young' WHEN age < 7 THEN 'middle' ELSE 'old' END;
            CASE WHEN {self._leaf()} THEN 'a' WHEN {self._leaf()} THEN 'b' END;
            CASE sex WHEN 'F' THEN 1 ELSE 2 END; age + children; joined; date_trunc('month', joined);
            dayname(joined); strftime(joined, '%Y-%m'); joined - DATE '2024-01-01'; joined + INTERVAL 1 MONTH
        """))  # fmt: skip

    def _aggregates(self, least: int, most: int) -> str:
        chosen = [self._aggregate() for _ in range(self.random.randint(least, most))]
        return ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(chosen))

    def _aggregate(self) -> str:
        pick, leaf = self.random.choice, self._leaf
        name = pick(NUMBERS)
        kept = f" FILTER (WHERE {leaf()})"
        return pick(listed(f"""
            COUNT(*); COUNT(*); COUNT({pick([*NUMBERS, *TEXTS, *TRUTHS])}); COUNT(*){kept};
            SUM({name}); SUM({name}){kept}; AVG({name}); AVG({name}){kept}; MEDIAN({name});
            quantile_cont({name}, {pick([0.1, 0.25, 0.5, 0.9])}); SUM({name} * 2 + 1); SUM({name} - age);
            AVG(joined - DATE '2024-01-01'); quantile_disc(age, 0.3); ROUND(STDDEV_POP(age), 6);
            SUM(age * children); SUM(CASE WHEN {leaf()} THEN 1 ELSE 0 END);
            SUM(CASE WHEN {leaf()} THEN income END); AVG(CASE WHEN {leaf()} THEN 1.0 ELSE 0.0 END);
            COUNT(CASE WHEN {leaf()} THEN 1 END); 100.0 * COUNT(*) / SUM(COUNT(*)) OVER ();
            SUM(age) * 1.0 / (COUNT(*) + 1); ROUND(AVG({name}), 2); COALESCE(SUM(income), 0) - COUNT(*);
            CASE WHEN COUNT(*) > 20 THEN 'many' ELSE 'few' END
        """))  # fmt: skip

    def _having(self) -> str:
        whole = self.random.randint
        return self.random.choice(listed(f"""
            COUNT(*) >= {whole(1, 40)}; SUM(age) > {whole(0, 200)}; AVG(age) BETWEEN 3.001 AND 6.001;
            NOT (COUNT(income) < 10); COUNT(*) IN (1, 2, 3, 5, 8, 13) OR COUNT(*) > 20;
            COUNT(*) FILTER (WHERE urban) > COUNT(*) / 2.0
        """))  # fmt: skip
