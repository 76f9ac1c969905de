// Moves cards by dragging their handle or by arrow keys.

const FIRST_MOVE = 6; // pixels of movement before a press counts as a drag
const EDGE = 70; // pixels from the top or bottom of the viewport in which a drag scrolls the page

/** Make a card movable by its handle. Keys call move("earlier", "later" or "front"); a drop calls drop. */
export function movable(handle, card, move, drop) {
  let start = null;
  let target = null;
  const mark = (next) => {
    target?.card.classList.remove("drop-before", "drop-after");
    target = next;
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
    const dropped = target;
    end();
    if (dropped) drop(dropped.card.dataset.attribute, dropped.isAfter);
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

/** The card at a point, other than the moved one, and whether the point is in its right half. */
function cardAt(x, y, moved) {
  const card = document
    .elementsFromPoint(x, y)
    .map((each) => each.closest("article[data-attribute]"))
    .find((each) => each && each !== moved);
  if (!card) return null;
  const { left, width } = card.getBoundingClientRect();
  return { card, isAfter: x > left + width / 2 };
}
