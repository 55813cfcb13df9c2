// Gateways, logs and the doctor.
import { Action, address, api, Badge, Card, Command, Empty, go, html, link, Loaded, plain, profile, span, useEffect, useLive, useRef, useState, When } from "../lib.js";

const GATEWAY_TONES = { running: "good", degraded: "bad", down: "bad", failed: "bad", backoff: "warn", starting: "warn", stopping: "warn" };

/** The word that people read for a gateway's state, as `vestal gateway status` has it. */
export function gatewayState(gateway) {
  if (gateway.state === "running" && gateway.reported === "degraded") return "degraded";
  if (gateway.state === "stopped" && gateway.desired === "running") return "down";
  return gateway.state;
}

/** Why a gateway is not as it should be, in sentences; nothing if it is. */
export function gatewayTroubles(gateway) {
  const state = gatewayState(gateway);
  const parts = state === "degraded" ? gateway.listeners.filter((one) => one.error).map((one) => `${one.name}: ${one.error}`) : [];
  const others = gateway.foreign_listeners.map((one) => `Another process${one.pid ? `, ${one.pid}` : ""} listens at ${one.address}, where clients look for this gateway: they send it their keys.`);
  const own = gateway.reason && (state !== "running" || parts.length + others.length > 0) ? [gateway.reason] : [];
  return [...own, ...parts, ...others];
}

/** Starting may take as long as the gateway does; stopping lets turns come to their end. */
function GatewayButtons({ gateway, reload }) {
  const isDown = ["stopped", "failed"].includes(gateway.state);
  const post = (verb) => async () => {
    await api(`/api/gateways/${encodeURIComponent(gateway.profile)}/${verb}`, { body: {} });
    reload();
  };
  const asks = "Turns that run have agent.restart_drain_timeout seconds to end, and are interrupted then.";
  return html`<div class="buttons">
    ${isDown && html`<${Action} label="Start" tone="good" run=${post("start")} />`}
    ${!isDown && html`<${Action} label="Restart" ask=${`Restart the gateway of ${gateway.profile}? ${asks}`} run=${post("restart")} />
      <${Action} label="Stop" tone="bad" ask=${`Stop the gateway of ${gateway.profile}? It stays stopped, also after a reboot; schedules do not run. ${asks}`} run=${post("stop")} />`}
  </div>`;
}

export function Gateways() {
  const live = useLive("/api/gateways", ["gateways"]);
  const isShown = (gateway) => !profile() || gateway.profile === profile();
  return html`<h1>Gateways</h1>
    <${Loaded} live=${live}>${(view) => html`
      <${Card}><p>${view.manager.kind === "none"
        ? html`Nobody keeps gateways running. Start one below, or: <${Command} line="vestal gateway start" />`
        : html`Kept by ${view.manager.kind}, process ${view.manager.pid ?? "?"}.`}</p></${Card}>
      ${view.gateways.filter(isShown).map((gateway) => html`<${Card} title=${gateway.profile} key=${gateway.profile}
        actions=${html`<a href=${link("/logs", { profile: gateway.profile })}>log</a>`}>
        <p class="line"><${Badge} word=${gatewayState(gateway)} tone=${GATEWAY_TONES[gatewayState(gateway)]} />
          <span class="quiet">${gateway.pid ? `process ${gateway.pid} · ` : ""}${gateway.up_seconds !== null ? `up ${span(gateway.up_seconds)}${gateway.restarts ? " · " : ""}` : ""}${gateway.restarts === 0 ? "" : gateway.restarts === 1 ? "1 restart" : `${gateway.restarts} restarts`}</span></p>
        ${gateway.reason && html`<p class="why">${gateway.reason}</p>`}
        <${GatewayButtons} gateway=${gateway} reload=${live.reload} />
        ${gateway.last_exit && html`<p class="quiet">last exit: ${gateway.last_exit.how}, <${When} at=${gateway.last_exit.at} /></p>`}
        <ul class="plain">${gateway.listeners.map((one) => html`<li class="line" key=${one.name}><strong>${one.name}</strong> ${one.state}
          <span class="quiet">${one.address ?? ""}</span>${one.error && html`<p class="why">${one.error}</p>`}</li>`)}
          ${gateway.foreign_listeners.length > 0 && html`<li class="line"><strong>${gateway.foreign_listeners.length === 1 ? "a stranger" : "strangers"}</strong>
            ${gatewayTroubles({ ...gateway, reason: null, listeners: [] }).map((words) => html`<p class="why" key=${words}>${plain(words)}</p>`)}</li>`}</ul>
      </${Card}>`)}`}
    </${Loaded}>`;
}

