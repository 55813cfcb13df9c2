// Terminals of a sandbox.
import { Action, api, bytes, Empty, go, html, identity, link, Loaded, signal, useEffect, useLive, useRef, useState, When } from "../lib.js";
import { connectTerminal } from "../terminal-line.js";
import { SandboxHead, sandboxApi, sandboxPath } from "./sandbox-head.js";

/** Loads the terminal itself, which no other page needs. */
async function loadXterm() {
  const [{ Terminal }, { FitAddon }, { styleByScript }] = await Promise.all([
    import("../vendor/xterm.mjs"),
    import("../vendor/addon-fit.mjs"),
    import("../terminal-styles.js"),
  ]);
  const style = new URL("../vendor/xterm.css", import.meta.url).pathname;
  if (!document.querySelector(`link[href="${style}"]`)) {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = style;
    const loaded = new Promise((resolve) => {
      sheet.onload = resolve;
      sheet.onerror = resolve;
    });
    document.head.append(sheet);
    await loaded;
  }
  return { Terminal, FitAddon, styleByScript };
}

const DARK = { background: "#161310", foreground: "#eee7df", cursor: "#ffa657", cursorAccent: "#161310", selectionBackground: "#5a4632" };
const LIGHT = {
  background: "#ffffff", foreground: "#1f1a16", cursor: "#a14a00", cursorAccent: "#ffffff", selectionBackground: "#f3d9bd",
  black: "#1f1a16", red: "#a3231c", green: "#1a6b3c", yellow: "#7a4b00", blue: "#1f5a9c", magenta: "#7a3a9c", cyan: "#0f6670", white: "#665c52",
  brightBlack: "#665c52", brightRed: "#c2352d", brightGreen: "#217a47", brightYellow: "#8f5a00", brightBlue: "#2f6fb0", brightMagenta: "#8b5fb8", brightCyan: "#1b7883", brightWhite: "#1f1a16",
};

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Keys that a phone's keyboard lacks. */
const KEYS = [
  ["Esc", "\u001b"],
  ["Tab", "\t"],
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
  ["Ctrl-Z", "\u001a"],
  ["↑", "\u001b[A"],
  ["↓", "\u001b[B"],
  ["←", "\u001b[D"],
  ["→", "\u001b[C"],
];

/** How the line is, in words; nothing while all is well. */
function lineWords(line) {
  if (line.state === "opening") return "connecting …";
  if (line.state === "lost") return "The line was lost. What the shell prints is kept; trying again …";
  if (line.state === "trouble") return line.detail;
  if (line.state === "failed") return line.detail;
  if (line.state === "gap") return `${bytes(line.gap)} of output were not kept and are not shown`;
  if (line.state === "ended") {
    const { cause, exit_code: code } = line.job;
    return `The shell has ended${cause === "exited" ? ` (exit ${code})` : cause ? ` (${cause.replaceAll("_", " ")})` : ""}.`;
  }
  return "";
}

/** The size of the next terminal, as the last one had it. */
const lastSize = signal({ rows: 24, cols: 80 });

