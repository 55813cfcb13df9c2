// Review of what a task changed: files, lines, comments on them, and what becomes of the work.
import {
  Action, address, api, Badge, Card, Empty, go, html, identity, link, Loaded, plain, signal, useEffect, useLive, useRef,
  useState, When,
} from "../lib.js";
import { changedPart, lineKey, pairs, parsePatch, partners, tree } from "../diff.js";
import { computed } from "../vendor/signals.mjs";
import { statusTone } from "./board.js";

/** @typedef {{ path: string, line: number | null, side: "new" | "old", quote: string | null, text: string }} LineComment */

/** A file with more lines is shown when somebody asks for it. */
const LONG = 1500;
/** Lines that are shown unasked of all files together. */
const SHOWN = 12_000;
const LETTERS = { added: "A", modified: "M", deleted: "D", renamed: "R", copied: "C", type_changed: "T" };
const TONES = { added: "good", deleted: "bad", renamed: "warn" };

/** What is kept in this browser, and survives a closed tab: drafts of a review. */
function kept(name, initial) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null") ?? initial;
  } catch {
    return initial;
  }
}

function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing loses a draft with its tab.
  }
}

function draftName(board, task) {
  return `vestal-review:${board}/${task}`;
}

// The draft that is being written. Its parts are apart, so that a letter of one does not draw all lines again.
/** Where it is kept. */
const draft = signal("");
/** About the work as a whole. */
const summary = signal("");
/** @type {{ value: LineComment[] }} About lines. */
const comments = signal([]);
/** @type {{ value: Record<string, string> }} Files that were seen, and in which version. */
const seen = signal({});

function keepDraft() {
  const isEmpty = !summary.value.trim() && comments.value.length === 0 && Object.keys(seen.value).length === 0;
  keep(draft.value, isEmpty ? null : { summary: summary.value, comments: comments.value, seen: seen.value });
}

function load(name) {
  const old = kept(name, {});
  draft.value = name;
  summary.value = old.summary ?? "";
  comments.value = old.comments ?? [];
  seen.value = old.seen ?? {};
}

function clear() {
  summary.value = "";
  comments.value = [];
  keepDraft();
}

function commentKey(comment) {
  return comment.line === null ? "" : `${comment.side}:${comment.line}`;
}

/** Comments on one line, and the place to write another. */
function Remarks({ path, place, quote, isOpen, open, close }) {
  const here = comments.value.map((comment, index) => ({ comment, index })).filter(({ comment }) => comment.path === path && commentKey(comment) === place);
  const [text, setText] = useState("");
  const field = useRef(null);
  useEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);
  if (here.length === 0 && !isOpen) return null;
  const add = (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    const [side, line] = place === "" ? ["new", null] : [place.split(":")[0], Number(place.split(":")[1])];
    const comment = { path, line, side: /** @type {"new" | "old"} */ (side), quote, text: text.trim() };
    comments.value = [...comments.value, comment];
    keepDraft();
    setText("");
    close();
  };
  const remove = (index) => {
    comments.value = comments.value.filter((_, at) => at !== index);
    keepDraft();
  };
  const edit = (index, comment) => {
    setText(comment.text);
    remove(index);
    open(place);
  };
  return html`<div class="remarks">
    ${here.map(({ comment, index }) => html`<div class="remark" key=${index}>${comment.side === "old" && html`<span class="quiet">line ${comment.line} as it was</span>`}<div class="prose">${plain(comment.text)}</div>
      <div class="buttons"><button type="button" onClick=${() => edit(index, comment)}>Edit</button><button type="button" onClick=${() => remove(index)}>Remove</button></div></div>`)}
    ${isOpen && html`<form onSubmit=${add}>
      <textarea ref=${field} rows="3" value=${text} aria-label=${place ? `Comment on ${path}, line ${place.split(":")[1]}` : `Comment on ${path}`} placeholder="what is to be changed here"
        onInput=${(event) => setText(event.target.value)}
        onKeyDown=${(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) add(event);
          if (event.key === "Escape") close();
        }}></textarea>
      <div class="buttons"><button type="submit" class="good" disabled=${!text.trim()}>Add to the review</button><button type="button" onClick=${() => close()}>Cancel</button></div>
    </form>`}
  </div>`;
}

