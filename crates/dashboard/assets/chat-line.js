// The line to the server of conversations: JSON-RPC over a WebSocket that comes back when it is lost, and
// what is known of one conversation from the events on it.
import { api, signal } from "./lib.js";

/** How long to wait before the line is opened again: longer each time. */
const WAITS = [300, 1000, 2000, 5000, 10_000];
/** How often to look whether a conversation that another process holds is free. */
const LOOK_AGAIN = 5000;
const BUSY = 4009;
const NO_SESSION = 4001;
/** Characters of the output of one tool that are kept. */
const MAX_OUTPUT = 60_000;

export class RpcError extends Error {
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.pid = error.data?.pid;
    this.advice = [error.data?.advice ?? []].flat().join(" ");
  }
}

/** @type {{ messages: any[], text: string, thinking: string, questions: any[], running: boolean, queued: number, info: any, notes: any[], seq: number }} */
const EMPTY = { messages: [], text: "", thinking: "", questions: [], running: false, queued: 0, info: null, notes: [], seq: 0 };

/** Returns a session as it was told when it was joined. */
export function joined(live) {
  const tools = (live.inflight?.tools ?? []).map((tool) => ({ seq: null, role: "tool", ...tool, text: "", calls: [], diffs: [], done: false }));
  return {
    ...EMPTY,
    messages: [...live.messages, ...tools],
    text: live.inflight?.text ?? "",
    questions: live.questions,
    running: live.running,
    queued: live.queued,
    info: live.info,
    seq: live.seq,
  };
}

function say(state, message) {
  return { ...state, messages: [...state.messages, { seq: null, calls: [], ...message }] };
}

/** Puts words that are complete, and tools that have ended, among the messages. */
function settle(state, text) {
  const calls = [];
  const settled = text ? say(state, { role: "assistant", text, calls }) : state;
  return { ...settled, text: "", thinking: "" };
}

function tool(state, id, change) {
  return { ...state, messages: state.messages.map((one) => (one.tool_id === id && !one.done ? { ...one, ...change(one) } : one)) };
}

/** Returns what is known after an event. */
export function after(state, { type, payload, seq }) {
  // What was told when the session was joined is not told again.
  if (seq !== undefined && seq <= state.seq) return state;
  const next = seq === undefined ? state : { ...state, seq };
  switch (type) {
    case "message.start": {
      const begun = { ...next, running: true, text: "", thinking: "", notes: [] };
      return payload.text || payload.images ? say(begun, { role: "user", text: payload.text ?? "", images: payload.images, shown: payload.shown }) : begun;
    }
    case "message.delta":
      return { ...next, text: next.text + payload.text };
    case "reasoning.delta":
      return { ...next, thinking: next.thinking + payload.text };
    case "message.interim":
      return settle(next, payload.text);
    case "message.discard":
      return { ...next, text: "", thinking: "", notes: [...next.notes, payload.reason] };
    case "message.complete": {
      const done = { ...settle(next, payload.text), running: false, queued: payload.queued, usage: payload.usage };
      if (payload.status === "interrupted") return say(done, { role: "note", text: "Interrupted." });
      if (payload.status === "error") return say(done, { role: "note", text: [payload.error, ...(payload.advice ?? [])].join("\n"), is_error: true });
      return done;
    }
    case "tool.start":
      return say(settle(next, next.text), { role: "tool", ...payload, text: "", diffs: [], done: false });
    case "tool.output":
      return tool(next, payload.tool_id, (one) => ({ text: (one.text + payload.text).slice(-MAX_OUTPUT) }));
    case "tool.diff":
      return tool(next, payload.tool_id, (one) => ({ diffs: [...(one.diffs ?? []), payload] }));
    case "tool.complete":
      return tool(next, payload.tool_id, () => ({ text: payload.result, is_error: payload.is_error, took: payload.duration_s, done: true }));
    case "approval.request":
      return { ...next, questions: [...next.questions, { kind: "approval", ...payload }] };
    case "clarify.request":
      return { ...next, questions: [...next.questions, { kind: "clarify", ...payload }] };
    case "approval.expire":
    case "clarify.expire":
      return { ...next, questions: next.questions.filter((one) => one.request_id !== payload.request_id) };
    case "status.update":
      return { ...next, notes: [...next.notes, payload.text] };
    case "session.info":
      return { ...next, info: payload };
    case "error":
      return say(next, { role: "note", text: payload.message, is_error: true });
    default:
      return next;
  }
}

/** One conversation of a profile, over a line that is kept up. */
export class ChatLine {
  constructor(profile, conversation) {
    this.profile = profile;
    /** The id in the store; null until the first prompt of a new one. */
    this.conversation = conversation;
    this.session = null;
    this.state = signal(EMPTY);
    /** connecting, open, lost, held or failed; with words for a person. */
    this.line = signal({ phase: "connecting", words: "" });
    /** What was not said, and is to be offered again. */
    this.returned = signal(null);
    this.model = "";
    this.calls = new Map();
    /** @type {any[] | null} Events that came while the session was being joined. */
    this.early = null;
    /** @type {{ text: string, before: number } | null} */
    this.unanswered = null;
    /** Pictures of prompts that were sent and whose turns have not begun, to be shown then. */
    this.sent = [];
    this.next = 1;
    this.tries = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.isClosed = false;
  }

