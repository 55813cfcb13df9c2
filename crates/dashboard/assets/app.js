// The frame around all pages.
import { address, api, connected, go, home, html, identity, link, profile, render, useEffect, useRef } from "./lib.js";
import { Now } from "./pages/now.js";
import { Job, Sandbox, Sandboxes } from "./pages/sandboxes.js";
import { Files } from "./pages/files.js";
import { Terminals } from "./pages/terminal.js";
import { Board } from "./pages/board.js";
import { watchNotices } from "./notices.js";
import { Review } from "./pages/review.js";
import { Task } from "./pages/task.js";
import { Usage } from "./pages/usage.js";
import { Conversations } from "./pages/conversations.js";
import { Chat } from "./pages/chat.js";
import { Doctor, Gateways, Logs } from "./pages/operations.js";
import { Settings } from "./pages/settings.js";
import { Keys } from "./pages/keys.js";
import { Schedule, Schedules } from "./pages/schedules.js";
import { Profiles } from "./pages/profiles.js";
import { Models } from "./pages/models.js";
import { McpServers, Memory, Skill, Skills } from "./pages/extensions.js";

/**
 * Pages by the shape of their path.
 * @type {[RegExp, string, (parts: any[]) => any][]}
 */
const PAGES = [
  [/^\/$/, "Now", () => html`<${Now} />`],
  [/^\/sandboxes$/, "Sandboxes", () => html`<${Sandboxes} />`],
  [/^\/sandboxes\/([^/]+)\/([^/]+)\/files$/, "Files", ([, owner, task]) => html`<${Files} owner=${owner} task=${task} />`],
  [
    /^\/sandboxes\/([^/]+)\/([^/]+)\/terminal(?:\/([^/]+))?$/,
    "Terminal",
    ([, owner, task, job]) => html`<${Terminals} owner=${owner} task=${task} job=${job ?? ""} />`,
  ],
  [/^\/sandboxes\/([^/]+)\/([^/]+)$/, "Sandbox", ([, owner, task]) => html`<${Sandbox} owner=${owner} task=${task} />`],
  [
    /^\/sandboxes\/([^/]+)\/([^/]+)\/jobs\/([^/]+)$/,
    "Job",
    ([, owner, task, job]) => html`<${Job} owner=${owner} task=${task} job=${job} />`,
  ],
  [/^\/board(?:\/([^/]+))?$/, "Board", ([, board]) => html`<${Board} board=${board ?? "default"} />`],
  [/^\/board\/([^/]+)\/([^/]+)$/, "Task", ([, board, task]) => html`<${Task} board=${board} task=${task} />`],
  [/^\/board\/([^/]+)\/([^/]+)\/review$/, "Review", ([, board, task]) => html`<${Review} board=${board} task=${task} />`],
  [/^\/usage$/, "Usage", () => html`<${Usage} />`],
  [/^\/conversations$/, "Conversations", () => html`<${Conversations} />`],
  [/^\/conversations\/([^/]+)\/([^/]+)$/, "Conversation", ([, owner, id]) => html`<${Chat} owner=${owner} id=${id} />`],
  [/^\/chat$/, "New conversation", () => html`<${Chat} owner=${profile() || "default"} id="" />`],
  [/^\/gateways$/, "Gateways", () => html`<${Gateways} />`],
  [/^\/logs$/, "Logs", () => html`<${Logs} />`],
  [/^\/schedules$/, "Schedules", () => html`<${Schedules} />`],
  [/^\/schedules\/([^/]+)\/([^/]+)$/, "Schedule", ([, owner, id]) => html`<${Schedule} owner=${owner} id=${id} />`],
  [/^\/settings$/, "Settings", () => html`<${Settings} />`],
  [/^\/keys$/, "Keys", () => html`<${Keys} />`],
  [/^\/models$/, "Models", () => html`<${Models} />`],
  [/^\/profiles$/, "Profiles", () => html`<${Profiles} />`],
  [/^\/skills$/, "Skills", () => html`<${Skills} />`],
  [/^\/skills\/([^/]+)$/, "Skill", ([, name]) => html`<${Skill} name=${name} />`],
  [/^\/memory$/, "Memory", () => html`<${Memory} />`],
  [/^\/mcp$/, "MCP servers", () => html`<${McpServers} />`],
  [/^\/doctor$/, "Doctor", () => html`<${Doctor} />`],
];

