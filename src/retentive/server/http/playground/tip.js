/** A small window that follows pointer and focus, with what a mark stands for. */

import { el, replace } from "./dom.js";

const MARGIN = 8;
const tip = el("div", { class: "tip", role: "tooltip", hidden: true });
let shownFor = null;

/** Shows what `build()` gives while the pointer is over an element or it has the keyboard's focus. */
export function tipOn(element, build) {
  const show = () => {
    if (!tip.isConnected) document.body.append(tip);
    replace(tip, build());
    tip.hidden = false;
    shownFor = element;
    place(element);
  };
  element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show());
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => element.matches(":focus-visible") && show());
  element.addEventListener("blur", hideTip);
  element.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  return element;
}

export function hideTip() {
  tip.hidden = true;
  shownFor = null;
}

function place(element) {
  const at = element.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = Math.min(Math.max(MARGIN, at.left), innerWidth - width - MARGIN);
  const below = at.bottom + MARGIN;
  const top = below + height > innerHeight ? at.top - height - MARGIN : below;
  tip.style.left = `${Math.max(MARGIN, left)}px`;
  tip.style.top = `${Math.max(MARGIN, top)}px`;
}

/** Coming to an element by keyboard may scroll the page to it: then the tip goes along. */
function follow() {
  if (shownFor?.isConnected && shownFor.matches(":focus-visible")) place(shownFor);
  else hideTip();
}

addEventListener("scroll", follow, { passive: true, capture: true });