  async open() {
    clearTimeout(this.timer);
    if (this.isClosed) return;
    try {
      const { ticket } = await api("/api/auth/ws-ticket", { body: {} });
      if (this.isClosed) return;
      const base = location.origin.replace(/^http/, "ws");
      const socket = new WebSocket(`${base}/api/chat/${encodeURIComponent(this.profile)}?ticket=${ticket}`);
      this.socket = socket;
      socket.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
      socket.addEventListener("close", (event) => this.lost(socket, event.reason));
    } catch (error) {
      this.lost(this.socket, error.message);
    }
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  /** The line is gone. It is opened again, and the session joined where it stands by then. */
  lost(socket, reason) {
    if (this.isClosed || socket !== this.socket) return;
    for (const { reject } of this.calls.values()) reject(new RpcError({ message: "the line was lost" }));
    this.calls.clear();
    if (this.line.value.phase === "failed" || this.line.value.phase === "held") return;
    this.line.value = { phase: "lost", words: reason };
    this.timer = setTimeout(() => this.open(), WAITS[Math.min(this.tries, WAITS.length - 1)]);
    this.tries += 1;
  }

  take(frame) {
    if (frame.method === "event") this.hear(frame.params);
    const call = this.calls.get(frame.id);
    if (frame.id === undefined || !call) return;
    this.calls.delete(frame.id);
    if (frame.error) call.reject(new RpcError(frame.error));
    else call.resolve(frame.result);
  }

  hear(event) {
    if (event.type === "gateway.ready") return void this.join();
    if (event.type === "connection.closed") return;
    // Events of a session that is being joined wait for how it stood.
    if (this.early) return void this.early.push(event);
    if (event.session_id !== this.session) return;
    if (event.type === "prompt.returned") {
      const { prompts, reason } = event.payload;
      const pictures = prompts.some((prompt) => prompt.images) ? "; its pictures have to be added again" : "";
      this.sent = [];
      this.giveBack(prompts.map((prompt) => prompt.text).join("\n"), reason + pictures);
    }
    if (event.type === "session.info") this.conversation = event.payload.stored_session_id ?? this.conversation;
    if (event.type === "session.closed") this.session = null;
    if (event.type === "session.closed" || event.type === "history.changed") return void this.join();
    // What was sent from here is shown from here: it has no number in the conversation yet.
    if (event.type === "message.start" && event.payload.images) event.payload.shown = this.sent.shift();
    this.state.value = after(this.state.value, event);
  }

  async join() {
    this.early = [];
    try {
      const live = await this.enter();
      this.session = live.session_id;
      this.conversation = live.stored_session_id ?? this.conversation;
      const early = (this.early ?? []).filter((event) => event.session_id === this.session);
      this.early = null;
      this.settleUnanswered(live);
      this.state.value = early.reduce(after, joined(live));
      this.tries = 0;
      this.line.value = { phase: "open", words: "" };
    } catch (error) {
      this.early = null;
      if (!error.code) return;
      if (error.code === BUSY && error.pid) {
        const words = `Process ${error.pid} has this conversation open; here it can be read until that one is done.`;
        this.line.value = { phase: "held", words };
        this.socket?.close();
        this.timer = setTimeout(() => this.again(), LOOK_AGAIN);
        return;
      }
      this.line.value = { phase: "failed", words: [error.message, error.advice].filter(Boolean).join(" · ") };
      this.socket?.close();
    }
  }

  /** Looks again, unless nobody looks at the page. */
  again() {
    clearTimeout(this.timer);
    if (document.hidden) this.timer = setTimeout(() => this.again(), LOOK_AGAIN);
    else this.open();
  }

  async enter() {
    if (this.session) {
      try {
        return await this.call("session.activate", { session_id: this.session });
      } catch (error) {
        if (error.code !== NO_SESSION) throw error;
      }
    }
    if (this.conversation) return this.call("session.resume", { session_id: this.conversation });
    return this.call("session.create", this.model ? { model: this.model } : {});
  }

  /** A prompt whose answer was lost was either taken, and is in the conversation, or it is given back. */
  settleUnanswered(live) {
    const sent = this.unanswered;
    this.unanswered = null;
    if (!sent) return;
    const said = live.messages.filter((message) => message.role === "user");
    const wasTaken = live.queued > 0 || said.slice(sent.before).some((message) => message.text.trim() === sent.text.trim());
    if (!wasTaken) this.giveBack(sent.text, "the line was lost");
  }

  giveBack(text, reason) {
    this.returned.value = { text, reason };
  }

  call(method, params) {
    const id = this.next;
    this.next += 1;
    return new Promise((resolve, reject) => {
      if (this.socket?.readyState !== WebSocket.OPEN) return reject(new RpcError({ message: "the line is lost; it is being opened again" }));
      this.calls.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  ask(method, params = {}) {
    return this.call(method, { session_id: this.session, ...params });
  }

  /**
   * Says something: as a prompt, or to the turn that runs. Pictures go with a prompt only.
   * @param {string} text
   * @param {string} how
   * @param {import("./pictures.js").ChosenPicture[]} pictures
   */
  async say(text, how, pictures = []) {
    const before = this.state.value.messages.filter((message) => message.role === "user").length;
    if (how !== "steer") this.unanswered = { text, before };
    if (pictures.length) this.sent.push(pictures.map(({ bitmap }) => bitmap));
    try {
      const answer = await (how === "steer" ? this.ask("session.steer", { text }) : this.ask("prompt.submit", { text, images: pictures.map(({ data }) => ({ data })) }));
      this.unanswered = null;
      if (answer.status === "rejected") throw new RpcError({ message: "no turn runs any more; send it as a prompt" });
    } catch (error) {
      // Of a line that was lost nobody knows yet; it is settled when the session is joined again.
      if (!error.code && this.unanswered) return;
      this.unanswered = null;
      if (pictures.length) this.sent.pop();
      throw error;
    }
  }
}
