// Sandboxes and their jobs.
import {
  Action, api, Badge, bytes, Card, Command, Empty, html, identity, link, Loaded, plain, profile, span, Troubles, useEffect,
  useLive, useRef, useState, When,
} from "../lib.js";

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

export function Sandbox({ owner, task }) {
  const path = `/api/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}`;
  const live = useLive(path, ["sandboxes", "settings"]);
  const stop = async () => {
    const answer = await api(`${path}/stop`, { body: {} });
    live.reload();
    if (!answer.was_running) return "it was not running";
    return answer.files_lost ? "stopped; workspace and home were in memory and are lost" : "stopped; its files are kept";
  };
  return html`<p class="crumbs"><a href=${link("/sandboxes")}>Sandboxes</a></p>
    <h1>${task} <small>${owner}</small></h1>
    <${Loaded} live=${live}>${(view) => html`
      ${view.trouble && html`<${Card} title="Trouble" tone="bad"><p>${view.trouble}</p></${Card}>`}
      <${Card} title="State" actions=${html`<${Action} label="Stop" tone="bad" disabled=${view.state !== "running"} run=${stop}
          ask="Its running jobs end. Files, installed tools and shell sessions are kept, unless workspace and home are in memory; the next use starts it again." />`}>
        <dl class="facts">
          <${Fact} name="state"><${Badge} word=${view.state} tone=${TONES[view.state]} /></${Fact}>
          <${Fact} name="backend">${view.backend}${view.tier && ` (${view.tier})`}</${Fact}>
          <${Fact} name="image">${view.image ?? "–"}</${Fact}>
          <${Fact} name="created"><${When} at=${view.created_at} /></${Fact}>
          <${Fact} name="last used"><${When} at=${view.last_used_at} /></${Fact}>
          <${Fact} name="expires">${view.expires_at ? html`<${When} at=${view.expires_at} />` : "never"}</${Fact}>
          ${view.stats && html`
            <${Fact} name="processes">${view.stats.processes}</${Fact}>
            <${Fact} name="memory">${bytes(view.stats.memory_bytes)}</${Fact}>
            <${Fact} name="CPU">${span(view.stats.cpu_ms / 1000)}</${Fact}>`}
          <${Fact} name="directory"><code>${view.dir}</code></${Fact}>
        </dl>
        ${view.drift_details.map((drift) => html`<p class="why" key=${drift.key}>
          settings changed: <code>${drift.key}</code> ${drift.was ?? "default"} → ${drift.now ?? "default"}</p>`)}
      </${Card}>
      <${Card} title="Jobs">
        ${view.jobs.length
          ? html`<ul class="plain">${view.jobs.toReversed().map((job) => html`<li class="line" key=${job.id}>
              <${Badge} word=${jobWord(job)} tone=${jobTone(job)} />
              <a href=${link(`/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}/jobs/${job.id}`)}><code>${job.command}</code></a>
              <span class="quiet"><${When} at=${job.started_at} /></span></li>`)}</ul>`
          : html`<${Empty}>${view.state === "running" ? "It has run no job yet." : "It does not run, so its jobs cannot be asked for."}</${Empty}>`}
      </${Card}>
      <${Card} title="Snapshots">
        ${view.snapshots.length
          ? html`<ul class="plain">${view.snapshots.map((one) => html`<li class="line" key=${one.name}><strong>${one.name}</strong>
              <span class="quiet"><${When} at=${one.created_at} /> · ${bytes(one.bytes)}${one.note && ` · ${one.note}`}</span></li>`)}</ul>`
          : html`<${Empty}>None. To keep one: <${Command} line=${`vestal snapshot ${task}`} /></${Empty}>`}
      </${Card}>`}
    </${Loaded}>`;
}

/** Lines of a log that are kept on the page. */
const MAX_PIECES = 4000;

/** Follows a log, and goes on where it was when the page is looked at again. */
function Log({ path }) {
  const [pieces, setPieces] = useState([]);
  const [ended, setEnded] = useState(null);
  const box = useRef(null);
  const sticks = useRef(true);
  useEffect(() => {
    /** @type {EventSource | null} */
    let source = null;
    let cursor = "";
    let isOver = false;
    const add = (piece) => setPieces((old) => [...old.slice(-MAX_PIECES), piece]);
    const open = () => {
      source?.close();
      source = null;
      if (document.hidden || isOver) return;
      const opened = new EventSource(`${path}?${new URLSearchParams({ cursor })}`);
      source = opened;
      const on = (name, take) =>
        opened.addEventListener(name, (event) => {
          if (event.lastEventId) cursor = event.lastEventId;
          take(JSON.parse(event.data));
        });
      on("begin", (data) => {
        if (data.stdout_from + data.stderr_from > 0) add({ kind: "gap", text: "… the beginning is not shown\n" });
      });
      on("output", (data) => add({ kind: data.stream, text: data.text }));
      on("gap", (data) => add({ kind: "gap", text: `\n… ${bytes(data.bytes)} left out\n` }));
      on("failed", (data) => add({ kind: "gap", text: `\n${data.detail}\n` }));
      on("ended", (data) => {
        isOver = true;
        setEnded(data);
        opened.close();
      });
    };
    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      isOver = true;
      source?.close();
      document.removeEventListener("visibilitychange", open);
    };
  }, [path]);
  useEffect(() => {
    if (sticks.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [pieces]);
  const scrolled = (event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.target;
    sticks.current = scrollHeight - scrollTop - clientHeight < 40;
  };
  return html`<pre class="log" ref=${box} onScroll=${scrolled} tabindex="0" aria-label="Output">${pieces.map(
    (piece, index) => html`<span class=${piece.kind} key=${index}>${plain(piece.text)}</span>`,
  )}${ended && html`<span class="gap">${`\n— ${jobWord(ended)}\n`}</span>`}${pieces.length === 0 && !ended && html`<span class="gap">no output yet</span>`}</pre>`;
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
    <${Loaded} live=${live}>${(view) => html`
      <h1 class="command-title"><code>${view.command}</code></h1>
      <p class="line"><${Badge} word=${jobWord(view)} tone=${jobTone(view)} />
        <span class="quiet">${view.id} · <${When} at=${view.started_at} />${view.processes > 0 && ` · ${view.processes} processes`}</span>
        <${Action} label="Kill" tone="bad" disabled=${view.state === "ended" && view.processes === 0} run=${kill}
          ask="The job and everything it started is killed. The sandbox and its files stay." /></p>
      <${Log} path=${`${path}/log`} />
      ${isOperator && view.stdin_open && html`<${Input} path=${`${path}/input`} />`}`}
    </${Loaded}>`;
}
