// Sandboxes and their jobs.
import {
  Action, api, Badge, bytes, Card, Command, Empty, html, identity, link, Loaded, profile, span, Troubles, useEffect,
  useLive, useRef, useState, When,
} from "../lib.js";
import { Log } from "../log-view.js";
import { LongAction, Operations } from "./sandbox-actions.js";
import { SandboxHead, sandboxPath } from "./sandbox-head.js";
import { Ports, Usage } from "./sandbox-usage.js";

const TONES = { running: "good", unresponsive: "bad", unknown: "bad", stopped: "plain", absent: "plain" };

function at(sandbox) {
  return `${encodeURIComponent(sandbox.profile)}/${encodeURIComponent(sandbox.task)}`;
}

export function SandboxRow({ sandbox }) {
  return html`<li class="line">
    <${Badge} word=${sandbox.state} tone=${TONES[sandbox.state]} />
    <a href=${link(`/sandboxes/${at(sandbox)}`)}>${sandbox.task}</a>
    <span class="quiet">${sandbox.profile} · ${sandbox.backend}
      ${sandbox.jobs_running > 0 && html` · ${sandbox.jobs_running} running`}
      ${sandbox.idle_seconds !== null && html` · idle ${span(sandbox.idle_seconds)}`}</span>
    ${sandbox.drift.length > 0 && html`<${Badge} word=${`drift: ${sandbox.drift.join(", ")}`} tone="warn" />`}
    ${sandbox.trouble && html`<p class="why">${sandbox.trouble}</p>`}
  </li>`;
}

export function Sandboxes() {
  const live = useLive(link("/api/sandboxes"), ["sandboxes", "settings"]);
  const [text, setText] = useState("");
  const isWanted = (sandbox) => `${sandbox.profile}/${sandbox.task} ${sandbox.state} ${sandbox.backend}`.includes(text);
  return html`<h1>Sandboxes${profile() && html` <small>${profile()}</small>`}</h1>
    <${Loaded} live=${live}>${(view) => html`
      <${Troubles} troubles=${view.troubles} />
      <${Operations} />
      <${Card}>
        ${view.sandboxes.length > 8 &&
        html`<p><label>Filter <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /></label></p>`}
        ${view.sandboxes.length
          ? html`<ul class="plain">${view.sandboxes.filter(isWanted).map((one) => html`<${SandboxRow} sandbox=${one} key=${`${at(one)}${one.id}`} />`)}</ul>`
          : html`<${Empty}>There are no sandboxes. To make one: <${Command} line="vestal run hostname" /></${Empty}>`}
      </${Card}>`}
    </${Loaded}>`;
}

