// Files of a sandbox: browsed, looked at, changed, uploaded and downloaded. What a file says is text, a picture
// of a few kinds, or a download; never a page.
import {
  Action, address, api, ApiError, bytes, Card, Empty, Failed, go, html, identity, link, useEffect, useRef, useState, When,
} from "../lib.js";
import { FormDialog, Labelled, Outcome, useSend } from "../forms.js";
import { SandboxHead, sandboxApi, sandboxPath } from "./sandbox-head.js";

function joined(dir, name) {
  return dir.endsWith("/") ? dir + name : `${dir}/${name}`;
}

function mode(bits) {
  const letters = "rwxrwxrwx";
  return [...letters].map((letter, at) => (bits & (1 << (8 - at)) ? letter : "-")).join("");
}

/** Asks for something once, and again when the address or `again` changes. */
function useAsked(path, again) {
  const [state, setState] = useState({ path: "", data: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    api(path, { signal: abort.signal }).then(
      (data) => setState({ path, data, error: null }),
      (error) => {
        if (error.name !== "AbortError") setState({ path, data: null, error });
      },
    );
    return () => abort.abort();
  }, [path, again]);
  return state.path === path ? state : { path, data: null, error: null };
}

/** The parts of a path, each a link. */
function Crumbs({ owner, task, path }) {
  const parts = path.split("/").filter(Boolean);
  const to = (end) => link(`${sandboxPath(owner, task)}/files`, { path: `/${parts.slice(0, end).join("/")}` });
  return html`<nav class="path" aria-label="Directory"><a href=${to(0)}>/</a>${parts.map((part, at) => html`<span key=${at}>
    ${at > 0 && html`<span class="quiet">/</span>`}<a href=${to(at + 1)}>${part}</a></span>`)}</nav>`;
}

/** Sends one file, and says how far it is. */
function send(url, file, onProgress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded));
    request.addEventListener("load", () => {
      /** @type {any} */
      let answer = null;
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        // Said by the status.
      }
      if (request.status === 200) resolve(answer);
      else reject(new ApiError(request.status, answer));
    });
    request.addEventListener("error", () => reject(new ApiError(0, { detail: "the dashboard does not answer" })));
    request.addEventListener("abort", () => reject(new ApiError(0, { detail: "given up; nothing was changed" })));
  });
  request.open("POST", url);
  request.setRequestHeader("content-type", "application/octet-stream");
  request.send(file);
  return { done, abort: () => request.abort() };
}

/** Files that are sent one after the other, each with its progress. */
function Uploads({ api: base, dir, done, dropped }) {
  const [all, setAll] = useState([]);
  const queue = useRef([]);
  const busy = useRef(false);
  const next = useRef(1);
  const change = (id, part) => setAll((old) => old.map((one) => (one.id === id ? { ...one, ...part } : one)));
  const work = async () => {
    if (busy.current) return;
    busy.current = true;
    for (;;) {
      const one = queue.current.shift();
      if (!one) break;
      const query = new URLSearchParams({ path: joined(one.dir, one.file.name), replace: String(one.replace) });
      const sending = send(`${base}/upload?${query}`, one.file, (sent) => change(one.id, { sent }));
      change(one.id, { phase: "sending", abort: sending.abort });
      try {
        await sending.done;
        change(one.id, { phase: "done", sent: one.file.size });
        done();
      } catch (error) {
        change(one.id, { phase: "failed", words: error.message, exists: error.status === 409 });
      }
    }
    busy.current = false;
  };
  const add = (files, replace = false) => {
    const fresh = [...files].map((file) => ({ id: next.current++, file, dir, replace, sent: 0, phase: "waiting", words: "" }));
    setAll((old) => [...old, ...fresh]);
    queue.current.push(...fresh);
    work();
  };
  useEffect(() => {
    if (dropped) add(dropped);
  }, [dropped]);
  const again = (one) => {
    setAll((old) => old.filter((other) => other.id !== one.id));
    add([one.file], true);
  };
  return html`<span class="action"><label class="button">Upload<input class="hidden" type="file" multiple onChange=${(event) => {
      add(event.target.files);
      event.target.value = "";
    }} /></label></span>
    ${all.length > 0 && html`<ul class="plain uploads" aria-label="Uploads">${all.map((one) => html`<li key=${one.id} class="line">
      <span>${one.file.name}</span>
      ${one.phase === "sending" && html`<progress max=${Math.max(one.file.size, 1)} value=${one.sent} aria-label=${`Uploading ${one.file.name}`}></progress>
        <span class="quiet">${bytes(one.sent)} of ${bytes(one.file.size)}</span><button type="button" onClick=${() => one.abort()}>Give up</button>`}
      ${one.phase === "waiting" && html`<span class="quiet">waiting</span>`}
      ${one.phase === "done" && html`<span class="quiet">uploaded, ${bytes(one.file.size)}</span>`}
      ${one.phase === "failed" && html`<span class="bad-text">${one.words}</span>
        ${one.exists && html`<button type="button" onClick=${() => again(one)}>Replace it</button>`}`}
    </li>`)}</ul>`}`;
}

