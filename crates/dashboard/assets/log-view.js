// Output as it comes: of a job, or of the workers of a task.
import { bytes, html, plain, useEffect, useRef, useState } from "./lib.js";

/** Lines of a log that are kept on the page. */
const MAX_PIECES = 4000;

/**
 * Follows a log, and goes on where it was when the page is looked at again. `ending` says in words how what
 * writes it ended.
 */
export function Log({ path, ending = (_) => "ended" }) {
  const [pieces, setPieces] = useState([]);
  const [ended, setEnded] = useState(null);
  const box = useRef(null);
  const sticks = useRef(true);
  useEffect(() => {
    /** @type {EventSource | null} */
    let source = null;
    let cursor = "";
    let isOver = false;
    setPieces([]);
    setEnded(null);
    const add = (piece) => setPieces((old) => [...old.slice(-MAX_PIECES), piece]);
    const open = () => {
      source?.close();
      source = null;
      if (document.hidden || isOver) return;
      const opened = new EventSource(`${path}?${new URLSearchParams({ cursor })}`);
      source = opened;
      const on = (name, take) =>
        opened.addEventListener(name, (event) => {
          if (event.lastEventId) cursor = event.lastEventId;
          take(JSON.parse(event.data));
        });
      on("begin", (data) => {
        if (data.stdout_from + data.stderr_from > 0) add({ kind: "gap", text: "… the beginning is not shown\n" });
      });
      on("output", (data) => add({ kind: data.stream, text: data.text }));
      on("gap", (data) => add({ kind: "gap", text: `\n… ${bytes(data.bytes)} left out\n` }));
      on("failed", (data) => add({ kind: "gap", text: `\n${data.detail}\n` }));
      on("ended", (data) => {
        isOver = true;
        setEnded(data);
        opened.close();
      });
    };
    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      isOver = true;
      source?.close();
      document.removeEventListener("visibilitychange", open);
    };
  }, [path]);
  useEffect(() => {
    if (sticks.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [pieces]);
  const scrolled = (event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.target;
    sticks.current = scrollHeight - scrollTop - clientHeight < 40;
  };
  return html`<pre class="log" ref=${box} onScroll=${scrolled} tabindex="0" aria-label="Output">${pieces.map(
    (piece, index) => html`<span class=${piece.kind} key=${index}>${plain(piece.text)}</span>`,
  )}${ended && html`<span class="gap">${`\n— ${ending(ended)}\n`}</span>`}${pieces.length === 0 && !ended && html`<span class="gap">no output yet</span>`}</pre>`;
}
