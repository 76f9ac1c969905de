// Draws charts on the page, in PNG and SVG files and in the report. A model describes the chart in units of
// its axis. A drawing has one path per layer and some texts, so redrawing many values changes few nodes.

import { element, say, set, shortened, short, ticksBetween, widthOf } from "./parts.js";

export const ROW = 24; // height of a category's row, in pixels
const TEXT = 12; // font size, in pixels
const SMALL = 11; // font size of ticks, in pixels
const MOST_SHIFT = 30; // pixels by which a label may be moved left of its bar
const DENSE = 8; // on bars narrower than this many pixels, intervals are as wide as the bar
const LAYERS = [
  "rule", "minor", "brush", "bar", "bar faint", "bar off", "bar off faint", "band", "whisker", "whisker off",
  "level", "line", "point", "point faint", "point off", "beyond", "other", "overall", "differs", "bracket",
  "axis",
];

/** A number of pixels rounded for a path. */
export const tidy = (x) => Math.round(x * 100) / 100;
/** The path around a box. */
export const box = (x, y, width, height) =>
  `M${tidy(x)} ${tidy(y)}h${tidy(width)}v${tidy(height)}h${tidy(-width)}z`;
const arc = (r, width) => `a${r} ${r} 0 1 0 ${width} 0`;
const dot = (x, y, r = 3.5) => `M${tidy(x - r)} ${tidy(y)}${arc(r, 2 * r)}${arc(r, -2 * r)}z`;

/** Upper end of the axis. Long intervals may extend beyond it. */
export function topOf(values, uppers) {
  const most = Math.max(...values, 0);
  const highest = Math.max(...uppers, 1e-9);
  // If all values are below half a record, only the intervals are informative.
  return most < 0.5 && highest > 1 ? highest : Math.max(Math.min(highest, 1.6 * most), most, 1e-9);
}

/** place(value): share of the axis's length; marks: ticks as [value, text, is minor]. */
function axisOf({ from, to, isLog, unit }) {
  if (!(to > from)) return { place: () => 0, marks: [] };
  const log = (value) => Math.log1p(Math.max(0, value)) / Math.log1p(to);
  const place = isLog ? log : (value) => (value - from) / (to - from || 1);
  const text = (value) => (unit === "%" ? `${value}%` : short(value));
  if (!isLog) return { place, marks: ticksBetween(from, to).map((value) => [value, text(value), false]) };
  const decades = Array.from({ length: Math.floor(Math.log10(Math.max(to, 1))) + 1 }, (_, i) => 10 ** i);
  const marks = decades.flatMap((value) => [
    [value, text(value), false],
    ...[2, 5].filter((times) => times * value < to).map((times) => [times * value, "", true]),
  ]);
  return { place, marks: [[0, text(0), false], ...marks] };
}

const clamped = (share) => Math.max(0, Math.min(share, 1));

/**
 * A drawing: paths by layer, texts as [class, x, y, anchor, text, code], and a pointer target per bar.
 * height: of column charts; row charts have the height of their rows.
 */
export function plot(model, width, height) {
  const paths = Object.fromEntries(LAYERS.map((layer) => [layer, []]));
  const drawing = { paths, texts: [], hits: [], width, height };
  if (model.isRows) drawRows(model, drawing);
  else drawColumns(model, drawing);
  return drawing;
}

const layerOf = (kind, { isOff, isFaint }) => `${kind}${isOff ? " off" : ""}${isFaint ? " faint" : ""}`;
const pointLayer = ({ isOff, isFaint }) => (isOff ? "point off" : isFaint ? "point faint" : "point");
const whiskerLayer = ({ isOff }) => (isOff ? "whisker off" : "whisker");
const isBelow = ({ lower }, { from }) => lower < from - 1e-9 * Math.abs(from);

