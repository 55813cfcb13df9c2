//! The work itself: a place, a conversation, and an end that leaves nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vestal_agent::redact::Redactor;
use vestal_agent::{Conversation, EndReason, EventSink, Nobody, Outcome as TurnOutcome};
use vestal_board::{BlockKind, Board, Fence, Outcome, Role, Run, Task, Workspace};
use vestal_config::Settings;
use vestal_conversations::Title;
use vestal_model::{Part, UserMessage};
use vestal_runtime::{OpenRequest, Placement, Runtime, RuntimeError, SandboxChoice, Toolsets};
use vestal_sandbox::{Command, Engine, Sandbox};
use vestal_skills::Skills;

use crate::clean::{self, CleanError};
use crate::desk::{Desk, Said};
use crate::limits::Limits;
use crate::log::Log;
use crate::place::{Ground, Place};
use crate::verdict::Verdict;
use crate::watch::Activity;
use crate::{account, prompt, skilled, tools};

/// Times that a model which stopped without a report is reminded of it.
const NUDGES: u32 = 2;
/// How long the first command in the sandbox may take.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
/// Past runs that are looked at for how the last one ended.
const PAST: u32 = 2;

/// What the work is done with.
pub(crate) struct Work<'a> {
    pub(crate) board: &'a Board,
    pub(crate) settings: &'a Arc<Settings>,
    pub(crate) engine: &'a Engine,
    pub(crate) redactor: &'a Arc<Redactor>,
    pub(crate) limits: Limits,
    pub(crate) fence: &'a Fence,
    pub(crate) task: &'a Task,
    pub(crate) run: &'a Run,
    pub(crate) desk: &'a Desk,
    pub(crate) log: &'a Log,
    pub(crate) activity: Activity,
    /// Fires when the work has to end.
    pub(crate) stop: CancellationToken,
}

/// Why the work could not begin.
struct NotBegun(Verdict);

