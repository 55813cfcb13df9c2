// What the agent has beyond its own tools: skills, notes, MCP servers.
import { Action, address, api, Badge, bytes, Card, Command, Empty, go, html, link, Loaded, plain, profile, span, useEffect, useLive, useRef, useState } from "../lib.js";
import { FormDialog, isOperator, Labelled, lines, Outcome, useSend } from "../forms.js";

function owned(kind, ...parts) {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  return `/api/${kind}/${encodeURIComponent(profile() || "default")}/${path}`;
}

/** @type {[string, string, (skill: any) => boolean][]} */
const STATES = [
  ["", "all", () => true],
  ["enabled", "enabled", (skill) => skill.enabled],
  ["disabled", "disabled", (skill) => !skill.enabled],
  ["missing", "lacks a variable", (skill) => skill.enabled && skill.missing.length > 0],
];

function SkillButtons({ skill, reload, gone }) {
  const post = (verb) => async () => {
    const answer = await api(`${owned("skills", skill.name)}/${verb}`, { body: {} });
    (verb === "remove" ? (gone ?? reload) : reload)();
    return answer.warning ?? "";
  };
  return html`<span class="buttons">
    <${Action} label=${skill.enabled ? "Disable" : "Enable"} run=${post(skill.enabled ? "disable" : "enable")} />
    <${Action} label="Remove" tone="bad" ask=${`Remove ${skill.name}? ${skill.path} goes, with everything in it.`} run=${post("remove")} />
  </span>`;
}

export function Skills() {
  const query = address.value.searchParams;
  const [text, state, category] = ["text", "state", "category"].map((name) => query.get(name) ?? "");
  const live = useLive(link("/api/skills"), ["skills", "settings"]);
  const set = (name, value) => go(link("/skills", { text, state, category, [name]: value }), true);
  const fits = (STATES.find(([name]) => name === state) ?? STATES[0])[2];
  const isWanted = (skill) => fits(skill) && (!category || skill.category === category) && [skill.name, skill.description, ...skill.tags].join(" ").toLowerCase().includes(text.toLowerCase());
  return html`<h1>Skills <small>${profile() || "default"}</small></h1>
    <${Loaded} live=${live}>${(view) => {
      // The filters offer what is there now: one that nothing has any more stays only while it is chosen.
      const categories = [...new Set([...view.skills.map((skill) => skill.category), category])].filter(Boolean).sort();
      const shown = view.skills.filter(isWanted);
      return html`<div class="filters">
          <label>Filter <input type="search" value=${text} onInput=${(event) => set("text", event.target.value)} /></label>
          <label>State <select value=${state} onChange=${(event) => set("state", event.target.value)}>${STATES.map(([name, words, test]) => html`<option value=${name} key=${name}>${words} (${view.skills.filter(test).length})</option>`)}</select></label>
          ${categories.length > 0 && html`<label>Category <select value=${category} onChange=${(event) => set("category", event.target.value)}><option value="">all</option>${categories.map((name) => html`<option value=${name} key=${name}>${name}</option>`)}</select></label>`}
        </div>
        ${view.broken.map((broken) => html`<${Card} title=${broken.name} tone="bad" key=${broken.path}><p>${broken.reason}</p><p class="quiet"><code>${broken.path}${broken.line ? `:${broken.line}` : ""}</code> ${broken.advice}</p></${Card}>`)}
        ${view.skills.length === 0
          ? html`<${Card}><${Empty}>No skill is installed. To install one: <${Command} line="vestal skills install FOLDER|ARCHIVE" /></${Empty}></${Card}>`
          : html`<${Card}>${shown.length === 0 ? html`<${Empty}>No skill matches.</${Empty}>` : html`<ul class="plain">${shown.map((skill) => html`<li key=${skill.name}>
              <div class="line"><a href=${link(`/skills/${skill.name}`)}><strong>${skill.name}</strong></a> <${Badge} word=${skill.enabled ? "enabled" : "disabled"} tone=${skill.enabled ? "good" : "plain"} />
                ${skill.missing.length > 0 && html`<${Badge} word=${`lacks ${skill.missing.join(", ")}`} tone="warn" />`} <span class="quiet">${skill.category ?? ""} ${skill.version ?? ""}</span></div>
              <p>${skill.description}</p>
              <${SkillButtons} skill=${skill} reload=${live.reload} /></li>`)}</ul>`}</${Card}>`}`;
    }}</${Loaded}>`;
}

