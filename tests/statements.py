"""Random SQL statements that a view and a database should answer alike."""

from __future__ import annotations

from random import Random

NUMBERS = ("age", "income", "children")  # single whole numbers; income may be missing
TEXTS = ("region", "sex")
TRUTHS = ("smoker", "urban")
REGIONS = ("North", "South", "East", "West", "O''Hara")


class Statements:
    """Statements over a table of people, drawn from a grammar of what views answer."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def statement(self) -> str:
        """One statement. Groups without records are left out on both sides, and rows come in a full order."""
        form = self.random.choice(
            ["plain", "plain", "plain", "with", "subquery", "over groups", "no groups", "distinct"]
        )
        where = f" WHERE {self.condition()}" if self.random.random() < 0.7 else ""
        if form == "no groups":
            return f"SELECT {self._aggregates(1, 4)} FROM view{where}"
        if form == "distinct":
            names = self.random.sample([*TEXTS, *TRUTHS], self.random.randint(1, 2))
            return (
                f"SELECT {', '.join(names)} FROM view{where} GROUP BY {', '.join(names)} HAVING COUNT(*) > "
                f"0.5 ORDER BY {', '.join(names)}"
            )
        source, columns = "view", ""
        if form == "with":
            columns = (
                f"WITH t AS (SELECT * FROM view{where}), u AS (SELECT *, age + children AS both FROM t "
                f"WHERE {self.condition()}) "
            )
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
        having = "COUNT(*) > 0.5" + (f" AND {self._having()}" if self.random.random() < 0.4 else "")
        inner = (
            f"SELECT {', '.join(named)}, {self._aggregates(1, 3)} FROM {source}{where} GROUP BY {by} "
            f"HAVING {having}"
        )
        order = ", ".join(
            f"k{i}{self.random.choice(['', ' DESC', ' ASC NULLS FIRST', ' DESC NULLS LAST'])}"
            for i in range(len(keys))
        )
        first = "a0 DESC, " if self.random.random() < 0.3 else ""
        limit = self.random.choice(["", "", "", " LIMIT 5", " LIMIT 3 OFFSET 1", " LIMIT 0"])
        if form == "over groups":
            return f"WITH g AS ({inner}) SELECT * FROM g WHERE a0 IS NOT NULL ORDER BY {first}{order}{limit}"
        return f"{columns}{inner} ORDER BY {first}{order}{limit}"

    def condition(self, depth: int = 0) -> str:
        """A condition on rows."""
        choose = self.random.random
        if depth < 3 and choose() < 0.45:
            joint = self.random.choice(["AND", "OR"])
            left, right = self.condition(depth + 1), self.condition(depth + 1)
            negation = "NOT " if choose() < 0.2 else ""
            return f"{negation}(({left}) {joint} ({right}))"
        return self._leaf()

    def _leaf(self) -> str:
        pick, number = self.random.choice, self._number
        name, text, truth = pick(NUMBERS), pick(TEXTS), pick(TRUTHS)
        value = f"'{pick(REGIONS)}'" if text == "region" else pick(["'F'", "'M'"])
        return pick(
            [
                f"{name} {pick(['=', '<>', '<', '<=', '>', '>='])} {number()}",
                f"{number()} {pick(['<', '>='])} {name}",
                f"{name} {pick(['', 'NOT '])}BETWEEN {number()} AND {number()}",
                f"{name} {pick(['', 'NOT '])}IN ({number()}, {number()}, {number()})",
                f"{text} {pick(['=', '<>'])} {value}",
                f"region {pick(['', 'NOT '])}LIKE '{pick(['%th', 'N%', '_est', '%o%'])}'",
                f"{pick([*NUMBERS, *TEXTS, *TRUTHS])} IS {pick(['', 'NOT '])}NULL",
                truth,
                f"NOT {truth}",
                f"{truth} IS {pick(['', 'NOT '])}TRUE",
                f"{name} % 3 = {pick([0, 1])}",
                f"upper(sex) = '{pick('FM')}'",
                "age > children * 3",
                "income + age < 60",
            ]
        )

    def _number(self) -> str:
        return self.random.choice(
            [str(self.random.randint(-3, 12)), str(self.random.randint(0, 60)), "7 / 2", "2.5", "1 + 3"]
        )

    def _key(self) -> str:
        pick = self.random.choice
        return pick(
            [
                "age",
                "children",
                "region",
                "sex",
                "smoker",
                "urban",
                "floor(income / 10) * 10",
                "floor(age / 3)",
                "income // 20",
                "age % 2",
                "age >= 5",
                "upper(region)",
                "substr(region, 1, 1)",
                "round(income, -1)",
                "coalesce(region, 'unknown')",
                "sex || '-' || region",
                "CASE WHEN age < 3 THEN 'young' WHEN age < 7 THEN 'middle' ELSE 'old' END",
                f"CASE WHEN {self._leaf()} THEN 'a' WHEN {self._leaf()} THEN 'b' END",
                "CASE sex WHEN 'F' THEN 1 ELSE 2 END",
                "age + children",
            ]
        )

    def _aggregates(self, least: int, most: int) -> str:
        chosen = [self._aggregate() for _ in range(self.random.randint(least, most))]
        return ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(chosen))

    def _aggregate(self) -> str:
        pick = self.random.choice
        name = pick(NUMBERS)
        kept = f" FILTER (WHERE {self._leaf()})"
        return pick(
            [
                "COUNT(*)",
                "COUNT(*)",
                f"COUNT({pick([*NUMBERS, *TEXTS, *TRUTHS])})",
                f"COUNT(*){kept}",
                f"SUM({name})",
                f"SUM({name}){kept}",
                f"AVG({name})",
                f"AVG({name}){kept}",
                f"MEDIAN({name})",
                f"quantile_cont({name}, {pick([0.1, 0.25, 0.5, 0.9])})",
                f"SUM({name} * 2 + 1)",
                "SUM(age * children)",
                f"SUM(CASE WHEN {self._leaf()} THEN 1 ELSE 0 END)",
                f"SUM(CASE WHEN {self._leaf()} THEN income END)",
                f"AVG(CASE WHEN {self._leaf()} THEN 1.0 ELSE 0.0 END)",
                f"COUNT(CASE WHEN {self._leaf()} THEN 1 END)",
                "100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()",
                "SUM(age) * 1.0 / (COUNT(*) + 1)",
                f"ROUND(AVG({name}), 2)",
                "COALESCE(SUM(income), 0) - COUNT(*)",
                "CASE WHEN COUNT(*) > 20 THEN 'many' ELSE 'few' END",
            ]
        )

    def _having(self) -> str:
        pick = self.random.choice
        return pick(
            [
                f"COUNT(*) >= {self.random.randint(1, 40)}",
                f"SUM(age) > {self.random.randint(0, 200)}",
                "AVG(age) BETWEEN 3.001 AND 6.001",
                "NOT (COUNT(income) < 10)",
                "COUNT(*) IN (1, 2, 3, 5, 8, 13) OR COUNT(*) > 20",
                "COUNT(*) FILTER (WHERE urban) > COUNT(*) / 2.0",
            ]
        )
