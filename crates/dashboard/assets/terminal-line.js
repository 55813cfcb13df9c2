// A terminal of a sandbox over a WebSocket: each byte once, through lost lines and hidden pages.
import { api } from "./lib.js";

/** How long a line that was lost is waited for before it is opened again. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

/** Bytes that are drawn before the server is told so. */
const TELL_EVERY = 64 * 1024;

/** Bytes that may be typed before the first line is open. */
const MAX_EARLY = 4096;

/** The largest piece that is typed or pasted at once. */
const MAX_PIECE = 32 * 1024;

/**
 * Connects to a terminal and stays connected while the page is looked at.
 * `show` draws bytes and calls back when they are drawn; `status` is told how the line is.
 * @param {{ path: string, size: () => { rows: number, cols: number }, show: (bytes: Uint8Array, isReplay: boolean, drawn: () => void) => void,
 *   status: (line: { state: string, detail?: string, job?: any, gap?: number }) => void }} of
 */
export function connectTerminal({ path, size, show, status }) {
  /** @type {WebSocket | null} */
  let socket = null;
  /** Offset after the last byte that came; null before the first. @type {number | null} */
  let position = null;
  let replayEnd = 0;
  let drawn = 0;
  let told = 0;
  let wait = FIRST_WAIT;
  let isOver = false;
  let timer = 0;
  /** Grows with each line, so that what an old one still says is not heard. */
  let generation = 0;
  /** What was typed before the first line was open. @type {Uint8Array[]} */
  let early = [];

  const later = () => {
    if (isOver || document.hidden) return;
    status({ state: "lost" });
    timer = window.setTimeout(open, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  };

  const end = (line) => {
    isOver = true;
    status(line);
    socket?.close();
  };

  const type = (bytes) => {
    if (socket?.readyState !== WebSocket.OPEN) {
      const typed = early.reduce((sum, piece) => sum + piece.length, bytes.length);
      if (position === null && typed <= MAX_EARLY) early.push(bytes);
      return;
    }
    for (let at = 0; at < bytes.length; at += MAX_PIECE) socket.send(bytes.subarray(at, at + MAX_PIECE));
  };

  const hear = (data) => {
    const said = JSON.parse(data);
    if (said.type === "begin") {
      // A server that goes on elsewhere has lost what was between.
      if (position !== null && said.from !== position) status({ state: "gap", gap: said.from - position });
      position = said.from;
      drawn = said.from;
      told = said.from;
      replayEnd = said.replay;
      wait = FIRST_WAIT;
      status({ state: "open" });
      const waiting = early;
      early = [];
      waiting.forEach(type);
    } else if (said.type === "gap") {
      position = (position ?? 0) + said.bytes;
      drawn += said.bytes;
      status({ state: "gap", gap: said.bytes });
    } else if (said.type === "trouble") {
      status({ state: "trouble", detail: said.detail });
    } else if (said.type === "ended") {
      end({ state: "ended", job: said.job });
    } else if (said.type === "failed") {
      end({ state: "failed", detail: said.detail });
    }
  };

  const take = (bytes, own) => {
    const from = position ?? 0;
    position = from + bytes.length;
    show(bytes, from < replayEnd, () => {
      drawn += bytes.length;
      if (own !== generation || drawn - told < TELL_EVERY) return;
      told = drawn;
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ drawn }));
    });
  };

  const open = async () => {
    window.clearTimeout(timer);
    generation += 1;
    const own = generation;
    socket?.close();
    socket = null;
    if (isOver || document.hidden) return;
    status({ state: "opening" });
    let ticket = "";
    try {
      ({ ticket } = await api("/api/auth/ws-ticket", { body: {} }));
    } catch (error) {
      if (own !== generation) return;
      if (error.status === 403) end({ state: "failed", detail: error.message });
      else later();
      return;
    }
    if (own !== generation || isOver) return;
    const { rows, cols } = size();
    const query = new URLSearchParams({ ticket, rows: String(rows), cols: String(cols) });
    if (position !== null) query.set("from", String(position));
    const opened = new WebSocket(`${location.origin.replace(/^http/, "ws")}${path}?${query}`);
    opened.binaryType = "arraybuffer";
    socket = opened;
    opened.addEventListener("message", ({ data }) => {
      if (own !== generation) return;
      if (typeof data === "string") hear(data);
      else take(new Uint8Array(data), own);
    });
    opened.addEventListener("close", () => {
      if (own === generation) later();
    });
  };

  document.addEventListener("visibilitychange", open);
  open();
  return {
    type,
    resize(size) {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ size }));
    },
    close() {
      isOver = true;
      generation += 1;
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", open);
      socket?.close();
    },
  };
}
