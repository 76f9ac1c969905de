"""The plan of a mixture before a budget is spent: attributes to count together, and their bins.

The method's own rule computes it from the schema, the number of rows and the budget. A build also uses
released histograms; the forecast assumes that all values are equally frequent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

import numpy as np

from hdpview.domain import Schema
from hdpview.methods.mixture import Mixture
from hdpview.methods.mixture.bins import axes_of
from hdpview.methods.mixture.plan import TOTAL_SHARE, Planner, share_of_histograms
from hdpview.methods.protocol import delta_of
from hdpview.privacy.noise import Noise, rho_of

# In pixels: the width and height of a group's panel and the radius of its circle; and panels per row.
_WIDTH = 170
_HEIGHT = 240
_RADIUS = 60
_IN_A_ROW = 6
# Degrees between the hues of neighbouring groups.
_GOLDEN_ANGLE = 137.508


@dataclass(frozen=True)
class Group:
    """Attributes counted together. deviation: standard deviation of a cell's noise, in records."""

    attributes: tuple[str, ...]
    bins: tuple[int, ...]
    deviation: float


@dataclass(frozen=True)
class TablePlan:
    """The tables that a build would measure. Shares are of the budget for tables and histograms."""

    attributes: tuple[str, ...]
    groups: tuple[Group, ...]
    for_histograms: float
    for_fine_pairs: float

    def __str__(self) -> str:
        groups = 1 - self.for_histograms - self.for_fine_pairs - float(TOTAL_SHARE)
        budget = (
            f"{self.for_histograms:.0%} of the budget goes to histograms, {groups:.0%} to the tables below, "
            f"and {self.for_fine_pairs:.0%} to finer tables of their most dependent pairs."
        )
        n_pairs = math.comb(len(self.attributes), 2)
        held = f"{len(self.groups)} tables hold {self.n_pairs} of {n_pairs} pairs of attributes"
        lines = [budget, f"{held} (bins in brackets):"]
        for group in self.groups:
            named = " × ".join(f"{name} ({n})" for name, n in zip(group.attributes, group.bins, strict=True))
            lines.append(
                f"  {named}: {math.prod(group.bins):,} cells, noise ±{group.deviation:,.0f} records each"
            )
        return "\n".join(lines)

    @property
    def n_pairs(self) -> int:
        """Pairs of attributes that are counted together."""
        return len(
            {(a, b) for group in self.groups for a in group.attributes for b in group.attributes if a < b}
        )

    def svg(self) -> str:
        """One panel per group: attributes as points on a circle, the group as a coloured hull."""
        groups = sorted(self.groups, key=lambda group: -len(group.attributes))
        n_rows = math.ceil(len(groups) / _IN_A_ROW)
        panels = "\n".join(self._panel(i, group) for i, group in enumerate(groups))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_IN_A_ROW * _WIDTH} {n_rows * _HEIGHT}" '
            f'font-family="sans-serif" font-size="11" text-anchor="middle">\n{panels}\n</svg>\n'
        )

    def _panel(self, number: int, group: Group) -> str:
        angles = [2 * math.pi * i / max(1, len(self.attributes)) for i in range(len(self.attributes))]
        place = {
            name: f"{_RADIUS * math.sin(angle):.1f},{-_RADIUS * math.cos(angle):.1f}"
            for name, angle in zip(self.attributes, angles, strict=True)
        }
        colour = f"hsl({number * _GOLDEN_ANGLE % 360:.0f} 65% 45%)"
        hull = " ".join(place[name] for name in group.attributes)
        outline = f'stroke="{colour}" stroke-width="9" stroke-opacity="0.5" stroke-linejoin="round"'
        shapes = [f'<polygon points="{hull}" fill="{colour}" fill-opacity="0.25" {outline}/>']
        for name, point in place.items():
            x, y = point.split(",")
            fill = colour if name in group.attributes else "#bbb"
            shapes.append(
                f'<circle cx="{x}" cy="{y}" r="4" fill="{fill}"><title>{escape(name)}</title></circle>'
            )
        for i, (name, n) in enumerate(zip(group.attributes, group.bins, strict=True)):
            shapes.append(f'<text y="{_RADIUS + 24 + 13 * i}">{escape(name)}: {n} bins</text>')
        column, row = number % _IN_A_ROW, number // _IN_A_ROW
        at = f"translate({(column + 0.5) * _WIDTH:.0f} {row * _HEIGHT + _RADIUS + 12})"
        return f'<g transform="{at}">' + "".join(shapes) + "</g>"


def table_plan(schema: Schema, n_rows: int, epsilon: Fraction, method: Mixture) -> TablePlan:
    """The plan of a build with this budget for one record."""
    delta = delta_of(method)
    whole = Noise("gaussian", rho_of(epsilon, delta)) if delta else Noise("laplace", epsilon)
    axes, names = axes_of(schema), [attribute.name for attribute in schema.attributes]
    share = share_of_histograms(axes, n_rows, whole)
    left = 1 - TOTAL_SHARE - share
    if not left:
        return TablePlan(tuple(names), (), float(share), 0.0)
    even = [np.full(axis.size, 1 / axis.size) for axis in axes]
    planner = Planner(axes, even, n_rows, whole, [np.zeros(axis.size) for axis in axes])
    plan = planner.groups(whole.amount * left, _numbers(method.focus, names))
    groups = tuple(
        Group(
            tuple(names[a] for a in shape.attributes),
            shape.shape,
            math.sqrt(Noise(whole.law, amount).variance),
        )
        for shape, amount in zip(plan.shapes, plan.amounts, strict=True)
    )
    return TablePlan(tuple(names), groups, float(share), float(plan.for_fine / whole.amount))


def _numbers(focus: Sequence[Sequence[str]], names: Sequence[str]) -> list[tuple[int, ...]]:
    return [tuple(sorted(names.index(name) for name in group)) for group in focus]
