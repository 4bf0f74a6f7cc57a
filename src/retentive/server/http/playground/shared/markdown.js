/**
 * A subset of Markdown as elements: paragraphs, headings, lists, quotes, code, bold, italics and links.
 *
 * Every piece of text becomes a text node. A link has an address with http or https; images and HTML are not loaded,
 * and stay text.
 */

import { el } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$/;
const ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const MAX_DEPTH = 8;

/** Code, bold, italics, a link, an address. What has no end is text. */
const INLINE = new RegExp([
  "(`+)(?!`)(.+?)(?<!`)\\1(?!`)", // 1, 2
  "(\\*\\*|__)(?=\\S)(.+?)(?<=\\S)\\3", // 3, 4
  "(?<![\\w*])([*_])(?=[^\\s*_])([^*_]+?)(?<=\\S)\\5(?!\\w)", // 5, 6
  "!?\\[([^\\]]*)\\]\\((https?://[^\\s()]*(?:\\([^\\s()]*\\)[^\\s()]*)*)\\)", // 7, 8
  "(https?://[^\\s<>]*[^\\s<>.,;:!?'\"()\\]*_])", // 9
].join("|"), "gsu");

/**
 * Show Markdown in an element. Called again with a longer text, as while it arrives, it keeps the parts that are the same.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function showMarkdown(element, text) {
  const blocks = splitBlocks(text.split(/\r?\n/));
  const old = /** @type {{sources?: string[]}} */ (element).sources ?? [];
  const sources = blocks.map((block) => JSON.stringify(block));
  const kept = sources.findIndex((source, at) => source !== old[at]);
  const first = kept < 0 ? sources.length : kept;
  while (element.childNodes.length > first) element.lastChild.remove();
  element.append(...blocks.slice(first).map((block) => blockElement(block, 0)));
  Object.assign(element, { sources });
}

/** Split lines into blocks: {type, lines}, and a level, a number or a language where the type has one. */
function splitBlocks(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const end = blockEnd(lines, at);
    if (line.trim()) blocks.push(toBlock(line, lines.slice(at, end)));
    at = end;
  }
  return blocks;
}

function toBlock(line, lines) {
  const [, marks, title] = HEADING.exec(line) ?? [];
  if (marks) return { type: "heading", level: marks.length, lines: [title] };
  const [, fence] = FENCE.exec(line) ?? [];
  if (fence) return { type: "code", lines: lines.slice(1, lines.length > 1 && lines.at(-1).trim() === fence ? -1 : undefined) };
  if (RULE.test(line)) return { type: "rule", lines: [] };
  if (QUOTE.test(line)) return { type: "quote", lines: lines.map((one) => one.replace(QUOTE, "")) };
  const [item, , first] = ITEM.exec(line) ?? [];
  if (item) return { type: "list", start: first === undefined ? null : Number(first), lines };
  return { type: "paragraph", lines };
}

/** The index after the block that starts at a line. */
function blockEnd(lines, at) {
  const line = lines[at];
  const [, fence] = FENCE.exec(line) ?? [];
  if (fence) {
    const close = lines.findIndex((one, index) => index > at && one.trim() === fence);
    return close < 0 ? lines.length : close + 1;
  }
  if (!line.trim() || HEADING.test(line) || RULE.test(line)) return at + 1;
  const belongs = QUOTE.test(line) ? (one) => QUOTE.test(one) : ITEM.test(line) ? listLine(line, lines) : (one) => one.trim() && !startsBlock(one);
  let end = at + 1;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}

/** Whether a line belongs to the list that starts with a line: another item, what is indented, or a blank line between. */
function listLine(first, lines) {
  const [, indent, number] = ITEM.exec(first);
  return (line, at) => {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent.length) return (item[2] === undefined) === (number === undefined) && !RULE.test(line);
    if (line.trim()) return /^\s{2,}/.test(line) || !(startsBlock(line) || !lines[at - 1].trim());
    const next = lines.slice(at).find((one) => one.trim());
    return next !== undefined && (/^\s{2,}/.test(next) || (ITEM.test(next) && (ITEM.exec(next)[2] === undefined) === (number === undefined)));
  };
}

const startsBlock = (line) => [FENCE, HEADING, QUOTE, ITEM, RULE].some((pattern) => pattern.test(line));

function blockElement(block, depth) {
  const { type, lines } = block;
  if (depth > MAX_DEPTH) return el("p", {}, lines.join("\n"));
  if (type === "heading") return el(/** @type {"h3"} */ (`h${Math.min(6, block.level + 2)}`), { class: "md-heading" }, inline(lines[0]));
  if (type === "code") return el("pre", { class: "md-code", tabindex: "0" }, el("code", {}, lines.join("\n")));
  if (type === "rule") return el("hr", {});
  if (type === "quote") return el("blockquote", {}, splitBlocks(lines).map((one) => blockElement(one, depth + 1)));
  if (type === "list") return listElement(block, depth);
  return el("p", {}, inline(lines.join("\n")));
}

function listElement({ start, lines }, depth) {
  const indent = ITEM.exec(lines[0])[1].length;
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent) items.push({ text: [item[3]], below: [] });
    else if (items.at(-1).below.length || item || !line.trim() || FENCE.test(line.trim())) items.at(-1).below.push(line.replace(/^ {1,4}/, ""));
    else items.at(-1).text.push(line.trim());
  }
  const children = items.map(({ text, below }) => el("li", {}, inline(text.join("\n")), splitBlocks(below).map((one) => blockElement(one, depth + 1))));
  return start === null ? el("ul", {}, children) : el("ol", { start: start === 1 ? null : start }, children);
}

/** Text with its marks as nodes and strings. */
function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, , bold, , italic, label, href, address] = match;
    parts.push(text.slice(end, match.index));
    if (code !== undefined) parts.push(el("code", {}, code.replace(/^ (.+) $/s, "$1")));
    else if (bold !== undefined) parts.push(el("strong", {}, inline(bold, depth + 1)));
    else if (italic !== undefined) parts.push(el("em", {}, inline(italic, depth + 1)));
    else parts.push(link(href ?? address, label || href || address));
    end = match.index + whole.length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}

function link(href, label) {
  return URL.canParse(href) ? el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, label) : label;
}
