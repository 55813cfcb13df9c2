// Notifications of the browser when something needs a person: only if they asked for them, in this browser.
//
// A hidden page hears of nothing else. Of several pages one keeps the stream; where it is closed, another takes over.
import { go, html, signal, useState } from "./lib.js";

const WANTED = "vestal-notices";
const LOCK = "vestal-notices";

/** What can be done here: notifications need a browser that has them, and an address that is local or has TLS. */
const isPossible = "Notification" in globalThis && isSecureContext && "locks" in navigator;

function isWanted() {
  try {
    return isPossible && localStorage.getItem(WANTED) === "1" && Notification.permission === "granted";
  } catch {
    return false;
  }
}

const wanted = signal(isWanted());
/** Ends the stream of this page. */
let stop = () => {};

function show(notice) {
  // Somebody who looks at the page sees it there.
  if (!document.hidden && document.hasFocus()) return;
  const shown = new Notification(notice.title, { body: notice.detail, tag: notice.id });
  shown.onclick = () => {
    focus();
    if (notice.page.startsWith("/")) go(notice.page);
    shown.close();
  };
}

function listen() {
  stop();
  const abort = new AbortController();
  stop = () => abort.abort();
  const until = () => new Promise((resolve) => abort.signal.addEventListener("abort", () => resolve(null)));
  navigator.locks
    .request(LOCK, { signal: abort.signal }, async () => {
      const source = new EventSource("/api/notices");
      source.addEventListener("notice", (event) => show(JSON.parse(event.data)));
      // Refused for good: the session has ended. The page finds that out by itself.
      source.addEventListener("error", () => source.readyState === EventSource.CLOSED && abort.abort());
      await until();
      source.close();
    })
    .catch(() => {});
}

/** Begins to listen, if the person has asked for it in this browser. */
export function watchNotices() {
  if (wanted.value) listen();
}

async function ask(event) {
  const on = event.target.checked;
  if (on && Notification.permission !== "granted" && (await Notification.requestPermission()) !== "granted") {
    event.target.checked = false;
    return "The browser does not allow it; it can be allowed in its settings for this address.";
  }
  localStorage.setItem(WANTED, on ? "1" : "0");
  wanted.value = isWanted();
  if (wanted.value) listen();
  else stop();
  return "";
}

/** Where a person turns notifications on and off. */
export function NoticeSwitch() {
  const [said, setSaid] = useState("");
  if (!isPossible) return null;
  return html`<label class="check"><input type="checkbox" checked=${wanted.value} onChange=${async (event) => setSaid(await ask(event))} /> notify me when something needs me
    <span role="status" class="bad-text">${said}</span></label>`;
}
