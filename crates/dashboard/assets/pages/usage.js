// What was spent on models: by day as bars, and by model, profile, task and more as tables.
import { address, Card, Command, Empty, go, html, link, Loaded, plain, profile, Troubles, useLive } from "../lib.js";
import { Bars } from "../plot.js";
import { cost, count, dollars, isPriced } from "./task.js";

const RANGES = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"], ["0", "all"]];
const MEASURES = {
  cost: { name: "cost", of: (usage) => [["cost", usage.cost_usd]], words: (value) => dollars(value) },
  tokens: {
    name: "tokens",
    of: (usage) => [["sent", usage.input_tokens], ["from cache", usage.cache_read_tokens], ["written", usage.output_tokens]],
    words: (value) => count(Math.round(value)),
  },
  calls: { name: "calls", of: (usage) => [["calls", usage.calls]], words: (value) => count(Math.round(value)) },
};
const GROUPS = [["model", "Model"], ["profile", "Profile"], ["task", "Task"], ["source", "Front end"], ["conversation", "Conversation"]];
/** Lines of a table that are shown unasked. */
const SHOWN = 50;
/** The most days that are bars of their own. */
const MAX_BARS = 400;

/** The viewer's time zone: their days begin at their midnight. */
export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
}

/** Every day from the first that is known to today, also those on which nothing was spent. */
function allDays(lines, days) {
  const known = new Map(lines.map((line) => [line.day, line.usage]));
  const day = new Date();
  const first = days > 0 ? null : lines[0]?.day;
  const found = [];
  for (let at = 0; at < (days > 0 ? days : MAX_BARS); at += 1) {
    const name = `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
    found.push([name, known.get(name) ?? null]);
    if (first && name <= first) break;
    day.setDate(day.getDate() - 1);
  }
  return found.reverse();
}

function Label({ by, line }) {
  if (by === "model") return plain(`${line.provider}:${line.model}`);
  if (by === "profile") return html`<a href=${link("/usage", { profile: line.profile })}>${plain(line.profile)}</a>`;
  if (by === "source") return plain(line.source);
  if (by === "conversation") {
    const [owner, id] = [encodeURIComponent(line.profile), encodeURIComponent(line.conversation)];
    return html`<a href=${link(`/conversations/${owner}/${id}`)}>${plain(line.conversation)}</a> <span class="quiet">${plain(line.profile)}</span>`;
  }
  if (!line.task) return html`<span class="quiet">no task: what people did themselves</span>`;
  if (!line.board) return html`${plain(line.task)} <span class="quiet">${plain(line.work ?? "")}</span>`;
  return html`<a href=${link(`/board/${encodeURIComponent(line.board)}/${encodeURIComponent(line.task)}`)}>${plain(line.task)}</a> <span class="quiet">${plain(line.board)}</span>`;
}

function Table({ by, report }) {
  const head = GROUPS.find(([name]) => name === by)?.[1] ?? by;
  const total = report.total.cost_usd;
  const lines = report.lines.slice(0, SHOWN);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`By ${by}`}><table class="numbers"><thead><tr><th scope="col">${head}</th>
      <th scope="col">calls</th><th scope="col">sent</th><th scope="col">from cache</th><th scope="col">written</th><th scope="col">cost</th><th scope="col">share</th></tr></thead>
    <tbody>${lines.map((line, index) => html`<tr key=${index}><th scope="row"><${Label} by=${by} line=${line} /></th><td>${count(line.usage.calls)}</td><td>${count(line.usage.input_tokens)}</td>
      <td>${count(line.usage.cache_read_tokens)}</td><td>${count(line.usage.output_tokens)}</td><td>${cost(line.usage)}</td><td>${total > 0 ? `${Math.round((line.usage.cost_usd / total) * 100)} %` : "–"}</td></tr>`)}</tbody></table></div>
    ${report.lines.length > lines.length && html`<p class="quiet">and ${report.lines.length - lines.length} more: <${Command} line=${`vestal usage --by ${by} --all`} /></p>`}`;
}

export function Usage() {
  const query = address.value.searchParams;
  const days = query.get("days") ?? "30";
  const by = GROUPS.some(([name]) => name === query.get("by")) ? query.get("by") : "model";
  const asked = query.get("of") ?? "";
  const set = (part) => go(link("/usage", { days, by, of: asked, ...part }), true);
  const ask = (by) => link("/api/usage", { by, days, zone: zone(), of: "" });
  const daily = useLive(ask("day"), ["conversations"]);
  const grouped = useLive(ask(by), ["conversations"]);
  // Where no price is known, bars of cost would be empty.
  const isKnown = !daily.data || daily.data.total.calls === 0 || isPriced(daily.data.total);
  const wanted = asked in MEASURES ? asked : isKnown ? "cost" : "tokens";
  const measure = MEASURES[wanted];
  const unread = (report) => report.unread.map((one) => ({ subject: `profile ${one.profile}`, detail: one.error, advice: "what it spent is missing here" }));
  return html`<h1>Usage${profile() && html` <small>${profile()}</small>`}</h1>
    <div class="filters">
      <label>Time <select value=${days} onChange=${(event) => set({ days: event.target.value })}>${RANGES.map(([value, name]) => html`<option value=${value} key=${value}>${name}</option>`)}</select></label>
      <label>Bars <select value=${wanted} onChange=${(event) => set({ of: event.target.value })}>${Object.entries(MEASURES).map(([value, { name }]) => html`<option value=${value} key=${value}>${name}</option>`)}</select></label>
      <label>Table by <select value=${by} onChange=${(event) => set({ by: event.target.value })}>${GROUPS.map(([value, name]) => html`<option value=${value} key=${value}>${name.toLowerCase()}</option>`)}</select></label>
    </div>
    <${Loaded} live=${daily}>${(report) => {
      const bars = allDays(report.lines, Number(days)).map(([label, usage]) => ({
        label,
        parts: (usage ? measure.of(usage) : []).map(([name, value]) => ({ name, value })),
      }));
      const { total } = report;
      return html`<${Troubles} troubles=${unread(report)} />
        <${Card}>${total.calls === 0
          ? html`<${Empty}>Nothing was spent in this time.</${Empty}>`
          : html`<dl class="facts big"><div><dt>cost</dt><dd>${cost(total)}</dd></div><div><dt>calls</dt><dd>${count(total.calls)}</dd></div>
              <div><dt>tokens sent</dt><dd>${count(total.input_tokens)}</dd></div><div><dt>from cache</dt><dd>${count(total.cache_read_tokens)}</dd></div><div><dt>tokens written</dt><dd>${count(total.output_tokens)}</dd></div></dl>
            <${Bars} bars=${bars} name=${`${measure.name} by day`} words=${measure.words} title=${`${measure.name} by day`} />
            ${total.unpriced_calls > 0 && html`<p class="quiet">Of ${total.unpriced_calls} calls the cost is not known. To give prices: <${Command} line="vestal config set model.prices …" /></p>`}`}
        </${Card}>`;
    }}</${Loaded}>
    <${Loaded} live=${grouped}>${(report) => report.lines.length > 0 && html`<${Card} title=${`By ${by}`}><${Table} by=${by} report=${report} /></${Card}>`}</${Loaded}>
    <p class="quiet">From a ledger that only grows: deleting a conversation takes nothing from it.</p>`;
}
