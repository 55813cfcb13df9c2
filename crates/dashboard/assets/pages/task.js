// A task: what is to be done, its attempts side by side, its log, files, links and history.
import {
  Action, api, Badge, bytes, Card, Empty, html, identity, link, Loaded, plain, span, useLive, useRef, useState, When,
} from "../lib.js";
import { Log } from "../log-view.js";
import { Markdown } from "../markdown.js";
import { begin, MoveDialog, statusTone, verbLabel } from "./board.js";

/** Dollars, as exact as they are small. */
export function dollars(value) {
  if (value === 0) return "$0";
  return `$${value.toFixed(value < 0.01 ? 5 : value < 1 ? 4 : 2)}`;
}

/** Returns a count that can be read at a glance. */
export function count(value) {
  if (value < 10_000) return String(value);
  return value < 1_000_000 ? `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)} k` : `${(value / 1_000_000).toFixed(1)} M`;
}

/** Reports whether something is known of what was spent. */
export const isPriced = (usage) => usage.unpriced_calls < usage.calls;

/** What calls of a model cost: `+` where the price of some is missing. */
export function cost(usage) {
  if (!usage || usage.calls === 0) return "–";
  if (usage.unpriced_calls >= usage.calls) return "not known";
  return `${dollars(usage.cost_usd)}${usage.unpriced_calls ? "+" : ""}`;
}

function Text({ title, text }) {
  if (!text?.trim()) return null;
  return html`<${Card} title=${title}><${Markdown} text=${text} /></${Card}>`;
}

/** Returns what an attempt is called: work is counted, looks at it are not. */
export function attemptName(runs, run) {
  if (run.role === "review") return "review";
  return `#${runs.filter((one) => one.role !== "review" && one.id <= run.id).length}`;
}

function outcomeTone(run) {
  if (run.outcome === null) return "good";
  if (["completed", "submitted", "scheduled"].includes(run.outcome)) return "plain";
  return run.outcome === "changes_requested" ? "warn" : "bad";
}