/** The words of a line, with what differs from its partner marked. */
function Words({ line, partner }) {
  const parts = partner ? changedPart(line.text, partner.text) : null;
  if (!parts || !parts[1]) return plain(line.text) || "\u200b";
  return html`${plain(parts[0])}<mark>${plain(parts[1])}</mark>${plain(parts[2])}`;
}

/** Moves between the numbers of lines by arrow keys, so that they are one stop of the tab key. */
function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!step || !event.target.matches("button.number")) return;
  const all = [...event.currentTarget.querySelectorAll("button.number")];
  const next = all[all.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function Numbered({ line, number, path, isFirst, open, mayComment }) {
  const says = number === null ? "" : String(number);
  if (!mayComment || line === null || line.kind === "note" || number === null) return html`<span class="number">${says}</span>`;
  return html`<button type="button" class="number" tabindex=${isFirst ? 0 : -1} aria-label=${`Comment on line ${number}${line.kind === "del" ? " as it was" : ""} of ${path}`}
    onClick=${() => open(lineKey(line))}>${says}</button>`;
}

const SIGNS = { same: " ", add: "+", del: "-", note: "\\" };

function Unified({ hunk, path, marked, opened, open, close, isFirst, mayComment }) {
  const known = partners(hunk.lines);
  return hunk.lines.map((line, index) => {
    const place = line.kind === "note" ? null : lineKey(line);
    const main = line.kind === "del" ? line.old : line.new;
    return html`<div key=${index} class=${`dl ${line.kind}`}>
        ${line.kind !== "del" && html`<span class="number other" aria-hidden="true">${line.old ?? ""}</span>`}
        <${Numbered} line=${line} number=${main} path=${path} isFirst=${isFirst && index === 0} open=${open} mayComment=${mayComment} />
        ${line.kind === "del" && html`<span class="number other"></span>`}
        <span class="sign" aria-hidden="true">${SIGNS[line.kind]}</span>
        <span class="words"><${Words} line=${line} partner=${known.get(line)} /></span></div>
      ${place && (marked.has(place) || opened === place) && html`<${Remarks} path=${path} place=${place} quote=${line.text} isOpen=${opened === place} open=${open} close=${close} key=${`r${index}`} />`}`;
  });
}

function Half({ line, partner, side, path, isFirst, open, mayComment }) {
  if (!line) return html`<div class="half none"></div>`;
  const kind = line.kind === "same" ? "same" : side === "left" ? "del" : line.kind;
  const number = side === "left" ? line.old : line.new;
  // A line that is the same on both sides is commented on the right.
  const may = mayComment && !(side === "left" && line.kind === "same");
  return html`<div class=${`half dl ${kind}`}><${Numbered} line=${line} number=${number} path=${path} isFirst=${isFirst} open=${open} mayComment=${may} />
    <span class="words"><${Words} line=${line} partner=${partner} /></span></div>`;
}

function Split({ hunk, path, marked, opened, open, close, isFirst, mayComment }) {
  const known = partners(hunk.lines);
  return pairs(hunk.lines).map((row, index) => {
    const isMarked = (line) => line.kind !== "note" && (marked.has(lineKey(line)) || opened === lineKey(line));
    const places = [row.left, row.right].filter((line, at) => line && isMarked(line) && !(at === 0 && line.kind === "same"));
    return html`<div class="row" key=${index}>
        <${Half} line=${row.left} partner=${row.left && known.get(row.left)} side="left" path=${path} open=${open} mayComment=${mayComment} />
        <${Half} line=${row.right} partner=${row.right && known.get(row.right)} side="right" path=${path} isFirst=${isFirst && index === 0} open=${open} mayComment=${mayComment} /></div>
      ${places.map((line) => line && html`<${Remarks} key=${`r${index}${line.kind}`} path=${path} place=${lineKey(line)} quote=${line.text} isOpen=${opened === lineKey(line)} open=${open} close=${close} />`)}`;
  });
}

/** How many comments a file has, drawn by itself. */
function Count({ path }) {
  const count = comments.value.filter((comment) => comment.path === path).length;
  return count > 0 && html`<${Badge} word=${`${count} ${count === 1 ? "comment" : "comments"}`} tone="warn" />`;
}

function FileDiff({ file, patch, index, view, shown, mayComment }) {
  const isSeen = patch && seen.value[file.path] === patch.stamp;
  // Only a file whose comments have changed is drawn again, and only lines that have some carry the place for them.
  const own = useRef(null);
  own.current ??= computed(() => comments.value.filter((comment) => comment.path === file.path && comment.line !== null).map(commentKey).join(" "));
  const marked = new Set(own.current.value.split(" "));
  const [isOpen, setOpen] = useState(/** @type {boolean | null} */ (null));
  const [opened, setOpened] = useState(/** @type {{ place: string | null }} */ ({ place: null }));
  const showsNow = isOpen ?? (!isSeen && shown);
  const open = (place) => setOpened({ place });
  const close = () => setOpened({ place: null });
  const see = (event) => {
    const { [file.path]: _, ...others } = seen.value;
    seen.value = event.target.checked ? { ...others, [file.path]: patch?.stamp ?? "" } : others;
    keepDraft();
    setOpen(!event.target.checked);
  };
  const Shown = view === "split" ? Split : Unified;
  return html`<section class="file" id=${`file-${index}`} aria-label=${file.path}>
    <header>
      <button type="button" class="fold" aria-expanded=${showsNow ? "true" : "false"} aria-label=${`${showsNow ? "Fold" : "Show"} ${file.path}`} onClick=${() => setOpen(!showsNow)}>${showsNow ? "▾" : "▸"}</button>
      <${Badge} word=${LETTERS[file.change] ?? "?"} tone=${TONES[file.change]} />
      <h2>${file.from && html`<span class="quiet">${plain(file.from)} → </span>`}${plain(file.path)}</h2>
      <span class="counts">${file.added === null ? html`<span class="quiet">binary</span>` : html`<span class="plus">+${file.added}</span> <span class="minus">−${file.removed}</span>`}</span>
      <${Count} path=${file.path} />
      <span class="space"></span>
      ${mayComment && html`<button type="button" onClick=${() => (setOpen(true), open(""))}>Comment on the file</button>`}
      ${patch && html`<label class="check"><input type="checkbox" checked=${Boolean(isSeen)} onChange=${see} /> seen</label>`}
    </header>
    <${Remarks} path=${file.path} place="" quote=${null} isOpen=${opened.place === ""} open=${open} close=${close} />
    ${showsNow &&
    (!patch || patch.isBinary || patch.hunks.length === 0
      ? html`<p class="empty">${!patch ? "Its lines are not here." : patch.isBinary ? "A binary file: nothing to be read." : patch.notes.join(" · ") || "No line differs."}</p>`
      : html`<div class=${`lines ${view}`} onKeyDown=${walk}>${patch.hunks.map(
          (hunk, at) => html`<div class="hunk" key=${at}><div class="hunk-head quiet">@@ ${plain(hunk.head)}</div>
            <${Shown} hunk=${hunk} path=${file.path} marked=${marked} opened=${opened.place} open=${open} close=${close} isFirst=${at === 0} mayComment=${mayComment} /></div>`,
        )}</div>`)}
  </section>`;
}

function Tree({ nodes }) {
  return html`<ul class="tree">${nodes.map((node) =>
    node.file
      ? html`<li key=${node.index}><a href=${`#file-${node.index}`}><span class=${`letter ${node.file.change}`}>${LETTERS[node.file.change] ?? "?"}</span> ${plain(node.name)}</a>
          ${comments.value.some((comment) => comment.path === node.file.path) && html`<span class="quiet" title="has comments"> ●</span>`}
          ${seen.value[node.file.path] !== undefined && html`<span class="quiet" title="seen"> ✓</span>`}</li>`
      : html`<li key=${node.name}><span class="quiet">${plain(node.name)}/</span><${Tree} nodes=${node.inside} /></li>`,
  )}</ul>`;
}

/** Says what a merge would do, and does it. */
function Merge({ path, task, attempt, done }) {
  const [wanted, setWanted] = useState({ into: "", method: "squash", message: "", approve: task.status === "review" });
  const [asked, setAsked] = useState("");
  const query = new URLSearchParams({ into: asked, method: wanted.method, attempt });
  const live = useLive(`${path}/merge?${query}`, []);
  const dialog = useRef(null);
  useEffect(() => dialog.current?.showModal(), []);
  const set = (name) => (event) => setWanted({ ...wanted, [name]: event.target.value });
  const merge = async () => {
    const body = { into: asked || null, method: wanted.method, message: wanted.message, approve: wanted.approve, attempt: attempt ? Number(attempt) : null };
    const merged = await api(`${path}/merge`, { body });
    done(`merged into ${merged.into} as ${merged.commit.slice(0, 12)}${merged.approved ? "; the task is done" : ""}`);
    return "";
  };
  const plan = live.data;
  return html`<dialog class="wide" ref=${dialog} aria-label="Merge" onClose=${() => done("")}>
    <h2>Merge</h2>
    <div class="form">
      <label>Into the branch <input value=${wanted.into} placeholder=${plan?.into ?? "the one that is checked out"} onInput=${set("into")} onChange=${(event) => setAsked(event.target.value.trim())} /></label>
      <label>How <select value=${attempt ? "squash" : wanted.method} disabled=${Boolean(attempt)} onChange=${set("method")}>
        <option value="squash">squash: one commit of everything</option><option value="merge">merge commit: the task's commits are kept</option>
        <option value="fast-forward">fast-forward: nothing but its commits</option></select></label>
      <label>Message <textarea rows="2" value=${wanted.message} placeholder=${task.title} disabled=${wanted.method === "fast-forward"} onInput=${set("message")}></textarea></label>
      ${task.status === "review" && html`<label class="check"><input type="checkbox" checked=${wanted.approve} onChange=${(event) => setWanted({ ...wanted, approve: event.target.checked })} /> and approve: the task is done</label>`}
    </div>
    <div class="verdict" role="status">${live.error
      ? html`<p class="bad-text">${plain(live.error.message)}</p>`
      : !plan
        ? html`<p class="quiet">Looking whether that is possible…</p>`
        : plan.obstacles.length
          ? html`<p><strong>This cannot be merged.</strong> Nothing was changed.</p><ul>${plan.obstacles.map((one) => html`<li key=${one.kind}>${plain(one.detail)}</li>`)}</ul>
              <p>It can be taken as a patch: <a href=${`${path}/patch`} download>download it</a>.</p>`
          : html`<p>${plan.files.length} ${plan.files.length === 1 ? "file changes" : "files change"} on <code>${plain(plan.into)}</code>${plan.checked_out ? html`, in <code>${plain(plan.checked_out)}</code>, too` : ""}.${plan.uncommitted ? " What the task has not committed is included." : ""}</p>`}</div>
    <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
      <${Action} label="Merge" tone="good" disabled=${!plan || live.error !== null || plan.obstacles.length > 0} run=${merge} /></div>
  </dialog>`;
}

/** What becomes of the work: the words about the whole, and the buttons. */
function Verdict({ path, task, attempt, reload, mayMerge = true }) {
  const [merges, setMerges] = useState(false);
  const [said, setSaid] = useState("");
  const [words, remarks] = [summary.value, comments.value];
  const isReview = task.status === "review" && task.current_run_id === null;
  const isEmpty = !words.trim() && remarks.length === 0;
  const count = remarks.length ? ` (${remarks.length})` : "";
  const send = (verb, done) => async () => {
    await api(`${path}/${verb}`, { body: { summary: words, comments: remarks } });
    clear();
    // Not beside the button, which goes with the state that the task was in.
    setSaid(done);
    reload();
    return "";
  };
  const approve = async () => {
    await api(`${path}/approve`, { body: { text: words } });
    seen.value = {};
    clear();
    setSaid("approved; the task is done");
    reload();
    return "";
  };
  const discard = async () => {
    clear();
    return "";
  };
  if (identity.value?.right !== "operator") return null;
  return html`<section class="verdict-bar" aria-label="Review">
    <label class="hidden" for="summary">About the work as a whole</label>
    <textarea id="summary" rows="2" value=${words} placeholder=${isReview ? "about the work as a whole" : "a comment, which the next attempt reads"} onInput=${(event) => ((summary.value = event.target.value), keepDraft())}></textarea>
    <div class="buttons">
      ${isReview && html`<${Action} label=${`Request changes${count}`} tone="warn" disabled=${isEmpty} run=${send("review", "sent back; the next attempt is told")} />
        <${Action} label="Approve" tone="good" disabled=${remarks.length > 0} run=${approve} ask=${remarks.length ? "" : mayMerge ? "The task is done. Its changes stay on its branch." : "The task is done."} />`}
      ${!isReview && html`<${Action} label=${`Comment${count}`} disabled=${isEmpty} run=${send("review/comment", "kept as a comment on the task")} />`}
      ${mayMerge && html`<button type="button" onClick=${() => (setSaid(""), setMerges(true))}>Merge…</button>`}
      ${!isEmpty && html`<${Action} label="Discard the draft" run=${discard} ask="All comments that were not sent are removed." />`}
      <span role="status" class="quiet">${said || (isReview && remarks.length > 0 ? "Comments are sent with “Request changes”." : "")}</span>
    </div>
    ${merges && html`<${Merge} path=${path} task=${task} attempt=${attempt} done=${(words) => {
      setMerges(false);
      if (words) {
        setSaid(words);
        reload();
      }
    }} />`}
  </section>`;
}

function Files({ view, diff, mayComment }) {
  // Thousands of lines are drawn again only if something of them is another.
  const drawn = useRef({ diff: null, view: "", mayComment: false, files: null });
  const known = drawn.current;
  if (known.diff === diff && known.view === view && known.mayComment === mayComment) return known.files;
  const patches = diff.patch === null ? [] : parsePatch(diff.patch);
  // In the order of the patch; where that is not so, nothing is shown beside the wrong name.
  const isWhole = patches.length === diff.files.length;
  let room = SHOWN;
  const files = html`<div class="files">${diff.files.map((file, index) => {
    const patch = isWhole ? patches[index] : null;
    const shown = patch !== null && patch.count <= LONG && room > 0;
    if (shown) room -= patch?.count ?? 0;
    return html`<${FileDiff} key=${file.path} file=${file} patch=${patch} index=${index} view=${view} shown=${shown} mayComment=${mayComment} />`;
  })}</div>`;
  drawn.current = { diff, view, mayComment, files };
  return files;
}

export function Review({ board, task }) {
  const query = address.value.searchParams;
  const [attempt, wanted] = [query.get("attempt") ?? "", query.get("view") ?? kept("vestal-diff-view", "unified")];
  const view = wanted === "split" ? "split" : "unified";
  const path = `/api/board/${encodeURIComponent(board)}/tasks/${encodeURIComponent(task)}`;
  const page = `/board/${encodeURIComponent(board)}/${encodeURIComponent(task)}`;
  const details = useLive(path, ["board"]);
  const live = useLive(`${path}/diff?${new URLSearchParams({ attempt })}`, []);
  const name = draftName(board, task);
  useEffect(() => {
    load(name);
  }, [name]);
  // An attempt that has ended left another state behind.
  const version = details.data ? `${details.data.task.status}/${details.data.runs.length}` : "";
  const known = useRef("");
  useEffect(() => {
    if (known.current && version && known.current !== version) live.reload();
    if (version) known.current = version;
  }, [version]);
  const choose = (part) => go(link(`${page}/review`, { attempt, view, ...part }), true);
  const look = (wanted) => {
    keep("vestal-diff-view", wanted);
    choose({ view: wanted });
  };
  const mayComment = identity.value?.right === "operator";
  const total = (diff, side) => diff.files.reduce((sum, file) => sum + (file[side] ?? 0), 0);
  return html`<p class="crumbs"><a href=${link(`/board/${encodeURIComponent(board)}`)}>Board</a> / <a href=${link(page)}>${details.data?.task.title ?? task}</a></p>
    <h1>Review</h1>
    <${Loaded} live=${details}>${(about) => html`
      <div class="filters">
        <${Badge} word=${about.task.status} tone=${statusTone(about.task.status)} />
        <label>Changes of <select value=${attempt} onChange=${(event) => choose({ attempt: event.target.value })}>
          <option value="">all attempts</option>
          ${about.runs.filter((run) => run.role !== "review").map((run, index) => html`<option key=${run.id} value=${String(run.id)}>attempt ${index + 1}${run.profile ? `, ${run.profile}` : ""}${run.outcome ? `, ${run.outcome.replaceAll("_", " ")}` : ", at work"}</option>`)}
        </select></label>
        ${live.data !== null && html`<span class="choice" role="group" aria-label="View">
          <button type="button" aria-pressed=${view === "unified"} onClick=${() => look("unified")}>Unified</button>
          <button type="button" aria-pressed=${view === "split"} onClick=${() => look("split")}>Side by side</button></span>
        <button type="button" onClick=${live.reload}>Look again</button>
        <a class="button" href=${`${path}/patch?${new URLSearchParams({ attempt })}`} download>Download as a patch</a>`}
      </div>
      ${live.error && live.data === null
        ? html`<${Card} title="There are no changes to look at"><p>${plain(live.error.message)}</p>${live.error.advice && html`<p class="quiet">${plain(live.error.advice)}</p>`}
            ${live.error.code === "no_base" && html`<div class="buttons"><a class="button" href=${link(page)}>What its worker said and attached</a>
              <a class="button" href=${`/sandboxes?profile=${encodeURIComponent(about.task.assignee ?? "default")}`}>Sandboxes of ${about.task.assignee ?? "default"}</a></div>`}</${Card}>
            ${live.error.code === "no_base" && html`<${Verdict} path=${path} task=${about.task} attempt="" reload=${details.reload} mayMerge=${false} />`}`
        : html`<${Loaded} live=${live}>${(diff) => html`
          <p class="quiet">${diff.files.length} ${diff.files.length === 1 ? "file" : "files"}, <span class="plus">+${total(diff, "added")}</span> <span class="minus">−${total(diff, "removed")}</span>${" "}
            · ${diff.branch
              ? html`branch <code>${plain(diff.branch)}</code> against <code>${diff.base.slice(0, 12)}</code>`
              : html`all that is in <code>${plain(diff.tree)}</code> of its sandbox, which began empty`}${about.task.updated_at ? html` · task changed <${When} at=${about.task.updated_at} />` : ""}</p>
          ${diff.left_out.length > 0 && html`<${Card} title="Not looked at" tone="warn"><p>These are large, or no files: ${diff.left_out.map(plain).join(", ")}</p></${Card}>`}
          ${diff.patch === null && diff.files.length > 0 && html`<${Card} title="Too large to be shown" tone="warn"><p>Only the names of the files are here. The patch can be downloaded.</p></${Card}>`}
          ${diff.files.length === 0
            ? html`<${Card}><${Empty}>Nothing differs. ${attempt ? "This attempt changed no file." : "The task has changed no file yet."}</${Empty}></${Card}>`
            : html`<div class="review"><nav class="file-tree" aria-label="Files"><details open><summary>Files</summary><${Tree} nodes=${tree(diff.files)} /></details></nav>
                <${Files} view=${view} diff=${diff} mayComment=${mayComment} /></div>`}
          <${Verdict} path=${path} task=${about.task} attempt=${attempt} reload=${() => (details.reload(), live.reload())} mayMerge=${diff.branch !== ""} />`}</${Loaded}>`}`}
    </${Loaded}>`;
}