const ICONS = { directory: "▸", file: "·", symlink: "→", other: "◦" };

function Directory({ owner, task, path, again, reload }) {
  const base = `${sandboxApi(owner, task)}/files`;
  const asked = useAsked(`${base}?${new URLSearchParams({ path })}`, again);
  const [more, setMore] = useState([]);
  const [next, setNext] = useState(/** @type {number | null} */ (null));
  const [dropped, setDropped] = useState(/** @type {File[] | null} */ (null));
  const [over, setOver] = useState(false);
  useEffect(() => {
    setMore([]);
    setNext(asked.data?.next ?? null);
  }, [asked.data]);
  if (asked.error) return html`<${NotThere} error=${asked.error} owner=${owner} task=${task} reload=${reload} />`;
  if (!asked.data) return html`<p class="quiet" role="status">Loading…</p>`;
  const view = asked.data;
  const entries = [...view.entries, ...more];
  const mayChange = identity.value?.right === "operator";
  const load = async () => {
    const page = await api(`${base}?${new URLSearchParams({ path: view.path, skip: String(next) })}`);
    setMore([...more, ...page.entries]);
    setNext(page.next);
  };
  const to = (to) => link(`${sandboxPath(owner, task)}/files`, to);
  const remove = (entry) => async () => {
    await api(`${base}/delete`, { body: { path: joined(view.path, entry.name), recursive: entry.kind === "directory" } });
    reload();
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    if (mayChange && event.dataTransfer?.files.length) setDropped([...event.dataTransfer.files]);
  };
  return html`<div class=${`card files ${over ? "over" : ""}`} onDragOver=${(event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      setOver(true);
    }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <header><${Crumbs} owner=${owner} task=${task} path=${view.path} />
      ${mayChange && html`<span class="buttons-line"><${NewEntry} base=${base} dir=${view.path} owner=${owner} task=${task} reload=${reload} /></span>`}</header>
    ${mayChange && html`<${Uploads} api=${base} dir=${view.path} done=${reload} dropped=${dropped} />`}
    ${entries.length === 0 && !view.parent && html`<${Empty}>Nothing is here.</${Empty}>`}
    <table class="listing"><thead class="hidden"><tr><th>Name</th><th>Size</th><th>Changed</th><th>Mode</th><th>Actions</th></tr></thead><tbody>
      ${view.parent && html`<tr><td><a href=${to({ path: view.parent })}>↑ ..</a></td><td></td><td></td><td></td><td></td></tr>`}
      ${entries.map((entry) => html`<tr key=${entry.name}>
        <td><span class="kind" aria-hidden="true">${ICONS[entry.kind]}</span><a href=${entry.kind === "directory"
          ? to({ path: joined(view.path, entry.name) })
          : to({ file: joined(view.path, entry.name) })}>${entry.name}${entry.kind === "directory" ? "/" : ""}</a></td>
        <td class="number">${entry.kind === "file" && bytes(entry.size)}</td>
        <td class="hidden-on-phone quiet"><${When} at=${entry.modified_at} /></td>
        <td class="hidden-on-phone quiet"><code>${mode(entry.mode)}</code></td>
        <td class="number">${entry.kind === "file" && html`<a class="button" href=${`${base}/download?${new URLSearchParams({ path: joined(view.path, entry.name) })}`} download=${entry.name} aria-label=${`Download ${entry.name}`}>↓</a>`}
          <${Action} label="Delete" tone="bad" run=${remove(entry)} ask=${entry.kind === "directory"
            ? `${joined(view.path, entry.name)} is deleted with everything in it. There is no way back but a snapshot.`
            : `${joined(view.path, entry.name)} is deleted. There is no way back but a snapshot.`} /></td>
      </tr>`)}</tbody></table>
    ${entries.length === 0 && view.parent && html`<${Empty}>This directory is empty.${mayChange && " Drop files here to upload them."}</${Empty}>`}
    ${next !== null && html`<p><button type="button" onClick=${load}>More</button> <span class="quiet">${entries.length} are shown</span></p>`}
  </div>`;
}

/** Why files cannot be looked at, with the way to do it. */
function NotThere({ error, owner, task, reload }) {
  const start = async () => {
    await api(`${sandboxApi(owner, task)}/start`, { body: {} });
    reload();
  };
  if (error.code !== "conflict") return html`<${Failed} error=${error} />`;
  return html`<${Card} title="It does not run"><p>Files are read by the program inside the sandbox.</p>
    <${Action} label="Start it" run=${start} /></${Card}>`;
}

