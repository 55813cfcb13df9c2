//! Building an agent for a person at this program, and showing how its turn ended.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use vestal_agent::redact::Redactor;
use vestal_agent::{
    Approval, ApprovalRequest, Human, Question, TurnError, TurnOutcome, TurnResult,
};
use vestal_chat::{read_answer, read_approval};
use vestal_config::Settings;
use vestal_model::ModelError;
use vestal_runtime::{ProgramVerbs, Runtime, Termination};
use vestal_worker::AgentBoard;

use crate::console::{Console, StandardError, keep_reports, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Assembles the agent of the profile. `toolsets` are those that somebody asks
/// for by name: only who asks for the board's tools opens the board.
pub(crate) async fn build(
    context: &Context,
    settings: &Settings,
    toolsets: &[String],
) -> Result<Runtime, CommandFailure> {
    let redactor = begin_log(settings)?;
    let program = std::env::current_exe();
    let program = program.map_err(|error| CommandFailure::io("find this program", &error))?;
    let mut builder = Runtime::builder(context.engine()?)
        .redactor(redactor)
        .remember_approvals()
        .verbs(Arc::new(ProgramVerbs::new(program, context.profile())));
    if toolsets.iter().any(|name| name == vestal_worker::tools::TOOLSET) {
        let boards = vestal_board::settings::boards(settings)?;
        let choice = vestal_board::keys::board_variable(context.environment()).map(Cow::into_owned);
        let name = settings.home().profile().to_string();
        let board = AgentBoard::for_person(boards, choice, name);
        builder = builder.tools(|tools| vestal_worker::tools::add_to(tools, &board));
    }
    Ok(builder.build().await?)
}

/// Begins the program's own log, and returns the redactor that keeps secrets out
/// of it and of whatever else is stored and shown.
pub(crate) fn begin_log(settings: &Settings) -> Result<Arc<Redactor>, CommandFailure> {
    let redactor = vestal_runtime::redactor(settings)?;
    begin_log_with(settings, StandardError::Messages, &redactor);
    Ok(redactor)
}

/// Begins the log of a gateway that a supervisor has started: everything it prints is an entry, also
/// that its settings are wrong.
pub(crate) fn begin_supervised_log(context: &Context) {
    // Without a home there is no log; that is the first thing the command complains about.
    let Ok(settings) = context.settings() else { return };
    let redactor = vestal_runtime::redactor(&settings).unwrap_or_else(|_| {
        Arc::new(Redactor::new(vestal_agent::settings::known_secrets(&settings)))
    });
    begin_log_with(&settings, StandardError::Entries, &redactor);
}

fn begin_log_with(settings: &Settings, standard_error: StandardError, redactor: &Arc<Redactor>) {
    let masking = Arc::clone(redactor);
    let redact = Box::new(move |text: &str| masking.redact(text).into_owned());
    keep_reports(&settings.home().logs_dir(), standard_error, redact);
}

/// Returns the exit code of a turn. An interrupted one has that of the signal.
pub(crate) fn exit_of(result: &TurnResult, signal: Option<Termination>) -> Exit {
    match &result.outcome {
        TurnOutcome::Completed => Exit::Success,
        TurnOutcome::BudgetExhausted | TurnOutcome::Looping { .. } => Exit::Stopped,
        TurnOutcome::Refused => Exit::Refused,
        TurnOutcome::Interrupted => Exit::Terminated(signal.unwrap_or(Termination::Interrupt)),
        TurnOutcome::Failed(TurnError::Model(error)) if is_refusal(error) => Exit::Refused,
        TurnOutcome::Failed(TurnError::Model(ModelError::NotConfigured { .. })) => Exit::No,
        TurnOutcome::Failed(
            TurnError::Model(_) | TurnError::Empty { .. } | TurnError::TooLong(_),
        ) => Exit::Provider,
        TurnOutcome::Failed(TurnError::Store(_)) => Exit::Failed,
    }
}

/// Returns what to tell a person about a turn without a whole answer.
pub(crate) fn failure_of(
    result: &TurnResult,
    signal: Option<Termination>,
) -> Option<CommandFailure> {
    let exit = exit_of(result, signal);
    let failure = match &result.outcome {
        TurnOutcome::Completed | TurnOutcome::Interrupted => return None,
        TurnOutcome::BudgetExhausted => CommandFailure::new(format!(
            "stopped after {} model calls, before the work was done",
            result.model_calls
        ))
        .advise("to continue: vestal chat -c -q 'go on'")
        .advise("to allow more: --max-turns N, or agent.max_turns in the settings"),
        TurnOutcome::Looping { reason } => {
            CommandFailure::new(format!("stopped because the model repeats itself: {reason}"))
                .advise("to continue with a hint: vestal chat -c -q 'try it differently'")
        }
        TurnOutcome::Refused => CommandFailure::new("the provider refused to answer")
            .advise("rephrase the question, or use another model: -m PROVIDER:MODEL"),
        TurnOutcome::Failed(TurnError::Model(error)) => {
            CommandFailure::new(error.to_string()).advise(error.advice())
        }
        TurnOutcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => {
            CommandFailure::new(error.to_string()).advise("use another model: -m PROVIDER:MODEL")
        }
        TurnOutcome::Failed(error @ TurnError::Store(_)) => CommandFailure::new(error.to_string()),
    };
    Some(failure.with_exit(exit))
}

/// Reports whether everybody who was asked refused to answer.
fn is_refusal(error: &ModelError) -> bool {
    match error {
        ModelError::Refused { .. } => true,
        ModelError::Exhausted { failures } => failures.iter().all(is_refusal),
        _ => false,
    }
}

/// How often an answer that means nothing is asked for again.
const TRIES: usize = 3;

/// Reports whether a person can be asked: input and output are terminals.
pub(crate) fn is_present() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether a question is on the terminal, so that nothing else is drawn over
/// it. Cloning gives the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asking(Arc<AtomicBool>);

impl Asking {
    pub(crate) fn is_asking(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The person at the terminal.
#[derive(Debug)]
pub(crate) struct TerminalHuman {
    console: Console,
    asking: Asking,
    timeout: Duration,
    /// One question at a time.
    keyboard: Mutex<Keyboard>,
}

impl TerminalHuman {
    /// Returns the person, who has so long to approve of something.
    pub(crate) fn new(console: Console, asking: Asking, timeout: Duration) -> Self {
        Self { console, asking, timeout, keyboard: Mutex::default() }
    }
}

#[async_trait]
impl Human for TerminalHuman {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let mut keyboard = self.keyboard.lock().await;
        let question = Unanswered::begin(self.console, &self.asking);
        keyboard.forget();
        self.console.write_question(&approval_text(request, self.timeout));
        for _ in 0..TRIES {
            let Some(line) = keyboard.line().await else {
                return Approval::Deny(None);
            };
            if let Some(approval) = read_approval(&line, request.may_last) {
                question.answered();
                return approval;
            }
            self.console.write_question("please answer with one of the letters in brackets: ");
        }
        question.answered();
        Approval::Deny(None)
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        let mut keyboard = self.keyboard.lock().await;
        let unanswered = Unanswered::begin(self.console, &self.asking);
        keyboard.forget();
        self.console.write_question(&question_text(question));
        let line = keyboard.line().await?;
        unanswered.answered();
        read_answer(&line, &question.choices)
    }
}

/// A question that is on the terminal.
struct Unanswered<'a> {
    console: Console,
    asking: &'a Asking,
    answered: bool,
}

impl<'a> Unanswered<'a> {
    fn begin(console: Console, asking: &'a Asking) -> Self {
        asking.0.store(true, Ordering::Relaxed);
        Self { console, asking, answered: false }
    }

    fn answered(mut self) {
        self.answered = true;
    }
}

/// Leaves a clean line also behind a question that was given up.
impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.asking.0.store(false, Ordering::Relaxed);
        if !self.answered {
            self.console.write_question("\n");
            self.console.aside("no answer");
        }
    }
}

