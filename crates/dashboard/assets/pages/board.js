// The board: columns, moves between them by drag or by keyboard, new tasks, and what a dispatcher would do.
import {
  address, api, Card, Command, Empty, go, home, html, identity, link, Loaded, plain, signal, Troubles, useEffect, useLive,
  useRef, useState, When,
} from "../lib.js";

export function statusTone(status) {
  return { running: "good", blocked: "bad", review: "warn", triage: "warn", done: "plain" }[status] ?? "plain";
}

/** What a move is called, what it asks for, and what comes of it. */
const VERBS = {
  promote: { label: "Make it ready", words: "why", says: "It can be started. If it waits for others, it stays in todo." },
  unblock: { label: "Let it go on", words: "an answer, which the next attempt reads", says: "It can be started, or waits for others in todo." },
  block: { label: "Block it", words: "what it waits for", says: "It waits for a person." },
  schedule: { label: "Put it off", words: "why", says: "It waits for a moment, or until somebody takes it up." },
  submit: { label: "Hand it in", words: "what was done", says: "Its work waits to be looked at." },
  complete: { label: "It is done", words: "what came of it", says: "Tasks that waited for it can go on." },
  approve: { label: "Approve", words: "what came of it", says: "Its work is accepted; the task is done." },
  request_changes: { label: "Request changes", words: "what is to be changed", says: "The next attempt is told." },
  reclaim: { label: "Take it back", words: "why", says: "It can be started again." },
  reopen: { label: "Take it up anew", words: "what is wrong", says: "Tasks that wait for it and were not started wait again." },
  archive: { label: "Archive", words: "", says: "It is hidden and can be reopened. Tasks that wait for it wait no longer." },
};

export function verbLabel(verb) {
  return VERBS[verb]?.label ?? verb.replaceAll("_", " ");
}

/** A move that somebody is making: of which task, to which columns it can go, and to which it is meant to. */
const moving = signal({ task: null, moves: [], to: "" });
/** The task that is dragged. */
const dragged = signal({ id: "", to: /** @type {string[]} */ ([]) });

export function begin(task, moves, to = "") {
  moving.value = { task, moves, to: to || moves[0]?.to || "" };
}

