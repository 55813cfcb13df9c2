// What pages with forms share: sending one, and saying what came of it.
import { html, identity, useRef, useState } from "./lib.js";

export function isOperator() {
  return identity.value?.right === "operator";
}

/** Says what a failed request was about, with what to do about it. */
export function explained(error) {
  return [error.message, error.advice].filter(Boolean).join("\n");
}

/**
 * Sends a form once at a time, and keeps what came of it for `Outcome`.
 * @param {(...given: any[]) => Promise<string | void>} run
 */
export function useSend(run) {
  const [state, setState] = useState({ phase: "idle", words: "" });
  const busy = useRef(false);
  const send = async (...given) => {
    if (busy.current) return false;
    busy.current = true;
    setState({ phase: "busy", words: "" });
    try {
      setState({ phase: "done", words: (await run(...given)) ?? "" });
      return true;
    } catch (error) {
      setState({ phase: "failed", words: explained(error) });
      return false;
    } finally {
      busy.current = false;
    }
  };
  return { ...state, isBusy: state.phase === "busy", send, clear: () => setState({ phase: "idle", words: "" }) };
}

export function Outcome({ of }) {
  return html`<p role="status" class=${`outcome ${of.phase === "failed" ? "bad-text" : "quiet"}`}>${of.isBusy ? "…" : of.words}</p>`;
}

/** A text in which `code` stands between backticks, as in the documentation. */
export function Doc({ text }) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? html`<code key=${at}>${part}</code>` : part));
}

/** A label above a control, with a line about it. */
export function Labelled({ label, note, children }) {
  return html`<label class="labelled"><span>${label}</span>${children}${note && html`<small class="quiet">${note}</small>`}</label>`;
}

/** A dialog that is opened by a button and holds a form; `children` gets what closes it. */
export function FormDialog({ label, title, tone, children }) {
  const dialog = useRef(null);
  const [open, setOpen] = useState(false);
  const show = () => {
    setOpen(true);
    dialog.current.showModal();
  };
  const close = () => dialog.current.close();
  if (!isOperator()) return null;
  return html`<button type="button" class=${tone ?? ""} onClick=${show}>${label}</button>
    <dialog ref=${dialog} class="form" aria-label=${title ?? label} onClose=${() => setOpen(false)}>
      ${open && html`<h2>${title ?? label}</h2>${children(close)}`}
    </dialog>`;
}

/** Lines of a text that say something. */
export function lines(text) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}