const LEVELS = ["", "debug", "info", "warn", "error"];
const SOURCES = ["", "agent", "errors", "gateway", "boot", "supervisor"];
const LEVEL_TONES = { warn: "warn", error: "bad" };

export function Logs() {
  const query = address.value.searchParams;
  const [level, source, session, text] = ["level", "source", "session", "text"].map((key) => query.get(key) ?? "");
  const live = useLive(link("/api/logs", { level, source, session, text, entries: 400 }), ["logs"]);
  const set = (key) => (event) => go(link("/logs", { level, source, session, text, [key]: event.target.value }), true);
  const box = useRef(null);
  const [follows, setFollows] = useState(true);
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [live.data, follows]);
  const choice = (name, key, value, words) => html`<label>${name} <select value=${value} onChange=${set(key)}>
    ${words.map((word) => html`<option value=${word} key=${word}>${word || "all"}</option>`)}</select></label>`;
  return html`<h1>Logs${profile() && html` <small>${profile()}</small>`}</h1>
    <div class="filters">
      ${choice("Level", "level", level, LEVELS)} ${choice("Log", "source", source, SOURCES)}
      <label>Conversation <input type="search" value=${session} placeholder="an id, or its beginning" onInput=${set("session")} /></label>
      <label>Text <input type="search" value=${text} onInput=${set("text")} /></label>
      <label class="check"><input type="checkbox" checked=${follows} onChange=${(event) => setFollows(event.target.checked)} /> follow</label>
    </div>
    <${Loaded} live=${live}>${(lines) =>
      lines.length
        ? html`<div class="log entries" ref=${box} tabindex="0" role="log" aria-label="Entries">${lines.map((line, index) => html`<div class="entry" key=${`${line.at}${index}`}>
            <span class="quiet">${line.at ? line.at.replace("T", " ").slice(0, 19) : ""}</span>
            ${line.level && html`<${Badge} word=${line.level} tone=${LEVEL_TONES[line.level]} />`}
            <span class="quiet">${line.profile ?? ""} ${line.source}</span> <span class="text">${plain(line.message || line.line)}</span></div>`)}</div>`
        : html`<${Card}><${Empty}>No entry matches. What agents and gateways do is logged once they run.</${Empty}></${Card}>`}
    </${Loaded}>`;
}

const HEALTH_TONES = { ok: "good", note: "plain", warning: "warn", broken: "bad" };

export function Doctor() {
  const live = useLive(link("/api/doctor"), []);
  return html`<h1>Doctor <small>${profile() || "default"}</small></h1>
    <p><button type="button" onClick=${live.reload}>Examine again</button></p>
    <${Loaded} live=${live}>${(view) => html`<${Card} title=${view.ok ? "Nothing is broken" : "Something is broken"} tone=${view.ok ? "" : "bad"}>
      <ul class="plain">${view.checks.map((check, index) => html`<li class="needed" key=${index}>
        <div class="line"><${Badge} word=${check.health} tone=${HEALTH_TONES[check.health]} /> <strong>${check.name}</strong> <span>${check.message}</span></div>
        ${check.advice && html`<p class="quiet">${check.advice}</p>`}</li>`)}</ul>
      <p class="quiet">vestal ${view.version}</p>
    </${Card}>`}</${Loaded}>`;
}
