/** Dialogs, tooltips and toasts. */

import { el, replace, unique } from "./dom.js";

/**
 * Open a modal dialog with the content that `build(close)` returns.
 *
 * `close(value)` closes it, and the promise resolves to that value. Escape, the close button, a click outside and
 * navigation close it with undefined. Focus then returns to where it was.
 */
export function openDialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      dialog.close();
    };
    const id = unique("dialog");
    const dialog = el("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": id },
      el("div", { class: "dialog-inside" },
        el("header", { class: "dialog-top" }, el("h2", { id }, title),
          el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: () => close() }, "×")),
        build(close)));
    dialog.addEventListener("click", (event) => event.target === dialog && close());
    const onNavigation = () => close();
    addEventListener("hashchange", onNavigation);
    dialog.addEventListener("close", () => {
      removeEventListener("hashchange", onNavigation);
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const TOOLTIP_MARGIN = 8;
const tooltip = el("div", { class: "tooltip", role: "tooltip", hidden: true });
let tooltipTarget = null;

/**
 * Show the content that `build()` returns while the pointer is over an element or it has keyboard focus, until it is
 * pressed. Nothing is shown if it returns null.
 */
export function addTooltip(element, build) {
  const show = () => {
    const content = build();
    if (!content) return;
    if (!tooltip.isConnected) document.body.append(tooltip);
    replace(tooltip, content);
    tooltip.hidden = false;
    tooltipTarget = element;
    positionTooltip(element);
  };
  element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show());
  element.addEventListener("pointerleave", hideTooltip);
  element.addEventListener("focus", () => element.matches(":focus-visible") && show());
  element.addEventListener("blur", hideTooltip);
  element.addEventListener("click", hideTooltip);
  element.addEventListener("keydown", (event) => event.key === "Escape" && hideTooltip());
  return element;
}

function hideTooltip() {
  tooltip.hidden = true;
  tooltipTarget = null;
}

function positionTooltip(element) {
  const target = element.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const left = Math.min(Math.max(TOOLTIP_MARGIN, target.left), innerWidth - width - TOOLTIP_MARGIN);
  const below = target.bottom + TOOLTIP_MARGIN;
  const top = below + height > innerHeight ? target.top - height - TOOLTIP_MARGIN : below;
  tooltip.style.left = `${Math.max(TOOLTIP_MARGIN, left)}px`;
  tooltip.style.top = `${Math.max(TOOLTIP_MARGIN, top)}px`;
}

// Moving focus by keyboard can scroll the page; the tooltip then stays with its element.
function onScroll() {
  if (tooltipTarget?.isConnected && tooltipTarget.matches(":focus-visible")) positionTooltip(tooltipTarget);
  else hideTooltip();
}

addEventListener("scroll", onScroll, { passive: true, capture: true });

/**
 * Show a short message, with a button if there is an `action`. It stays while it is hovered or focused.
 * @param {string} text
 * @param {{action?: () => void, label?: string, kind?: string, seconds?: number}} [options]
 */
export function toast(text, { action, label = "Undo", kind = "", seconds = action ? 12 : 6 } = {}) {
  let timer = 0;
  const close = () => {
    clearTimeout(timer);
    box.remove();
  };
  const pause = () => clearTimeout(timer);
  const resume = () => {
    clearTimeout(timer);
    timer = setTimeout(close, seconds * 1000);
  };
  const act = () => {
    close();
    action();
  };
  const box = el("div",
    { class: `toast ${kind}`, role: kind === "error" ? "alert" : "status", onmouseenter: pause, onfocusin: pause,
      onmouseleave: resume, onfocusout: resume },
    el("p", {}, text),
    action && el("button", { type: "button", class: "button quiet", onclick: act }, label),
    el("button", { type: "button", class: "button icon", "aria-label": "Dismiss", onclick: close }, "×"));
  document.getElementById("toasts").append(box);
  resume();
}
