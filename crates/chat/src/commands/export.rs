//! What leaves the chat, and pictures that enter it: `/copy`, `/save`, and pasting from the clipboard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vestal_agent::slash::Invocation;
use vestal_conversations::MessageKind;
use vestal_model::Message;
use vestal_runtime::Termination;
use vestal_tui::{
    ClipboardReply, CodeBlock, KeyCode, KeyPress, PickerItem, TerminalInput, code_blocks, format,
};

use crate::chat::Chat;
use crate::clipboard::{self, ClipboardContent, ClipboardError, CopiedBy, TerminalClipboard};
use crate::commands::{self, report_usage_error, store_error};
use crate::host::ChatError;
use crate::run::ChatExit;
use crate::view::FRAME;

/// Copies the last answer, or a block of code of it.
pub(super) async fn copy(chat: &mut Chat, invocation: &Invocation) {
    let Some(answer) = last_answer(chat).await else { return };
    let blocks = code_blocks(&answer);
    match invocation.strs().as_slice() {
        [] => put_into_clipboard(chat, "the last answer", &answer).await,
        ["code"] => match blocks.as_slice() {
            [] => chat.note(NO_CODE),
            [only] => put_into_clipboard(chat, "the block of code", &only.code).await,
            several => offer_blocks(chat, several),
        },
        [number] => {
            let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match index.map(|index| (index + 1, blocks.get(index))) {
                Some((number, Some(block))) => {
                    let what = format!("block of code {number}");
                    put_into_clipboard(chat, &what, &block.code).await;
                }
                Some((_, None)) if blocks.is_empty() => chat.note(NO_CODE),
                Some((number, None)) => {
                    let problem = format!(
                        "there is no block of code {number}; the last answer has {}",
                        blocks.len()
                    );
                    report_usage_error(chat, invocation, &problem);
                }
                None => report_usage_error(chat, invocation, "expected a number or `code`"),
            }
        }
        _ => report_usage_error(chat, invocation, "too many arguments"),
    }
}

const NO_CODE: &str = "the last answer has no block of code; /copy copies all of it";

/// Returns the last answer that has words. What is missing is reported.
async fn last_answer(chat: &mut Chat) -> Option<String> {
    let stored = match chat.agent.store().messages(&chat.info.id).await {
        Ok(stored) => stored,
        Err(error) => {
            chat.show_error(&store_error(&error));
            return None;
        }
    };
    let prompts = stored.iter().rev().filter(|stored| stored.kind == MessageKind::Dialogue);
    let answer = prompts.into_iter().find_map(|stored| match &stored.message {
        Message::Assistant(answer) if !answer.text.trim().is_empty() => {
            Some(answer.text.trim_end().to_owned())
        }
        _ => None,
    });
    if answer.is_none() {
        chat.note("there is no answer to copy yet");
    }
    answer
}

fn offer_blocks(chat: &mut Chat, blocks: &[CodeBlock]) {
    let item = |(number, block): (usize, &CodeBlock)| {
        let first = block.code.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let lines = format::count(block.code.lines().count(), "line");
        let info = block.info.split_whitespace().next().unwrap_or_default();
        PickerItem {
            label: format!("{number}  {}", first.trim()),
            about: format!("{info} {lines}").trim_start().to_owned(),
        }
    };
    let items = (1..).zip(blocks).map(item).collect();
    commands::pick(chat, "Which block of code?", items, 0, |chosen| {
        commands::parse_command(&format!("/copy {}", chosen + 1))
    });
}

/// Puts a text into the clipboard, and says how.
async fn put_into_clipboard(chat: &mut Chat, what: &str, text: &str) {
    let size = format::bytes(text.len() as u64);
    let settings = Arc::clone(&chat.settings);
    let writing = clipboard::write(settings.environment(), text);
    let by = match chat.wait_for("copying", writing).await {
        Ok(by) => by,
        Err(failure) => return chat.show_error(&failure),
    };
    match by {
        Some(CopiedBy::Tool(tool)) => chat.note(&format!("copied {what} ({size}, with {tool})")),
        Some(CopiedBy::Tmux) => chat.note(&format!(
            "copied {what} ({size}) to tmux, which hands it to the terminal if its set-clipboard allows"
        )),
        None => match chat.screen.copy(text) {
            Ok(true) => chat.note(&format!(
                "sent {what} ({size}) to the terminal for its clipboard; terminals do not say whether they take it"
            )),
            Ok(false) => chat.show_error(&ChatError {
                problem: format!("{what} has {size}, more than terminals take for the clipboard"),
                advice: vec!["/save FILE writes the conversation to a file".to_owned()],
            }),
            Err(_) => chat.leaving = Some(ChatExit::Closed),
        },
    }
}

/// File extensions of an export as JSON.
const JSON: [&str; 2] = ["json", "jsonl"];

/// Names that are tried where none is given.
const NAMES: usize = 100;

