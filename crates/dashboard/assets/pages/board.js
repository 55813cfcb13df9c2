// The board: columns, and a task with all about it.
import { Action, address, api, Badge, bytes, Card, Command, Empty, go, html, link, Loaded, plain, span, Troubles, useLive, useState, When } from "../lib.js";

export function statusTone(status) {
  return { running: "good", blocked: "bad", review: "warn", triage: "warn", done: "plain" }[status] ?? "plain";
}

function Tile({ board, task }) {
  return html`<li class="tile">
    <a href=${link(`/board/${encodeURIComponent(board)}/${task.id}`)}>${task.title}</a>
    <p class="quiet">${task.assignee ?? "nobody"} · <${When} at=${task.updated_at} />${task.pending_parents > 0 && ` · waits for ${task.pending_parents}`}</p>
    ${task.attention && html`<p class="why">${task.attention}</p>`}
  </li>`;
}

export function Board({ board }) {
  const search = address.value.searchParams.get("search") ?? "";
  const live = useLive(link("/api/board", { board, search }), ["board"]);
  const find = (event) => go(link(`/board/${encodeURIComponent(board)}`, { search: event.target.value }), true);
  return html`<h1>Board</h1>
    <${Loaded} live=${live}>${(view) => html`
      <${Troubles} troubles=${view.troubles} />
      <div class="filters">
        ${view.boards.length > 1 &&
        html`<label>Board <select value=${board} onChange=${(event) => go(link(`/board/${encodeURIComponent(event.target.value)}`))}>
          ${view.boards.map((one) => html`<option value=${one.slug} key=${one.slug}>${one.name || one.slug}${one.needs_attention ? ` (${one.needs_attention})` : ""}</option>`)}
        </select></label>`}
        <label>Search <input type="search" value=${search} onInput=${find} /></label>
      </div>
      ${view.columns.some((column) => column.total > 0)
        ? html`<div class="columns" tabindex="0" role="region" aria-label="Columns">${view.columns
            .filter((column) => column.total > 0 || ["ready", "running", "blocked", "review", "done"].includes(column.status))
            .map((column) => html`<section class="column" key=${column.status} aria-label=${column.status}>
              <h2>${column.status} <small>${column.total}</small></h2>
              <ul class="plain">${column.tasks.map((task) => html`<${Tile} board=${view.board} task=${task} key=${task.id} />`)}</ul>
              ${column.total > column.tasks.length && html`<p class="quiet">and ${column.total - column.tasks.length} more; search to find them</p>`}
            </section>`)}</div>`
        : html`<${Card}><${Empty}>${search ? "No task matches." : html`The board is empty. To add a task: <${Command} line="vestal kanban create TITLE" />`}</${Empty}></${Card}>`}`}
    </${Loaded}>`;
}

function Text({ title, text }) {
  if (!text?.trim()) return null;
  return html`<${Card} title=${title}><div class="prose">${plain(text)}</div></${Card}>`;
}

function Run({ run, number }) {
  const end = run.ended_at ?? Date.now() / 1000;
  return html`<li class="run">
    <div class="line"><strong>#${number}</strong>
      <${Badge} word=${run.outcome ?? "running"} tone=${run.outcome === null ? "good" : run.error ? "warn" : "plain"} />
      <span class="quiet">${run.profile ?? run.owner} · <${When} at=${run.started_at} /> · took ${span(end - run.started_at)}</span>
      ${run.session_id && run.profile && html`<a href=${link(`/conversations/${encodeURIComponent(run.profile)}/${encodeURIComponent(run.session_id)}`)}>conversation</a>`}
    </div>
    ${run.note && html`<p class="quiet">${run.note}</p>`}
    ${run.summary && html`<div class="prose">${plain(run.summary)}</div>`}
    ${run.error && html`<p class="why">${plain(run.error)}</p>`}
  </li>`;
}

export function Task({ board, task }) {
  const path = `/api/board/${encodeURIComponent(board)}/tasks/${encodeURIComponent(task)}`;
  const live = useLive(path, ["board"]);
  const [text, setText] = useState("");
  const send = (verb) => async () => {
    await api(`${path}/${verb}`, { body: { text } });
    setText("");
    live.reload();
    return "done";
  };
  const relative = (one) => html`<li class="line" key=${one.id}><${Badge} word=${one.status} tone=${statusTone(one.status)} />
    <a href=${link(`/board/${encodeURIComponent(board)}/${one.id}`)}>${one.title || one.id}</a></li>`;
  return html`<p class="crumbs"><a href=${link(`/board/${encodeURIComponent(board)}`)}>Board</a></p>
    <${Loaded} live=${live}>${(view) => {
      const one = view.task;
      const waits = ["blocked", "triage", "scheduled"].includes(one.status);
      return html`<h1>${one.title}</h1>
        <p class="line"><${Badge} word=${one.status} tone=${statusTone(one.status)} />
          <span class="quiet">${one.id} · ${one.assignee ?? "nobody"} · created <${When} at=${one.created_at} /> by ${one.created_by} · ${one.workspace_kind}${one.branch_name ? ` ${one.branch_name}` : ""}</span></p>
        ${(one.attention || one.block_reason) && html`<${Card} title="Needs you" tone="bad"><p>${one.attention ?? one.block_reason}</p></${Card}>`}
        <${Text} title="What is to be done" text=${one.body} />
        <${Text} title="Result" text=${one.result} />
        <${Card} title="Say something">
          <label class="hidden" for="say">Comment</label>
          <textarea id="say" rows="3" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="the next attempt reads it"></textarea>
          <div class="buttons">
            ${one.status === "review" && html`<${Action} label="Approve" tone="good" run=${send("approve")} />
              <${Action} label="Request changes" disabled=${!text.trim()} run=${send("request-changes")} />`}
            ${waits && html`<${Action} label="Let it go on" tone="good" run=${send("unblock")} />`}
            <${Action} label="Comment" disabled=${!text.trim()} run=${send("comment")} />
          </div>
        </${Card}>
        ${view.comments.length > 0 && html`<${Card} title="Comments"><ul class="plain">${view.comments.map((comment) => html`<li key=${comment.id}>
          <span class="quiet">${comment.author} · <${When} at=${comment.created_at} /></span><div class="prose">${plain(comment.body)}</div></li>`)}</ul></${Card}>`}
        <${Card} title=${`Attempts (${view.runs.length})`}>
          ${view.runs.length ? html`<ol class="plain">${view.runs.map((run, index) => html`<${Run} run=${run} number=${index + 1} key=${run.id} />`)}</ol>` : html`<${Empty}>Nobody has worked on it yet.</${Empty}>`}
        </${Card}>
        ${view.parents.length > 0 && html`<${Card} title="Waits for"><ul class="plain">${view.parents.map(relative)}</ul></${Card}>`}
        ${view.children.length > 0 && html`<${Card} title="Wait for it"><ul class="plain">${view.children.map(relative)}</ul></${Card}>`}
        ${view.attachments.length > 0 && html`<${Card} title="Files"><ul class="plain">${view.attachments.map((file) => html`<li key=${file.id}>${file.filename} <span class="quiet">${bytes(file.size)}</span></li>`)}</ul></${Card}>`}
        <${Card} title="Events"><ul class="plain">${view.events.toReversed().map((event) => html`<li class="line" key=${event.id}>
          <code>${event.kind}</code> <span class="quiet"><${When} at=${event.created_at} /></span></li>`)}</ul></${Card}>`;
    }}</${Loaded}>`;
}
