// Schedules: what is due when, who runs it, and what came of it.
import { Action, api, Badge, Card, Command, Empty, html, link, Loaded, plain, profile, span, Troubles, useLive, useState, When } from "../lib.js";
import { FormDialog, Labelled, lines, Outcome, useSend } from "../forms.js";

const RUN_TONES = { succeeded: "good", failed: "bad", timed_out: "bad", lost: "bad", interrupted: "warn", missed: "warn", skipped: "warn", running: "good" };
const STATE_TONES = { active: "good", paused: "warn", done: "plain" };

const EXAMPLES = ["every 2h", "0 9 * * 1-5", "at 2026-12-24T18:00", "in 20m"];

/** Returns the address of a schedule's own requests. */
function pathOf(owner, id) {
  return `/api/schedules/${encodeURIComponent(owner)}/${encodeURIComponent(id)}`;
}

function local(at) {
  return at ? new Date(at).toLocaleString() : "–";
}

/** A form for a new schedule, or for one that is there. What is empty goes back to its default. */
function ScheduleForm({ owner, schedule, done }) {
  const [draft, setDraft] = useState({
    name: schedule?.name ?? "",
    schedule: schedule?.schedule ?? "",
    timezone: schedule?.timezone ?? "",
    prompt: schedule?.prompt ?? "",
    skills: (schedule?.skills ?? []).join("\n"),
    model: schedule?.model ?? "",
    toolsets: (schedule?.toolsets ?? []).join("\n"),
    task: schedule?.task ?? "",
    workdir: schedule?.workdir ?? "",
    script: schedule?.script ?? "",
    deliver: schedule?.deliver ?? "",
    missed: schedule?.missed ?? "run",
  });
  const begun = useState(draft)[0];
  const set = (name) => (event) => setDraft((old) => ({ ...old, [name]: event.target.value }));
  /** Only what was changed is sent: a new time counts from now. */
  const request = () => {
    const nullable = ["model", "workdir", "script"];
    const listed = ["skills", "toolsets"];
    const body = {};
    for (const [name, value] of Object.entries(draft)) {
      if (schedule ? value === begun[name] : value === "") continue;
      if (listed.includes(name)) body[name] = name === "toolsets" && lines(value).length === 0 ? null : lines(value);
      else if (nullable.includes(name)) body[name] = value.trim() || null;
      else body[name] = name === "prompt" ? value : value.trim();
    }
    return body;
  };
  const save = useSend(async () => {
    const path = schedule ? `${pathOf(owner, schedule.id)}/edit` : `/api/schedules/${encodeURIComponent(owner)}`;
    const made = await api(path, { body: request() });
    done(made);
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  const text = (name, label, note, more = {}) => html`<${Labelled} label=${label} note=${note}><input spellcheck=${false} autocomplete="off" value=${draft[name]} onInput=${set(name)} ...${more} /></${Labelled}>`;
  return html`<form onSubmit=${submit}>
    ${text("schedule", "When", html`For example ${EXAMPLES.map((one, at) => html`${at ? ", " : ""}<code>${one}</code>`)}. Five fields are minute, hour, day, month, weekday.`, { required: true, autofocus: true })}
    <${Labelled} label="What the agent is asked"><textarea required rows="4" value=${draft.prompt} onInput=${set("prompt")}></textarea></${Labelled}>
    ${text("name", "Name", "How the prompt begins, unless given.")}
    <details><summary>More</summary>
      ${text("timezone", "Time zone", "Such as Europe/Berlin; that of the machine unless given.")}
      <${Labelled} label="Moments at which no gateway ran"><select value=${draft.missed} onChange=${set("missed")}><option value="run">one run makes up for them</option><option value="skip">they are reported only</option></select></${Labelled}>
      ${text("model", "Model", "MODEL or PROVIDER:MODEL; the configured one unless given.")}
      ${text("task", "Task whose sandbox it works in", "default unless given.")}
      ${text("workdir", "Directory of the sandbox to begin in")}
      ${text("script", "Command to run first", "What it prints is added to the prompt; a run whose command fails has failed.")}
      ${text("deliver", "Where the output goes", "local, or conversation:ID.")}
      <${Labelled} label="Skills" note="One on each line."><textarea rows="2" value=${draft.skills} onInput=${set("skills")}></textarea></${Labelled}>
      <${Labelled} label="Toolsets" note="One on each line; the configured ones unless given."><textarea rows="2" value=${draft.toolsets} onInput=${set("toolsets")}></textarea></${Labelled}>
    </details>
    <div class="buttons"><button type="submit" class="good" disabled=${save.isBusy}>${schedule ? "Save" : "Create"}</button><button type="button" onClick=${() => done(null)}>Cancel</button></div>
    <${Outcome} of=${save} />
  </form>`;
}

function Buttons({ owner, schedule, reload, gone }) {
  const post = (verb, words, after = reload) => async () => {
    await api(`${pathOf(owner, schedule.id)}/${verb}`, { body: {} });
    after();
    return words;
  };
  return html`<div class="buttons">
    <${Action} label="Run now" run=${post("run", "The gateway runs it.")} />
    ${schedule.state === "active" && html`<${Action} label="Pause" run=${post("pause", "")} />`}
    ${schedule.state === "paused" && html`<${Action} label="Resume" run=${post("resume", "")} />`}
    <${FormDialog} label="Edit" title=${`Edit ${schedule.name}`}>${(close) => html`<${ScheduleForm} owner=${owner} schedule=${schedule} done=${() => { close(); reload(); }} />`}</${FormDialog}>
    <${Action} label="Remove" tone="bad" ask=${`Remove ${schedule.name} with the records of ${schedule.runs} runs? Their conversations stay; a run in progress goes on.`} run=${post("remove", "", gone ?? reload)} />
  </div>`;
}

function Due({ schedule }) {
  if (schedule.state !== "active") return null;
  return html`<span class=${schedule.overdue ? "bad-text" : "quiet"}>${schedule.overdue ? "overdue, " : "next "}<${When} at=${schedule.next_run_at} /></span>`;
}

function runCount({ runs, failures }) {
  if (runs === 0) return "not run yet";
  return `${runs} ${runs === 1 ? "run" : "runs"}${failures ? `, ${failures} failed` : ""}`;
}

function Runner({ runner, owner }) {
  if (!runner || runner.is_running) return null;
  return html`<${Card} title=${`Nobody runs the schedules of ${owner} now`} tone="bad"><p class="why">${runner.reason}</p><p>To have them run: <a href=${link("/gateways")}>start the gateway</a>.</p></${Card}>`;
}

export function Schedules() {
  const live = useLive(link("/api/schedules"), ["schedules", "gateways", "settings"]);
  const owner = profile() || "default";
  return html`<h1>Schedules${profile() && html` <small>${profile()}</small>`}</h1>
    <p><${FormDialog} label="New schedule" title=${`New schedule of ${owner}`} tone="good">${(close) => html`<${ScheduleForm} owner=${owner} done=${() => { close(); live.reload(); }} />`}</${FormDialog}></p>
    <${Loaded} live=${live}>${(view) => html`
      <${Troubles} troubles=${view.troubles} />
      ${view.runners.filter((one) => !one.is_running).map((one) => html`<${Runner} runner=${one} owner=${one.profile} key=${one.profile} />`)}
      ${view.schedules.length === 0
        ? html`<${Card}><${Empty}>Nothing is scheduled. Make a schedule here, or: <${Command} line="vestal cron create 'every 2h' 'check the mirrors'" /></${Empty}></${Card}>`
        : html`<${Card}><ul class="plain">${view.schedules.map((schedule) => html`<li key=${`${schedule.profile}/${schedule.id}`}>
            <div class="line"><a href=${link(`/schedules/${schedule.profile}/${schedule.id}`)}><strong>${schedule.name}</strong></a>
              <${Badge} word=${schedule.state} tone=${STATE_TONES[schedule.state]} />
              ${schedule.last_status && html`<${Badge} word=${schedule.last_status} tone=${RUN_TONES[schedule.last_status]} />`}
              <code>${schedule.schedule}</code> <span class="quiet">${schedule.description !== schedule.schedule ? schedule.description : ""}</span>
              <${Due} schedule=${schedule} /> <span class="quiet">${schedule.profile} · ${runCount(schedule)}</span></div>
            <${Buttons} owner=${schedule.profile} schedule=${schedule} reload=${live.reload} />
          </li>`)}</ul></${Card}>`}`}
    </${Loaded}>`;
}

function Run({ run, owner }) {
  return html`<li>
    <div class="line"><${Badge} word=${run.status} tone=${RUN_TONES[run.status]} /> <span>run ${run.id}</span>
      <span class="quiet">${run.trigger} · <${When} at=${run.started_at ?? run.claimed_at} />${run.duration_ms !== null ? ` · took ${span(run.duration_ms / 1000)}` : ""}${run.tokens !== null ? ` · ${run.tokens} tokens` : ""}${run.cost_usd !== null ? ` · $${run.cost_usd.toFixed(4)}` : ""}${run.missed > 1 ? ` · ${run.missed} moments` : ""}</span>
      ${run.conversation && html`<a href=${link(`/conversations/${owner}/${run.conversation}`)}>conversation</a>`}</div>
    ${run.error && html`<p class="why">${plain(run.error)}</p>`}
    ${run.delivery_error && html`<p class="why">not delivered: ${plain(run.delivery_error)}</p>`}
    ${run.output && html`<details><summary>Output</summary><div class="log">${plain(run.output)}${run.output_omitted > 0 ? html`<p class="gap">${run.output_omitted} bytes are not kept</p>` : ""}</div></details>`}
  </li>`;
}

export function Schedule({ owner, id }) {
  const live = useLive(pathOf(owner, id), ["schedules", "gateways"]);
  const [isGone, setGone] = useState(false);
  if (isGone) return html`<h1>Schedule</h1><${Card}><${Empty}>It was removed. <a href=${link("/schedules")}>All schedules</a></${Empty}></${Card}>`;
  return html`<p class="crumbs"><a href=${link("/schedules")}>Schedules</a> / ${owner}</p>
    <h1>${live.data?.schedule.name ?? id}</h1>
    <${Loaded} live=${live}>${({ schedule, runs, runner }) => html`
      <${Runner} runner=${runner} owner=${owner} />
      <${Card}>
        <p class="line"><${Badge} word=${schedule.state} tone=${STATE_TONES[schedule.state]} /> <code>${schedule.schedule}</code> <span>${schedule.description}</span> <span class="quiet">${schedule.timezone}</span></p>
        <dl class="facts">
          <div><dt>Next</dt><dd>${schedule.upcoming.length ? schedule.upcoming.map((at) => html`<div key=${at}>${local(at)}</div>`) : "–"}</dd></div>
          <div><dt>Missed moments</dt><dd>${schedule.missed === "run" ? "one run makes up for them" : "reported only"}</dd></div>
          <div><dt>Sandbox</dt><dd>${schedule.task}${schedule.workdir ? ` in ${schedule.workdir}` : ""}</dd></div>
          <div><dt>Model</dt><dd>${schedule.model ?? "the configured one"}</dd></div>
          <div><dt>Toolsets</dt><dd>${schedule.toolsets?.join(", ") ?? "the configured ones"}</dd></div>
          <div><dt>Skills</dt><dd>${schedule.skills.join(", ") || "–"}</dd></div>
          <div><dt>Output</dt><dd>${schedule.deliver}</dd></div>
          <div><dt>Runs</dt><dd>${runCount(schedule)}</dd></div>
        </dl>
        ${schedule.script && html`<p>First: <code class="command">${schedule.script}</code></p>`}
        <p class="prose">${schedule.prompt}</p>
        <${Buttons} owner=${owner} schedule=${schedule} reload=${live.reload} gone=${() => setGone(true)} />
      </${Card}>
      <${Card} title="Runs">${runs.length ? html`<ul class="plain">${runs.map((run) => html`<${Run} run=${run} owner=${owner} key=${run.id} />`)}</ul>` : html`<${Empty}>It has not run yet.</${Empty}>`}</${Card}>`}
    </${Loaded}>`;
}