/** Attempts as columns, so that they can be compared. */
function Attempts({ runs, usage, at, hasTree }) {
  const spent = new Map((usage?.lines ?? []).map((line) => [line.attempt, line.usage]));
  const shown = runs.slice(-12).toReversed();
  const took = (run) => span((run.ended_at ?? Date.now() / 1000) - run.started_at);
  const tokens = (run, name) => (spent.has(String(run.id)) ? count(spent.get(String(run.id))[name]) : "–");
  /** @type {[string, (run: any) => any][]} */
  const rows = [
    ["ended as", (run) => html`<${Badge} word=${(run.outcome ?? "at work").replaceAll("_", " ")} tone=${outcomeTone(run)} />`],
    ["by", (run) => run.profile ?? run.owner],
    ["began", (run) => html`<${When} at=${run.started_at} />`],
    ["took", took],
    ["cost", (run) => cost(spent.get(String(run.id)))],
    ["calls", (run) => tokens(run, "calls")],
    ["tokens sent", (run) => tokens(run, "input_tokens")],
    ["from cache", (run) => tokens(run, "cache_read_tokens")],
    ["tokens written", (run) => tokens(run, "output_tokens")],
    ["said", (run) => run.summary && html`<div class="clipped prose">${plain(run.summary)}</div>`],
    ["note", (run) => run.note && html`<div class="clipped">${plain(run.note)}</div>`],
    ["went wrong", (run) => run.error && html`<div class="clipped why">${plain(run.error)}</div>`],
    ["look at", (run) => html`${hasTree && run.role !== "review" && html`<a href=${link(`${at}/review`, { attempt: run.id })}>changes</a> `}
      ${run.session_id && run.profile && html`<a href=${link(`/conversations/${encodeURIComponent(run.profile)}/${encodeURIComponent(run.session_id)}`)}>conversation</a>`}`],
  ];
  const isSaid = (value) => value && value !== "–";
  const known = rows.filter(([, cell]) => shown.some((run) => isSaid(cell(run))));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Attempts"><table class="attempts"><thead><tr><th scope="col"><span class="hidden">what</span></th>
      ${shown.map((run) => html`<th scope="col" key=${run.id}>${attemptName(runs, run)}</th>`)}</tr></thead>
    <tbody>${known.map(([name, cell]) => html`<tr key=${name}><th scope="row">${name}</th>${shown.map((run) => html`<td key=${run.id}>${cell(run) || html`<span class="quiet">–</span>`}</td>`)}</tr>`)}</tbody></table></div>
    ${runs.length > shown.length && html`<p class="quiet">and ${runs.length - shown.length} earlier ones</p>`}`;
}

/** What a task waits for, and what waits for it; both can be changed here. */
function Links({ board, path, view, reload }) {
  const [parent, setParent] = useState("");
  const may = identity.value?.right === "operator";
  const send = (verb, id) => async () => {
    await api(`${path}/${verb}`, { body: { parent: id } });
    setParent("");
    reload();
    return "";
  };
  const relative = (canGo) => (one) => html`<li class="line" key=${one.id}><${Badge} word=${one.status} tone=${statusTone(one.status)} />
    <a href=${link(`/board/${encodeURIComponent(board)}/${one.id}`)}>${plain(one.title || one.id)}</a>
    ${canGo && html`<${Action} label="Need not wait" run=${send("unlink", one.id)} />`}</li>`;
  if (!may && view.parents.length === 0 && view.children.length === 0) return null;
  return html`<${Card} title="Links">
    ${view.parents.length > 0 && html`<h3>It waits for</h3><ul class="plain">${view.parents.map(relative(may))}</ul>`}
    ${view.children.length > 0 && html`<h3>These wait for it</h3><ul class="plain">${view.children.map(relative(false))}</ul>`}
    ${may && html`<div class="input"><label for="parent">Let it wait for the task</label><input id="parent" value=${parent} placeholder="t_…" onInput=${(event) => setParent(event.target.value)} />
      <${Action} label="Add" disabled=${!parent.trim()} run=${send("link", parent.trim())} /></div>`}
  </${Card}>`;
}

/** The largest file. */
const MAX_UPLOAD = 25 * 1024 * 1024;

function Attached({ path, files, reload }) {
  const [said, setSaid] = useState("");
  const may = identity.value?.right === "operator";
  const add = async (event) => {
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    // The server says so too, but a browser does not show what is said before it has sent everything.
    if (file.size > MAX_UPLOAD) {
      setSaid(`${file.name} has ${bytes(file.size)}; a file of a task may have at most ${bytes(MAX_UPLOAD)}`);
      return;
    }
    setSaid(`sending ${file.name} …`);
    try {
      const query = new URLSearchParams({ name: file.name, content_type: file.type });
      await api(`${path}/files?${query}`, { file });
      setSaid(`${file.name} was added`);
      reload();
    } catch (error) {
      setSaid(error.message);
    }
  };
  if (!may && files.length === 0) return null;
  return html`<${Card} title=${`Files (${files.length})`}>
    ${files.length > 0 && html`<ul class="plain">${files.map((file) => html`<li class="line" key=${file.id}>
      ${file.path ? html`<a href=${`${path}/files/${file.id}`} download>${plain(file.filename)}</a>` : html`<span>${plain(file.filename)}</span>`}
      <span class="quiet">${bytes(file.size)} · ${plain(file.content_type ?? "")} · ${plain(file.uploaded_by)} · <${When} at=${file.created_at} />${file.path ? "" : ` · on ${file.host}`}</span></li>`)}</ul>`}
    ${may && html`<p><label>Add a file <input type="file" onChange=${add} /></label> <span role="status" class="quiet">${said}</span></p>`}
  </${Card}>`;
}

/** Members of an event that say nothing to people. */
const DULL = new Set(["by", "person", "comment", "result_len", "run_id", "expires", "lock", "source_status"]);

function eventWords(payload) {
  if (!payload || typeof payload !== "object") return "";
  const words = Object.entries(payload).filter(([name, value]) => !DULL.has(name) && value !== null && value !== "" && value.length !== 0);
  return words.map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
}

function runOf(runs, event) {
  const run = runs.find((one) => one.id === event.run_id);
  return run ? ` · ${run.role === "review" ? "review" : `attempt ${attemptName(runs, run)}`}` : "";
}

function Facts({ path, one, usage, reload }) {
  const [edits, setEdits] = useState(false);
  const [assignee, setAssignee] = useState("");
  const [priority, setPriority] = useState("0");
  const may = identity.value?.right === "operator" && one.status !== "archived";
  const open = () => {
    setAssignee(one.assignee ?? "");
    setPriority(String(one.priority));
    setEdits(true);
  };
  const save = async () => {
    const body = { assignee: assignee === (one.assignee ?? "") ? undefined : assignee, priority: Number(priority) === one.priority ? undefined : Number(priority) };
    await api(`${path}/edit`, { body });
    setEdits(false);
    reload();
    return "";
  };
  const fact = (name, value) => value !== null && value !== undefined && value !== "" && html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<dl class="facts">
      ${fact("assigned to", one.assignee ?? "nobody")} ${fact("priority", one.priority)}
      ${fact("cost so far", usage && usage.total.calls > 0 ? `${isPriced(usage.total) ? `${cost(usage.total)} · ` : ""}${count(usage.total.input_tokens + usage.total.output_tokens)} tokens` : null)}
      ${fact("created", html`<${When} at=${one.created_at} /> by ${plain(one.created_by)}`)}
      ${fact("works in", `${one.workspace_kind}${one.workspace_path ? ` ${one.workspace_path}` : ""}${one.branch_name ? `, branch ${one.branch_name}` : ""}`)}
      ${fact("review", one.needs_review ? (one.reviewer ? `by ${one.reviewer}` : "by a person") : null)}
      ${fact("model", one.model)} ${fact("skills", one.skills.join(", "))} ${fact("tenant", one.tenant)}
      ${fact("goes on", one.wake_at && html`<${When} at=${one.wake_at} />${one.guard ? ` (${one.guard.replaceAll("_", " ")})` : ""}`)}
    </dl>
    ${may && (edits
      ? html`<div class="input"><label>Assigned to <input value=${assignee} placeholder="nobody" onInput=${(event) => setAssignee(event.target.value)} /></label>
          <label>Priority <input type="number" value=${priority} onInput=${(event) => setPriority(event.target.value)} /></label>
          <${Action} label="Save" tone="good" run=${save} /><button type="button" onClick=${() => setEdits(false)}>Cancel</button></div>`
      : html`<p><button type="button" onClick=${open}>Change</button></p>`)}`;
}

