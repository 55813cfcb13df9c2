// What all pages share: drawing, asking the server, hearing of changes, moving between pages.
import { h, render } from "./vendor/preact.mjs";
import * as hooks from "./vendor/hooks.mjs";
import * as signals from "./vendor/signals.mjs";
import htm from "./vendor/htm.mjs";

// What begins empty is filled with something later: its type is not that of emptiness.
/** @template T @typedef {[T] extends [null | undefined] ? any : [T] extends [never[]] ? any[] : T} Part */
/** @template T @typedef {[T] extends [null | undefined | never[] | Function] ? Part<T> : { [K in keyof T]: Part<T[K]> }} Filled */
/** @type {<T>(value: T) => { value: Filled<T> }} */
export const signal = signals.signal;
/** @type {<T>(initial: T) => { current: Filled<T> }} */
export const useRef = hooks.useRef;
/** @type {<T>(initial: T | (() => T)) => [Filled<T>, (next: Filled<T> | ((old: Filled<T>) => Filled<T>)) => void]} */
export const useState = hooks.useState;
export const useEffect = hooks.useEffect;
export { render };

// What commands a terminal, and marks that turn the direction of what follows, have no place in a page:
// with them a name or a command reads as another one.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const SCHEME = /^[\s\u0000-\u001f]*([a-z][a-z0-9+.-]*):/i;
const READ_ALOUD = ["title", "aria-label", "placeholder", "alt", "label"];

function seen(child) {
  if (Array.isArray(child)) return child.map(seen);
  return typeof child === "string" ? child.replace(UNSEEN, "\ufffd") : child;
}

/** Makes an element whose text can be seen as it is, and whose links lead to web pages. */
function element(type, props, ...children) {
  if (typeof type === "string" && props) {
    for (const name of READ_ALOUD) {
      if (typeof props[name] === "string") props = { ...props, [name]: seen(props[name]) };
    }
    const scheme = SCHEME.exec(props.href ?? "")?.[1].toLowerCase();
    if (scheme && !["http", "https", "blob"].includes(scheme)) props = { ...props, href: undefined };
  }
  return h(type, props, ...children.map(seen));
}

/** Everything is text here: what an agent or a file says can never become markup. */
export const html = htm.bind(element);

/** The address that is shown. */
export const address = signal(new URL(location.href));
/** Who has logged in; null until that is known. */
export const identity = signal(null);
/** Whether the stream of changes is open. */
export const connected = signal(true);
/**
 * The profiles of the home.
 * @type {{ value: { profiles: string[], version: string, home: string } }}
 */
export const home = signal({ profiles: [], version: "", home: "" });

export function profile() {
  return address.value.searchParams.get("profile") ?? "";
}

/** Returns an address with the chosen profile kept. */
export function link(path, query = {}) {
  const url = new URL(path, location.origin);
  if (profile()) url.searchParams.set("profile", profile());
  for (const [key, value] of Object.entries(query)) {
    if (value === "" || value === null || value === undefined) url.searchParams.delete(key);
    else url.searchParams.set(key, value);
  }
  return url.pathname + url.search;
}

export function go(path, replace = false) {
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  address.value = url;
  if (!replace) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

addEventListener("popstate", () => (address.value = new URL(location.href)));
addEventListener("click", (event) => {
  const target = /** @type {Element | null} */ (event.target);
  const anchor = /** @type {HTMLAnchorElement | null | undefined} */ (target?.closest?.("a[href]"));
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!anchor || !isPlain || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
  if (anchor.hash && anchor.pathname === location.pathname) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search);
});

/** An answer that is none. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.error ?? "";
    this.advice = body?.advice ?? "";
  }
}

const RELOADED = "vestal-reloaded";
const RELOAD_AGAIN_AFTER = 10_000;

/** A session that has ended is found out by one reload, which leads to the login; never by two. */
function leave(loginUrl) {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  sessionStorage.setItem(RELOADED, String(Date.now()));
  if (Date.now() - last > RELOAD_AGAIN_AFTER) location.reload();
  else location.assign(loginUrl);
}

/**
 * Asks the server. `file` is sent as it is. `probe`: asks who one is, whose 401 is an answer and no reason to leave.
 * @param {string} path
 * @param {{ body?: any, file?: Blob, method?: string, probe?: boolean, signal?: AbortSignal }} [how]
 * @returns {Promise<any>}
 */
export async function api(path, { body, file, method, probe = false, signal: abort } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: method ?? (body === undefined && file === undefined ? "GET" : "POST"),
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? file : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: abort,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { error: "offline", detail: "the dashboard does not answer", advice: "is it running? vestal dashboard --status" });
  }
  const answer = await response.json().catch(() => null);
  if (response.status === 401 && !probe && answer?.login_url) {
    leave(answer.login_url);
    await new Promise(() => {});
  }
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

// Changes: one stream for all that is shown, closed while nobody looks.
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
let cursor = "";

function topics() {
  return [...new Set([...listeners].flatMap((listener) => listener.topics))].sort();
}

function reopen() {
  source?.close();
  source = null;
  if (document.hidden || listeners.size === 0) return;
  const query = new URLSearchParams({ topics: topics().join(","), cursor });
  const opened = new EventSource(`/api/events?${query}`);
  source = opened;
  opened.addEventListener("hello", (event) => {
    connected.value = true;
    cursor = event.lastEventId;
  });
  opened.addEventListener("changed", (event) => {
    cursor = event.lastEventId;
    const changed = JSON.parse(event.data).topics;
    for (const listener of listeners) {
      if (listener.topics.some((topic) => changed.includes(topic))) listener.call();
    }
  });
  opened.addEventListener("error", () => {
    connected.value = false;
    if (opened.readyState !== EventSource.CLOSED) return;
    // Refused for good: the session has ended, or the server is another one by now.
    if (source === opened) source = null;
    api("/api/home").then(reopen, () => setTimeout(reopen, 2000));
  });
}

