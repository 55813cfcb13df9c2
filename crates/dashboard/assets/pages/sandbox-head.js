// What all pages about one sandbox begin with.
import { html, identity, link } from "../lib.js";

export function sandboxPath(owner, task) {
  return `/sandboxes/${encodeURIComponent(owner)}/${encodeURIComponent(task)}`;
}

export function sandboxApi(owner, task) {
  return `/api${sandboxPath(owner, task)}`;
}

const PARTS = [
  ["", "Overview"],
  ["/files", "Files"],
  ["/terminal", "Terminal"],
];

/** The name of a sandbox and the way to its pages. */
export function SandboxHead({ owner, task, page }) {
  // Files are not for everybody who may look.
  const parts = PARTS.filter(([part]) => part !== "/files" || identity.value?.right === "operator");
  return html`<p class="crumbs"><a href=${link("/sandboxes")}>Sandboxes</a></p>
    <h1>${task} <small>${owner}</small></h1>
    <nav class="parts" aria-label="Parts of the sandbox">${parts.map(([part, name]) => html`<a key=${part}
      href=${link(`${sandboxPath(owner, task)}${part}`)} aria-current=${part === (page ? `/${page}` : "") ? "page" : undefined}>${name}</a>`)}</nav>`;
}