export function Task({ board, task }) {
  const path = `/api/board/${encodeURIComponent(board)}/tasks/${encodeURIComponent(task)}`;
  const at = `/board/${encodeURIComponent(board)}/${encodeURIComponent(task)}`;
  const live = useLive(path, ["board"]);
  const spent = useLive(`${path}/usage`, ["conversations"]);
  const [text, setText] = useState("");
  const [follows, setFollows] = useState(/** @type {boolean | null} */ (null));
  const field = useRef(null);
  const send = (verb) => async () => {
    await api(`${path}/${verb}`, { body: { text } });
    setText("");
    live.reload();
    return "done";
  };
  const retry = async () => {
    await api(`${path}/unblock`, { body: { text: "" } });
    live.reload();
    return "it can be started now";
  };
  return html`<p class="crumbs"><a href=${link(`/board/${encodeURIComponent(board)}`)}>Board</a></p>
    <${Loaded} live=${live} title="Task">${(view) => {
      const one = view.task;
      const usage = spent.data;
      const waits = ["blocked", "triage", "scheduled"].includes(one.status);
      const hasTree = one.workspace_kind === "worktree" && view.runs.length > 0;
      const showsLog = follows ?? (one.status === "running" && view.log_bytes !== null);
      const may = identity.value?.right === "operator";
      return html`<h1>${plain(one.title)}</h1>
        <p class="line"><${Badge} word=${one.status} tone=${statusTone(one.status)} /> <span class="quiet">${one.id}</span>
          ${hasTree && html`<a class="button" href=${link(`${at}/review`)}>Review the changes</a>`}
          ${may && view.moves.length > 0 && html`<button type="button" onClick=${() => begin(one, view.moves)}>Move…</button>`}
          ${may && one.wake_at !== null && ["ready", "review"].includes(one.status) && html`<${Action} label="Try again now" run=${retry} />`}</p>
        ${(one.attention || one.block_reason) && one.status !== "done" && html`<${Card} title="Needs you" tone="bad"><p class="prose">${plain(one.attention ?? one.block_reason)}</p></${Card}>`}
        <${Card} title="Say something">
          <label class="hidden" for="say">Comment</label>
          <textarea id="say" ref=${field} rows="3" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="the next attempt reads it"></textarea>
          <div class="buttons">
            ${one.status === "review" && html`<${Action} label=${verbLabel("approve")} tone="good" run=${send("approve")} />
              <${Action} label=${verbLabel("request_changes")} disabled=${!text.trim()} run=${send("request-changes")} />`}
            ${waits && html`<${Action} label=${verbLabel("unblock")} tone="good" run=${send("unblock")} />`}
            <${Action} label="Comment" disabled=${!text.trim()} run=${send("comment")} />
          </div>
        </${Card}>
        <${Card} title="About it"><${Facts} path=${path} one=${one} usage=${usage} reload=${live.reload} /></${Card}>
        <${Text} title="What is to be done" text=${one.body} />
        <${Text} title="Result" text=${one.result} />
        <${Card} title=${`Attempts (${view.runs.filter((run) => run.role !== "review").length})`}>
          ${view.runs.length ? html`<${Attempts} runs=${view.runs} usage=${usage} at=${at} hasTree=${hasTree} />` : html`<${Empty}>Nobody has worked on it yet.</${Empty}>`}
          ${(usage?.unread ?? []).map((one) => html`<p class="why" key=${one.profile}>The ledger of ${one.profile} cannot be read: ${plain(one.error)}</p>`)}
        </${Card}>
        ${view.log_bytes !== null && html`<${Card} title="Log of its workers" actions=${html`<button type="button" aria-expanded=${showsLog ? "true" : "false"} onClick=${() => setFollows(!showsLog)}>${showsLog ? "Hide" : `Show (${bytes(view.log_bytes)})`}</button>`}>
          ${showsLog && html`<${Log} path=${`${path}/log`} />`}</${Card}>`}
        ${view.comments.length > 0 && html`<${Card} title=${`Comments (${view.comments.length})`}><ul class="plain">${view.comments.map((comment) => html`<li key=${comment.id}>
          <span class="quiet">${plain(comment.author)} · <${When} at=${comment.created_at} /></span><div class="prose">${plain(comment.body)}</div></li>`)}</ul></${Card}>`}
        <${Links} board=${board} path=${path} view=${view} reload=${live.reload} />
        <${Attached} path=${path} files=${view.attachments} reload=${live.reload} />
        ${view.failures.length > 0 && html`<${Card} title="Failures since it was set on its way"><ul class="plain">${view.failures.map((one) => html`<li class="line" key=${one.cause}><${Badge} word=${one.cause.replaceAll("_", " ")} tone="bad" /> ${one.count}×
          <span class="quiet"><${When} at=${one.at} /></span><p class="why">${plain(one.error)}</p></li>`)}</ul></${Card}>`}
        <${Card} title="Events"><ul class="plain">${view.events.toReversed().map((event) => html`<li class="line" key=${event.id}>
          <code>${event.kind.replaceAll("_", " ")}</code> <span class="quiet"><${When} at=${event.created_at} />${event.payload?.by ? ` · ${plain(String(event.payload.by))}` : ""}${runOf(view.runs, event)}</span>
          <span class="quiet">${plain(eventWords(event.payload))}</span></li>`)}</ul></${Card}>
        <${MoveDialog} board=${board} reload=${live.reload} />`;
    }}</${Loaded}>`;
}
