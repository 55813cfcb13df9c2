// Models: which one is asked, and what the providers offer.
import { Action, address, api, Badge, Card, Empty, go, html, link, Loaded, profile, useLive, useState, When } from "../lib.js";
import { isOperator, Labelled, Outcome, useSend } from "../forms.js";

/** Rows of one provider that are shown before somebody asks for more. */
const SHOWN = 100;

function Choice({ owner, live }) {
  const [name, setName] = useState("");
  const choose = useSend(async (wanted) => {
    const answer = await api("/api/models/choose", { body: { profile: owner, model: wanted } });
    live.reload();
    const words = [answer.hidden_by && `It has no effect: ${answer.hidden_by} comes first.`, answer.problem, ...answer.advice];
    return words.filter(Boolean).join("\n") || `${wanted} is asked from now on.`;
  });
  const submit = (event) => {
    event.preventDefault();
    choose.send(name.trim());
  };
  const form = isOperator() && html`<form class="input" onSubmit=${submit}>
    <${Labelled} label="Another" note="MODEL, or PROVIDER:MODEL"><input required spellcheck=${false} autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} /></${Labelled}>
    <button type="submit" disabled=${choose.isBusy}>Use it</button></form>`;
  return { choose, form, outcome: html`<${Outcome} of=${choose} />` };
}

function Provider({ provider, view, text, choose }) {
  const [all, setAll] = useState(false);
  const models = provider.models.filter((model) => `${provider.provider}:${model.id} ${model.name ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  const shown = all ? models : models.slice(0, SHOWN);
  const isDefault = (model) => view.default?.provider === provider.provider && view.default?.model === model.id;
  return html`<${Card} title=${provider.provider} tone=${provider.error ? "bad" : ""} actions=${html`<span class="quiet">${models.length === 1 ? "1 model" : `${models.length} models`}${provider.fetched_at ? html`, listed <${When} at=${provider.fetched_at} />` : ""}</span>`}>
    ${provider.error && html`<p class="why">${provider.error}</p>`}
    <ul class="plain">${shown.map((model) => html`<li class="line" key=${model.id}>
      <code>${model.id}</code> ${isDefault(model) && html`<${Badge} word="in use" tone="good" />`}
      <span class="quiet">${model.name && model.name !== model.id ? model.name : ""} ${model.context_length ? `${model.context_length.toLocaleString()} tokens` : ""}</span>
      ${isOperator() && !isDefault(model) && html`<button type="button" class="small" aria-label=${`Use ${model.id}`} disabled=${choose.isBusy} onClick=${() => choose.send(`${provider.provider}:${model.id}`)}>Use</button>`}
    </li>`)}</ul>
    ${models.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${models.length}</button>`}
    ${models.length === 0 && !provider.error && html`<${Empty}>${text ? "No model matches." : "It lists no models."}</${Empty}>`}
  </${Card}>`;
}

export function Models() {
  const text = address.value.searchParams.get("text") ?? "";
  const owner = profile() || "default";
  const live = useLive(link("/api/models"), ["settings"]);
  const { choose, form, outcome } = Choice({ owner, live });
  const refresh = async () => {
    await api("/api/models/refresh", { body: { profile: owner } });
    live.reload();
  };
  return html`<h1>Models <small>${owner}</small></h1>
    <${Loaded} live=${live}>${(view) => html`
      <${Card} title="In use">
        <p>${view.default ? html`<strong>${view.default.provider}:${view.default.model}</strong>` : html`<${Empty}>No model is chosen. Choose one below, or give a provider its key on the page <a href=${link("/keys")}>Keys</a>.</${Empty}>`}</p>
        ${form} ${outcome}
      </${Card}>
      <div class="filters"><label>Filter <input type="search" value=${text} onInput=${(event) => go(link("/models", { text: event.target.value }), true)} /></label>
        <${Action} label="Ask the providers again" run=${refresh} /></div>
      ${view.providers.length === 0 && html`<${Card}><${Empty}>No provider has a key or an address. <a href=${link("/keys")}>Give one its key</a>, or set <code>model.base_url</code> on the page <a href=${link("/settings", { text: "model." })}>Settings</a>.</${Empty}></${Card}>`}
      ${view.providers.map((provider) => html`<${Provider} provider=${provider} view=${view} text=${text} choose=${choose} key=${provider.provider} />`)}`}
    </${Loaded}>`;
}
