// The chat: one conversation, as it goes on. Who may only look reads what is stored.
import { Badge, go, home, html, identity, link, plain, useEffect, useRef, useState } from "../lib.js";
import { ChatLine } from "../chat-line.js";
import { Markdown } from "../markdown.js";
import { added, Drawn, KINDS, Pictures } from "../pictures.js";
import { Conversation } from "./conversations.js";

const ROLES = { user: "you", assistant: "model", note: "note", summary: "summary" };
const CHOICES = { once: "Allow once", session: "Allow in this conversation", always: "Always allow", deny: "Deny" };

/** The first line of a text, shortened. */
function short(text) {
  const line = plain(text).trim().split("\n")[0];
  return line.length > 100 ? `${line.slice(0, 100)}…` : line;
}

/** What a tool is asked, in a line: of arguments as they are stored, the first text. */
function asked(context) {
  try {
    const given = JSON.parse(context);
    const first = given && typeof given === "object" && Object.values(given).find((value) => typeof value === "string" && value.trim());
    return first || context;
  } catch {
    return context;
  }
}

/**
 * Puts the result of each tool beside its call: where a conversation is read again, they are messages of their own that
 * follow in the order of the calls.
 */
function together(messages) {
  const all = [];
  /** @type {any[]} */
  let waiting = [];
  for (const message of messages) {
    const isStored = message.seq !== null && message.seq !== undefined;
    if (message.role === "tool" && isStored && waiting.length > 0) {
      Object.assign(waiting.shift(), { text: message.text, is_error: message.is_error });
    } else if (message.calls?.length && isStored) {
      const calls = message.calls.map((call) => ({ ...call }));
      waiting = [...calls];
      all.push({ ...message, calls });
    } else {
      waiting = [];
      all.push(message);
    }
  }
  return all;
}