export function Skill({ name }) {
  const live = useLive(owned("skills", name), ["skills", "settings"]);
  const gone = () => go(link("/skills"));
  return html`<p class="crumbs"><a href=${link("/skills")}>Skills</a></p><h1>${name}</h1>
    <${Loaded} live=${live}>${(skill) => html`
      <${Card}><p>${skill.description}</p>
        <p class="line"><${Badge} word=${skill.enabled ? "enabled" : "disabled"} tone=${skill.enabled ? "good" : "plain"} /> <span class="quiet">${[skill.category, skill.version, skill.license, ...skill.tags].filter(Boolean).join(" · ")}</span></p>
        <p class="quiet"><code>${skill.path}</code></p>
        <${SkillButtons} skill=${skill} reload=${live.reload} gone=${gone} /></${Card}>
      ${skill.variables.length > 0 && html`<${Card} title="Variables"><ul class="plain">${skill.variables.map((own) => html`<li key=${own.name}><div class="line"><code>${own.name}</code> <${Badge} word=${own.state} tone=${own.state === "set" ? "good" : own.optional ? "plain" : "warn"} /> <span class="quiet">${own.optional ? "optional" : "required"}${own.required_for ? ` for ${own.required_for}` : ""}</span></div>${own.help && html`<p class="quiet">${own.help}</p>`}</li>`)}</ul><p class="quiet">Values are set on the page <a href=${link("/keys")}>Keys</a>.</p></${Card}>`}
      <${Card} title="Instructions"><div class="log" tabindex="0" role="region" aria-label="Instructions">${plain(skill.content)}</div></${Card}>
      <${Card} title="Files"><ul class="plain">${skill.files.map((file) => html`<li class="line" key=${file.path}><code>${file.path}</code> <span class="quiet">${bytes(file.bytes)}</span> ${file.script && html`<${Badge} word="script" tone="warn" />`}</li>`)}</ul></${Card}>`}
    </${Loaded}>`;
}

const NOTES = { memory: ["The agent's own", "What the agent noted for itself."], user: ["About you", "What the agent noted about the person it works for."] };

/** Notes with their size. What is typed stays when the file changes; what was changed elsewhere is not overwritten. */
function Notes({ notes, reload }) {
  const [draft, setDraft] = useState(null);
  const from = useRef(notes.text);
  const [title, about] = NOTES[notes.target];
  useEffect(() => {
    if (draft === null) from.current = notes.text;
  }, [notes.text, draft]);
  const save = useSend(async () => {
    const answer = await api(owned("memory", notes.target), { body: { from: from.current, text: draft } });
    from.current = answer.text;
    setDraft(null);
    reload();
    return answer.has_secret ? "Saved. What looked like a secret was left out: notes are sent to every model." : "Saved.";
  });
  // Characters, not units of two bytes, as the limit counts them.
  const used = draft === null ? notes.characters : [...draft.trim()].length;
  const isNewer = draft !== null && notes.text !== from.current;
  const usage = `${notes.entries.length} notes, ${used} of ${notes.limit} characters`;
  return html`<${Card} title=${title} tone=${notes.error ? "bad" : ""} actions=${html`<span class=${used > notes.limit ? "bad-text" : "quiet"}>${usage}</span>`}>
    <p class="quiet">${about} <code>${notes.path}</code></p>
    ${!notes.enabled && html`<p class="why">The agent does not get these notes: the settings switch them off.</p>`}
    ${notes.error && html`<p class="why">${notes.error}</p>`}
    ${draft === null
      ? html`${notes.entries.length ? html`<ul>${notes.entries.map((entry, index) => html`<li class="prose" key=${index}>${plain(entry)}</li>`)}</ul>` : html`<${Empty}>Nothing is noted yet.</${Empty}>`}
        ${isOperator() && !notes.error && html`<button type="button" onClick=${() => setDraft(notes.text)}>Edit</button>`}`
      : html`<textarea class="code-input" aria-label=${title} rows="14" value=${draft} onInput=${(event) => setDraft(event.target.value)}></textarea>
        <p class="quiet">Notes are separated by a line with a single §. Conversations that have begun do not see the change.</p>
        ${isNewer && html`<p class="why" role="status">The notes were changed meanwhile. Saving is refused so that nothing is lost; copy your text, cancel, and edit again.</p>`}
        <div class="buttons"><button type="button" class="good" disabled=${save.isBusy || draft === from.current} onClick=${() => save.send()}>Save</button><button type="button" onClick=${() => { setDraft(null); save.clear(); }}>Cancel</button></div>`}
    <${Outcome} of=${save} />
  </${Card}>`;
}

export function Memory() {
  const live = useLive(link("/api/memory"), ["memory", "settings"]);
  return html`<h1>Memory <small>${profile() || "default"}</small></h1>
    <${Loaded} live=${live}>${(view) => view.map((notes) => html`<${Notes} notes=${notes} reload=${live.reload} key=${`${profile()}${notes.target}`} />`)}</${Loaded}>`;
}