document.addEventListener("visibilitychange", reopen);

function listen(wanted, call) {
  const listener = { topics: wanted, call };
  const before = topics().join();
  listeners.add(listener);
  if (topics().join() !== before || !source) reopen();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) reopen();
  };
}

/**
 * Loads what a page shows, and again whenever one of the topics changes. What was there stays until
 * the next answer is there.
 */
export function useLive(path, wanted) {
  const [state, setState] = useState({ path, data: null, error: null });
  const again = useRef(() => {});
  useEffect(() => {
    let busy = false;
    let stale = false;
    const abort = new AbortController();
    const load = async () => {
      if (busy) {
        stale = true;
        return;
      }
      busy = true;
      do {
        stale = false;
        try {
          const data = await api(path, { signal: abort.signal });
          setState({ path, data, error: null });
        } catch (error) {
          if (error.name === "AbortError") return;
          setState((old) => ({ path, data: old.path === path ? old.data : null, error }));
        }
      } while (stale);
      busy = false;
    };
    again.current = load;
    load();
    const stop = wanted.length ? listen(wanted, load) : () => {};
    return () => {
      abort.abort();
      stop();
    };
  }, [path, wanted.join()]);
  const own = state.path === path;
  return { data: own ? state.data : null, error: own ? state.error : null, reload: () => again.current() };
}

// Words for people.
/** @type {[number, string][]} */
const SPANS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [size, unit] = SPANS.find(([size]) => whole >= size) ?? SPANS[3];
  return `${Math.floor(whole / size)} ${unit}`;
}

/** The clock of all relative times, once in half a minute while somebody looks. */
const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, 30_000);

export function When({ at }) {
  if (at === null || at === undefined) return html`<span class="quiet">–</span>`;
  const time = new Date(typeof at === "number" ? at * 1000 : at);
  const seconds = (clock.value - time.getTime()) / 1000;
  const words = Math.abs(seconds) < 5 ? "now" : seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  return html`<time datetime=${time.toISOString()} title=${time.toLocaleString()}>${words}</time>`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = count;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

export function Badge({ word, tone }) {
  return html`<span class=${`badge ${tone ?? "plain"}`}>${word}</span>`;
}

export function Card({ title, children, tone, actions }) {
  return html`<section class=${`card ${tone ?? ""}`}>
    ${title && html`<header><h2>${title}</h2>${actions}</header>`}
    ${children}
  </section>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

export function Command({ line }) {
  return html`<code class="command">${line}</code>`;
}

export function Failed({ error }) {
  return html`<${Card} title="This could not be loaded" tone="bad">
    <p>${error.message}</p>
    ${error.advice && html`<p class="quiet">${error.advice}</p>`}
  </${Card}>`;
}

export function Troubles({ troubles }) {
  return (troubles ?? []).map(
    (trouble) => html`<${Card} title=${trouble.subject} tone="bad" key=${trouble.subject}>
      <p>${trouble.detail}</p>
      ${trouble.advice && html`<p class="quiet">${trouble.advice}</p>`}
    </${Card}>`,
  );
}

/** Shows what was loaded, or why not. */
export function Loaded({ live, title, children }) {
  // A page whose heading comes with what is loaded has one until then, too.
  const heading = title && html`<h1>${title}</h1>`;
  if (live.data === null && live.error) return html`${heading}<${Failed} error=${live.error} />`;
  if (live.data === null) return html`${heading}<p class="quiet" role="status">Loading…</p>`;
  return html`${live.error && html`<p class="stale" role="status">Not up to date: ${live.error.message}</p>`}${children(live.data)}`;
}

/** A button for what changes something: asks first, says what came of it. */
export function Action({ label, ask, run, tone, disabled }) {
  const [state, setState] = useState({ phase: "idle", words: "" });
  const dialog = useRef(null);
  const may = identity.value?.right === "operator";
  const act = async () => {
    dialog.current?.close();
    setState({ phase: "busy", words: "" });
    try {
      setState({ phase: "done", words: (await run()) ?? "" });
    } catch (error) {
      setState({ phase: "failed", words: error.message });
    }
  };
  if (!may) return null;
  const press = () => (ask ? dialog.current.showModal() : act());
  return html`<span class="action">
    <button type="button" class=${tone ?? ""} disabled=${disabled || state.phase === "busy"} onClick=${press}>
      ${state.phase === "busy" ? "…" : label}
    </button>
    ${ask &&
    html`<dialog ref=${dialog} aria-label=${label}>
      <p>${ask}</p>
      <div class="buttons">
        <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        <button type="button" class=${tone ?? ""} onClick=${act}>${label}</button>
      </div>
    </dialog>`}
    <span role="status" class=${state.phase === "failed" ? "bad-text" : "quiet"}>${state.words}</span>
  </span>`;
}

/** Takes what commands a terminal out of a text, so that it reads as it would be printed. */
export function plain(text) {
  return text
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "")
    .replace(/\u001b\][^\u0007\u001b]*(\u0007|\u001b\\)/g, "")
    .replace(/\u001b[@-_]/g, "")
    .replace(/[^\n]*\r(?!\n)/g, "")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
