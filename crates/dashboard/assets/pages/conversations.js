// Conversations: listed, searched and read. The chat is in chat.js.
import { address, Badge, Card, Command, Empty, go, html, identity, link, Loaded, plain, profile, Troubles, useLive, When } from "../lib.js";
import { Pictures } from "../pictures.js";
import { cost, isPriced } from "./task.js";

function at(owner, id) {
  return link(`/conversations/${encodeURIComponent(owner)}/${encodeURIComponent(id)}`);
}

/** What it cost, where that is known, before what follows. */
function priced(usage) {
  return usage?.calls && isPriced(usage) ? `${cost(usage)} · ` : "";
}

function Hit({ hit }) {
  return html`<li class="needed"><div class="line">
      <a href=${at(hit.profile, hit.conversation)}>${hit.title ?? hit.conversation}</a>
      <span class="quiet">${hit.profile} · ${hit.role} · <${When} at=${hit.at} /></span></div>
    <p class="snippet">${hit.snippet.map((piece, index) => (piece.found ? html`<mark key=${index}>${plain(piece.text)}</mark>` : plain(piece.text)))}</p></li>`;
}

export function Conversations() {
  const q = address.value.searchParams.get("q") ?? "";
  const before = (!q && address.value.searchParams.get("before")) || "";
  const live = useLive(q ? link("/api/conversations/search", { q }) : link("/api/conversations", { q: "", before }), ["conversations"]);
  const find = (event) => go(link("/conversations", { q: event.target.value }), true);
  return html`<h1>Conversations${profile() && html` <small>${profile()}</small>`}</h1>
    <div class="filters"><label>Search <input type="search" value=${q} onInput=${find} /></label>
      ${identity.value?.right === "operator" && html`<a class="button" href=${link("/chat")}>New conversation</a>`}</div>
    <${Loaded} live=${live}>${(view) => html`
      <${Troubles} troubles=${view.troubles} />
      <${Card}>${view.conversations.length
        ? html`<ul class="plain">${view.conversations.map((one) =>
            q && one.snippet
              ? html`<${Hit} hit=${one} key=${`${one.profile}${one.conversation}${one.seq}`} />`
              : html`<li class="line" key=${`${one.profile}${one.id}`}>
                  <a href=${at(one.profile, one.id)}>${one.title ?? (plain(one.preview ?? "") || one.id)}</a>
                  <span class="quiet">${one.profile} · ${one.source} · ${one.model} · ${one.messages} messages · ${priced(one.usage)}<${When} at=${one.updated_at} /></span></li>`,
          )}</ul>`
        : html`<${Empty}>${q ? "Nothing was found." : before ? "There are none older than that." : html`Nobody has said anything yet. To begin: <${Command} line="vestal chat" />`}</${Empty}>`}
        ${q && view.more && html`<p class="quiet">There are more; narrow the search to find them.</p>`}
        ${!q && (view.more || before) && html`<div class="buttons">
          ${before && html`<a class="button" href=${link("/conversations")}>Newest</a>`}
          ${view.more && html`<a class="button" href=${link("/conversations", { before: view.conversations.at(-1).updated_at })}>Older</a>`}</div>`}
      </${Card}>`}
    </${Loaded}>`;
}

function parts(message) {
  if (typeof message.content === "string") return message.content;
  const list = message.parts ?? message.content ?? [];
  if (!Array.isArray(list)) return message.text ?? "";
  const texts = list.filter((part) => part.type !== "image");
  return texts.map((part) => part.text ?? `[${part.type ?? "attachment"}]`).join("\n");
}

/** How many pictures there are in it. */
function pictureCount(message) {
  const all = message.parts ?? message.images ?? [];
  return Array.isArray(all) ? all.filter((part) => part.type === "image" || part.media_type).length : 0;
}

function said(message) {
  return message.text ?? parts(message);
}

function Message({ owner, id, stored }) {
  const { message } = stored;
  const role = message.role ?? "message";
  const text = said(message) || message.output || "";
  const calls = message.calls ?? [];
  const isTool = role === "tool";
  const body = html`<div class="prose">${plain(String(text))}</div>`;
  return html`<li class=${`message ${role}`}>
    <div class="line"><strong>${role}</strong>${stored.kind !== "said" && html` <${Badge} word=${stored.kind} />`}${stored.standing === "undone" && html` <${Badge} word="undone" tone="warn" />`}
      <span class="quiet"><${When} at=${stored.at} /></span></div>
    ${isTool ? html`<details><summary>${message.name ?? "output"}</summary>${body}</details>` : text && body}
    <${Pictures} owner=${owner} id=${id} message=${{ images: pictureCount(message), seq: stored.seq }} />
    ${calls.map((call, index) => html`<details key=${index}><summary><code>${call.name}</code></summary><pre class="prose">${plain(typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments, null, 2))}</pre></details>`)}
  </li>`;
}

/** A conversation as it is stored, for who only looks, and while another process has it open. */
export function Conversation({ owner, id }) {
  const live = useLive(`/api/conversations/${encodeURIComponent(owner)}/${encodeURIComponent(id)}`, ["conversations"]);
  return html`<p class="crumbs"><a href=${link("/conversations")}>Conversations</a></p>
    <${Loaded} live=${live} title="Conversation">${(view) => html`
      <h1>${view.title ?? view.id}</h1>
      <p class="quiet">${owner} · ${view.provider}:${view.model} · ${view.messages} messages · ${view.tool_calls} tool calls · ${priced(view.usage)}<${When} at=${view.updated_at} /></p>
      <p class="quiet">To go on with it: <${Command} line=${`vestal -p ${owner} chat --resume ${view.id}`} /></p>
      <${Card}><details><summary>What the model was told first</summary><div class="prose">${plain(view.system_prompt)}</div></details></${Card}>
      <ol class="plain messages">${view.history.map((stored) => html`<${Message} owner=${owner} id=${view.id} stored=${stored} key=${stored.seq} />`)}</ol>`}
    </${Loaded}>`;
}