/** Reads lines of NAME=VALUE. */
function pairs(text) {
  const found = {};
  for (const line of lines(text)) {
    const at = line.search(/[=:]/);
    if (at < 1) throw new Error(`${line.slice(0, 40)} is not NAME=VALUE`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

function ServerForm({ done, reload }) {
  const [draft, setDraft] = useState({ name: "", kind: "command", command: "", url: "", pairs: "", untested: false });
  const set = (name) => (event) => setDraft((old) => ({ ...old, [name]: event.target.value }));
  const isProgram = draft.kind === "command";
  const save = useSend(async () => {
    const given = pairs(draft.pairs);
    const body = { name: draft.name.trim(), untested: draft.untested, ...(isProgram ? { command: lines(draft.command), env: given } : { url: draft.url.trim(), headers: given }) };
    const answer = await api(`/api/mcp/${encodeURIComponent(profile() || "default")}`, { body });
    reload();
    if (answer.ok) setTimeout(done, 0);
    else done();
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  return html`<form onSubmit=${submit}>
    <${Labelled} label="Name"><input required autofocus spellcheck=${false} autocomplete="off" value=${draft.name} onInput=${set("name")} /></${Labelled}>
    <${Labelled} label="Kind"><select value=${draft.kind} onChange=${set("kind")}><option value="command">a program on this machine</option><option value="url">a server with an address</option></select></${Labelled}>
    ${isProgram
      ? html`<${Labelled} label="Program and arguments" note="One word on each line: npx, -y, @modelcontextprotocol/server-filesystem, /home/me/notes."><textarea required class="code-input" rows="4" spellcheck=${false} value=${draft.command} onInput=${set("command")}></textarea></${Labelled}>`
      : html`<${Labelled} label="Address"><input required type="url" spellcheck=${false} value=${draft.url} onInput=${set("url")} /></${Labelled}>`}
    <${Labelled} label=${isProgram ? "Variables" : "Headers"} note=${"NAME=VALUE, one on each line. Refer to a key as ${NAME} and set it on the page Keys; one that is written out is refused."}><textarea class="code-input" rows="2" spellcheck=${false} value=${draft.pairs} onInput=${set("pairs")}></textarea></${Labelled}>
    <label class="check"><input type="checkbox" checked=${draft.untested} onChange=${(event) => setDraft((old) => ({ ...old, untested: event.target.checked }))} /> add it without trying it</label>
    <div class="buttons"><button type="submit" class="good" disabled=${save.isBusy}>${save.isBusy ? "Trying it…" : "Add"}</button><button type="button" onClick=${done}>Cancel</button></div>
    <${Outcome} of=${save} />
  </form>`;
}

function Server({ server, reload }) {
  const [tried, setTried] = useState(null);
  const test = async () => {
    setTried(await api(`${owned("mcp", server.name)}/test`, { body: {} }));
  };
  const remove = async () => {
    await api(`${owned("mcp", server.name)}/remove`, { body: {} });
    reload();
  };
  return html`<li>
    <div class="line"><strong>${server.name}</strong> <${Badge} word=${server.enabled ? "enabled" : "disabled"} tone=${server.enabled ? "good" : "plain"} />
      <span>${server.transport}</span> <code>${server.target}</code></div>
    <p class="quiet">${server.source}</p>
    ${tried && (tried.ok
      ? html`<p><${Badge} word="answers" tone="good" /> ${tried.server ?? ""} · protocol ${tried.protocol} · ${tried.tools.length} tools in ${tried.took_ms < 1000 ? `${tried.took_ms} ms` : span(tried.took_ms / 1000)}</p>
          ${tried.tools.length > 0 && html`<details><summary>Tools</summary><p>${tried.tools.map((tool, at) => html`${at ? ", " : ""}<code>${tool}</code>`)}</p></details>`}`
      : html`<p class="why">${tried.error}</p>`)}
    <div class="buttons"><${Action} label="Test" run=${test} /><${Action} label="Remove" tone="bad" ask=${`Take ${server.name} out of config.yaml?`} run=${remove} /></div>
  </li>`;
}

export function McpServers() {
  const live = useLive(link("/api/mcp"), ["settings"]);
  return html`<h1>MCP servers <small>${profile() || "default"}</small></h1>
    <p><${FormDialog} label="Add a server" tone="good">${(close) => html`<${ServerForm} done=${close} reload=${live.reload} />`}</${FormDialog}></p>
    <${Loaded} live=${live}>${(view) => html`<${Card}>${view.length ? html`<ul class="plain">${view.map((server) => html`<${Server} server=${server} reload=${live.reload} key=${server.name} />`)}</ul>` : html`<${Empty}>No MCP server is set up. They give the agent more tools; new chats have them.</${Empty}>`}</${Card}>`}</${Loaded}>`;
}