impl Work<'_> {
    /// Works to the end. Returns what becomes of the task, unless that was
    /// reported or the work was stopped.
    pub(crate) async fn run(self) -> Option<Verdict> {
        let events = account::sink(self.log.clone(), self.activity.clone());
        let begun = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            begun = self.begin() => begun,
        };
        let mut begun = match begun {
            Ok(begun) => begun,
            Err(NotBegun(verdict)) => return Some(verdict),
        };
        let verdict = self.talk(&mut begun, &events).await;
        self.leave(begun).await;
        verdict
    }

    /// Makes the place and opens the conversation.
    async fn begin(&self) -> Result<Begun, NotBegun> {
        let settings = self.settings;
        // First of all: without a model nothing is made.
        let model = self.task.model.as_deref();
        vestal_runtime::endpoints(settings, model).map_err(not_assembled)?;
        let ground = Ground::find(settings, self.task, self.run).map_err(no_place)?;
        if ground.is_own {
            // A sandbox that is the task's own stands back with its worker; one
            // that others use does not.
            self.restrain();
        }
        let sandbox = ground.attach(self.engine).await.map_err(no_place)?;
        if !ground.is_own {
            self.restrain();
        }
        let last = self.last_outcome().await;
        let place = ground.settle(&sandbox, self.task, last).await.map_err(no_place)?;
        let attachments = self.board.show(&self.task.id).await.map_err(crashed)?.attachments;
        let handed_over = self.board.handed_over(&self.task.id).await.map_err(crashed)?;
        let layout = place
            .lay_out(&sandbox, self.board, self.task, &attachments, &handed_over)
            .await
            .map_err(no_place)?;
        for file in &layout.left_out {
            self.log.write(&format!("warning: not copied: {file}"));
        }
        let runtime = Runtime::builder(self.engine.clone())
            .redactor(Arc::clone(self.redactor))
            .tools(|registry| tools::add_to(registry, self.desk))
            .build()
            .await
            .map_err(not_assembled)?;
        let request = self.request(&ground, &sandbox, &place);
        let opened = runtime.open(request, Arc::new(Nobody)).await.map_err(not_assembled)?;
        let mut conversation = opened.conversation;
        let id = conversation.id().to_string();
        // Before the first command: what it starts can be found from now on.
        if let Err(error) = self.board.run_session(self.fence, &id).await {
            self.desk.heed(&error);
            return Err(crashed(error));
        }
        self.log.write(&format!(
            "conversation {id} in {} of sandbox {}",
            place.dir.display(),
            sandbox.task()
        ));
        conversation.start_in(&place.dir);
        self.settle_shell(&conversation, &sandbox, &place).await;
        let context = self.board.context(&self.task.id).await.map_err(crashed)?;
        let mut words = prompt::first_words(self.task, self.run.role, &context, &place, &layout);
        words.push_str(&self.open_skills(runtime.skills(), &sandbox).await);
        let mut parts = vec![Part::Text { text: words }];
        parts.extend(layout.pictures.into_iter().map(|picture| Part::Image(picture.image)));
        Ok(Begun { runtime, conversation, sandbox, ground, first: UserMessage { parts } })
    }

    /// Opens the skills that the task names, and returns what the model is told
    /// of them. They say how the work is done, not how it is looked at.
    async fn open_skills(&self, skills: &Skills, sandbox: &Sandbox) -> String {
        if self.run.role != Role::Work {
            return String::new();
        }
        let opened = skilled::open(skills, &self.task.skills, sandbox).await;
        if let Err(error) = self.say_lacking(&opened).await {
            self.desk.heed(&error);
            self.log.write(&format!("warning: the board was not told what is lacking: {error}"));
        }
        opened.words
    }

    fn restrain(&self) {
        if let Err(error) = self.limits.apply() {
            self.log.write(&format!("warning: a limit could not be set: {error}"));
        }
    }

    /// Returns how the run before this one ended.
    async fn last_outcome(&self) -> Option<Outcome> {
        let mut read = self.board.read().await.ok()?;
        let runs = read.runs(&self.task.id, PAST).await.ok()?;
        runs.iter().rev().find(|run| run.id != self.run.id)?.outcome
    }

    fn request(&self, ground: &Ground, sandbox: &Sandbox, place: &Place) -> OpenRequest {
        let is_project = self.task.workspace != Workspace::Scratch;
        let title = format!("{} ({})", self.task.title, self.task.id);
        OpenRequest {
            title: Some(Title::Generated(self.redactor.redact(&title).into_owned())),
            model: self.task.model.clone(),
            placement: Placement::Attached {
                choice: SandboxChoice::new(ground.task.clone(), ground.overrides.clone()),
                backend: sandbox.backend().to_owned(),
                project: is_project.then(|| place.dir.clone()),
            },
            toolsets: Toolsets::Also(tools::TOOLSET.to_owned()),
            role: Some(prompt::role(self.run.role)),
            ..OpenRequest::new("kanban")
        }
    }

    /// Lets the conversation's shell begin in its place, with what commands know
    /// the task by.
    async fn settle_shell(&self, conversation: &Conversation, sandbox: &Sandbox, place: &Place) {
        let mut text = String::from("export");
        for (name, value) in place.variables(self.board, self.task) {
            text.extend([" ", name, "='", &value.replace('\'', r"'\''"), "'"]);
        }
        let command = conversation.workshop().in_session(Command::shell(text));
        if let Err(error) = Box::pin(sandbox.run(command.timeout(SETTLE_WITHIN))).await {
            self.log.write(&format!("warning: the shell could not be prepared: {error}"));
        }
    }

    /// Has the model work until it has reported, or will not.
    async fn talk(&self, begun: &mut Begun, events: &EventSink) -> Option<Verdict> {
        let mut said = std::mem::take(&mut begun.first);
        for left in (0..=NUDGES).rev() {
            let outcome = self.turn(&mut begun.conversation, said, events).await;
            if self.desk.said().is_some() || self.stop.is_cancelled() {
                return None;
            }
            if left == 0 || !matches!(outcome, TurnOutcome::Completed) {
                return Some(Verdict::of_turn(&outcome));
            }
            self.log.write("the model stopped without a report; reminding it");
            let text = prompt::nudge(self.run.role, left - 1);
            said = UserMessage { parts: vec![Part::Text { text }] };
        }
        None
    }

    /// Runs a turn. It ends with the report: nothing that comes after it counts.
    async fn turn(
        &self,
        conversation: &mut Conversation,
        input: UserMessage,
        events: &EventSink,
    ) -> TurnOutcome {
        let control = conversation.control();
        let mut turn = Box::pin(conversation.run(input, events));
        let ends = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                _ = self.desk.until_said() => {}
            }
        };
        let result = tokio::select! {
            biased;
            result = &mut turn => return result.outcome,
            () = ends => {
                control.interrupt();
                turn.await
            }
        };
        result.outcome
    }

    /// Puts everything in order. What cannot be is said, and left to a sweep.
    async fn leave(&self, begun: Begun) {
        let Begun { runtime, conversation, sandbox, ground, .. } = begun;
        let id = conversation.id().clone();
        let store = runtime.agent().store().clone();
        let cleaned = async {
            let sessions = clean::sessions(&store, &id).await?;
            let stopped = clean::stop_jobs(&sandbox.connection().await?, &sessions).await?;
            if stopped > 0 {
                self.log.write(&format!("stopped {stopped} jobs that were still running"));
            }
            Ok::<_, CleanError>(())
        };
        if let Err(error) = cleaned.await {
            self.log.write(&format!("warning: jobs may have been left: {error}"));
        }
        if let Err(error) = conversation.close(EndReason::OneShot).await {
            self.log.write(&format!("warning: the conversation could not be closed: {error}"));
        }
        if let Err(error) = self.remove_place(&ground, &sandbox).await {
            self.log.write(&format!("warning: its place could not be removed: {error}"));
        }
        runtime.close().await;
    }

    /// Removes the place of a task that is finished; that of any other is kept
    /// for whoever goes on with it.
    async fn remove_place(&self, ground: &Ground, sandbox: &Sandbox) -> Result<(), CleanError> {
        let (board, engine) = (self.board, self.engine);
        let task = match board.get(&self.task.id).await {
            Ok(task) => task,
            Err(vestal_board::Error::NotFound { .. }) => self.task.clone(),
            Err(error) => return Err(error.into()),
        };
        if self.desk.said() == Some(Said::Finished) && !ground.is_own {
            clean::remove_parents_scratch(sandbox, board, &task).await?;
        }
        if ground.is_own && clean::is_finished(&task) {
            return clean::remove_own(engine, &task.id).await;
        }
        if !ground.is_own && clean::is_over(board, &task).await? {
            return clean::remove_scratch(sandbox, &task.id).await;
        }
        Ok(())
    }
}