function NewEntry({ base, dir, owner, task, reload }) {
  const [name, setName] = useState("");
  const form = (close, make) => {
    const state = useSend(async () => {
      await make(joined(dir, name.trim()));
      setName("");
      close();
    });
    return html`<form class="stacked" onSubmit=${(event) => {
        event.preventDefault();
        if (name.trim()) state.send();
      }}>
      <${Labelled} label="Name"><input value=${name} autocomplete="off" onInput=${(event) => setName(event.target.value)} /></${Labelled}>
      <${Outcome} of=${state} />
      <div class="buttons"><button type="button" onClick=${close}>Cancel</button><button type="submit">Make it</button></div></form>`;
  };
  const mkdir = async (path) => {
    await api(`${base}/mkdir`, { body: { path } });
    reload();
  };
  const create = async (path) => {
    await api(`${base}/save`, { body: { path, text: "", version: null } });
    go(link(`${sandboxPath(owner, task)}/files`, { file: path }));
  };
  return html`<${FormDialog} label="New file" title="New file">${(close) => html`<${Form} close=${close} make=${create} form=${form} />`}</${FormDialog}>
    <${FormDialog} label="New directory" title="New directory">${(close) => html`<${Form} close=${close} make=${mkdir} form=${form} />`}</${FormDialog}>`;
}

/** A component of its own, so that each form keeps its own state. */
function Form({ close, make, form }) {
  return form(close, make);
}

function File({ owner, task, path, again, reload }) {
  const base = `${sandboxApi(owner, task)}/files`;
  const asked = useAsked(`${base}/view?${new URLSearchParams({ path })}`, again);
  const [text, setText] = useState("");
  const [version, setVersion] = useState("");
  const [isChanged, setChanged] = useState(false);
  const view = asked.data;
  useEffect(() => {
    if (!view) return;
    setText(view.text ?? "");
    setVersion(view.version);
    setChanged(false);
  }, [view]);
  useEffect(() => {
    if (!isChanged) return () => {};
    const warn = (event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isChanged]);
  const [isStale, setStale] = useState(false);
  const saving = useSend(async (force) => {
    try {
      // Against what is there now, where somebody has chosen to lose it.
      const expected = force ? (await api(`${base}/view?${new URLSearchParams({ path })}`)).version : version;
      const saved = await api(`${base}/save`, { body: { path, text, version: expected } });
      setVersion(saved.version);
      setChanged(false);
      setStale(false);
      return `saved, ${bytes(saved.size)}`;
    } catch (error) {
      if (error.code === "changed") setStale(true);
      throw error;
    }
  });
  if (asked.error) return html`<${NotThere} error=${asked.error} owner=${owner} task=${task} reload=${reload} />`;
  if (!view) return html`<p class="quiet" role="status">Loading…</p>`;
  const parts = path.split("/");
  const name = parts.pop();
  const dir = parts.join("/") || "/";
  const mayChange = identity.value?.right === "operator";
  const download = `${base}/download?${new URLSearchParams({ path })}`;
  const canEdit = mayChange && view.shape === "text" && view.is_whole;
  return html`<div class="card"><header><span class="line"><${Crumbs} owner=${owner} task=${task} path=${dir} /> <span class="quiet">/</span> <strong>${name}</strong></span>
      <a class="button" href=${download} download=${name}>Download</a></header>
    <p class="quiet">${bytes(view.size)} · ${mode(view.mode)} · changed <${When} at=${view.modified_at} />${view.target && ` · a link to ${view.target}`}</p>
    ${view.shape === "picture" && html`<p><img class="shown-picture" src=${`${base}/picture?${new URLSearchParams({ path })}`} alt=${name} /></p>`}
    ${view.shape === "binary" && html`<${Empty}>${view.kind === "file" ? "This file is not text. Download it to look at it." : "This is not a regular file; it has nothing to show."}</${Empty}>`}
    ${view.shape === "text" && !canEdit && html`<pre class="log" tabindex="0" aria-label=${name}>${view.text}</pre>`}
    ${view.shape === "text" && !view.is_whole && html`<p class="why">Only the beginning is shown. Download the file to see all of it.</p>`}
    ${canEdit && html`<form class="stacked" onSubmit=${(event) => {
        event.preventDefault();
        saving.send(false);
      }} onKeyDown=${(event) => {
        if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          saving.send(false);
        }
      }}>
      <label class="hidden" for="file-text">Text of ${name}</label>
      <textarea id="file-text" class="editor" spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off" rows="24" value=${text} onInput=${(event) => {
        setText(event.target.value);
        setChanged(true);
      }}></textarea>
      <div class="buttons"><button type="submit" disabled=${!isChanged || saving.isBusy}>Save</button>
        ${isStale && html`<button type="button" class="bad" onClick=${() => saving.send(true)}>Save over it</button>
          <button type="button" onClick=${() => {
            setStale(false);
            saving.clear();
            reload();
          }}>Take what is there now</button>`}
        <span class="quiet hidden-on-phone">Ctrl-S saves</span></div>
      <${Outcome} of=${saving} /></form>`}
  </div>`;
}

export function Files({ owner, task }) {
  const [again, setAgain] = useState(0);
  const query = address.value.searchParams;
  const file = query.get("file");
  const reload = () => setAgain((old) => old + 1);
  return html`<${SandboxHead} owner=${owner} task=${task} page="files" />
    ${file
      ? html`<${File} key=${file} owner=${owner} task=${task} path=${file} again=${again} reload=${reload} />`
      : html`<${Directory} key=${query.get("path") ?? ""} owner=${owner} task=${task} path=${query.get("path") ?? ""} again=${again} reload=${reload} />`}`;
}