/** Asks for what a move needs, and makes it. Works by keyboard as by drag. */
export function MoveDialog({ board, reload }) {
  const { task, moves, to } = moving.value;
  const [text, setText] = useState("");
  const [at, setAt] = useState("");
  const [force, setForce] = useState(false);
  const [state, setState] = useState({ busy: false, error: "" });
  const dialog = useRef(null);
  const id = task?.id ?? "";
  useEffect(() => {
    setText("");
    setAt("");
    setForce(false);
    setState({ busy: false, error: "" });
    if (id) dialog.current?.showModal();
  }, [id]);
  if (!task) return null;
  const move = moves.find((one) => one.to === to) ?? moves[0];
  const verb = VERBS[move.verb] ?? { label: move.verb, words: "", says: "" };
  const close = () => {
    dialog.current?.close();
    moving.value = { task: null, moves: [], to: "" };
  };
  const act = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: "" });
    try {
      const when = move.verb === "schedule" && at ? new Date(at).toISOString() : null;
      const body = { from: task.status, to: move.to, text, at: when, force };
      await api(`/api/board/${encodeURIComponent(board)}/tasks/${encodeURIComponent(task.id)}/move`, { body });
      close();
      reload();
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
  };
  const waits = move.verb === "promote" && task.pending_parents > 0;
  return html`<dialog class="wide" ref=${dialog} aria-label="Move" onClose=${close}>
    <form class="form" onSubmit=${act}>
      <h2>${plain(task.title)}</h2>
      <label>Move it to <select value=${move.to} onChange=${(event) => (moving.value = { ...moving.value, to: event.target.value })}>
        ${moves.map((one) => html`<option value=${one.to} key=${one.to}>${one.to}: ${verbLabel(one.verb).toLowerCase()}</option>`)}</select></label>
      <p class="quiet">${verb.says}${task.current_run_id !== null ? " Its worker is stopped." : ""}</p>
      ${move.words !== "none" && html`<label>${move.words === "needed" ? "Say" : "Say, if you like,"} ${verb.words}
        <textarea rows="3" value=${text} required=${move.words === "needed"} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
      ${move.verb === "schedule" && html`<label>Until (empty: until somebody takes it up) <input type="datetime-local" value=${at} onInput=${(event) => setAt(event.target.value)} /></label>`}
      ${waits && html`<label class="check"><input type="checkbox" checked=${force} onChange=${(event) => setForce(event.target.checked)} /> also though it waits for ${task.pending_parents} unfinished</label>`}
      <div class="buttons"><button type="button" onClick=${close}>Cancel</button>
        <button type="submit" class="good" disabled=${state.busy || (move.words === "needed" && !text.trim())}>${verb.label}</button>
        <span role="status" class="bad-text">${state.error}</span></div>
    </form>
  </dialog>`;
}

/** Who holds a task, until when, and how far it is. */
function Lease({ run }) {
  const isLate = run.claim_expires * 1000 < Date.now();
  return html`<p class="quiet">${run.profile ?? run.owner}${run.host ? ` on ${run.host}` : ""}${run.worker_pid ? ` · process ${run.worker_pid}` : ""} · since <${When} at=${run.started_at} /></p>
    <p class=${isLate ? "bad-text" : "quiet"}>${isLate ? "lease ran out " : "lease ends "}<${When} at=${run.claim_expires} />${run.last_heartbeat_at ? html` · last sign <${When} at=${run.last_heartbeat_at} />` : ""}</p>
    ${run.note && html`<p>${plain(run.note)}</p>`}`;
}

function Tile({ board, task, moves }) {
  const may = identity.value?.right === "operator" && moves.length > 0;
  const start = (event) => {
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", task.id);
    // After the picture of what is dragged was taken.
    setTimeout(() => (dragged.value = { id: task.id, to: moves.map((move) => move.to) }));
  };
  const end = () => (dragged.value = { id: "", to: [] });
  return html`<li class=${`tile ${dragged.value.id === task.id ? "dragged" : ""}`} draggable=${may ? "true" : undefined} onDragStart=${may ? start : undefined} onDragEnd=${may ? end : undefined}>
    <a draggable="false" href=${link(`/board/${encodeURIComponent(board)}/${task.id}`)}>${plain(task.title)}</a>
    ${task.run
      ? html`<${Lease} run=${task.run} />`
      : html`<p class="quiet">${task.assignee ?? "nobody"} · <${When} at=${task.updated_at} />${task.priority !== 0 && ` · priority ${task.priority}`}</p>`}
    ${task.waits_for.length > 0 && html`<p class="quiet">waits for ${task.waits_for.map((one, index) => html`${index ? ", " : ""}<a draggable="false" href=${link(`/board/${encodeURIComponent(board)}/${one.id}`)} key=${one.id}>${plain(one.title || one.id)}</a>`)}${task.pending_parents > task.waits_for.length ? ` and ${task.pending_parents - task.waits_for.length} more` : ""}</p>`}
    ${task.wake_at !== null && html`<p class="quiet">${task.guard ? `${task.guard.replaceAll("_", " ")}, ` : ""}goes on <${When} at=${task.wake_at} /></p>`}
    ${task.attention && html`<p class="why">${plain(task.attention)}</p>`}
    ${!task.attention && task.status === "blocked" && task.block_reason && html`<p class="why">${plain(task.block_reason)}</p>`}
    <div class="tile-actions">${task.status === "review" && html`<a class="button" draggable="false" href=${link(`/board/${encodeURIComponent(board)}/${task.id}/review`)}>Review</a>`}
      ${may && html`<button type="button" aria-label=${`Move ${task.title}`} onClick=${() => begin(task, moves)}>Move…</button>`}</div>
  </li>`;
}

/** Columns that are there though nothing is in them. */
const ALWAYS = ["ready", "running", "blocked", "review", "done"];

function Column({ board, column, all, search, hide }) {
  const [isOver, setOver] = useState(false);
  const takes = dragged.value.to.includes(column.status);
  const over = (event) => {
    if (!takes) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
    setOver(true);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    const { id } = dragged.value;
    dragged.value = { id: "", to: [] };
    for (const from of all) {
      const task = from.tasks.find((one) => one.id === id);
      if (task) begin(task, from.moves, column.status);
    }
  };
  return html`<section class=${`column ${takes ? "takes" : ""} ${takes && isOver ? "over" : ""}`} aria-label=${column.status}
    onDragOver=${over} onDragLeave=${() => setOver(false)} onDrop=${takes ? drop : undefined}>
    <header><h2>${column.status} <small>${column.total}</small></h2>
      <button type="button" class="fold" aria-label=${`Hide the column ${column.status}`} title="hide" onClick=${hide}>×</button></header>
    <ul class="plain">${column.tasks.map((task) => html`<${Tile} board=${board} task=${task} moves=${column.moves} key=${task.id} />`)}</ul>
    ${column.total > column.tasks.length && html`<p class="quiet">and ${column.total - column.tasks.length} more; ${search ? "narrow the search" : "search"} to find them</p>`}
  </section>`;
}

/** Why a plan leaves tasks for later. */
const REASONS = [
  ["skipped_unassigned", "assigned to nobody", "assign them, or set kanban.default_assignee"],
  ["skipped_nonspawnable", "their profile does not exist", "create it, or assign them to another"],
  ["skipped_workspace_busy", "another task uses their directory", ""],
  ["skipped_other_host", "their directory is on another host", ""],
  ["auto_assigned_default", "would be given to the default assignee", ""],
  ["crashed", "their worker died", ""],
  ["no_report", "their worker ended without a report", ""],
  ["timed_out", "took too long", ""],
  ["stale", "their worker is silent", ""],
  ["rate_limited", "their provider limits requests", ""],
  ["auto_blocked", "would be given up", ""],
];

function Plan({ board }) {
  const live = useLive(`/api/board/${encodeURIComponent(board)}/plan`, ["board", "settings"]);
  const named = (plan) => (entry) => {
    const id = entry.task_id ?? entry;
    return html`<a href=${link(`/board/${encodeURIComponent(board)}/${id}`)}>${plain(plan.titles[id] ?? id)}</a>`;
  };
  const line = (plan, entries, count, why, extra) =>
    entries.length > 0 &&
    html`<li><strong>${why}</strong>: ${entries.map((entry, index) => html`${index ? ", " : ""}${named(plan)(entry)}${extra ? html` <span class="quiet">(${extra(entry)})</span>` : ""}`)}${count > entries.length ? ` and ${count - entries.length} more` : ""}</li>`;
  return html`<${Card} title="What a dispatcher would do now" actions=${html`<button type="button" onClick=${live.reload}>Look again</button>`}>
    <${Loaded} live=${live}>${(plan) => {
      const { would } = plan;
      const isEmpty = Object.values(would.counts).every((count) => count === 0) && would.reclaimed === 0 && would.promoted === 0;
      return html`<p class="quiet">${plain(plan.policy)}.</p>
        ${plan.warnings.map((warning) => html`<p class="why" key=${warning}>${plain(warning)}</p>`)}
        ${!plan.watched && html`<p class="why">No dispatcher of this machine watches this board, so nothing is started by itself. To have one: <${Command} line="vestal gateway start" /> or <${Command} line="vestal kanban dispatch --watch" /></p>`}
        ${would.skipped_locked && html`<p>Another dispatcher is at work just now; look again.</p>`}
        ${isEmpty && html`<${Empty}>Nothing: no task is ready, due or lost.</${Empty}>`}
        <ul class="reasons">
          ${line(plan, would.spawned, would.counts.spawned, "would be started", (one) => one.assignee)}
          ${would.promoted > 0 && html`<li><strong>are due</strong>: ${would.promoted}</li>`}
          ${would.reclaimed > 0 && html`<li><strong>leases that ran out</strong>: ${would.reclaimed}</li>`}
          ${line(plan, would.skipped_per_profile_capped, would.counts.skipped_per_profile_capped, "their profile has enough to do", (one) => `${one.assignee}: ${one.current} running`)}
          ${line(plan, would.skipped_capped, would.counts.skipped_capped, "a cap holds them back", (one) => `${one.by}: ${one.current} running`)}
          ${line(plan, would.respawn_guarded, would.counts.respawn_guarded, "wait before they are tried again", (one) => one.reason.replaceAll("_", " "))}
          ${REASONS.map(([name, why, advice]) => line(plan, would[name] ?? [], would.counts[name] ?? 0, advice ? `${why} (${advice})` : why, null))}
        </ul>`;
    }}</${Loaded}></${Card}>`;
}

const NEW_TASK = { title: "", body: "", assignee: "", repository: "", needs_review: false, triage: false };

function NewTask({ board, repository, done }) {
  const [task, setTask] = useState({ ...NEW_TASK, repository: "" });
  const [state, setState] = useState({ busy: false, error: "" });
  const dialog = useRef(null);
  useEffect(() => dialog.current?.showModal(), []);
  const set = (name) => (event) => setTask({ ...task, [name]: event.target.value });
  const check = (name) => (event) => setTask({ ...task, [name]: event.target.checked });
  const act = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: "" });
    try {
      await api(`/api/board/${encodeURIComponent(board)}/tasks`, { body: task });
      dialog.current.close();
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
  };
  return html`<dialog class="wide" ref=${dialog} aria-label="New task" onClose=${done}>
    <form class="form" onSubmit=${act}>
      <h2>New task</h2>
      <label>Title <input required value=${task.title} onInput=${set("title")} /></label>
      <label>What is to be done <textarea rows="5" value=${task.body} onInput=${set("body")}></textarea></label>
      <label>Profile that works on it <input list="profiles" value=${task.assignee} placeholder="nobody" onInput=${set("assignee")} />
        <datalist id="profiles">${home.value.profiles.map((name) => html`<option value=${name} key=${name}></option>`)}</datalist></label>
      <label>Repository of this machine that it gets a working tree of <input value=${task.repository} placeholder=${repository ? `none; ${repository}` : "none: it works in its sandbox"} onInput=${set("repository")} /></label>
      <label class="check"><input type="checkbox" checked=${task.needs_review} onChange=${check("needs_review")} /> its work is looked at before it is done</label>
      <label class="check"><input type="checkbox" checked=${task.triage} onChange=${check("triage")} /> a rough idea, which nobody starts yet</label>
      <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button><button type="submit" class="good" disabled=${state.busy || !task.title.trim()}>Add</button>
        <span role="status" class="bad-text">${state.error}</span></div>
    </form>
  </dialog>`;
}

/** What is looked for, as the address has it. */
const FILTERS = ["search", "assignee", "attention", "hide", "plan"];

export function Board({ board }) {
  const query = address.value.searchParams;
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const { search, assignee, attention, hide, plan } = chosen;
  const live = useLive(link("/api/board", { board, search, assignee, attention, hide: "", plan: "" }), ["board"]);
  const [makes, setMakes] = useState(false);
  const set = (part) => go(link(`/board/${encodeURIComponent(board)}`, { ...chosen, ...part }), true);
  const hidden = hide ? hide.split(",") : [];
  const isFiltered = Boolean(search || assignee || attention);
  return html`<h1>Board${board !== "default" && html` <small>${board}</small>`}</h1>
    <${Loaded} live=${live}>${(view) => {
      const columns = view.columns.filter((column) => column.total > 0 || ALWAYS.includes(column.status));
      const shown = columns.filter((column) => !hidden.includes(column.status));
      const workdir = view.boards.find((one) => one.slug === view.board)?.default_workdir ?? "";
      return html`
      <${Troubles} troubles=${view.troubles} />
      <div class="filters">
        ${view.boards.length > 1 &&
        html`<label>Board <select value=${board} onChange=${(event) => go(link(`/board/${encodeURIComponent(event.target.value)}`))}>
          ${view.boards.map((one) => html`<option value=${one.slug} key=${one.slug}>${one.name || one.slug}${one.needs_attention ? ` (${one.needs_attention})` : ""}</option>`)}
        </select></label>`}
        <label>Search <input type="search" value=${search} onInput=${(event) => set({ search: event.target.value })} /></label>
        <label>Assigned to <select value=${assignee} onChange=${(event) => set({ assignee: event.target.value })}>
          <option value="">anybody</option><option value="-">nobody</option>
          ${view.assignees.map((name) => html`<option value=${name} key=${name}>${name}</option>`)}</select></label>
        <label class="check"><input type="checkbox" checked=${attention === "1"} onChange=${(event) => set({ attention: event.target.checked ? "1" : "" })} /> needs you</label>
        <label class="check"><input type="checkbox" checked=${plan === "1"} onChange=${(event) => set({ plan: event.target.checked ? "1" : "" })} /> dispatch plan</label>
        ${identity.value?.right === "operator" && html`<button type="button" class="good" onClick=${() => setMakes(true)}>New task</button>`}
      </div>
      ${hidden.length > 0 && html`<p class="quiet">Hidden: ${hidden.map((name) => html`<button type="button" key=${name} onClick=${() => set({ hide: hidden.filter((other) => other !== name).join(",") })}>${name} ×</button> `)}</p>`}
      ${plan === "1" && html`<${Plan} board=${view.board} />`}
      ${view.columns.some((column) => column.total > 0)
        ? html`<div class="columns" tabindex="0" role="region" aria-label="Columns">${shown.map((column) => html`<${Column} key=${column.status} board=${view.board} column=${column} all=${view.columns} search=${search}
            hide=${() => set({ hide: [...hidden, column.status].join(",") })} />`)}</div>`
        : html`<${Card}><${Empty}>${isFiltered ? "No task matches." : html`The board is empty. To add a task: “New task”, or <${Command} line="vestal kanban create TITLE" />`}</${Empty}></${Card}>`}
      <${MoveDialog} board=${view.board} reload=${live.reload} />
      ${makes && html`<${NewTask} board=${view.board} repository=${workdir} done=${() => (setMakes(false), live.reload())} />`}`;
    }}
    </${Loaded}>`;
}
