// Settings: a form from the schema, and the file itself as a text without its secrets.
import { address, api, Badge, Card, Empty, go, html, link, Loaded, profile, useEffect, useLive, useRef, useState } from "../lib.js";
import { Doc, explained, isOperator, Outcome, useSend } from "../forms.js";

function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value === "" ? "(empty)" : value;
  return JSON.stringify(value);
}

/** Says where a value came from, in words. */
function sourceWords(source) {
  if (!source) return "cannot be read";
  switch (source.kind) {
    case "default":
      return "default";
    case "file":
      return `config.yaml, line ${source.line}`;
    case "dot_env":
      return `.env, line ${source.line} (${source.name})`;
    case "environment":
      return `variable ${source.name} of the dashboard's environment`;
    default:
      return `${source.kind.replaceAll("_", " ")} ${source.name ?? source.key ?? ""}`;
  }
}

/** Which control a key gets. */
function controlOf(row) {
  if (row.secrecy === "secret") return "secret";
  const { schema } = row;
  if (schema.type === "boolean" || typeof row.default === "boolean") return "boolean";
  if (Array.isArray(schema.enum)) return "choice";
  if (schema.type === "array" && schema.items?.type === "string") return "list";
  if (schema.type === "object" || schema.type === "array" || typeof row.default === "object") return "map";
  return "text";
}

/** Returns a value as the control begins with it. */
function draftOf(row, control) {
  const { value } = row;
  if (control === "secret" || value === null || value === undefined) return "";
  if (control === "list") return Array.isArray(value) ? value.join("\n") : "";
  if (control === "map") return JSON.stringify(value, null, 2);
  return String(value);
}