function Diff({ diff }) {
  const tone = (line) => (line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  return html`<p class="quiet">${plain(diff.path)}</p>
    <pre class="code diff" tabindex="0">${plain(diff.diff).split("\n").map((line, index) => html`<span class=${tone(line)} key=${index}>${line}${"\n"}</span>`)}</pre>`;
}

function Tool({ message }) {
  const isDone = message.done !== false;
  const word = message.is_error ? "failed" : isDone ? "" : "works";
  return html`<details class="tool">
    <summary><code>${message.name ?? "tool"}</code> ${short(asked(message.context ?? ""))} ${word && html`<${Badge} word=${word} tone=${message.is_error ? "bad" : "warn"} />`}
      ${message.took >= 1 ? html`<span class="quiet">${message.took.toFixed(1)} s</span>` : ""}</summary>
    ${message.context && html`<pre class="code" tabindex="0">${plain(message.context)}</pre>`}
    ${(message.diffs ?? []).map((diff, index) => html`<${Diff} diff=${diff} key=${index} />`)}
    ${message.text && html`<pre class="code" tabindex="0">${plain(message.text)}</pre>`}
  </details>`;
}

function Message({ owner, id, message }) {
  if (message.role === "tool") return html`<li><${Tool} message=${message} /></li>`;
  const body = message.role === "assistant" || message.role === "summary" ? html`<${Markdown} text=${message.text} />` : html`<div class="prose">${plain(message.text)}</div>`;
  return html`<li class=${`message ${message.role} ${message.is_error ? "bad" : ""}`}>
    <span class="quiet">${ROLES[message.role] ?? message.role}</span>
    ${message.role === "summary" ? html`<details><summary>What was said before, in short</summary>${body}</details>` : message.text && body}
    <${Pictures} owner=${owner} id=${id} message=${message} />
    ${(message.calls ?? []).map((call) => html`<${Tool} message=${call} key=${call.tool_id} />`)}
  </li>`;
}

function Approval({ question, answer }) {
  return html`<section class="card warn" role="group" aria-label="Approval">
    <p><strong>May it do this?</strong> ${plain(question.description)}</p>
    <pre class="code whole" tabindex="0">${plain(question.command)}</pre>
    <div class="buttons">${question.choices.map((choice) => html`<button type="button" key=${choice} onClick=${() => answer("approval.respond", { request_id: question.request_id, choice })}>${CHOICES[choice] ?? choice}</button>`)}</div>
    <p class="quiet">Without an answer within ${question.timeout_s} s it is denied. “Always” is remembered as <code>${plain(question.pattern)}</code>.</p>
  </section>`;
}

function Clarify({ question, answer }) {
  const [text, setText] = useState("");
  const send = (words) => answer("clarify.respond", { request_id: question.request_id, answer: words });
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  return html`<section class="card warn" role="group" aria-label="Question">
    <p><strong>The model asks:</strong> ${plain(question.question)}</p>
    <div class="buttons">${question.choices.map((choice) => html`<button type="button" key=${choice} onClick=${() => send(choice)}>${plain(choice)}</button>`)}</div>
    <form class="input" onSubmit=${submit}><input aria-label="Answer" value=${text} onInput=${(event) => setText(event.target.value)} /><button>Answer</button></form>
  </section>`;
}

/** Chooses a model. The list is asked for when somebody wants to choose. */
function Model({ chat, info, disabled, act }) {
  const [models, setModels] = useState(null);
  const now = info?.model ? `${info.provider}:${info.model}` : "";
  const load = () => {
    if (models) return;
    setModels([]);
    act(async () => {
      const found = await chat.call("model.options", {});
      const names = found.providers.flatMap((one) => (one.models ?? []).map((model) => `${one.provider ?? one.name}:${model.id ?? model}`));
      setModels(names.filter((name) => name !== now));
    });
  };
  const choose = (event) => {
    const value = event.target.value;
    if (!chat.conversation) chat.model = value;
    act(() => chat.ask("config.set", { key: "model", value }));
  };
  return html`<label class="inline">Model <select disabled=${disabled} value=${now} onFocus=${load} onMouseDown=${load} onChange=${choose}>
    <option value=${now}>${now || "–"}</option>
    ${(models ?? []).map((name) => html`<option value=${name} key=${name}>${name}</option>`)}
  </select></label>`;
}

function Profile({ owner, disabled }) {
  const profiles = home.value.profiles;
  if (profiles.length < 2) return html`<span class="quiet">${owner}</span>`;
  return html`<label class="inline">Profile <select disabled=${disabled} value=${owner} onChange=${(event) => go(link("/chat", { profile: event.target.value }))}>
    ${profiles.map((name) => html`<option value=${name} key=${name}>${name}</option>`)}</select></label>`;
}

function Input({ chat, state, isOpen, act, draft, setDraft }) {
  const [pictures, setPictures] = useState([]);
  const [isOver, setOver] = useState(false);
  // Pictures go with a prompt, which waits for the turn that runs.
  const how = state.running && pictures.length === 0 ? "steer" : "prompt";
  const submit = (event) => {
    event?.preventDefault();
    const text = draft.trim();
    if (!(text || pictures.length) || !isOpen) return;
    setDraft("");
    setPictures([]);
    const undo = () => {
      setDraft(text);
      setPictures(pictures);
    };
    act(() => chat.say(text, how, pictures), undo);
  };
  const key = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const add = (files) => act(async () => setPictures(await added(files, pictures)));
  const choose = (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    add(files);
  };
  const paste = (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  };
  const over = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    add([...event.dataTransfer.files]);
  };
  const words = state.running ? "Say something to the turn that runs" : "Say something";
  const isEmpty = !draft.trim() && pictures.length === 0;
  return html`<form class=${`say ${isOver ? "over" : ""}`} onSubmit=${submit} onDragOver=${over} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    ${pictures.length > 0 && html`<p class="pictures">${pictures.map((one, at) => html`<span class="chosen" key=${`${at}${one.name}`}><${Drawn} bitmap=${one.bitmap} name=${one.name} />
      <button type="button" class="small" aria-label=${`Leave ${one.name} out`} onClick=${() => setPictures(pictures.filter((other) => other !== one))}>✕</button></span>`)}</p>`}
    <textarea rows="3" aria-label=${words} placeholder=${words} value=${draft} onInput=${(event) => setDraft(event.target.value)} onKeyDown=${key} onPaste=${paste}></textarea>
    <div class="buttons">
      ${state.running
        ? html`<button disabled=${!isOpen || isEmpty}>${how === "steer" ? "Steer" : "Send next"}</button>
            <button type="button" class="bad" disabled=${!isOpen} onClick=${() => act(() => chat.ask("session.interrupt"))}>Interrupt</button>`
        : html`<button disabled=${!isOpen || isEmpty}>Send</button>`}
      <label class="button">Picture<input class="hidden" type="file" accept=${KINDS.join(",")} multiple onChange=${choose} /></label>
      <span class="quiet of-keyboards">Enter sends, Shift-Enter begins a line</span>
    </div>
  </form>`;
}