function Fact({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}

export function jobWord(job) {
  if (job.state !== "ended") return job.state;
  if (job.cause === "exited") return `exit ${job.exit_code}`;
  return (job.cause ?? "ended").replaceAll("_", " ");
}

function jobTone(job) {
  if (job.state !== "ended") return "good";
  return job.cause === "exited" && job.exit_code === 0 ? "plain" : "warn";
}

/** When the idle clock ends it, and the way to begin the clock anew. */
function IdleClock({ view, touch }) {
  if (view.state !== "running") return null;
  const idle = view.jobs_running > 0 ? "in use: the clock stands while a job runs" : `idle for ${span(view.idle_seconds ?? 0)}`;
  return html`<p class="line"><span>${idle}${view.expires_at && html`; it is ${view.owned ? "ended" : "stopped"} <${When} at=${view.expires_at} /> unless it is used`}${!view.expires_at && "; it does not idle out"}</span>
    <${Action} label="Touch" run=${touch} /></p>`;
}

export function Sandbox({ owner, task }) {
  const path = `/api/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}`;
  const live = useLive(path, ["sandboxes", "settings"]);
  const stop = async () => {
    const answer = await api(`${path}/stop`, { body: {} });
    live.reload();
    if (!answer.was_running) return "it was not running";
    return answer.files_lost ? "stopped; workspace and home were in memory and are lost" : "stopped; its files are kept";
  };
  const start = async () => {
    // An image may have to be fetched: how far that is, is said below, also when the page was closed.
    await api(`${path}/actions`, { body: { verb: "start" } });
    live.reload();
  };
  const touch = async () => {
    await api(`${path}/touch`, { body: {} });
    live.reload();
    return "the clock begins anew";
  };
  return html`<${SandboxHead} owner=${owner} task=${task} page="" />
    <${Loaded} live=${live}>${(view) => html`
      ${view.trouble && html`<${Card} title="Trouble" tone="bad"><p>${view.trouble}</p></${Card}>`}
      <${Card} title="State" actions=${html`<span class="buttons-line">
          ${view.state === "stopped" || view.state === "absent"
            ? html`<${Action} label="Start" run=${start} />`
            : html`<${Action} label="Stop" tone="bad" disabled=${view.state !== "running"} run=${stop}
                ask="Its running jobs end. Files, installed tools and shell sessions are kept, unless workspace and home are in memory; the next use starts it again." />`}
          ${!view.owned && html`<${LongAction} owner=${owner} task=${task} verb="snapshot" />
          <${LongAction} owner=${owner} task=${task} verb="fork" />
          <${LongAction} owner=${owner} task=${task} verb="rebuild" note="A move to another backend keeps workspace and home." />
          <${LongAction} owner=${owner} task=${task} verb="remove" />`}</span>`}>
        <dl class="facts">
          <${Fact} name="state"><${Badge} word=${view.state} tone=${TONES[view.state]} /></${Fact}>
          <${Fact} name="backend">${view.backend}${view.tier && ` (${view.tier})`}</${Fact}>
          <${Fact} name="image">${view.image ?? "–"}</${Fact}>
          <${Fact} name="created"><${When} at=${view.created_at} /></${Fact}>
          <${Fact} name="last used"><${When} at=${view.last_used_at} /></${Fact}>
          <div class="wide"><dt>directory</dt><dd><code>${view.dir}</code></dd></div>
        </dl>
        <${IdleClock} view=${view} touch=${touch} />
        ${view.drift_details.length > 0 && html`<div class="why"><p>Settings have changed since it was made:</p>
          <ul>${view.drift_details.map((drift) => html`<li key=${drift.key}><code>${drift.key}</code> ${drift.was ?? "default"} → ${drift.now ?? "default"}${drift.tightens && " (isolates more)"}${drift.loosens && " (isolates less)"}</li>`)}</ul>
          <p class="quiet">Rebuild makes it anew with them. Where a start takes them, stopping it is enough.</p></div>`}
      </${Card}>
      <${Operations} owner=${owner} task=${task} />
      <${Usage} owner=${owner} task=${task} isRunning=${view.state === "running"} />
      <${Card} title="Jobs">
        ${view.jobs.length
          ? html`<ul class="plain">${view.jobs.toReversed().map((job) => html`<li class="line" key=${job.id}>
              <${Badge} word=${jobWord(job)} tone=${jobTone(job)} />
              <a href=${link(`${sandboxPath(owner, task)}/${job.pty && job.state !== "ended" ? "terminal" : "jobs"}/${job.id}`)}><code>${job.command}</code></a>
              <span class="quiet"><${When} at=${job.started_at} />${job.pty && " · terminal"}</span></li>`)}</ul>`
          : html`<${Empty}>${view.state === "running" ? "It has run no job yet." : "It does not run, so its jobs cannot be asked for."}</${Empty}>`}
      </${Card}>
      ${view.state === "running" && html`<${Ports} owner=${owner} task=${task} />`}
      <${Card} title="Snapshots">
        ${view.snapshots.length
          ? html`<ul class="plain">${view.snapshots.toReversed().map((one) => html`<li class="line" key=${one.name}><strong>${one.name}</strong>
              <span class="quiet"><${When} at=${one.created_at} /> · ${one.files} files, ${bytes(one.bytes)}${one.note && ` · ${one.note}`}</span>
              <span class="buttons-line"><${LongAction} owner=${owner} task=${task} verb="restore" snapshot=${one.name} />
                <${LongAction} owner=${owner} task=${task} verb="fork" snapshot=${one.name} />
                <${LongAction} owner=${owner} task=${task} verb="remove_snapshot" snapshot=${one.name} /></span></li>`)}</ul>`
          : html`<${Empty}>None. A snapshot keeps workspace, home and installed software, to go back to or to fork.</${Empty}>`}
      </${Card}>`}
    </${Loaded}>`;
}

/** Sends lines to the standard input of a job. */
function Input({ path }) {
  const [text, setText] = useState("");
  const [said, setSaid] = useState("");
  const socket = useRef(null);
  useEffect(() => () => socket.current?.close(), [path]);
  const open = async () => {
    if (socket.current?.readyState === WebSocket.OPEN) return socket.current;
    const { ticket } = await api("/api/auth/ws-ticket", { body: {} });
    const opened = new WebSocket(`${location.origin.replace(/^http/, "ws")}${path}?ticket=${ticket}`);
    socket.current = opened;
    opened.addEventListener("message", (event) => {
      const answer = JSON.parse(event.data);
      setSaid(answer.error ?? "");
    });
    await new Promise((resolve, reject) => {
      opened.addEventListener("open", resolve);
      opened.addEventListener("error", () => reject(new Error("the connection was refused")));
    });
    return opened;
  };
  const send = async (event) => {
    event.preventDefault();
    try {
      (await open()).send(`${text}\n`);
      setText("");
    } catch (error) {
      setSaid(error.message);
    }
  };
  return html`<form class="input" onSubmit=${send}>
    <label for="stdin">Standard input</label>
    <input id="stdin" autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} />
    <button type="submit">Send</button>
    <span role="status" class="bad-text">${said}</span>
  </form>`;
}

export function Job({ owner, task, job }) {
  const sandbox = `/api/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}`;
  const path = `${sandbox}/jobs/${encodeURIComponent(job)}`;
  const live = useLive(path, ["sandboxes"]);
  const kill = async () => {
    await api(`${path}/kill`, { body: {} });
    live.reload();
    return "killed";
  };
  const isOperator = identity.value?.right === "operator";
  return html`<p class="crumbs"><a href=${link("/sandboxes")}>Sandboxes</a> / <a href=${link(`/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}`)}>${task}</a></p>
    <${Loaded} live=${live} title="Job">${(view) => html`
      <h1 class="command-title"><code>${view.command}</code></h1>
      <p class="line"><${Badge} word=${jobWord(view)} tone=${jobTone(view)} />
        <span class="quiet">${view.id} · <${When} at=${view.started_at} />${view.processes > 0 && ` · ${view.processes} processes`}</span>
        <${Action} label="Kill" tone="bad" disabled=${view.state === "ended" && view.processes === 0} run=${kill}
          ask="The job and everything it started is killed. The sandbox and its files stay." /></p>
      <${Log} path=${`${path}/log`} ending=${jobWord} />
      ${isOperator && view.stdin_open && html`<${Input} path=${`${path}/input`} />`}`}
    </${Loaded}>`;
}
