// Moving cards: by dragging their handle, or by arrow keys on it.

const FIRST_MOVE = 6; // pixels that a press may move without being a drag
const EDGE = 70; // so near to the window's upper or lower end the page scrolls along

/**
 * Let a handle move a card. move(how): by a key: earlier, later or front; drop(name, isAfter): beside the
 * card of another attribute.
 */
export function movable(handle, card, move, drop) {
  let start = null;
  let target = null;
  const mark = (found) => {
    target?.card.classList.remove("drop-before", "drop-after");
    target = found;
    target?.card.classList.add(target.isAfter ? "drop-after" : "drop-before");
  };
  const end = () => {
    start = null;
    mark(null);
    card.classList.remove("dragged");
  };
  handle.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = [event.clientX, event.clientY];
    handle.setPointerCapture(event.pointerId);
  });
  handle.addEventListener("pointermove", (event) => {
    const { clientX: x, clientY: y } = event;
    if (!start || (!target && Math.hypot(x - start[0], y - start[1]) < FIRST_MOVE)) return;
    card.classList.add("dragged");
    mark(cardAt(x, y, card) ?? target);
    if (y < EDGE || y > window.innerHeight - EDGE) window.scrollBy(0, y < EDGE ? -20 : 20);
  });
  handle.addEventListener("pointerup", () => {
    const found = target;
    end();
    if (found) drop(found.card.dataset.attribute, found.isAfter);
  });
  handle.addEventListener("pointercancel", end);
  handle.addEventListener("keydown", (event) => {
    const how = {
      ArrowLeft: "earlier", ArrowUp: "earlier", ArrowRight: "later", ArrowDown: "later", Home: "front",
    }[event.key];
    if (!how) return;
    event.preventDefault();
    move(how);
  });
}

/** The card at a place other than the one that is moved, and which half of it. */
function cardAt(x, y, moved) {
  const found = document
    .elementsFromPoint(x, y)
    .map((each) => each.closest("article[data-attribute]"))
    .find((each) => each && each !== moved);
  if (!found) return null;
  const { left, width } = found.getBoundingClientRect();
  return { card: found, isAfter: x > left + width / 2 };
}