/// Writes the conversation to a file.
pub(super) async fn save(chat: &mut Chat, invocation: &Invocation) {
    let words = invocation.strs();
    let is_json = words.contains(&"--json");
    let names: Vec<&str> = words.into_iter().filter(|word| *word != "--json").collect();
    let path = match names.as_slice() {
        [] => free_name(chat, if is_json { "jsonl" } else { "md" }),
        [flag] if flag.starts_with('-') => {
            return report_usage_error(chat, invocation, &format!("unknown option {flag}"));
        }
        [name] => Some(expanded(chat, name)),
        _ => {
            let problem = "expected one file; quote a name with blanks in it";
            return report_usage_error(chat, invocation, problem);
        }
    };
    let Some(path) = path else {
        return report_usage_error(chat, invocation, "name a file: the usual names are taken");
    };
    let extension = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    let is_json = is_json || extension.is_some_and(|it| JSON.contains(&it.as_str()));
    let Some(name) = path.to_str() else {
        return report_usage_error(chat, invocation, "the name of the file is not UTF-8");
    };
    let id = chat.info.id.to_string();
    match chat.agent.store().messages(&chat.info.id).await {
        Ok(messages) if messages.is_empty() => {
            return chat.note("this conversation has no messages yet");
        }
        Ok(_) => {}
        Err(error) => return chat.show_error(&store_error(&error)),
    }
    let format = if is_json { "json" } else { "markdown" };
    let output = format!("--output={name}");
    let words = ["conversations", "export", &id, "--format", format, &output];
    chat.run_host_command(words.into_iter().map(str::to_owned).collect()).await;
}

/// Returns a name in the directory that the user is in that no file has.
fn free_name(chat: &Chat, extension: &str) -> Option<PathBuf> {
    let id = chat.info.id.short();
    let name = |number: usize| match number {
        1 => format!("vestal-{id}.{extension}"),
        number => format!("vestal-{id}-{number}.{extension}"),
    };
    (1..=NAMES).map(name).map(PathBuf::from).find(|path| !path.exists())
}

/// Returns a path with `~` expanded.
fn expanded(chat: &Chat, name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), chat.home()) {
        (Some(below), Some(home)) => home.join(below),
        _ => Path::new(name).to_path_buf(),
    }
}

/// How long a terminal may take to say whether it can be asked for its clipboard.
const SUPPORT: Duration = Duration::from_millis(500);

/// How long it may take to hand it over: it may ask the user first.
const HANDED_OVER: Duration = Duration::from_mins(1);

/// What a terminal is asked for.
const KINDS: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/gif", "text/plain"];

impl Chat {
    /// Puts the image of the clipboard into the input, as a label, or its text.
    pub(crate) async fn paste_from_clipboard(&mut self) {
        let settings = Arc::clone(&self.settings);
        let reading = clipboard::read(settings.environment());
        let mut found = match self.wait_for("reading the clipboard", reading).await {
            Ok(found) => found,
            Err(failure) => return self.show_error(&failure),
        };
        if matches!(&found, Err(ClipboardError::NoTool)) {
            found = self.clipboard_of_terminal().await;
        }
        match found {
            Ok(ClipboardContent::Image(image)) => {
                let label = self.pasted_images.keep(image);
                self.editor.paste(format!("{label} "));
            }
            Ok(ClipboardContent::Text(text)) => {
                self.editor.paste(text);
            }
            Err(error) => {
                let advice = vec![error.advice().to_owned()];
                self.show_error(&ChatError { problem: error.to_string(), advice });
            }
        }
    }

    /// Asks the terminal for its clipboard, which may be on another machine than this one.
    async fn clipboard_of_terminal(&mut self) -> Result<ClipboardContent, ClipboardError> {
        let deadline = Instant::now() + SUPPORT;
        let is_asked = self.screen.ask_clipboard_support().is_ok();
        if !is_asked || self.clipboard_reply(deadline).await != Some(ClipboardReply::Support(true))
        {
            return Err(ClipboardError::NoTool);
        }
        let deadline = Instant::now() + HANDED_OVER;
        if self.screen.ask_clipboard(&KINDS).is_err() {
            return Err(ClipboardError::NoTool);
        }
        let mut pieces = TerminalClipboard::default();
        loop {
            match self.clipboard_reply(deadline).await {
                Some(ClipboardReply::Data { mime, bytes }) => pieces.push(&mime, &bytes)?,
                Some(ClipboardReply::Done) => return pieces.content(),
                Some(ClipboardReply::Refused(reason)) => {
                    return Err(ClipboardError::Failed { tool: "the terminal", reason });
                }
                Some(ClipboardReply::Begun | ClipboardReply::Support(_)) => {}
                None => {
                    let reason = "it did not hand it over".to_owned();
                    return Err(ClipboardError::Failed { tool: "the terminal", reason });
                }
            }
        }
    }

    /// Waits for an answer of the terminal; nothing after the deadline, and when the user cancels.
    /// Other input is deferred, in order.
    async fn clipboard_reply(&mut self, deadline: Instant) -> Option<ClipboardReply> {
        let since = Instant::now();
        let reply = loop {
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => {
                    if signal != Termination::Interrupt {
                        self.leaving = Some(ChatExit::Signal(signal));
                    }
                    break None;
                }
                input = self.inputs.recv() => match input.unwrap_or(TerminalInput::Closed) {
                    TerminalInput::Clipboard(reply) => break Some(reply),
                    TerminalInput::Closed => {
                        self.leaving = Some(ChatExit::Closed);
                        break None;
                    }
                    TerminalInput::Key(key)
                        if key == KeyPress::control('c') || key == KeyPress::plain(KeyCode::Escape) =>
                    {
                        break None;
                    }
                    TerminalInput::Resized(size) => self.resized(size),
                    input => self.deferred_inputs.push_back(input),
                },
                () = tokio::time::sleep_until(deadline.into()) => break None,
                () = tokio::time::sleep(FRAME) => {
                    let what = "waiting for the clipboard of the terminal".to_owned();
                    self.waiting_for = Some((since, what));
                    self.draw();
                }
            }
        };
        if self.waiting_for.take().is_some() {
            self.is_dirty = true;
        }
        reply
    }
}
