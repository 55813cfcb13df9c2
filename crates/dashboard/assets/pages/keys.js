// Keys: which there are, whom they are for; put in, replaced, taken out. None is shown unless asked for.
import { Action, api, Badge, Card, Empty, html, link, Loaded, profile, Troubles, useEffect, useLive, useState } from "../lib.js";
import { Doc, FormDialog, isOperator, Labelled, Outcome, useSend } from "../forms.js";

/** How long a key that was asked for stays on the page. */
const SHOWN_FOR = 30_000;

/** Leaves the directory out, which is the same for all. */
function short(source) {
  return source.replace(/^.*\/(?=[^/]+:\d)/, "");
}

function KeyForm({ name, owner, done }) {
  const [wanted, setWanted] = useState(name);
  const [value, setValue] = useState("");
  const save = useSend(async () => {
    await api("/api/keys/set", { body: { profile: owner, name: wanted.trim(), value } });
    setValue("");
    done();
  });
  const submit = (event) => {
    event.preventDefault();
    save.send();
  };
  return html`<form onSubmit=${submit}>
    ${!name && html`<${Labelled} label="Name of the variable" note="Such as OPENAI_API_KEY."><input required autofocus spellcheck=${false} autocomplete="off" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></${Labelled}>`}
    <${Labelled} label="Value" note="It is written into .env, which only you can read, and not shown again."><input type="password" required autocomplete="off" autofocus=${Boolean(name)} value=${value} onInput=${(event) => setValue(event.target.value)} /></${Labelled}>
    <div class="buttons"><button type="submit" class="good" disabled=${save.isBusy}>Save</button><button type="button" onClick=${done}>Cancel</button></div>
    <${Outcome} of=${save} />
  </form>`;
}

/** Shows a key for a while, after asking once more. */
function Reveal({ name, owner }) {
  const [value, setValue] = useState("");
  useEffect(() => {
    if (!value) return undefined;
    const timer = setTimeout(() => setValue(""), SHOWN_FOR);
    const hide = () => document.hidden && setValue("");
    document.addEventListener("visibilitychange", hide);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", hide);
    };
  }, [value]);
  const show = async () => {
    const answer = await api("/api/keys/reveal", { body: { profile: owner, name } });
    setValue(answer.value);
  };
  if (value) return html`<span class="line"><code class="command">${value}</code> <button type="button" class="small" onClick=${() => setValue("")}>Hide</button></span>`;
  return html`<${Action} label="Show" ask=${`Show ${name} on this screen for half a minute? That it was shown is recorded.`} run=${show} />`;
}

function Key({ entry, owner, reload }) {
  const inFile = entry.line !== null;
  return html`<li class="key">
    <div class="line"><code>${entry.name}</code>
      <${Badge} word=${entry.set ? "set" : "not set"} tone=${entry.set ? "good" : "plain"} />
      ${entry.source && html`<span class="quiet">${short(entry.source)}</span>`}</div>
    ${entry.overridden && html`<p class="why">The environment of the dashboard has this variable, too, and it comes before the file.</p>`}
    ${entry.uses.length > 0 && html`<p class="quiet">${entry.uses.map((use, at) => html`${at ? ", " : "for "}${use.what}${use.address ? html` at <code>${use.address}</code>` : ""}`)}</p>`}
    ${isOperator() && html`<div class="buttons">
      <${FormDialog} label=${inFile ? "Replace" : "Set"} title=${`${inFile ? "Replace" : "Set"} ${entry.name}`}>${(close) => html`<${KeyForm} name=${entry.name} owner=${owner} done=${() => { close(); reload(); }} />`}</${FormDialog}>
      ${inFile && html`<${Reveal} name=${entry.name} owner=${owner} />
        <${Action} label="Remove" tone="bad" ask=${`Take ${entry.name} out of .env? Its value is kept nowhere else.`} run=${async () => { await api("/api/keys/remove", { body: { profile: owner, name: entry.name } }); reload(); }} />`}
    </div>`}
  </li>`;
}

export function Keys() {
  const live = useLive(link("/api/keys"), ["settings"]);
  const owner = profile() || "default";
  return html`<h1>Keys <small>${owner}</small></h1>
    <${Loaded} live=${live}>${(view) => {
      const has = view.keys.filter((entry) => entry.line !== null || entry.set);
      const lacks = view.keys.filter((entry) => entry.line === null && !entry.set);
      const row = (entry) => html`<${Key} entry=${entry} owner=${view.profile} reload=${live.reload} key=${entry.name} />`;
      return html`<${Troubles} troubles=${view.troubles} />
        <${Card} title="Set" actions=${html`<${FormDialog} label="Add a key">${(close) => html`<${KeyForm} name="" owner=${view.profile} done=${() => { close(); live.reload(); }} />`}</${FormDialog}>`}>
          <p class="quiet">In <code>${view.file}</code>.</p>
          ${has.length ? html`<ul class="plain">${has.map(row)}</ul>` : html`<${Empty}>No key is set. Give one to a provider below, or add one by name.</${Empty}>`}
        </${Card}>
        ${view.settings.length > 0 && html`<${Card} title="Secret settings"><ul class="plain">${view.settings.map((own) => html`<li key=${own.key}><div class="line"><code>${own.key}</code> <${Badge} word="set" tone="good" /> <span class="quiet">${short(own.source)}</span></div><p class="quiet"><${Doc} text=${own.doc} /></p></li>`)}</ul></${Card}>`}
        ${lacks.length > 0 && html`<${Card} title="Could be set"><ul class="plain">${lacks.map(row)}</ul></${Card}>`}`;
    }}</${Loaded}>`;
}
