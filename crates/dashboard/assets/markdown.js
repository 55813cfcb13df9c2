// Markdown as elements: what a model says becomes paragraphs, lists, code and links, never markup.
//
// Every piece of text is put into the page as text. A link is made of an address that begins with http or
// https only; anything else stays as it was written. Pictures are shown as links: loading one would tell
// its server that it was read.
import { html, plain } from "./lib.js";

/** Lists and quotes inside each other; deeper ones are shown as text. */
const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Returns an address that may be a link, or nothing. */
export function safeAddress(text) {
  if (!/^https?:\/\/[^\s<>"']+$/i.test(text)) return null;
  try {
    const url = new URL(text);
    return ["http:", "https:"].includes(url.protocol) && !url.username && !url.password ? url.href : null;
  } catch {
    return null;
  }
}

function Link({ address, children }) {
  return html`<a href=${address} title=${address} target="_blank" rel="noopener noreferrer nofollow">${children}</a>`;
}

/**
 * One kind of inline markup each, in the order in which they are looked for at a place.
 * @type {[RegExp, (found: RegExpMatchArray, depth: number) => any][]}
 */
const INLINE = [
  [/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, (found) => html`<code>${found[2]}</code>`],
  [/^!?\[([^\][]{0,500})\]\(\s*([^\s()]{1,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500})?)(?:\s+"[^"]{0,500}")?\s*\)/, (found, depth) => {
    const address = safeAddress(found[2]);
    return address ? html`<${Link} address=${address}>${inline(found[1] || address, depth + 1)}</${Link}>` : found[0];
  }],
  [/^<(https?:\/\/[^\s<>]{1,2000})>/i, (found) => linked(found[1])],
  [/^https?:\/\/[^\s<>"'`]{0,2000}[^\s<>"'`.,;:!?)\]}*_]/i, (found) => linked(found[0])],
  [/^(\*\*|__)(?=\S)([^\n]{0,2000}?\S)\1/, (found, depth) => html`<strong>${inline(found[2], depth + 1)}</strong>`],
  [/^~~(?=\S)([^\n]{0,2000}?\S)~~/, (found, depth) => html`<s>${inline(found[1], depth + 1)}</s>`],
  [/^\*(?=[^\s*])([^*\n]{0,2000}?[^\s*])\*(?!\*)/, (found, depth) => html`<em>${inline(found[1], depth + 1)}</em>`],
];

function linked(text) {
  const address = safeAddress(text);
  return address ? html`<${Link} address=${address}>${text}</${Link}>` : text;
}

/** Returns pieces of a line: text and elements. */
function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return text;
  const pieces = [];
  let from = 0;
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    if (char === "\\" && /[\\`*_{}[\]()#+.!~>|-]/.test(text[at + 1] ?? "")) {
      pieces.push(text.slice(from, at));
      from = at + 1;
      at += 2;
      continue;
    }
    const found = "`![<*_~hH".includes(char) && inlineAt(text, at);
    if (!found) {
      at += 1;
      continue;
    }
    pieces.push(text.slice(from, at), found.make(depth));
    at += found.length;
    from = at;
  }
  pieces.push(text.slice(from));
  return pieces.filter((piece) => piece !== "");
}

function inlineAt(text, at) {
  // Within a word, an underscore or the `h` of an address is a letter.
  if ("_hH".includes(text[at]) && /\w/.test(text[at - 1] ?? "")) return null;
  const rest = text.slice(at, at + 4000);
  for (const [shape, make] of INLINE) {
    const found = rest.match(shape);
    if (found) return { length: found[0].length, make: (depth) => make(found, depth) };
  }
  return null;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

/** Returns whether a table begins here, which it also does right below a paragraph. */
function beginsTable([head, delimiters = ""]) {
  return head.includes("|") && DELIMITERS.test(delimiters) && delimiters.includes("-");
}

/** Takes lines off the front as long as they are of one block, and returns it. */
function block(lines, depth) {
  const line = lines[0];
  const fence = line.match(FENCE);
  if (fence) {
    const end = lines.findIndex((other, index) => index > 0 && other.trim().startsWith(fence[1]) && /^[`~]+$/.test(other.trim()));
    const taken = lines.splice(0, end < 0 ? lines.length : end + 1);
    const code = taken.slice(1, end < 0 ? undefined : -1).join("\n");
    return html`<pre class="code" tabindex="0"><code>${code}</code></pre>`;
  }
  const heading = line.match(HEADING);
  if (heading) {
    lines.shift();
    // The page has headings of its own above these.
    return html`<p class="heading"><strong>${inline(heading[2])}</strong></p>`;
  }
  if (RULE.test(line)) {
    lines.shift();
    return html`<hr />`;
  }
  if (QUOTE.test(line) && depth < MAX_DEPTH) {
    const inner = [];
    while (lines.length && QUOTE.test(lines[0])) inner.push(lines.shift().match(QUOTE)[1]);
    return html`<blockquote>${blocks(inner, depth + 1)}</blockquote>`;
  }
  if (ITEM.test(line) && depth < MAX_DEPTH) return list(lines, depth);
  if (beginsTable(lines)) {
    const head = cells(lines.shift());
    lines.shift();
    const rows = [];
    while (lines.length && lines[0].includes("|") && lines[0].trim()) rows.push(cells(lines.shift()));
    return html`<div class="scroll" tabindex="0"><table><thead><tr>${head.map((cell) => html`<th>${inline(cell)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${head.map((_, index) => html`<td>${inline(row[index] ?? "")}</td>`)}</tr>`)}</tbody></table></div>`;
  }
  const words = [lines.shift()];
  while (lines.length && lines[0].trim() && ![FENCE, HEADING, RULE, QUOTE, ITEM].some((shape) => shape.test(lines[0])) && !beginsTable(lines)) words.push(lines.shift());
  return html`<p>${inline(words.join("\n"))}</p>`;
}

function list(lines, depth) {
  const [, indent, mark] = lines[0].match(ITEM);
  const isOrdered = /\d/.test(mark);
  const items = [];
  while (lines.length) {
    const found = lines[0].match(ITEM);
    if (!found || found[1].length > indent.length + 3 || found[1].length < indent.length || /\d/.test(found[2]) !== isOrdered) break;
    lines.shift();
    const inner = [found[3]];
    const width = indent.length + 2;
    while (lines.length) {
      const isBlank = !lines[0].trim();
      const isDeeper = lines[0].startsWith(" ".repeat(width));
      if (isBlank ? !(lines[1] ?? "").startsWith(" ".repeat(width)) : !isDeeper) break;
      inner.push(lines.shift().slice(width));
    }
    while (lines.length > 1 && !lines[0].trim() && ITEM.test(lines[1])) lines.shift();
    items.push(inner);
  }
  const body = items.map((inner) => {
    const first = inner[0].match(/^\[([ xX])\] (.*)$/);
    const [head, ...rest] = first ? [`${first[1] === " " ? "☐" : "☑"} ${first[2]}`, ...inner.slice(1)] : inner;
    return html`<li>${inline(head)}${blocks(rest, depth + 1)}</li>`;
  });
  const start = Number.parseInt(mark, 10);
  return isOrdered ? html`<ol start=${start}>${body}</ol>` : html`<ul>${body}</ul>`;
}

function blocks(lines, depth) {
  const made = [];
  while (lines.length) {
    if (!lines[0].trim()) lines.shift();
    else made.push(block(lines, depth));
  }
  return made;
}

/** Shows what a model says. */
export function Markdown({ text }) {
  return html`<div class="markdown">${blocks(plain(text).split("\n"), 0)}</div>`;
}