function drawRows(model, drawing) {
  const { bars, axis, brackets } = model;
  const { paths, texts, width } = drawing;
  const { place, marks } = axisOf(axis);
  const longest = Math.max(0, ...bars.map(({ label }) => widthOf(label, TEXT)));
  const names = Math.min(longest + 4, 0.5 * width);
  const values = bars.map(({ number, isDifferent }) => (isDifferent ? `◆ ${number}` : number));
  const numbers = Math.max(0, ...values.map((text) => widthOf(text, TEXT))) + 4;
  const left = names + 6;
  const right = Math.max(left + 10, width - numbers - (brackets.length ? 14 : 6));
  const x = (value) => left + (right - left) * clamped(place(value));
  const bottom = bars.length * ROW;
  const labels = shortened(bars.map(({ label }) => label), names, TEXT);
  for (const [value, , isMinor] of marks)
    paths[isMinor ? "minor" : "rule"].push(`M${tidy(x(value))} 0V${bottom}`);
  drawMarks(marks, texts, (value) => x(value), (text, at) => ["tick", at, bottom + 13, "middle", text], 20);
  bars.forEach((bar, i) => {
    const y = i * ROW + ROW / 2;
    const look = `${bar.isOff ? " off" : ""}${bar.isFaint ? " faint" : ""}`;
    texts.push([`name${bar.isOff ? " off" : ""}`, 0, y + 4, "start", labels[i], bar.code]);
    texts.push([`number${look}`, width - (brackets.length ? 9 : 0), y + 4, "end", values[i], bar.code]);
    drawing.hits.push({ x: 0, y: i * ROW, width, height: ROW });
    if (bar.other !== null) paths.other.push(`M${tidy(x(bar.other))} ${y - 9}v18`);
    if (typeof bar.value !== "number" || model.flat) return;
    if (model.isPoints) paths[pointLayer(bar)].push(dot(x(bar.value), y));
    else if (bar.value > 0) paths[layerOf("bar", bar)].push(box(left, y - 7.5, x(bar.value) - left, 15));
    const ends = [x(bar.lower), x(bar.upper)];
    if (ends[1] > ends[0]) paths[whiskerLayer(bar)].push(box(ends[0], y - 1.5, ends[1] - ends[0], 3));
    if (bar.upper > axis.to * 1.0001) paths.beyond.push(`M${tidy(right)} ${y - 4}l6 4l-6 4z`);
    if (isBelow(bar, axis)) paths.beyond.push(`M${tidy(left)} ${y - 4}l-6 4l6 4z`);
  });
  for (const [first, last] of brackets)
    paths.bracket.push(`M${width - 6} ${first * ROW + 5}h4V${(last + 1) * ROW - 5}h-4`);
  if (typeof model.overall === "number") paths.overall.push(`M${tidy(x(model.overall))} 0V${bottom}`);
  paths.axis.push(`M${tidy(left)} 0V${bottom}`);
  if (model.flat) texts.push(["flat", (left + right) / 2, bottom / 2 + 4, "middle", model.flat]);
  drawing.height = bottom + 18;
}

/** Add the texts of ticks that do not overlap. at(value): position along the axis; room: minimum distance. */
function drawMarks(marks, texts, at, textOf, room) {
  let last = -Infinity;
  for (const [value, text] of marks)
    if (text && Math.abs(at(value) - last) >= Math.max(room, widthOf(text, SMALL) + 5)) {
      texts.push(textOf(text, tidy(at(value))));
      last = at(value);
    }
}

