// A patch as lines that can be shown and commented on. Nothing here draws.

/**
 * @typedef {{ kind: "same" | "add" | "del" | "note", old: number | null, new: number | null, text: string }} Line
 * @typedef {{ head: string, lines: Line[] }} Hunk
 * @typedef {{ hunks: Hunk[], isBinary: boolean, stamp: string, count: number, notes: string[] }} FilePatch
 * @typedef {{ left: Line | null, right: Line | null }} Row
 */

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
/** Lines above the hunks that say something which the list of files does not. */
const NOTES = /^(old mode|new mode|new file mode|deleted file mode|similarity index) /;

/**
 * Splits a patch of git by files, in its order. No line of a file begins like this: those in hunks have a sign
 * in front, and binary patches have no blanks.
 * @param {string} patch
 * @returns {FilePatch[]}
 */
export function parsePatch(patch) {
  const sections = patch.split(/^(?=diff --git )/m).filter((section) => section.startsWith("diff --git "));
  return sections.map(parseSection);
}

/** @param {string} section @returns {FilePatch} */
function parseSection(section) {
  const all = section.split("\n");
  if (all.at(-1) === "") all.pop();
  /** @type {FilePatch} */
  const file = { hunks: [], isBinary: false, stamp: "", count: 0, notes: [] };
  let at = 1;
  for (; at < all.length && !all[at].startsWith("@@ "); at += 1) {
    if (all[at].startsWith("index ")) file.stamp = all[at].slice(6);
    if (all[at].startsWith("GIT binary patch") || all[at].startsWith("Binary files ")) file.isBinary = true;
    if (NOTES.test(all[at])) file.notes.push(all[at]);
  }
  while (at < all.length) {
    const match = HUNK.exec(all[at]);
    at += 1;
    if (!match) continue;
    let [old, now] = [Number(match[1]), Number(match[3])];
    let [oldLeft, newLeft] = [Number(match[2] ?? 1), Number(match[4] ?? 1)];
    /** @type {Line[]} */
    const lines = [];
    while (at < all.length && (oldLeft > 0 || newLeft > 0 || all[at].startsWith("\\"))) {
      const [sign, text] = [all[at][0], all[at].slice(1)];
      at += 1;
      if (sign === "\\") lines.push({ kind: "note", old: null, new: null, text: text.trim() });
      else if (sign === "+") {
        lines.push({ kind: "add", old: null, new: now, text });
        now += 1;
        newLeft -= 1;
      } else if (sign === "-") {
        lines.push({ kind: "del", old, new: null, text });
        old += 1;
        oldLeft -= 1;
      } else {
        lines.push({ kind: "same", old, new: now, text });
        old += 1;
        now += 1;
        oldLeft -= 1;
        newLeft -= 1;
      }
    }
    file.hunks.push({ head: match[5], lines });
    file.count += lines.length;
  }
  return file;
}

/**
 * Puts what was removed beside what took its place.
 * @param {Line[]} lines @returns {Row[]}
 */
export function pairs(lines) {
  /** @type {Row[]} */
  const rows = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.kind !== "del" && line.kind !== "add") {
      rows.push(line.kind === "note" ? { left: null, right: line } : { left: line, right: line });
      at += 1;
      continue;
    }
    const gone = [];
    const come = [];
    for (; at < lines.length && lines[at].kind === "del"; at += 1) gone.push(lines[at]);
    // “No newline at end of file” may stand between the two.
    if (lines[at]?.kind === "note" && lines[at + 1]?.kind === "add") at += 1;
    for (; at < lines.length && lines[at].kind === "add"; at += 1) come.push(lines[at]);
    for (let row = 0; row < Math.max(gone.length, come.length); row += 1) {
      rows.push({ left: gone[row] ?? null, right: come[row] ?? null });
    }
  }
  return rows;
}

/** The longest line whose changed part is looked for. */
const MAX_COMPARED = 2000;

/**
 * Finds the part of two lines that differs: `[beginning, middle, end]` of the first of them. Nothing where they
 * have hardly anything in common.
 * @param {string} own @param {string} other @returns {[string, string, string] | null}
 */
export function changedPart(own, other) {
  if (own.length > MAX_COMPARED || other.length > MAX_COMPARED) return null;
  const shorter = Math.min(own.length, other.length);
  let from = 0;
  while (from < shorter && own[from] === other[from]) from += 1;
  let behind = 0;
  while (behind < shorter - from && own[own.length - 1 - behind] === other[other.length - 1 - behind]) behind += 1;
  // A pair of code units is one character.
  if (from > 0 && /[\ud800-\udbff]/.test(own[from - 1])) from -= 1;
  if (behind > 0 && /[\udc00-\udfff]/.test(own[own.length - behind])) behind -= 1;
  if (from + behind < own.trim().length * 0.3) return null;
  return [own.slice(0, from), own.slice(from, own.length - behind), own.slice(own.length - behind)];
}

/**
 * Returns for each line the one that it is compared with by eye: where as many lines were removed as came.
 * @param {Line[]} lines @returns {Map<Line, Line>}
 */
export function partners(lines) {
  const found = new Map();
  let at = 0;
  while (at < lines.length) {
    if (lines[at].kind !== "del") {
      at += 1;
      continue;
    }
    const start = at;
    while (lines[at]?.kind === "del") at += 1;
    const middle = at;
    while (lines[at]?.kind === "add") at += 1;
    if (at - middle !== middle - start) continue;
    for (let row = 0; row < middle - start; row += 1) {
      found.set(lines[start + row], lines[middle + row]);
      found.set(lines[middle + row], lines[start + row]);
    }
  }
  return found;
}

/**
 * Files as a tree of directories; directories with nothing but one directory are one.
 * @template {{ path: string }} T
 * @param {T[]} files
 * @returns {{ name: string, file: T | null, index: number, inside: any[] }[]}
 */
export function tree(files) {
  const root = { name: "", file: null, index: -1, inside: /** @type {any[]} */ ([]) };
  files.forEach((file, index) => {
    let dir = root;
    const parts = file.path.split("/");
    for (const part of parts.slice(0, -1)) {
      let next = dir.inside.find((one) => one.file === null && one.name === part);
      if (!next) {
        next = { name: part, file: null, index: -1, inside: [] };
        dir.inside.push(next);
      }
      dir = next;
    }
    dir.inside.push({ name: parts[parts.length - 1], file, index, inside: [] });
  });
  const folded = (node) => {
    let one = node;
    while (one.file === null && one.inside.length === 1 && one.inside[0].file === null) {
      one = { ...one.inside[0], name: `${one.name}/${one.inside[0].name}` };
    }
    return { ...one, inside: one.inside.map(folded) };
  };
  return root.inside.map(folded);
}

/** Returns the name of a line in a file, by which comments are kept. */
export function lineKey(line) {
  return line.kind === "del" ? `old:${line.old}` : `new:${line.new}`;
}