/// What is typed, line by line. Read by a thread of its own, since a read that
/// nobody waits for any more cannot be taken back.
#[derive(Debug, Default)]
struct Keyboard {
    lines: Option<UnboundedReceiver<String>>,
}

impl Keyboard {
    /// Forgets what was typed before the question: it was not an answer to it.
    fn forget(&mut self) {
        // Where it cannot be, there is nothing typed.
        tcflush(io::stdin(), QueueSelector::IFlush).ok();
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    /// Returns the next line, nothing at the end of input.
    async fn line(&mut self) -> Option<String> {
        let lines = self.lines.get_or_insert_with(|| {
            let (sender, lines) = unbounded_channel();
            std::thread::spawn(move || {
                for line in io::stdin().lock().lines() {
                    let Ok(line) = line else { return };
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        lines.recv().await
    }
}

fn approval_text(request: &ApprovalRequest, timeout: Duration) -> String {
    let action = indented(&request.action);
    let reason = text::printable(&request.reason);
    let (always, meaning) = if request.may_last {
        let pattern = text::printable(&request.pattern);
        (" [a]lways", format!("  always: {pattern}\n"))
    } else {
        ("", String::new())
    };
    format!(
        "the agent wants to do something that needs your approval: {reason}\n{action}\n{meaning}\
         [o]nce [c]onversation{always} [d]eny, within {}: ",
        text::span(timeout)
    )
}

fn question_text(question: &Question) -> String {
    let mut words = format!("the agent asks: {}\n", text::printable_lines(&question.question));
    for (number, choice) in (1..).zip(&question.choices) {
        // Writing to a string cannot fail.
        writeln!(words, "  {number}) {}", text::printable(choice)).ok();
    }
    let how = if question.choices.is_empty() { "answer" } else { "a number, or other words" };
    words.push_str(how);
    words.push_str(": ");
    words
}

fn indented(words: &str) -> String {
    let shown = text::printable_lines(words);
    shown.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_about_cannot_command_the_terminal() {
        let request = ApprovalRequest {
            action: "rm -rf x\x1b[2K\necho hidden".to_owned(),
            reason: "it deletes".to_owned(),
            pattern: "rm -rf *".to_owned(),
            may_last: false,
        };
        let words = approval_text(&request, Duration::from_mins(1));
        assert!(words.contains("  rm -rf x\\x1b[2K\n  echo hidden\n"), "{words}");
        assert!(!words.contains("[a]lways") && !words.contains('\x1b'), "{words}");
        let lasting = ApprovalRequest { may_last: true, ..request };
        assert!(approval_text(&lasting, Duration::from_mins(1)).contains("always: rm -rf *"));
    }
}
