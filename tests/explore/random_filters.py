"""Random simple conditions over a schema, as people and the page's charts write them."""

import random

from hdpview.domain import Attribute, Boolean, Datetime, Ordered, Schema, calendar
from hdpview.query.question.where import name_in_sql


def random_filters(schema: Schema, n: int, seed: int) -> list[str]:
    """Conditions on one to four attributes, joined by AND; ranges begin and end anywhere, also inside bins
    and beyond."""
    rng = random.Random(seed)
    return [
        " AND ".join(
            _condition(attribute, rng)
            for attribute in rng.sample(list(schema), min(rng.randint(1, 4), len(schema)))
        )
        for _ in range(n)
    ]


def _condition(attribute: Attribute, rng: random.Random) -> str:
    name = name_in_sql(attribute.name)
    if attribute.nullable and rng.random() < 0.15:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    if isinstance(attribute, Boolean):
        return f"{name} = {rng.choice(['TRUE', 'FALSE'])}"
    if not isinstance(attribute, Ordered):
        labels = attribute.value_labels()
        values = rng.sample(labels, rng.randint(1, max(1, len(labels) // 2)))
        texts = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
        return f"{name} {rng.choice(['', '', 'NOT '])}IN ({texts})"
    low, high = sorted(_literal(attribute, rng) for _ in range(2))
    kind = rng.random()
    if kind < 0.5:
        return (
            f"{name} BETWEEN {low} AND {high}" if not isinstance(attribute, Datetime) else f"{name} >= {low}"
        )
    return f"{name} {rng.choice(['<', '<=', '>', '>='])} {rng.choice([low, high])}"


def _literal(attribute: Ordered, rng: random.Random) -> str:
    edges = attribute.edges.tolist()
    span = edges[-1] - edges[0]
    place = rng.choice([rng.choice(edges), edges[0] + span * rng.uniform(-0.05, 1.05)])
    if isinstance(attribute, Datetime):
        return f"TIMESTAMP '{calendar.moment(int(place)).isoformat(sep=' ')}'"
    return repr(int(place) if attribute.whole else float(place))
