/** To come. */
import { el } from "./dom.js";
export function createMeasure() {
  return { element: el("section", {}), refresh() {}, turned() {}, stop() {} };
}
