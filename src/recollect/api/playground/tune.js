/** To come. */
import { el } from "./dom.js";
export function createTune() {
  return { element: el("div", {}), allow() {}, stop() {} };
}
