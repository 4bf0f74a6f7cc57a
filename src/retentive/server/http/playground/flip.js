/** Lets elements glide from where they were to where they are, so that one sees what moved. */

const still = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Runs `change`, which draws a list anew, and animates what had another place before.
 * Elements are the same thing before and after if their `data-id` is.
 */
export function flip(list, change) {
  const before = still.matches ? new Map() : places(list);
  change();
  if (still.matches || before.size === 0) return;
  for (const element of list.querySelectorAll(":scope > [data-id]")) {
    const was = before.get(element.dataset.id);
    if (was === undefined) {
      element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 280, easing: "ease-out" });
      continue;
    }
    const by = was - element.offsetTop;
    if (Math.abs(by) < 1) continue;
    element.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }],
      { duration: 380, easing: "cubic-bezier(.3, 0, .1, 1)" });
  }
}

function places(list) {
  return new Map([...list.querySelectorAll(":scope > [data-id]")].map((each) => [each.dataset.id, each.offsetTop]));
}
