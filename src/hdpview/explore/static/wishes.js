// Wishes: counts that an analyst needs more accurately, in a file to send to the curator.

import { download } from "./exhibit.js";
import { element, grain } from "./parts.js";

const wishes = {}; // by view: the accuracy needed under each condition, in this session

/** A form for the accuracy that a count needs. It saves all wishes of this session. */
export function wishLine(view, where, { lower, upper }) {
  const half = (upper - lower) / 4; // half the current half width
  const value = Math.max(1, Math.round(half / grain(half)) * grain(half));
  const field = element("input", { type: "number", min: 1, value, "aria-label": "Within how many records" });
  const save = () => {
    if (!field.reportValidity() || !field.value) return;
    wishes[view] = { ...wishes[view], [where]: Number(field.value) };
    const all = Object.entries(wishes[view]).map(([each, within]) => ({ where: each, within }));
    const content = JSON.stringify({ format: "hdpview wishes 1", wishes: all }, null, 1);
    download(`${view.replace(/\.pview$/, "")}.wishes.json`, content, "application/json");
  };
  const button = element("button", { onclick: save }, "Save as a wish");
  return element("p", {}, "I need this within ± ", field, " records. ", button);
}
