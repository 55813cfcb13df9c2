// Long actions on a sandbox: what goes and what stays is said first; how far they are, on any page and after it was closed.
import { api, Badge, bytes, Card, html, link, useLive, useRef, useState, When } from "../lib.js";
import { isOperator, Labelled, Outcome, useSend } from "../forms.js";
import { sandboxApi, sandboxPath } from "./sandbox-head.js";

const VERBS = {
  snapshot: { label: "Snapshot", title: "Keep a copy", tone: "" },
  fork: { label: "Fork", title: "Make a new sandbox as a copy", tone: "" },
  rebuild: { label: "Rebuild", title: "Make it anew with the current settings", tone: "bad" },
  restore: { label: "Restore", title: "Go back to a snapshot", tone: "bad" },
  remove: { label: "Remove", title: "Remove the sandbox", tone: "bad" },
  remove_snapshot: { label: "Delete", title: "Delete a snapshot", tone: "bad" },
};

/** A button that says what an action takes away, asks for what it needs, and begins it. */
export function LongAction({ owner, task, verb, snapshot = "", disabled = false, note = "" }) {
  const { label, title, tone } = VERBS[verb];
  const dialog = useRef(null);
  const [plan, setPlan] = useState(null);
  const [wish, setWish] = useState({ snapshot, note: "", to: "", backend: "", files: false, stop: false });
  const base = sandboxApi(owner, task);
  const ask = async (wanted) => {
    setWish(wanted);
    const query = new URLSearchParams({ verb });
    for (const name of ["snapshot", "to", "backend", "files", "stop"]) {
      if (wanted[name] && (name !== "snapshot" || snapshot)) query.set(name, String(wanted[name]));
    }
    try {
      setPlan(await api(`${base}/plan?${query}`));
    } catch (error) {
      setPlan({ error });
    }
  };
  const begin = useSend(async () => {
    await api(`${base}/actions`, { body: { verb, ...wish } });
    dialog.current.close();
  });
  if (!isOperator()) return null;
  const open = () => {
    begin.clear();
    setPlan(null);
    ask({ snapshot, note: "", to: "", backend: "", files: false, stop: false });
    dialog.current.showModal();
  };
  const field = (name) => (event) => setWish({ ...wish, [name]: event.target.value });
  const isBusy = plan?.jobs_running > 0 && verb !== "remove" && verb !== "remove_snapshot" && !(verb === "fork" && snapshot);
  return html`<span class="action"><button type="button" class=${tone} disabled=${disabled} onClick=${open}>${label}</button>
    <dialog ref=${dialog} aria-label=${title} class="plan"><form class="stacked" onSubmit=${(event) => {
        event.preventDefault();
        begin.send();
      }}>
      <h2>${title}</h2>
      ${snapshot && html`<p>Snapshot <strong>${snapshot}</strong></p>`}
      ${plan === null && html`<p class="quiet" role="status">Looking at what it takes …</p>`}
      ${plan?.error && html`<p class="why">${plan.error.message}</p>`}
      ${plan?.parts && html`<ul>${plan.parts.map((part) => html`<li key=${part}>${part}</li>`)}</ul>`}
      ${verb === "snapshot" && html`<${Labelled} label="Name" note="The time, unless given."><input value=${wish.snapshot} autocomplete="off" pattern="[A-Za-z0-9_][A-Za-z0-9._\\-]*" maxlength="64" onInput=${field("snapshot")} /></${Labelled}>
        <${Labelled} label="A line to remember it by"><input value=${wish.note} autocomplete="off" onInput=${field("note")} /></${Labelled}>`}
      ${verb === "fork" && html`<${Labelled} label="Task of the new sandbox"><input required value=${wish.to} autocomplete="off" onInput=${field("to")} /></${Labelled}>`}
      ${verb === "rebuild" && html`<${Labelled} label="Backend" note=${note}><select value=${wish.backend} onChange=${(event) => ask({ ...wish, backend: event.target.value })}>
        <option value="">the one it is on</option>${(plan?.backends ?? []).map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></${Labelled}>`}
      ${verb === "remove" && html`<label class="check"><input type="checkbox" checked=${wish.files} onChange=${(event) => ask({ ...wish, files: event.target.checked })} /> with workspace, home and snapshots</label>`}
      ${isBusy && html`<label class="check"><input type="checkbox" checked=${wish.stop} onChange=${(event) => setWish({ ...wish, stop: event.target.checked })} />
        end ${plan.jobs_running} running ${plan.jobs_running === 1 ? "job" : "jobs"} first; otherwise it is refused while jobs run</label>`}
      <${Outcome} of=${begin} />
      <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        <button type="submit" class=${tone} disabled=${!plan?.parts || begin.isBusy}>${label}</button></div>
    </form></dialog></span>`;
}

const WORDS = { running: "running", done: "done", failed: "failed", busy: "refused", given_up: "given up", interrupted: "interrupted" };
const TONES = { running: "good", done: "plain", failed: "bad", busy: "warn", given_up: "warn", interrupted: "bad" };

/** Ended actions that are shown. */
const SHOWN = 5;

/** Actions that run or ended lately, of one sandbox or of all. */
export function Operations({ owner = "", task = "" }) {
  const live = useLive(link("/api/operations", owner ? { profile: owner } : {}), ["sandboxes"]);
  const [all, setAll] = useState(false);
  const operations = (live.data?.operations ?? []).filter((one) => !task || one.task === task);
  if (operations.length === 0) return null;
  const shown = operations.filter((one, at) => all || one.state === "running" || at < (task ? SHOWN : 3));
  const forget = async (one) => {
    await api(`/api/operations/${encodeURIComponent(one.profile)}/${one.id}/forget`, { body: {} });
    live.reload();
  };
  return html`<${Card} title="Long actions">
    <ul class="plain">${shown.map((one) => html`<li key=${one.id} class="line operation">
      <${Badge} word=${WORDS[one.state]} tone=${TONES[one.state]} />
      <span>${!task && html`<a href=${link(sandboxPath(one.profile, one.task))}>${one.task}</a>${": "}`}${one.what}</span>
      <span class="quiet"><${When} at=${one.ended_at ?? one.started_at} />${one.by !== "dashboard" && ` · by ${one.by === "vestal" ? "the command line" : one.by}`}</span>
      ${one.state !== "running" && isOperator() && html`<button type="button" class="small" onClick=${() => forget(one)} aria-label=${`Forget: ${one.what}`}>✕</button>`}
      ${one.state === "running" && html`<p>${one.total
        ? html`<progress max=${one.total} value=${one.done ?? 0} aria-label=${one.what}></progress> `
        : html`<progress aria-label=${one.what}></progress> `}<span class="quiet">${one.step}${one.total ? ` of ${bytes(one.total)}` : ""}</span></p>`}
      ${one.result && one.state !== "running" && html`<p class=${one.state === "done" ? "quiet" : "why"}>${one.result}</p>`}
      ${one.remarks.map((remark) => html`<p class="quiet" key=${remark}>${remark}</p>`)}
    </li>`)}</ul>
    ${shown.length < operations.length && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${operations.length}</button></p>`}
  </${Card}>`;
}
