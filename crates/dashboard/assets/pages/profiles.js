// Profiles: isolated homes; made, cloned, renamed, deleted with what goes, taken elsewhere.
import { api, Badge, bytes, Card, Empty, home, html, link, Loaded, Troubles, useEffect, useLive, useRef, useState } from "../lib.js";
import { explained, FormDialog, isOperator, Labelled, Outcome, useSend } from "../forms.js";

/** The switcher above all pages names profiles, too. */
async function changed(live) {
  live.reload();
  home.value = await api("/api/home");
}

function CreateForm({ profiles, live, done }) {
  const [draft, setDraft] = useState({ name: "", clone_from: "", description: "" });
  const set = (name) => (event) => setDraft((old) => ({ ...old, [name]: event.target.value }));
  const save = useSend(async () => {
    await api("/api/profiles", { body: { ...draft, clone_from: draft.clone_from || null } });
    await changed(live);
    done();
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  return html`<form onSubmit=${submit}>
    <${Labelled} label="Name" note="a-z, 0-9, _ and -"><input required autofocus spellcheck=${false} autocomplete="off" value=${draft.name} onInput=${set("name")} /></${Labelled}>
    <${Labelled} label="Begins with" note="A clone has settings, secrets, skills and memories of the other, but not its conversations and sandboxes.">
      <select value=${draft.clone_from} onChange=${set("clone_from")}><option value="">nothing</option>${profiles.map((one) => html`<option value=${one.name} key=${one.name}>a clone of ${one.name}</option>`)}</select></${Labelled}>
    <${Labelled} label="Description"><input value=${draft.description} onInput=${set("description")} /></${Labelled}>
    <div class="buttons"><button type="submit" class="good" disabled=${save.isBusy}>Create</button><button type="button" onClick=${done}>Cancel</button></div>
    <${Outcome} of=${save} />
  </form>`;
}

/** What goes with a profile, asked when the dialog opens: to find sandboxes takes a moment. */
function Plan({ name, children }) {
  const [state, setState] = useState({ plan: null, error: null });
  useEffect(() => {
    api(`/api/profiles/${encodeURIComponent(name)}/plan`).then((plan) => setState({ plan, error: null }), (error) => setState({ plan: null, error }));
  }, [name]);
  if (state.error) return html`<p class="why">${explained(state.error)}</p>`;
  if (!state.plan) return html`<p class="quiet" role="status">Looking for its sandboxes…</p>`;
  return html`${state.plan.sandboxes.length > 0 && html`<ul>${state.plan.sandboxes.map((own) => html`<li key=${own.task}>the sandbox <strong>${own.task}</strong> on ${own.backend}${own.jobs_running ? `, with ${own.jobs_running} running jobs` : ""}${own.has_system ? ", with everything installed in it" : ""}</li>`)}</ul>`}
    ${children(state.plan)}`;
}

function RenameForm({ name, live, done }) {
  const [to, setTo] = useState(name);
  const save = useSend(async () => {
    await api(`/api/profiles/${encodeURIComponent(name)}/rename`, { body: { to } });
    await changed(live);
    done();
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  return html`<form onSubmit=${submit}>
    <${Labelled} label="New name"><input required autofocus spellcheck=${false} autocomplete="off" value=${to} onInput=${(event) => setTo(event.target.value)} /></${Labelled}>
    <${Plan} name=${name}>${(plan) => html`<p>${plan.sandboxes.length ? "These instances are removed; workspaces, homes and snapshots stay, and the next use makes new instances with them." : "It has no sandbox that would have to be made again."}</p>
      <div class="buttons"><button type="submit" class="good" disabled=${save.isBusy || to.trim() === name}>Rename</button><button type="button" onClick=${done}>Cancel</button></div>`}</${Plan}>
    <${Outcome} of=${save} />
  </form>`;
}

function DeleteForm({ name, live, done }) {
  const [confirm, setConfirm] = useState("");
  const remove = useSend(async () => {
    await api(`/api/profiles/${encodeURIComponent(name)}/delete`, { body: { confirm } });
    await changed(live);
    done();
  });
  const submit = (event) => {
    event.preventDefault();
    remove.send();
  };
  return html`<form onSubmit=${submit}>
    <${Plan} name=${name}>${(plan) => html`<p>${plan.sandboxes.length ? "These go, with their files, and " : ""}<code>${plan.path}</code> goes with settings, secrets, conversations, memories and skills. Its gateway is stopped. Nothing of it can be brought back.</p>
      <${Labelled} label=${`Write ${name} to delete it`}><input required autofocus spellcheck=${false} autocomplete="off" value=${confirm} onInput=${(event) => setConfirm(event.target.value)} /></${Labelled}>
      <div class="buttons"><button type="submit" class="bad" disabled=${remove.isBusy || confirm.trim() !== name}>Delete</button><button type="button" onClick=${done}>Cancel</button></div>`}</${Plan}>
    <${Outcome} of=${remove} />
  </form>`;
}

/** The largest archive. */
const MAX_ARCHIVE = 160 * 1024 * 1024;

function ImportForm({ live, done }) {
  const [name, setName] = useState("");
  const file = useRef(null);
  const send = useSend(async () => {
    const chosen = file.current.files[0];
    if (!chosen) throw new Error("choose an archive first");
    // The server says so too, but a browser does not show what is said before it has sent everything.
    if (chosen.size > MAX_ARCHIVE) throw new Error(`${chosen.name} has ${bytes(chosen.size)}; an archive may have at most ${bytes(MAX_ARCHIVE)}`);
    const answer = await api(`/api/profiles/import?name=${encodeURIComponent(name.trim())}`, { file: chosen });
    await changed(live);
    const telling = answer.telling_settings.length ? ` Look at these first, they decide about safety: ${answer.telling_settings.join(", ")}.` : "";
    return `Made ${answer.name} with ${answer.files} files. It has no keys yet.${telling}`;
  });
  const submit = (event) => {
    event.preventDefault();
    send.send();
  };
  return html`<form onSubmit=${submit}>
    <${Labelled} label="Archive" note="Made by Export, or by vestal profile export; at most 160 MiB."><input ref=${file} type="file" accept=".gz,.tgz,application/gzip" required /></${Labelled}>
    <${Labelled} label="Name" note="That in the archive, unless given."><input spellcheck=${false} autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} /></${Labelled}>
    <div class="buttons"><button type="submit" class="good" disabled=${send.isBusy}>Import</button><button type="button" onClick=${done}>Close</button></div>
    <${Outcome} of=${send} />
  </form>`;
}

export function Profiles() {
  const live = useLive("/api/profiles", ["settings"]);
  return html`<h1>Profiles</h1>
    <${Loaded} live=${live}>${(view) => html`
      <${Troubles} troubles=${view.strays.map((stray) => ({ subject: stray.path, detail: `not a profile: ${stray.reason}` }))} />
      <div class="buttons">
        <${FormDialog} label="New profile" tone="good">${(close) => html`<${CreateForm} profiles=${view.profiles} live=${live} done=${close} />`}</${FormDialog}>
        <${FormDialog} label="Import" title="Import a profile">${(close) => html`<${ImportForm} live=${live} done=${close} />`}</${FormDialog}>
      </div>
      <${Card}>${view.profiles.length === 0 ? html`<${Empty}>There is no profile.</${Empty}>` : html`<ul class="plain">${view.profiles.map((one) => html`<li key=${one.name}>
        <div class="line"><strong>${one.name}</strong> ${one.active && html`<${Badge} word="chosen on the command line" tone="good" />`}
          <span>${one.description}</span> <span class="quiet">${one.model ?? "no model of its own"}</span></div>
        ${one.problem && html`<p class="why">${one.problem}</p>`}
        <p class="quiet"><code>${one.path}</code></p>
        <div class="buttons">
          <a class="button" href=${`/settings?profile=${encodeURIComponent(one.name)}`}>Settings</a>
          <a class="button" href=${`/keys?profile=${encodeURIComponent(one.name)}`}>Keys</a>
          ${isOperator() && html`<a class="button" href=${`/api/profiles/${encodeURIComponent(one.name)}/export`} download=${`${one.name}.tar.gz`} target="_blank">Export</a>`}
          ${one.name !== "default" && html`<${FormDialog} label="Rename" title=${`Rename ${one.name}`}>${(close) => html`<${RenameForm} name=${one.name} live=${live} done=${close} />`}</${FormDialog}>
            <${FormDialog} label="Delete" title=${`Delete ${one.name}`} tone="bad">${(close) => html`<${DeleteForm} name=${one.name} live=${live} done=${close} />`}</${FormDialog}>`}
        </div>
      </li>`)}</ul>`}</${Card}>
      <p class="quiet">An export has the settings without secrets, the description, SOUL.md, skills and memories; no keys, conversations or sandboxes. <a href=${link("/doctor")}>What works here</a></p>`}
    </${Loaded}>`;
}
