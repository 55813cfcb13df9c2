// What a sandbox consumes, drawn while somebody looks; and the ports that listen in it.
import { api, bytes, Card, Empty, html, link, useEffect, useLive, useState } from "../lib.js";
import { Spark } from "../plot.js";
import { isOperator } from "../forms.js";
import { sandboxApi, sandboxPath } from "./sandbox-head.js";

/** Samples that are kept on the page: ten minutes. */
const KEPT = 300;

/** Samples further apart than this have nothing between them. */
const GAP = 10_000;

/** Returns points of one member, with a hole where nothing was measured. */
function points(samples, of) {
  return samples.flatMap((sample, at) => {
    const before = samples[at - 1];
    const hole = before && sample.at - before.at > GAP ? [{ at: sample.at / 1000, value: null }] : [];
    return [...hole, { at: sample.at / 1000, value: of(sample) }];
  });
}

export function Usage({ owner, task, isRunning }) {
  const [samples, setSamples] = useState(/** @type {any[]} */ ([]));
  const [over, setOver] = useState("");
  useEffect(() => {
    /** @type {EventSource | null} */
    let source = null;
    const open = () => {
      source?.close();
      source = null;
      if (document.hidden || !isRunning) return;
      setOver("");
      const opened = new EventSource(`${sandboxApi(owner, task)}/usage`);
      source = opened;
      opened.addEventListener("kept", (event) => setSamples(JSON.parse(event.data)));
      opened.addEventListener("sample", (event) => setSamples((old) => [...old.slice(1 - KEPT), JSON.parse(event.data)]));
      opened.addEventListener("over", (event) => {
        setOver(JSON.parse(event.data).detail);
        opened.close();
      });
    };
    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      source?.close();
      document.removeEventListener("visibilitychange", open);
    };
  }, [owner, task, isRunning]);
  if (!isRunning) return null;
  const last = samples.at(-1);
  const cpu = (value) => `${Math.round(value * 100)} %`;
  /** @type {[string, string, (sample: any) => number | null, (value: number) => string][]} */
  const plots = [
    ["CPU", "of one processor", (one) => one.cpus, cpu],
    ["Memory", "of its processes", (one) => one.memory_bytes, bytes],
    ["Disk", "on this machine", (one) => one.disk_bytes, bytes],
    ["Jobs", `${last?.processes ?? 0} processes`, (one) => one.jobs_running, String],
  ];
  return html`<${Card} title="Consumption">
    ${over && html`<p class="quiet">${over}</p>`}
    <div class="sparks">${plots.map(([name, note, of, words]) => {
      const value = last ? of(last) : null;
      return html`<div class="spark-box" key=${name}><span class="quiet">${name}</span>
        <strong>${value === null || value === undefined ? "–" : words(value)}</strong>
        <${Spark} points=${points(samples, of)} name=${name} words=${words} /><small class="quiet">${note}</small></div>`;
    })}</div>
  </${Card}>`;
}

export function Ports({ owner, task }) {
  const live = useLive(`${sandboxApi(owner, task)}/ports`, ["sandboxes"]);
  const [said, setSaid] = useState("");
  const view = live.data;
  const preview = async (port) => {
    // The tab belongs to the click, before anything is waited for.
    const tab = window.open("about:blank");
    try {
      const { url } = await api(`${sandboxApi(owner, task)}/ports/${port}/preview`, { body: {} });
      setSaid("");
      if (tab) {
        tab.opener = null;
        tab.location.replace(url);
      } else setSaid("the browser has kept the new tab from being opened");
    } catch (error) {
      tab?.close();
      setSaid(error.message);
    }
  };
  if (!view || (view.ports.length === 0 && !view.no_preview)) {
    return html`<${Card} title="Ports" actions=${html`<button type="button" onClick=${live.reload}>Look again</button>`}>
      <${Empty}>${live.error ? live.error.message : "No job listens on a port."}</${Empty}></${Card}>`;
  }
  return html`<${Card} title="Ports" actions=${html`<button type="button" onClick=${live.reload}>Look again</button>`}>
    <ul class="plain">${view.ports.map((one) => html`<li class="line" key=${`${one.address}:${one.port}`}>
      <strong>${one.port}</strong> <span class="quiet">${one.address} · ${one.program || "?"}
        ${one.job && html` · <a href=${link(`${sandboxPath(owner, task)}/jobs/${one.job}`)}>its job</a>`}</span>
      ${!view.no_preview && isOperator() && html`<button type="button" onClick=${() => preview(one.port)}>Preview</button>`}</li>`)}</ul>
    ${view.no_preview && html`<p class="quiet">No preview: ${view.no_preview}</p>`}
    <p class="bad-text" role="status">${said}</p>
  </${Card}>`;
}
