// Now: what needs a person, what runs, and what it costs.
import { Action, api, Badge, bytes, Card, Command, Empty, html, link, Loaded, plain, profile, Troubles, useLive, useState, When } from "../lib.js";
import { NoticeSwitch } from "../notices.js";
import { Meter } from "../plot.js";
import { gatewayState, gatewayTroubles } from "./operations.js";
import { SandboxRow } from "./sandboxes.js";
import { statusTone } from "./board.js";
import { cost, count, isPriced } from "./task.js";
import { zone } from "./usage.js";

/** A task that waits for somebody, with what they can say to it. */
function Needed({ task, reload }) {
  const [text, setText] = useState("");
  const at = `/api/board/${encodeURIComponent(task.board)}/tasks/${encodeURIComponent(task.id)}`;
  const page = `/board/${encodeURIComponent(task.board)}/${task.id}`;
  const send = (verb) => async () => {
    await api(`${at}/${verb}`, { body: { text } });
    setText("");
    reload();
    return "done";
  };
  const isReview = task.status === "review";
  const isFailure = task.block_kind === "gave_up";
  const waits = ["blocked", "triage", "scheduled"].includes(task.status);
  const why = task.attention ?? task.block_reason ?? (isReview ? "its work waits to be looked at" : "");
  const field = `say-${task.board}-${task.id}`;
  return html`<li class="needed">
    <div class="line">
      <${Badge} word=${isFailure ? "failed" : task.status} tone=${isFailure ? "bad" : statusTone(task.status)} />
      <a href=${link(page)}>${plain(task.title)}</a>
      <span class="quiet">${task.assignee ?? "nobody"} · <${When} at=${task.updated_at} /></span>
    </div>
    ${why && html`<p class="why">${plain(why)}</p>`}
    <div class="answer">
      <label class="hidden" for=${field}>Say something about ${task.title}</label>
      <textarea id=${field} rows="2" value=${text} onInput=${(event) => setText(event.target.value)}
        placeholder=${isReview ? "what is to be changed" : "an answer, which the next attempt reads"}></textarea>
      <div class="buttons">
        ${isReview && html`<a class="button" href=${link(`${page}/review`)}>${task.workspace_kind === "worktree" ? "Look at the changes" : "Review"}</a>`}
        ${isReview && html`<${Action} label="Approve" tone="good" run=${send("approve")} />
              <${Action} label="Request changes" disabled=${!text.trim()} run=${send("request-changes")} />`}
        ${!isReview && html`${waits && html`<${Action} label=${isFailure ? "Try again" : "Let it go on"} tone="good" run=${send("unblock")} />`}
              <${Action} label="Comment" disabled=${!text.trim()} run=${send("comment")} />`}
      </div>
    </div>
  </li>`;
}

/** A turn that waits for an answer. */
function Asked({ one, reload }) {
  const [text, setText] = useState("");
  const at = `/api/questions/${encodeURIComponent(one.profile)}/${encodeURIComponent(one.session)}/${encodeURIComponent(one.id)}`;
  const send = (body) => async () => {
    await api(at, { body: { ...body, asked_by: one.asked_by } });
    reload();
    return "";
  };
  const name = { chat: "A new conversation", gateway_run: "A run of the API", gateway_session: "A conversation over the API" }[one.asked_by] ?? "A conversation";
  const page = one.conversation ? link(`/conversations/${encodeURIComponent(one.profile)}/${encodeURIComponent(one.conversation)}`) : "";
  return html`<li class="needed">
    <div class="line"><${Badge} word=${one.kind === "approval" ? "approval" : "question"} tone="warn" />
      ${page ? html`<a href=${page}>${plain(one.title ?? name)}</a>` : html`<strong>${name}</strong>`} <span class="quiet">${one.profile}${one.asked_by !== "chat" && html` · through its gateway`}</span></div>
    ${one.kind === "approval"
      ? html`<p>May it do this? ${plain(one.reason)}</p><pre class="code whole" tabindex="0">${plain(one.action)}</pre>
          <div class="buttons"><${Action} label="Allow once" tone="good" run=${send({ choice: "once" })} /><${Action} label="Allow in this conversation" run=${send({ choice: "session" })} />
            <${Action} label="Deny" tone="bad" run=${send({ choice: "deny" })} /></div>`
      : html`<p class="why">${plain(one.question)}</p>
          <div class="buttons">${one.choices.map((choice) => html`<${Action} key=${choice} label=${plain(choice)} run=${send({ answer: choice })} />`)}</div>
          <div class="input"><input aria-label="Answer" value=${text} onInput=${(event) => setText(event.target.value)} /><${Action} label="Answer" disabled=${!text.trim()} run=${send({ answer: text })} /></div>`}
  </li>`;
}