function Screen({ path, name, ended }) {
  const place = useRef(null);
  const keys = useRef((_) => {});
  const [line, setLine] = useState(/** @type {any} */ ({ state: "opening" }));
  const [wanted, setWanted] = useState("");
  const dialog = useRef(null);
  useEffect(() => {
    let isGone = false;
    let leave = () => {};
    const begin = async () => {
      const { Terminal, FitAddon, styleByScript } = await loadXterm();
      if (isGone) return;
      const ask = (event, text) => {
        event.preventDefault();
        setWanted(text);
        dialog.current?.showModal();
      };
      const release = styleByScript();
      const terminal = new Terminal({
        allowProposedApi: false,
        convertEol: false,
        cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
        fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
        fontSize: 14,
        scrollback: 5000,
        screenReaderMode: false,
        theme: dark.matches ? DARK : LIGHT,
        minimumContrastRatio: 4.5,
        // A link of a program is text until somebody has read where it leads.
        linkHandler: { activate: ask, allowNonHttpProtocols: false },
        // No program reads or moves the window, its title or its size.
        windowOptions: {},
      });
      const fit = new FitAddon();
      terminal.loadAddon(fit);
      // What programs may not do here: name the page (0, 1, 2), write to the clipboard (52), raise notices (9, 777).
      for (const code of [0, 1, 2, 9, 52, 777]) terminal.parser.registerOscHandler(code, () => true);
      // What a program had asked the terminal, before this page came, was answered then.
      let replaying = 0;
      const isOld = () => replaying > 0;
      for (const asks of [
        { final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" },
        { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: ">", final: "q" },
      ]) terminal.parser.registerCsiHandler(asks, isOld);
      terminal.parser.registerDcsHandler({ intermediates: "$", final: "q" }, isOld);
      for (const code of [4, 10, 11, 12]) terminal.parser.registerOscHandler(code, (data) => replaying > 0 && data.includes("?"));
      terminal.open(place.current);
      fit.fit();
      lastSize.value = { rows: terminal.rows, cols: terminal.cols };
      const connection = connectTerminal({
        path,
        size: () => ({ rows: terminal.rows, cols: terminal.cols }),
        show(bytes, isReplay, drawn) {
          if (isReplay) replaying += 1;
          terminal.write(bytes, () => {
            if (isReplay) replaying -= 1;
            drawn();
          });
        },
        status(next) {
          setLine(next);
          if (next.state === "ended" || next.state === "failed") ended();
        },
      });
      const encoder = new TextEncoder();
      terminal.onData((data) => connection.type(encoder.encode(data)));
      terminal.onBinary((data) => connection.type(Uint8Array.from(data, (letter) => letter.charCodeAt(0))));
      terminal.onResize(({ rows, cols }) => {
        lastSize.value = { rows, cols };
        connection.resize({ rows, cols });
      });
      keys.current = (text) => {
        connection.type(encoder.encode(text));
        terminal.focus();
      };
      // Ctrl-Shift-F6 leads out: Tab belongs to the shell.
      terminal.attachCustomKeyEventHandler((event) => {
        if (event.type !== "keydown" || event.key !== "F6" || !event.ctrlKey) return true;
        document.getElementById("terminal-keys")?.querySelector("button")?.focus();
        return false;
      });
      const observer = new ResizeObserver(() => fit.fit());
      observer.observe(place.current);
      const recolour = () => (terminal.options.theme = dark.matches ? DARK : LIGHT);
      dark.addEventListener("change", recolour);
      terminal.focus();
      leave = () => {
        observer.disconnect();
        dark.removeEventListener("change", recolour);
        connection.close();
        terminal.dispose();
        release();
      };
    };
    begin().catch((error) => setLine({ state: "failed", detail: `the terminal could not be loaded: ${error.message}` }));
    return () => {
      isGone = true;
      leave();
    };
  }, [path]);
  const words = lineWords(line);
  const isWeb = /^https?:\/\//i.test(wanted);
  return html`<div class="terminal-frame">
      <p class=${`terminal-line ${line.state}`} role="status">${words}</p>
      <div class="terminal" ref=${place} role="group" aria-label=${name}></div>
    </div>
    <div class="keys" id="terminal-keys" role="toolbar" aria-label="Keys">
      ${KEYS.map(([word, text]) => html`<button type="button" key=${word} disabled=${line.state === "ended"} onClick=${() => keys.current(text)}>${word}</button>`)}
      <span class="quiet hidden-on-phone">Ctrl-F6 leads out of the terminal</span>
    </div>
    <dialog ref=${dialog} aria-label="A link">
      <p>A program in the sandbox shows a link to:</p><p><code>${wanted}</code></p>
      <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        ${isWeb && html`<a class="button" href=${wanted} target="_blank" rel="noopener noreferrer" onClick=${() => dialog.current.close()}>Open it in a new tab</a>`}</div>
    </dialog>`;
}

export function Terminals({ owner, task, job }) {
  const path = `${sandboxApi(owner, task)}/terminals`;
  const live = useLive(path, ["sandboxes"]);
  const [hasEnded, setEnded] = useState(false);
  const at = (id) => link(`${sandboxPath(owner, task)}/terminal/${encodeURIComponent(id)}`);
  useEffect(() => setEnded(false), [job]);
  const open = async () => {
    const made = await api(path, { body: lastSize.value });
    live.reload();
    go(at(made.id));
  };
  const kill = async () => {
    await api(`${sandboxApi(owner, task)}/jobs/${encodeURIComponent(job)}/kill`, { body: {} });
    live.reload();
  };
  const mayType = identity.value?.right === "operator";
  return html`<${SandboxHead} owner=${owner} task=${task} page="terminal" />
    <${Loaded} live=${live}>${(view) => html`
      <div class="terminal-tabs">
        ${view.terminals.map((one, index) => html`<a key=${one.id} class="button" href=${at(one.id)} aria-current=${one.id === job ? "page" : undefined}>
          ${index + 1}: <span class="quiet"><${When} at=${one.started_at} /></span></a>`)}
        <${Action} label="New terminal" run=${open} />
        ${job && !hasEnded && html`<${Action} label="End it" tone="bad" run=${kill} ask="The shell and everything it started is killed. Leaving the page leaves it running." />`}
      </div>
      ${!job && html`<${Empty}>${!mayType
        ? "A terminal is for operators; what its shell prints is on the page of its job."
        : view.terminals.length
          ? "Choose a terminal to come back to, or open another one."
          : "No terminal is open. One goes on when you leave the page, and ends with its shell."}</${Empty}>`}`}
    </${Loaded}>
    ${job && mayType && html`<${Screen} key=${job} path=${`${path}/${encodeURIComponent(job)}`} name=${`Terminal ${job}`} ended=${() => {
      setEnded(true);
      live.reload();
    }} />`}
    ${job && !mayType && html`<${Empty}><a href=${link(`${sandboxPath(owner, task)}/jobs/${encodeURIComponent(job)}`)}>What its shell prints</a></${Empty}>`}`;
}