function Live({ owner, id }) {
  const [chat, setChat] = useState(null);
  const [failure, setFailure] = useState("");
  const [draft, setDraft] = useState("");
  const end = useRef(null);
  const current = useRef(null);
  useEffect(() => {
    // A new conversation gets its address with its first prompt, and goes on.
    const known = current.current;
    if (known && known.profile === owner && id && known.conversation === id) return;
    known?.close();
    const made = new ChatLine(owner, id || null);
    current.current = made;
    setChat(made);
    setFailure("");
    made.open();
  }, [owner, id]);
  useEffect(() => () => current.current?.close(), []);
  const state = chat?.state.value;
  const line = chat?.line.value;
  const returned = chat?.returned.value;
  const stored = state?.info?.stored_session_id;
  useEffect(() => {
    if (stored && stored !== id && chat === current.current && chat.conversation === stored) go(link(`/conversations/${encodeURIComponent(owner)}/${encodeURIComponent(stored)}`), true);
  }, [stored]);
  useEffect(() => {
    if (!returned) return;
    setDraft((words) => [returned.text, words].filter(Boolean).join("\n"));
    setFailure(`This was not said: ${returned.reason}.`);
    chat.returned.value = null;
  }, [returned]);
  useEffect(() => {
    // Who reads further up stays there.
    const rest = document.documentElement.scrollHeight - scrollY - innerHeight;
    if (rest < 400) end.current?.scrollIntoView({ block: "end" });
  }, [state]);
  if (!chat || !state) return html`<p class="quiet" role="status">Loading…</p>`;
  const act = async (what, undo) => {
    setFailure("");
    try {
      await what();
    } catch (error) {
      undo?.();
      setFailure([error.message, error.advice].filter(Boolean).join(" · "));
    }
  };
  const isOpen = line.phase === "open";
  if (line.phase === "held") {
    return html`<p class="stale" role="status">${line.words} <button type="button" onClick=${() => chat.again()}>Look again</button></p><${Conversation} owner=${owner} id=${id} />`;
  }
  if (line.phase === "failed") {
    return html`<p class="stale" role="alert">${plain(line.words)} <button type="button" onClick=${() => chat.again()}>Try again</button></p>${id ? html`<${Conversation} owner=${owner} id=${id} />` : html`<h1>New conversation</h1>`}`;
  }
  const branch = () => act(async () => {
    const made = await chat.ask("session.branch");
    go(link(`/conversations/${encodeURIComponent(owner)}/${encodeURIComponent(made.stored_session_id)}`));
  });
  const undo = () => act(async () => {
    const last = state.messages.findLast((message) => message.role === "user");
    await chat.ask("session.undo");
    setDraft((words) => words || last?.text || "");
  });
  const hasSaid = state.messages.length > 0;
  return html`<p class="crumbs"><a href=${link("/conversations")}>Conversations</a></p>
    <h1>${state.info?.title ?? (id || "New conversation")}</h1>
    <div class="filters">
      <${Profile} owner=${owner} disabled=${Boolean(id)} />
      <${Model} chat=${chat} info=${state.info} disabled=${!isOpen || state.running} act=${act} key=${`${owner}${chat.session}`} />
      ${hasSaid && html`<button type="button" disabled=${!isOpen || state.running} onClick=${undo}>Undo</button>
        <button type="button" disabled=${!isOpen || state.running} onClick=${branch}>Branch</button>`}
      <a class="button" href=${link("/chat")}>New</a>
    </div>
    ${line.phase === "lost" && html`<p class="stale" role="status">The line was lost; it is being opened again. What runs goes on.</p>`}
    <ol class="plain messages">
      ${together(state.messages).map((message, index) => html`<${Message} owner=${owner} id=${chat.conversation || id} message=${message} key=${index} />`)}
      ${(state.text || state.thinking) && html`<li class="message assistant" aria-live="polite" aria-busy="true"><span class="quiet">model</span>
        ${state.thinking && html`<details><summary>Thinks</summary><div class="prose">${plain(state.thinking)}</div></details>`}
        ${state.text && html`<${Markdown} text=${state.text} />`}</li>`}
    </ol>
    ${state.questions.map((question) => html`<${question.kind === "approval" ? Approval : Clarify} question=${question} answer=${(method, params) => act(() => chat.ask(method, params))} key=${question.request_id} />`)}
    <p class="quiet" role="status">${state.running && !state.text ? (state.questions.length ? "Waits for you." : "Works…") : ""} ${state.queued ? `${state.queued} prompts wait.` : ""} ${state.notes.length ? plain(state.notes.at(-1)) : ""}</p>
    ${failure && html`<p class="bad-text" role="alert">${plain(failure)}</p>`}
    <${Input} chat=${chat} state=${state} isOpen=${isOpen} act=${act} draft=${draft} setDraft=${setDraft} />
    <div ref=${end}></div>`;
}

export function Chat({ owner, id }) {
  const who = identity.value;
  if (!who) return html`<p class="quiet" role="status">Loading…</p>`;
  if (who.right === "operator") return html`<${Live} owner=${owner} id=${id} />`;
  if (id) return html`<${Conversation} owner=${owner} id=${id} />`;
  return html`<h1>New conversation</h1><p class="empty">You may look and not say anything. For a login that may: <code>vestal dashboard link</code></p>`;
}