function drawColumns(model, drawing) {
  const { bars, axis, isLine, isPoints } = model;
  const { paths, texts, width, height } = drawing;
  const { place, marks } = axisOf(axis);
  const left = Math.max(16, ...marks.map(([, text]) => widthOf(text, SMALL))) + 6;
  const step = (width - left) / bars.length;
  const areNumbered = !isLine && bars.every(({ number }) => widthOf(number, SMALL) <= step - 3);
  const top = areNumbered ? 20 : 8;
  const bottom = height - 18 - (model.axisNote ? 14 : 0);
  const y = (value) => bottom - (bottom - top) * clamped(place(value));
  const at = (i) => left + i * step;
  const thick = Math.max(step * 0.86, 1);
  const isDense = step < DENSE;
  for (const [value, , isMinor] of marks)
    paths[isMinor ? "minor" : "rule"].push(`M${tidy(left)} ${tidy(y(value))}H${tidy(width)}`);
  drawMarks(marks, texts, y, (text, tick) => ["tick", left - 5, tick + 4, "end", text], 14);
  if (model.brush) {
    const { from, to } = model.brush;
    paths.brush.push(box(at(from), top - 4, (to - from) * step, bottom - top + 4));
  }
  bars.forEach((bar, i) => {
    const middle = at(i) + step / 2;
    drawing.hits.push({ x: at(i), y: 0, width: step, height: bottom });
    if (areNumbered)
      texts.push([`number${bar.isFaint ? " faint" : ""}`, middle, 12, "middle", bar.number, bar.code]);
    if (bar.isDifferent) paths.differs.push(`M${tidy(at(i))} ${bottom + 2}h${tidy(step)}`);
    if (bar.other !== null) {
      const start = i && bars[i - 1].other !== null ? "V" : `M${tidy(at(i))} `;
      paths.other.push(`${start}${tidy(y(bar.other))}H${tidy(at(i + 1))}`);
    }
    if (typeof bar.value !== "number" || model.flat) return;
    const [high, low] = [y(bar.upper), y(bar.lower)];
    const x = at(i) + (step - thick) / 2;
    const level = y(bar.value);
    if (isPoints && !isLine) paths[pointLayer(bar)].push(dot(middle, level, isDense ? 1.5 : 3.5));
    else if (!isLine && bar.value > 0) {
      paths[layerOf("bar", bar)].push(box(x, level, thick, bottom - level));
      if (isDense) paths.level.push(`M${tidy(x)} ${tidy(level)}h${tidy(thick)}`);
    }
    if (isLine && !bar.isMissing) {
      const isFirst = typeof bars[i - 1]?.value !== "number";
      paths.line.push(`${isFirst ? "M" : "L"}${tidy(middle)} ${tidy(level)}`);
    } else if (isLine) paths.point.push(dot(middle, level, 2.5));
    const wide = isLine ? step : isDense && !isPoints ? thick : Math.min(3, step * 0.3);
    if (low > high)
      paths[isLine || (isDense && !isPoints) ? "band" : whiskerLayer(bar)].push(
        box(middle - wide / 2, high, wide, low - high),
      );
    const arrow = Math.min(4, step / 2);
    if (bar.upper > axis.to * 1.0001)
      paths.beyond.push(`M${tidy(middle - arrow)} ${top}l${tidy(arrow)} -6l${tidy(arrow)} 6z`);
    if (isBelow(bar, axis))
      paths.beyond.push(`M${tidy(middle - arrow)} ${bottom}l${tidy(arrow)} 6l${tidy(arrow)} -6z`);
  });
  if (typeof model.overall === "number")
    paths.overall.push(`M${tidy(left)} ${tidy(y(model.overall))}H${tidy(width)}`);
  paths.axis.push(`M${tidy(left)} ${bottom}H${tidy(width)}`);
  if (model.flat) texts.push(["flat", (left + width) / 2, bottom - 8, "middle", model.flat]);
  drawNames(model, texts, paths, at, bottom, width);
  if (model.axisNote) texts.push(["tick", (left + width) / 2, height - 3, "middle", model.axisNote]);
}

/** Add the tick labels under the bars, by rank; labels that would overlap are dropped. */
function drawNames({ xTicks }, texts, paths, at, bottom, width) {
  const placed = [];
  const first = [...xTicks].sort((one, other) => (other.rank ?? 0) - (one.rank ?? 0));
  for (const { place, text, code } of first) {
    const half = widthOf(text, SMALL) / 2;
    const meets = (x) => placed.find(([from, to]) => x - half < to + 6 && x + half > from - 6);
    let x = Math.max(at(0) + half - 6, Math.min(width - half, at(place)));
    if (meets(x)) x = meets(x)[0] - 6 - half; // try the place to the left
    if (meets(x) || at(place) - x > MOST_SHIFT) continue;
    placed.push([x - half, x + half]);
    texts.push(["tick under", tidy(x), bottom + 14, "middle", text, code]);
    paths.axis.push(`M${tidy(at(place))} ${bottom}v3`);
  }
}

/** Show a drawing in a <g> element, reusing its nodes and changing only what differs. */
export function show(group, { paths, texts }) {
  if (!group.childElementCount)
    group.append(
      ...LAYERS.map((layer) => element("path", { class: layer, d: "" })),
      element("g", { class: "texts" }),
    );
  LAYERS.forEach((layer, i) => set(group.children[i], "d", paths[layer].join("")));
  const words = group.lastElementChild;
  while (words.childElementCount > texts.length) words.lastElementChild.remove();
  texts.forEach(([kind, x, y, anchor, text, code], i) => {
    const node = words.children[i] ?? words.appendChild(element("text"));
    set(node, "class", kind);
    set(node, "x", String(tidy(x)));
    set(node, "y", String(tidy(y)));
    set(node, "text-anchor", anchor);
    set(node, "data-of", code === undefined ? "" : String(code));
    say(node, text);
  });
}
