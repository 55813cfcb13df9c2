// Now: what needs a person, and what runs.
import { Action, api, Badge, Card, Command, Empty, html, link, Loaded, profile, Troubles, useLive, useState, When } from "../lib.js";
import { SandboxRow } from "./sandboxes.js";
import { statusTone } from "./board.js";

/** A task that waits for somebody, with what they can say to it. */
function Needed({ task, reload }) {
  const [text, setText] = useState("");
  const at = `/api/board/${encodeURIComponent(task.board)}/tasks/${encodeURIComponent(task.id)}`;
  const send = (verb) => async () => {
    await api(`${at}/${verb}`, { body: { text } });
    setText("");
    reload();
    return "done";
  };
  const why = task.attention ?? task.block_reason ?? (task.status === "review" ? "its work waits to be looked at" : "");
  const isReview = task.status === "review";
  const field = `say-${task.id}`;
  return html`<li class="needed">
    <div class="line">
      <${Badge} word=${task.status} tone=${statusTone(task.status)} />
      <a href=${link(`/board/${encodeURIComponent(task.board)}/${task.id}`)}>${task.title}</a>
      <span class="quiet">${task.assignee ?? "nobody"} · <${When} at=${task.updated_at} /></span>
    </div>
    ${why && html`<p class="why">${why}</p>`}
    <div class="answer">
      <label class="hidden" for=${field}>Say something about ${task.title}</label>
      <textarea id=${field} rows="2" value=${text} onInput=${(event) => setText(event.target.value)}
        placeholder=${isReview ? "what is to be changed" : "an answer, which the next attempt reads"}></textarea>
      <div class="buttons">
        ${isReview
          ? html`<${Action} label="Approve" tone="good" run=${send("approve")} />
              <${Action} label="Request changes" disabled=${!text.trim()} run=${send("request-changes")} />`
          : html`<${Action} label="Let it go on" tone="good" run=${send("unblock")} />
              <${Action} label="Comment" disabled=${!text.trim()} run=${send("comment")} />`}
      </div>
    </div>
  </li>`;
}

export function Now() {
  const live = useLive(link("/api/now"), ["board", "sandboxes"]);
  return html`<h1>Now${profile() && html` <small>${profile()}</small>`}</h1>
    <${Loaded} live=${live}>${(now) => html`
      <${Troubles} troubles=${now.troubles} />
      <${Card} title=${`Needs you (${now.needs_you_total})`}>
        ${now.needs_you.length
          ? html`<ul class="plain">${now.needs_you.map(
              (task) => html`<${Needed} task=${task} reload=${live.reload} key=${`${task.board}/${task.id}`} />`,
            )}</ul>`
          : html`<${Empty}>Nothing waits for you.</${Empty}>`}
      </${Card}>
      <${Card} title=${`Tasks at work (${now.running_tasks.length})`}>
        ${now.running_tasks.length
          ? html`<ul class="plain">${now.running_tasks.map(
              (task) => html`<li class="line" key=${`${task.board}/${task.id}`}>
                <${Badge} word="running" tone="good" />
                <a href=${link(`/board/${encodeURIComponent(task.board)}/${task.id}`)}>${task.title}</a>
                <span class="quiet">${task.assignee ?? "nobody"} · since <${When} at=${task.started_at} /></span>
              </li>`,
            )}</ul>`
          : html`<${Empty}>No task is worked on. To add one: <${Command} line="vestal kanban create TITLE" /></${Empty}>`}
      </${Card}>
      <${Card} title=${`Sandboxes (${now.sandboxes_running} of ${now.sandboxes_total} running)`}
        actions=${html`<a href=${link("/sandboxes")}>all</a>`}>
        ${now.sandboxes.length
          ? html`<ul class="plain">${now.sandboxes.map((sandbox) => html`<${SandboxRow} sandbox=${sandbox} key=${`${sandbox.profile}/${sandbox.task}`} />`)}</ul>`
          : html`<${Empty}>No sandbox has a running job, and none needs attention.</${Empty}>`}
      </${Card}>`}
    </${Loaded}>`;
}
