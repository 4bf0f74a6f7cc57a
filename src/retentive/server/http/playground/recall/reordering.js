/** The animation of a list whose items change places. */

/** The height of an item, roughly: one that starts this far above the window is still in sight. */
const MARGIN = 200;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Run `redraw` and animate the items of a list from their old positions; `data-id` identifies an item. Items that are
 * neither before nor after in sight are not animated.
 */
export function animateReorder(list, redraw) {
  const before = reducedMotion.matches ? new Map() : offsets(list);
  redraw();
  if (before.size === 0) return;
  const start = -list.getBoundingClientRect().top;
  const isInSight = (top) => top !== undefined && top > start - MARGIN && top < start + innerHeight;
  // All positions are read before an animation starts: a read between two of them would compute the layout again.
  const moves = items(list).map((element) => ({ element, old: before.get(element.dataset.id), top: element.offsetTop }))
    .filter(({ old, top }) => isInSight(old) || isInSight(top));
  for (const { element, old, top } of moves) {
    if (old === undefined) element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 280, easing: "ease-out" });
    else if (Math.abs(old - top) >= 1) {
      element.animate([{ transform: `translateY(${old - top}px)` }, { transform: "none" }],
        { duration: 380, easing: "cubic-bezier(.3, 0, .1, 1)" });
    }
  }
}

function offsets(list) {
  return new Map(items(list).map((each) => [each.dataset.id, each.offsetTop]));
}

function items(list) {
  return [...list.querySelectorAll(":scope > [data-id]")];
}