/** Returns what is sent: plain text, or YAML where it begins with a quote or a bracket. */
function written(draft, control) {
  if (control === "list") return JSON.stringify(draft.split("\n").map((line) => line.trim()).filter(Boolean));
  if (control === "text" || control === "secret") return /^\s*["'[{]/.test(draft) ? JSON.stringify(draft) : draft;
  return draft.trim();
}

function Control({ row, control, draft, set, describedBy }) {
  const common = { "aria-label": row.key, "aria-describedby": describedBy };
  const change = (event) => set(event.target.value);
  switch (control) {
    case "boolean":
      return html`<select ...${common} value=${draft} onChange=${change}><option value="true">true</option><option value="false">false</option></select>`;
    case "choice":
      return html`<select ...${common} value=${draft} onChange=${change}>
        ${!row.schema.enum.includes(draft) && html`<option value=${draft}>${draft || "(none)"}</option>`}
        ${row.schema.enum.map((word) => html`<option value=${word} key=${word}>${word}</option>`)}</select>`;
    case "list":
    case "map":
      return html`<textarea ...${common} class="code-input" rows=${Math.min(14, Math.max(3, draft.split("\n").length + 1))} spellcheck=${false} onInput=${change}>${draft}</textarea>`;
    case "secret":
      return html`<input ...${common} type="password" autocomplete="off" value=${draft} onInput=${change} />`;
    default:
      return html`<input ...${common} type="text" spellcheck=${false} autocomplete="off" value=${draft} placeholder=${row.examples[0] ?? ""} onInput=${change} />`;
  }
}

const CHECK_AFTER = 250;

function Editor({ row, owner, done }) {
  const control = controlOf(row);
  const [draft, setDraft] = useState(draftOf(row, control));
  const [problem, setProblem] = useState("");
  const begun = useRef(draft);
  const form = useRef(null);
  const body = () => ({ profile: owner, key: row.key, value: written(draft, control) });
  useEffect(() => form.current?.querySelector("input, select, textarea")?.focus(), []);
  useEffect(() => {
    setProblem("");
    if (draft === begun.current || draft.trim() === "") return undefined;
    const timer = setTimeout(async () => {
      const answer = await api("/api/settings/check", { body: body() }).catch(() => null);
      setProblem(answer?.problem ?? "");
    }, CHECK_AFTER);
    return () => clearTimeout(timer);
  }, [draft]);
  const told = (answer) => {
    if (answer.hidden_by) return `Written, but without effect: ${answer.hidden_by} comes first.`;
    // This process has read its own when it was started.
    return row.key.startsWith("dashboard.") ? "Written. It counts when the dashboard is started again." : "";
  };
  const save = useSend(async () => {
    const words = told(await api("/api/settings/set", { body: body() }));
    done(words);
  });
  const reset = useSend(async () => {
    const words = told(await api("/api/settings/unset", { body: { profile: owner, key: row.key } }));
    done(words);
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  const cancel = (event) => event.key === "Escape" && done("");
  const note = `note-${row.key}`;
  return html`<form ref=${form} class="setting-editor" onSubmit=${submit} onKeyDown=${cancel}>
    <${Control} row=${row} control=${control} draft=${draft} set=${setDraft} describedBy=${note} />
    <p class="quiet" id=${note}>${row.allowed}${control === "list" ? "; one on each line" : ""}${control === "map" ? "; as JSON or YAML" : ""}
      ${control === "text" && row.examples.length > 0 ? html`, for example ${row.examples.slice(0, 3).map((one, at) => html`${at ? ", " : ""}<code>${one}</code>`)}` : ""}</p>
    ${problem && html`<p class="bad-text" role="alert">${problem}</p>`}
    <div class="buttons">
      <button type="submit" class="good" disabled=${save.isBusy || problem !== "" || (control === "secret" && draft === "")}>Save</button>
      <button type="button" onClick=${() => done("")}>Cancel</button>
      ${row.in_file && html`<button type="button" onClick=${() => reset.send()} disabled=${reset.isBusy}>Back to the default</button>`}
    </div>
    <${Outcome} of=${save.phase === "failed" ? save : reset} />
  </form>`;
}

function Row({ row, owner, editing, edit, said }) {
  const isSecret = row.secrecy === "secret";
  const isSet = row.source?.kind !== "default";
  const value = isSecret ? (isSet ? "set, and not shown" : "not set") : shown(row.value);
  const editable = isOperator() && row.secrecy !== "within";
  return html`<div id=${row.key} class="setting">
    <dt><code>${row.key}</code> ${row.protects && html`<${Badge} word="protects" tone="warn" />`}</dt>
    <dd>
      ${row.error ? html`<p class="bad-text">${row.error}</p>` : html`<span class=${row.changed ? "changed" : ""}>${value}</span>`}
      <span class="quiet"> · ${sourceWords(row.source)}${isSet && !isSecret && row.default !== null ? ` · default: ${row.default_in_words || shown(row.default)}` : ""}</span>
      ${editable && !editing && html` <button type="button" class="small" aria-label=${`Change ${row.key}`} onClick=${() => edit(row.key)}>Change</button>`}
      ${isOperator() && row.secrecy === "within" && html` <a class="quiet" href=${link("/settings", { view: "file" })}>change it in the file</a>`}
      <p class="quiet"><${Doc} text=${row.doc} />${row.env.length > 0 ? html` <small>${row.env.map((name, at) => html`${at ? ", " : ""}<code>${name}</code>`)}</small>` : ""}</p>
      ${said && html`<p class="why" role="status">${said}</p>`}
      ${editing && html`<${Editor} row=${row} owner=${owner} done=${(words) => edit("", row.key, words)} />`}
    </dd>
  </div>`;
}

function sectionOf(key) {
  return key.includes(".") ? key.split(".")[0] : "general";
}

function Form() {
  const query = address.value.searchParams;
  const [text, changed, section] = ["text", "changed", "section"].map((name) => query.get(name) ?? "");
  const live = useLive(link("/api/settings"), ["settings"]);
  const [editing, setEditing] = useState("");
  const [said, setSaid] = useState({ key: "", words: "" });
  const set = (name, value) => go(link("/settings", { text, changed, section, [name]: value }), true);
  const edit = (key, before = "", words = "") => {
    setEditing(key);
    setSaid({ key: before, words });
    if (!key) live.reload();
  };
  const isWanted = (row) =>
    (!changed || row.changed) &&
    (!section || sectionOf(row.key) === section) &&
    (row.key + row.doc + row.env.join()).toLowerCase().includes(text.toLowerCase());
  return html`<div class="filters">
      <label>Filter <input type="search" value=${text} onInput=${(event) => set("text", event.target.value)} /></label>
      <label class="check"><input type="checkbox" checked=${changed === "1"} onChange=${(event) => set("changed", event.target.checked ? "1" : "")} /> only what is not the default</label>
      ${live.data && html`<label>Section <select value=${section} onChange=${(event) => set("section", event.target.value)}><option value="">all</option>
        ${[...new Set(live.data.rows.map((row) => sectionOf(row.key)))].map((name) => html`<option value=${name} key=${name}>${name}</option>`)}</select></label>`}
    </div>
    <${Loaded} live=${live}>${(view) => {
      const rows = view.rows.filter(isWanted);
      const sections = [...new Set(rows.map((row) => sectionOf(row.key)))];
      return html`
        ${view.findings.map((finding, index) => html`<${Card} tone=${finding.severity === "note" ? "" : "bad"} key=${index}><p>${finding.message}</p></${Card}>`)}
        ${rows.length === 0 && html`<${Card}><${Empty}>No setting matches.</${Empty}></${Card}>`}
        ${sections.map((name) => html`<${Card} title=${name} key=${name}><dl class="settings">
          ${rows.filter((row) => sectionOf(row.key) === name).map((row) => html`<${Row} key=${row.key} row=${row} owner=${view.profile} editing=${editing === row.key} edit=${edit} said=${said.key === row.key ? said.words : ""} />`)}
        </dl></${Card}>`)}`;
    }}</${Loaded}>`;
}

/** The file as a text. Text that was typed stays when the file changes meanwhile. */
function File() {
  const [state, setState] = useState({ file: null, error: null });
  const [draft, setDraft] = useState("");
  const [findings, setFindings] = useState([]);
  const owner = profile() || "default";
  const load = async () => {
    try {
      const file = await api(`/api/settings/text?profile=${encodeURIComponent(owner)}`);
      setState({ file, error: null });
      setDraft(file.text);
    } catch (error) {
      setState({ file: null, error });
    }
  };
  useEffect(() => {
    load();
  }, [owner]);
  const newer = useLive(link("/api/settings"), ["settings"]);
  const [isOld, setOld] = useState(false);
  useEffect(() => {
    if (!state.file || !isOperator()) return;
    api(`/api/settings/text?profile=${encodeURIComponent(owner)}`).then((file) => setOld(file.revision !== state.file.revision), () => {});
  }, [newer.data]);
  const send = (check) => async () => {
    const body = { profile: owner, revision: state.file.revision, text: draft, check };
    const answer = await api("/api/settings/text", { body });
    setFindings(answer.findings);
    if (check) return answer.findings.length ? "It can be written." : "Nothing is wrong with it.";
    setState({ file: answer.now, error: null });
    setDraft(answer.now.text);
    setOld(false);
    return answer.changed ? "Written." : "Nothing was different.";
  };
  const check = useSend(send(true));
  const save = useSend(send(false));
  const latest = check.phase === "idle" ? save : check;
  if (!isOperator()) return html`<${Card}><${Empty}>The file is shown to operators.</${Empty}></${Card}>`;
  if (state.error) return html`<${Card} title="The file cannot be shown" tone="bad"><p class="why">${explained(state.error)}</p></${Card}>`;
  if (!state.file) return html`<p class="quiet" role="status">Loading…</p>`;
  const isEdited = draft !== state.file.text;
  const act = (one, other) => {
    other.clear();
    one.send();
  };
  return html`<${Card} title=${state.file.path}>
    ${state.file.hidden > 0 && html`<p class="quiet">${state.file.hidden === 1 ? "One secret is" : `${state.file.hidden} secrets are`} hidden: <code>${"<secret 1>"}</code> stands for one, and is written back as it was. To replace a secret, write another in its place.</p>`}
    ${isOld && html`<p class="why" role="status">The file was changed by somebody else. <button type="button" onClick=${() => { load(); setOld(false); }}>Load it again</button> Your text would be lost; copy it first.</p>`}
    <textarea class="code-input file" aria-label="config.yaml" rows="24" spellcheck=${false} value=${draft} onInput=${(event) => setDraft(event.target.value)}></textarea>
    <div class="buttons">
      <button type="button" class="good" disabled=${!isEdited || save.isBusy} onClick=${() => act(save, check)}>Write</button>
      <button type="button" disabled=${check.isBusy} onClick=${() => act(check, save)}>Check</button>
      <button type="button" disabled=${!isEdited} onClick=${() => setDraft(state.file.text)}>Undo all changes</button>
    </div>
    <${Outcome} of=${latest} />
    ${findings.length > 0 && html`<ul class="plain">${findings.map((finding, index) => html`<li class="line" key=${index}><${Badge} word=${finding.severity} tone=${finding.severity === "error" ? "bad" : "warn"} /> <span>${finding.message}</span></li>`)}</ul>`}
  </${Card}>`;
}

const VIEWS = [
  ["", "Form"],
  ["file", "File"],
];

export function Settings() {
  const view = address.value.searchParams.get("view") ?? "";
  return html`<h1>Settings <small>${profile() || "default"}</small></h1>
    <nav class="tabs" aria-label="Views">${VIEWS.map(([name, words]) => html`<a href=${link("/settings", { view: name })} aria-current=${view === name ? "page" : undefined} key=${words}>${words}</a>`)}</nav>
    ${view === "file" ? html`<${File} />` : html`<${Form} />`}`;
}
