/** Mark the words of a text that match the terms of the query, by the rule that the relevance of a hit uses. */

import { el } from "../shared/dom.js";

/** A word matches the stem of a term with an ending of at most this many letters: `run` in `running`. */
const MAX_ENDING = 4;
const LETTER = /[\p{L}\p{N}]/u;
/** Scripts without spaces between words: their terms match anywhere. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Khmer}]/u;

/**
 * Return the text as strings and `<mark>` elements.
 * @param {string} text
 * @param {string[]} terms  folded; a word by its stem
 * @returns {(string | HTMLElement)[]}
 */
export function markWords(text, terms) {
  const { folded, positions } = fold(text);
  const spans = terms.flatMap((term) => [...spansOf(term, folded)]).sort((a, b) => a[0] - b[0]);
  const parts = [];
  let end = 0;
  for (const [from, to] of spans) {
    const start = Math.max(positions[from], end);
    const stop = positions[to];
    if (stop <= start) continue;
    parts.push(text.slice(end, start), el("mark", {}, text.slice(start, stop)));
    end = stop;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}

/** Yield the start and the end of each match of a term in a folded text. */
function* spansOf(term, folded) {
  const isWord = LETTER.test(term[0]) && !UNSPACED.test(term[0]);
  for (let at = folded.indexOf(term); at >= 0 && term; at = folded.indexOf(term, at + 1)) {
    let end = at + term.length;
    if (!isWord) yield [at, end];
    if (!isWord || (at > 0 && LETTER.test(folded[at - 1]))) continue;
    while (end < folded.length && end - at - term.length <= MAX_ENDING && LETTER.test(folded[end])) end += 1;
    if (end - at - term.length <= MAX_ENDING) yield [at, end];
  }
}

/** Fold case and diacritics; `positions` has, for each character of the folded text, its position in the text. */
function fold(text) {
  const positions = [];
  let folded = "";
  let at = 0;
  for (const character of text) {
    const part = character.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase().replace("ß", "ss").replace("’", "'");
    for (let index = 0; index < part.length; index += 1) positions.push(at);
    folded += part;
    at += character.length;
  }
  return { folded, positions: [...positions, text.length] };
}