/** @type {[RegExp, string, (parts: any[]) => any]} */
const NOT_FOUND = [/^/, "Not found", () => html`<h1>Not found</h1><p class="empty">There is no such page.</p>`];

const MENU = [
  ["/", "Now"],
  ["/board", "Board"],
  ["/conversations", "Conversations"],
  ["/sandboxes", "Sandboxes"],
  ["/usage", "Usage"],
  ["/schedules", "Schedules"],
  ["/gateways", "Gateways"],
  ["/logs", "Logs"],
  ["/settings", "Settings"],
  ["/doctor", "Doctor"],
];

/** What a profile is made of: one entry of the menu, and a row of its own below it. */
const SETTINGS = [
  ["/settings", "Settings"],
  ["/keys", "Keys"],
  ["/models", "Models"],
  ["/profiles", "Profiles"],
  ["/skills", "Skills"],
  ["/memory", "Memory"],
  ["/mcp", "MCP servers"],
];

function isAt(to) {
  const path = address.value.pathname;
  return to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`);
}

function SettingsTabs() {
  if (!SETTINGS.some(([to]) => isAt(to))) return null;
  return html`<nav class="tabs" aria-label="Of a profile">
    ${SETTINGS.map(([to, name]) => html`<a href=${link(to)} aria-current=${isAt(to) ? "page" : undefined} key=${to}>${name}</a>`)}
  </nav>`;
}

function Menu() {
  const isHere = (to) => (to === "/settings" ? SETTINGS.some(([own]) => isAt(own)) : isAt(to));
  const bar = useRef(null);
  const path = address.value.pathname;
  useEffect(() => {
    // On a phone the menu is wider than the screen: where one is can be seen.
    const show = () => {
      const here = bar.current?.querySelector("[aria-current]");
      if (here) bar.current.scrollLeft = here.offsetLeft - (bar.current.clientWidth - here.offsetWidth) / 2;
    };
    show();
    addEventListener("resize", show);
    return () => removeEventListener("resize", show);
  }, [path]);
  return html`<nav aria-label="Pages" ref=${bar}>
    ${MENU.map(([to, name]) => html`<a href=${link(to)} aria-current=${isHere(to) ? "page" : undefined} key=${to}>${name}</a>`)}
  </nav>`;
}

function Switcher() {
  const profiles = home.value.profiles;
  if (profiles.length < 2) return null;
  const choose = (event) => {
    const url = new URL(address.value);
    if (event.target.value) url.searchParams.set("profile", event.target.value);
    else url.searchParams.delete("profile");
    go(url.pathname + url.search);
  };
  return html`<label class="switcher"
    ><span>Profile</span>
    <select onChange=${choose} value=${profile()}>
      <option value="">all</option>
      ${profiles.map((name) => html`<option value=${name} key=${name}>${name}</option>`)}
    </select></label
  >`;
}

function Who() {
  const who = identity.value;
  if (!who || who.method === "insecure") return null;
  const leave = async () => {
    const answer = await api("/api/auth/logout", { body: {} });
    location.replace(answer.login_url);
  };
  return html`<span class="who">
    <span class="quiet">${who.right}</span>
    ${who.method !== "proxy" && html`<button type="button" onClick=${leave}>Log out</button>`}
  </span>`;
}

function App() {
  const path = address.value.pathname;
  const [shape, name, page] = PAGES.find(([shape]) => shape.test(path)) ?? NOT_FOUND;
  const match = [...(path.match(shape) ?? [])];
  useEffect(() => {
    document.title = `${name} · Vestal`;
  }, [name]);
  let parts = match;
  try {
    parts = match.map((part) => (part === undefined ? part : decodeURIComponent(part)));
  } catch {
    parts = match;
  }
  return html`<a class="skip" href="#main">Skip to the page</a>
    <header class="top">
      <a class="brand" href=${link("/")}>Vestal</a>
      <${Menu} />
      <${Switcher} />
      <${Who} />
    </header>
    ${!connected.value && html`<p class="stale" role="status">Not connected; trying again.</p>`}
    <main id="main" tabindex="-1"><${SettingsTabs} />${page(parts)}</main>`;
}

async function begin() {
  const [who, about] = await Promise.allSettled([api("/api/auth/me", { probe: true }), api("/api/home")]);
  if (who.status === "fulfilled") identity.value = who.value;
  if (about.status === "fulfilled") home.value = about.value;
}

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
begin().then(watchNotices);