/// Work that has begun.
struct Begun {
    runtime: Runtime,
    conversation: Conversation,
    sandbox: Sandbox,
    ground: Ground,
    /// What the model is told first.
    first: UserMessage,
}

fn not_configured(words: String) -> NotBegun {
    NotBegun(Verdict::Block(BlockKind::Capability, words))
}

/// What a person can mend by the settings blocks the task; the rest is a crash,
/// and the task is tried again.
fn not_assembled(error: RuntimeError) -> NotBegun {
    match error {
        RuntimeError::Endpoint { reason, profile } => {
            let advice = reason.advice_in(&profile).join("; ");
            not_configured(format!("{reason}; {advice}"))
        }
        RuntimeError::Config(_) | RuntimeError::UnknownToolset { .. } => {
            not_configured(error.to_string())
        }
        RuntimeError::Model(_) | RuntimeError::Store(_) | RuntimeError::Open(_) => crashed(error),
    }
}

fn no_place(error: impl std::fmt::Display) -> NotBegun {
    let words = format!("there is no place to work: {error}");
    NotBegun(Verdict::End(Outcome::SpawnFailed, words))
}

fn crashed(error: impl std::fmt::Display) -> NotBegun {
    NotBegun(Verdict::End(Outcome::Crashed, error.to_string()))
}