/** How often models were asked, in words. */
function calls(spent) {
  return spent.calls === 1 ? "1 call" : `${count(spent.calls)} calls`;
}

export function Now() {
  const live = useLive(link("/api/now"), ["board", "sandboxes"]);
  // Apart, since words of conversations are news all the time.
  const asked = useLive(link("/api/questions"), ["conversations", "gateways"]);
  const ledger = useLive(link("/api/usage", { by: "profile", days: 1, zone: zone() }), ["conversations"]);
  const gateways = useLive("/api/gateways", ["gateways"]);
  const unread = (ledger.data?.unread ?? []).map((one) => ({ subject: `what profile ${one.profile} spent`, detail: one.error, advice: "" }));
  const failing = (gateways.data?.gateways ?? []).filter((one) => gatewayTroubles(one).length > 0 && (!profile() || one.profile === profile()));
  const questions = asked.data?.questions ?? [];
  const unasked = asked.error ? [{ subject: "questions of conversations", detail: asked.error.message, advice: asked.error.advice }] : (asked.data?.troubles ?? []);
  return html`<h1>Now${profile() && html` <small>${profile()}</small>`}</h1>
    <${Loaded} live=${live}>${(now) => {
      const spent = ledger.data?.total;
      const { disk } = now;
      const total = now.needs_you_total + questions.length;
      return html`
      <${Troubles} troubles=${[...now.troubles, ...unread, ...unasked]} />
      ${gateways.error && html`<${Troubles} troubles=${[{ subject: "gateways", detail: gateways.error.message, advice: gateways.error.advice }]} />`}
      ${disk?.low && html`<${Card} title="The disk is nearly full" tone="bad"><p>${bytes(disk.free_bytes)} are left of ${bytes(disk.total_bytes)} in <code>${plain(disk.path)}</code>. What is no longer needed: <${Command} line="vestal prune --dry-run" /></p></${Card}>`}
      ${failing.map((one) => html`<${Card} title=${`Gateway of ${one.profile}: ${gatewayState(one)}`} tone="bad" key=${one.profile} actions=${html`<a href=${link("/logs", { profile: one.profile })}>log</a>`}>
        ${gatewayTroubles(one).map((words) => html`<p class="why" key=${words}>${plain(words)}</p>`)}</${Card}>`)}
      <${Card} title=${`Needs you (${total})`} actions=${html`<${NoticeSwitch} />`}>
        ${total > 0
          ? html`<ul class="plain">${questions.map((one) => html`<${Asked} one=${one} reload=${asked.reload} key=${`${one.profile}/${one.session}/${one.id}`} />`)}
            ${now.needs_you.map((task) => html`<${Needed} task=${task} reload=${live.reload} key=${`${task.board}/${task.id}`} />`)}</ul>
            ${now.needs_you_total > now.needs_you.length && html`<p class="quiet">and ${now.needs_you_total - now.needs_you.length} more on the <a href=${link("/board", { attention: "1" })}>board</a></p>`}`
          : html`<${Empty}>Nothing waits for you.</${Empty}>`}
      </${Card}>
      <div class="pair">
        <${Card} title="Spent today" actions=${html`<a href=${link("/usage")}>usage</a>`}>
          ${ledger.error && !spent
            ? html`<p class="why">${ledger.error.message}</p>`
            : !spent
            ? html`<p class="quiet">…</p>`
            : spent.calls > 0
            ? html`<p class="big">${isPriced(spent) ? cost(spent) : calls(spent)}</p>${!isPriced(spent) && html`<p class="quiet">What they cost is not known: <code>model.prices</code> has no price of the model.</p>`}
              <p class="quiet">${isPriced(spent) && html`${calls(spent)} · `} ${count(spent.input_tokens + spent.cache_read_tokens)} tokens sent · ${count(spent.output_tokens)} written</p>`
            : html`<${Empty}>Nothing since midnight.</${Empty}>`}
        </${Card}>
        ${disk && html`<${Card} title="Disk"><p class="big">${bytes(disk.free_bytes)} free</p>
          <p><${Meter} share=${1 - disk.free_bytes / disk.total_bytes} name="Disk used" /> <span class="quiet">of ${bytes(disk.total_bytes)}</span></p></${Card}>`}
      </div>
      <${Card} title=${`Tasks at work (${now.running_tasks.length})`}>
        ${now.running_tasks.length
          ? html`<ul class="plain">${now.running_tasks.map(
              (task) => html`<li class="line" key=${`${task.board}/${task.id}`}>
                <${Badge} word="running" tone="good" />
                <a href=${link(`/board/${encodeURIComponent(task.board)}/${task.id}`)}>${plain(task.title)}</a>
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
      </${Card}>`;
    }}
    </${Loaded}>`;
}
