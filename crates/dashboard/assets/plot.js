// Small plots, drawn as SVG: a line for what changes by the second, bars for what adds up by the day.
// Numbers are never in colour and shape alone: a plot has a name that says what it shows, and bars a table behind it.
import { html, useState } from "./lib.js";

/** @typedef {{ at: number, value: number | null }} Point A value at a time; null where nothing is known. */
/** @typedef {{ label: string, parts: { name: string, value: number }[] }} Bar What adds up to one bar, from the bottom. */

const WIDTH = 600;

/** Colours of the parts of bars, by their place; more than these share the last one. */
const TONES = ["tone-0", "tone-1", "tone-2", "tone-3", "tone-4", "tone-5"];

/** Returns the class of the colour of a part. */
export function tone(index) {
  return TONES[Math.min(index, TONES.length - 1)];
}

/** Returns a number at or above a value that people count in: 1, 2 or 5 with zeros. */
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((step) => step * size >= value * 0.9999) ?? 10;
  return step * size;
}

/**
 * A line over time that fits into a row. `most` fixes the top, so that a line of a share does not jump.
 * @param {{ points: Point[], name: string, most?: number, height?: number, words?: (value: number) => string }} of
 */
export function Spark({ points, name, most, height = 36, words = String }) {
  const known = points.filter((point) => point.value !== null);
  const last = known.at(-1);
  const said = `${name}: ${last ? words(/** @type {number} */ (last.value)) : "not known"}`;
  if (known.length < 2) {
    return html`<svg class="plot spark" viewBox=${`0 0 120 ${height}`} height=${height} role="img" aria-label=${said}><path class="axis" d=${`M0 ${height - 1}H120`} /></svg>`;
  }
  const [from, to] = [known[0].at, known[known.length - 1].at];
  const top = most ?? ceiling(Math.max(...known.map((point) => point.value ?? 0)));
  const x = (at) => ((at - from) / Math.max(to - from, 1e-9)) * 120;
  const y = (value) => height - 1 - (Math.min(value, top) / (top || 1)) * (height - 3);
  let path = "";
  let isDown = false;
  for (const point of points) {
    if (point.value === null) {
      isDown = false;
      continue;
    }
    path += `${isDown ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`;
    isDown = true;
  }
  return html`<svg class="plot spark" viewBox=${`0 0 120 ${height}`} height=${height} preserveAspectRatio="none" role="img" aria-label=${said}>
    <path class="axis" d=${`M0 ${height - 1}H120`} /><path class="stroke" d=${path} vector-effect="non-scaling-stroke" /></svg>`;
}

/**
 * Stacked bars with a scale; what a bar is made of is said when it is pointed at or reached by keyboard.
 * @param {{ bars: Bar[], name: string, words?: (value: number) => string, height?: number, title?: string }} of
 */
export function Bars({ bars, name, words = String, height = 180, title = "" }) {
  const [chosen, setChosen] = useState(-1);
  const sums = bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0));
  const top = ceiling(Math.max(0, ...sums));
  const step = WIDTH / Math.max(bars.length, 1);
  const gap = Math.min(step * 0.2, 4);
  const y = (value) => (value / top) * height;
  const lines = [0.25, 0.5, 0.75, 1].map((share) => share * top);
  const stack = (bar, index) => {
    let base = 0;
    return bar.parts.map((part, place) => {
      base += part.value;
      return html`<rect class=${tone(place)} key=${part.name} x=${index * step + gap / 2} width=${Math.max(step - gap, 0.5)}
        y=${height - y(base)} height=${Math.max(y(part.value), part.value > 0 ? 0.75 : 0)} />`;
    });
  };
  const told = bars[chosen];
  const walk = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step && [...event.currentTarget.querySelectorAll("g")][Math.max(chosen, 0) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  return html`<figure class="plot bars">
    ${title && html`<figcaption>${title}</figcaption>`}
    <div class="plot-frame">
      <div class="plot-scale" aria-hidden="true"><span>${words(top)}</span><span>${words(top / 2)}</span><span>${words(0)}</span></div>
      <svg viewBox=${`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" role="group" aria-label=${name} onPointerLeave=${() => setChosen(-1)} onKeyDown=${walk}>
        ${lines.map((value) => html`<path class="axis" key=${value} d=${`M0 ${(height - y(value)).toFixed(1)}H${WIDTH}`} vector-effect="non-scaling-stroke" />`)}
        ${bars.map((bar, index) => html`<g key=${bar.label} class=${index === chosen ? "chosen" : ""} tabindex=${index === Math.max(chosen, 0) ? 0 : -1} role="img"
          aria-label=${`${bar.label}: ${words(sums[index])}`} onFocus=${() => setChosen(index)} onBlur=${() => setChosen(-1)} onPointerEnter=${() => setChosen(index)}>
          <rect class="ground" x=${index * step} width=${step} y="0" height=${height} />${stack(bar, index)}</g>`)}
      </svg>
      <div class="plot-labels" aria-hidden="true"><span>${bars[0]?.label ?? ""}</span><span>${bars.length > 2 ? bars[Math.floor(bars.length / 2)].label : ""}</span><span>${bars.length > 1 ? bars[bars.length - 1].label : ""}</span></div>
    </div>
    <p class="plot-told quiet" role="status">${told
      ? html`<strong>${told.label}</strong> ${words(sums[chosen])}${told.parts.length > 1 && told.parts.filter((part) => part.value > 0).map((part) => html`<span key=${part.name}> · ${part.name} ${words(part.value)}</span>`)}`
      : html`<span class="hidden-on-phone">Point at a bar, or walk along them with the arrow keys, for their figures.</span>`}</p>
  </figure>`;
}

/** Names the colours of bars. */
export function Legend({ names }) {
  return html`<ul class="legend">${names.map((name, index) => html`<li key=${name}><span class=${`swatch ${tone(index)}`} aria-hidden="true"></span>${name}</li>`)}</ul>`;
}

/** A share of a whole, as a line that is filled so far. `tone`: the class where there is too much of it. */
export function Meter({ share, name, words }) {
  const filled = Math.max(0, Math.min(1, share));
  const level = filled >= 0.95 ? "bad" : filled >= 0.8 ? "warn" : "good";
  return html`<svg class=${`plot meter ${level}`} viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${`${name}: ${words ?? `${Math.round(filled * 100)} %`}`}>
    <rect class="ground" x="0" y="0" width="100" height="6" /><rect class="filled" x="0" y="0" width=${filled * 100} height="6" /></svg>`;
}
