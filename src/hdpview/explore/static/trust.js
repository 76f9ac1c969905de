// The dialog “What is protected?”: the guarantee, the noise, how to read the marks, and technical details.

import { counted, element, huge, inFull } from "./parts.js";
import { facts } from "./transport.js";

/** The budget of a view: "ε = 1, δ = 1e-9". */
export const spent = ({ epsilon, delta }) => `ε = ${epsilon}${delta ? `, δ = ${delta}` : ""}`;

/** Why a view is not private, as sentences. */
export const reasons = ({ not_private_because: why }) =>
  why.map((reason) => `${reason[0].toUpperCase()}${reason.slice(1)}.`).join(" ");

const list = (items) => element("ul", {}, ...items.map((item) => element("li", {}, item)));
const paragraph = (...content) => element("p", {}, ...content);

/** The content of the dialog. close: action of its button. */
export function trust(schema, close) {
  const warning = schema.private
    ? []
    : [
        element(
          "p", { class: "error" }, `NOT PRIVATE. ${reasons(schema)} The guarantee below does not hold.`,
        ),
      ];
  return [
    element("h2", { id: "trust-title", tabindex: -1 }, "What is protected, and what this shows"), ...warning,
    ...guarantee(schema), ...noise(schema), ...marks(), technicalities(schema), ...thisPage(schema),
    element("p", { class: "last" }, element("button", { class: "primary", onclick: close }, "Close")),
  ];
}

function guarantee(s) {
  const unit = s.privacy_unit === "row" ? "record" : s.privacy_unit;
  return [
    element("h3", {}, "Who is protected"),
    paragraph(
      `Every ${unit}: what you see here would look nearly the same without it (${s.neighbours}). ${s.risk}`,
    ),
  ];
}

function noise(s) {
  const measured = s.quality.measured ? "measured on the table itself" : "taken from other tables";
  return [
    element("h3", {}, "Why numbers are blurred"),
    paragraph(
      "Random noise was added once, before anything was shown, so asking more does not reveal more. " +
        "The relationship between attributes that were not counted together is modelled.",
    ),
    list(
      Object.entries(s.quality.within).map(
        ([kind, error]) => `95% of answers to ${kind} are within ±${inFull(error)} records.`,
      ),
    ),
    paragraph(`The size of the model's error was ${measured}.`),
  ];
}

function marks() {
  return [
    element("h3", {}, "How to read the marks"),
    list([
      "“likely 3,800 to 4,600”, thin lines and pale bands: such a range typically contains the true number " +
        "about 95 times in 100.",
      "The guaranteed range under “How sure is this?” contains it at least 95 times in 100, whatever the " +
        "data. It is wide for combinations that were not counted.",
      "Faded bars and italics: cannot be distinguished from 0.",
      "“modelled”: these attributes were not counted together, so their relationship may look weaker " +
        "than it is, or even reversed.",
      "An arrow at the end of a mark: the range continues beyond the picture.",
      "An outline or a short line at a bar: the value to compare with, such as that of all records.",
      "◆, or a thick line under a bar: the two groups clearly differ in the share of this value.",
    ]),
  ];
}

function technicalities(s) {
  const terms = element("dl");
  const add = (term, ...texts) =>
    terms.append(element("dt", {}, term), ...texts.map((text) => element("dd", {}, ...[text].flat())));
  const together = s.quality.known
    .filter(({ attributes }) => attributes.length === 2)
    .map(({ attributes }) => attributes.join(" × "));
  add("Budget", spent(s));
  add(
    "Spending",
    ...Object.entries(s.spending).map(
      ([purpose, epsilon]) => `${purpose}: ${Number(epsilon.toPrecision(4))}`,
    ),
  );
  add(
    "Method",
    `${s.method}; ${counted(s.n_components, s.made_of)} over ${huge(s.n_cells)} cells; ` +
      `hdpview ${s.library_version}`,
  );
  add(
    "Assumed public",
    ...s.attributes.map((a) => [
      element("strong", {}, a.name),
      ` (${a.kind}): ${a.labels[0]} … ${a.labels.at(-1)}; ${a.strays}`,
    ]),
  );
  if (s.made_of === "component")
    add(
      "Counted together",
      `${together.length} of ${s.quality.n_pairs} pairs of attributes` +
        `${together.length ? `: ${together.join(", ")}.` : "."} All other relationships are modelled.`,
    );
  return element("details", {}, element("summary", {}, "Technical details"), terms);
}

function thisPage(s) {
  const own = facts();
  if (!own) return [];
  const card = own.card.flatMap(([title, lines]) => [
    paragraph(element("strong", {}, title)),
    ...lines.map((line) => paragraph([line].flat().join(": "))),
  ]);
  return [
    element("h3", {}, "This page"),
    paragraph(
      `It contains the released view and computes all answers in your browser: nothing is sent anywhere. ` +
        `Made ${s.created.slice(0, 10)} with hdpview ${s.library_version}. ` +
        `Checksum of the view: ${own.checksum}.`,
    ),
    element("h3", {}, own.title),
    ...card,
  ];
}
