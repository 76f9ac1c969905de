// Boxes of records, and functions of sums over them. moments.js defines boxes.

const STEP = 1e-3; // of the delta method, in standard errors

export const ratioOf = ([x, y]) => (y > 1e-9 ? x / y : NaN);
export const clip = (x, least) => (Number.isFinite(x) ? Math.max(least, Math.min(x, 1)) : null);
export const without = (box, ...attributes) => new Map([...box].filter(([a]) => !attributes.includes(a)));

/** A point of a function; next to a function of the same attribute it is given by all its values. */
export function cellOf(point, f) {
  if (f === undefined) return point;
  const found = new Float64Array(f.length);
  found[point.code] = point.value;
  const isAll = f.every((value, code) => code === point.code || value === 0);
  found.condition = isAll ? f.condition : `${f.condition} at ${point.code}`;
  return found;
}

/** The records that lie in both boxes. */
export function times(box, other) {
  const found = new Map(box);
  for (const [a, f] of other) {
    const own = box.get(a);
    found.set(
      a,
      own === undefined
        ? f
        : own instanceof Float64Array
          ? multiplied(own, f)
          : {
              code: own.code,
              value: own.value * f[own.code],
              condition: own.value === 1 ? f.condition : own.condition,
            },
    );
  }
  return found;
}

/** The product of two functions; it keeps the condition of one if the other removes no records. */
function multiplied(f, g) {
  const found = f.map((value, i) => value * g[i]);
  const same = [f, g].find((own) => own.every((value, i) => value === found[i]));
  found.condition = same ? same.condition : `${f.condition} & ${g.condition}`;
  return found;
}

export const isPossible = (box) => [...box.values()].every((f) => f.some((value) => value > 0));

/** Squared error of a function of sums, from its derivatives. */
export function deltaVariance(value, sums, covariances) {
  const slopes = sums.map((own, i) => {
    const step = Math.max(
      STEP * Math.sqrt(Math.max(covariances[i][i], 0)),
      1e-9 * Math.max(Math.abs(own), 1),
    );
    const at = (sign) => value(sums.map((other, j) => (i === j ? other + sign * step : other)));
    const slope = (at(1) - at(-1)) / (2 * step);
    return Number.isFinite(slope) ? slope : 0;
  });
  return Math.max(
    slopes.reduce(
      (total, one, i) => total + slopes.reduce((row, other, j) => row + one * covariances[i][j] * other, 0),
      0,
    ),
    0,
  );
}
