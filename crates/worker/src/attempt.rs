//! One attempt at a task: prepare the working directory, run the conversation, clean up.

use std::sync::Arc;
use std::time::Duration;

use vestal_agent::{Conversation, EndReason, EventSink, NoHuman, TurnOutcome};
use vestal_board::{Authority, BlockKind, Error, Outcome, Role, TaskWorkspace};
use vestal_conversations::{Title, WorkAttempt};
use vestal_model::{Part, UserMessage};
use vestal_runtime::{
    OpenRequest, Runtime, RuntimeError, SandboxChoice, SandboxPlacement, Toolsets,
};
use vestal_sandbox::{Command, Sandbox};
use vestal_skills::Skills;

use crate::cleanup::{self, CleanupError};
use crate::context::ReportedState;
use crate::prompt::OpenedSkills;
use crate::report::Resolution;
use crate::run::Worker;
use crate::workspace::{TaskSandbox, WorkDir};
use crate::{log, prompt, tools};

/// How often a model that stops without a report is reminded.
const REMINDERS: u32 = 2;
/// How long the first command in the sandbox may take.
const PREPARE_WITHIN: Duration = Duration::from_mins(1);
/// Runs read to find out how the previous one ended: this one and that.
const PAST: u32 = 2;

/// Why an attempt could not start, as what becomes of the task.
struct AttemptError(Resolution);

impl Worker {
    /// Works on the task. Returns its outcome, unless a tool reported that already or the
    /// work was stopped.
    pub(crate) async fn attempt(&self) -> Option<Resolution> {
        let events = log::event_sink(self.log.clone(), self.activity.clone());
        let started = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            started = self.start() => started,
        };
        let mut started = match started {
            Ok(started) => started,
            Err(AttemptError(resolution)) => return Some(resolution),
        };
        let resolution = self.converse(&mut started, &events).await;
        Box::pin(self.clean_up(started)).await;
        resolution
    }

    /// Prepares the sandbox and the working directory, and opens the conversation.
    async fn start(&self) -> Result<StartedAttempt, AttemptError> {
        let settings = &self.settings;
        // Checked first: without a model, no sandbox is needed.
        let model = self.task.model.as_deref();
        vestal_runtime::endpoints(settings, model).map_err(not_assembled)?;
        let task_sandbox =
            TaskSandbox::for_task(settings, &self.task, &self.run).map_err(no_work_dir)?;
        if task_sandbox.is_own {
            // Limits set before the sandbox is created apply to the sandbox too. That is right
            // for one of the task's own, and wrong for one that others use.
            self.apply_limits();
        }
        let sandbox = task_sandbox.attach(&self.engine).await.map_err(no_work_dir)?;
        if !task_sandbox.is_own {
            self.apply_limits();
        }
        let last = self.last_outcome().await;
        let work_dir =
            task_sandbox.prepare(&sandbox, &self.task, last).await.map_err(no_work_dir)?;
        let attachments = self.board.show(&self.task.id).await.map_err(crashed)?.attachments;
        let handed_over = self.board.handed_over(&self.task.id).await.map_err(crashed)?;
        let inputs = work_dir
            .copy_inputs(&sandbox, &self.board, &self.task, &attachments, &handed_over)
            .await
            .map_err(no_work_dir)?;
        for file in &inputs.left_out {
            self.log.write(&format!("warning: not copied: {file}"));
        }
        let runtime = Runtime::builder(self.engine.clone())
            .redactor(Arc::clone(&self.redactor))
            .tools(|registry| tools::add_to(registry, &self.kanban))
            .build()
            .await
            .map_err(not_assembled)?;
        let request = self.request(&task_sandbox, &sandbox, &work_dir);
        let opened = runtime.open(request, Arc::new(NoHuman)).await.map_err(not_assembled)?;
        let mut conversation = opened.conversation;
        let id = conversation.id().to_string();
        // Before the first command: what it starts can be found from now on.
        if let Err(error) = self.board.run_session(&self.fence, &id).await {
            self.kanban.note_error(&error);
            return Err(crashed(error));
        }
        let work = WorkAttempt {
            kind: "kanban".to_owned(),
            group: self.board.slug().to_owned(),
            item: self.task.id.to_string(),
            attempt: self.run.id.to_string(),
        };
        // Before the first call of the model: what it takes is counted for this attempt.
        if let Err(error) = runtime.agent().store().set_work(conversation.id(), &work).await {
            self.log.write(&format!("warning: usage is not counted for the task: {error}"));
        }
        self.log.write(&format!(
            "conversation {id} in {} of sandbox {}",
            work_dir.dir.display(),
            sandbox.task()
        ));
        conversation.start_in(&work_dir.dir);
        self.prepare_shell(&conversation, &sandbox, &work_dir).await;
        let context = self.board.context(&self.task.id).await.map_err(crashed)?;
        let mut words =
            prompt::first_message(&self.task, self.run.role, &context, &work_dir, &inputs);
        words.push_str(&self.open_skills(runtime.skills(), &sandbox).await);
        let mut parts = vec![Part::Text { text: words }];
        parts.extend(inputs.pictures.into_iter().map(|picture| Part::Image(picture.image)));
        Ok(StartedAttempt {
            runtime,
            conversation,
            sandbox,
            task_sandbox,
            first: UserMessage { parts },
        })
    }

    /// Opens the skills that the task names and returns their text. A reviewer gets none: skills
    /// say how to do the work, not how to review it.
    async fn open_skills(&self, skills: &Skills, sandbox: &Sandbox) -> String {
        if self.run.role != Role::Work {
            return String::new();
        }
        let opened = prompt::open_skills(skills, &self.task.skills, sandbox).await;
        if let Err(error) = self.comment_missing_skills(&opened).await {
            self.kanban.note_error(&error);
            self.log.write(&format!(
                "warning: missing skills could not be noted on the board: {error}"
            ));
        }
        opened.words
    }

    /// Comments on the task which of its skills cannot be used. Later attempts do not repeat it.
    async fn comment_missing_skills(&self, opened: &OpenedSkills) -> Result<(), Error> {
        if opened.missing.is_empty() {
            return Ok(());
        }
        let by = Authority::Worker(self.fence.clone());
        let comments = self.board.show(&self.task.id).await?.comments;
        for missing in &opened.missing {
            self.log.write(&format!("warning: {missing}"));
            let text = self.redactor.redact(missing);
            if !comments.iter().any(|comment| comment.body == *text) {
                self.board.comment(&by, &self.task.id, &text).await?;
            }
        }
        Ok(())
    }

    fn apply_limits(&self) {
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

    fn request(
        &self,
        task_sandbox: &TaskSandbox,
        sandbox: &Sandbox,
        work_dir: &WorkDir,
    ) -> OpenRequest {
        let is_project = self.task.workspace != TaskWorkspace::Scratch;
        let title = format!("{} ({})", self.task.title, self.task.id);
        OpenRequest {
            title: Some(Title::Generated(self.redactor.redact(&title).into_owned())),
            model: self.task.model.clone(),
            placement: SandboxPlacement::Attached {
                choice: SandboxChoice::new(
                    task_sandbox.task.clone(),
                    task_sandbox.overrides.clone(),
                ),
                backend: sandbox.backend().to_owned(),
                project: is_project.then(|| work_dir.dir.clone()),
            },
            toolsets: Toolsets::Also(tools::TOOLSET.to_owned()),
            role: Some(prompt::role(self.run.role)),
            ..OpenRequest::new("kanban")
        }
    }

    /// Exports the task's variables in the conversation's shell.
    async fn prepare_shell(
        &self,
        conversation: &Conversation,
        sandbox: &Sandbox,
        work_dir: &WorkDir,
    ) {
        let mut text = String::from("export");
        for (name, value) in work_dir.variables(&self.board, &self.task) {
            text.extend([" ", name, "='", &value.replace('\'', r"'\''"), "'"]);
        }
        let command = conversation.sandbox().in_session(Command::shell(text));
        if let Err(error) = Box::pin(sandbox.run(command.timeout(PREPARE_WITHIN))).await {
            self.log.write(&format!("warning: the shell could not be prepared: {error}"));
        }
    }

    /// Runs turns until the model has reported or has used up its reminders.
    async fn converse(
        &self,
        started: &mut StartedAttempt,
        events: &EventSink,
    ) -> Option<Resolution> {
        let mut input = std::mem::take(&mut started.first);
        for left in (0..=REMINDERS).rev() {
            let outcome = self.turn(&mut started.conversation, input, events).await;
            if self.kanban.reported().is_some() || self.stop.is_cancelled() {
                return None;
            }
            if left == 0 || !matches!(outcome, TurnOutcome::Completed) {
                return Some(Resolution::from_turn(&outcome));
            }
            self.log.write("the model stopped without a report; reminding it");
            let text = prompt::reminder(self.run.role, left - 1);
            input = UserMessage { parts: vec![Part::Text { text }] };
        }
        None
    }

    /// Runs a turn. A report ends it: nothing the model does after that counts.
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
                _ = self.kanban.until_reported() => {}
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

    /// Stops jobs, closes the conversation and removes what is not needed any more. Failures are
    /// logged; a later sweep finishes what is left.
    async fn clean_up(&self, started: StartedAttempt) {
        let StartedAttempt { runtime, conversation, sandbox, task_sandbox, .. } = started;
        let id = conversation.id().clone();
        let store = runtime.agent().store().clone();
        let cleaned = async {
            let sessions = cleanup::shell_sessions(&store, &id).await?;
            let stopped = cleanup::stop_jobs(&sandbox.connection().await?, &sessions).await?;
            if stopped > 0 {
                self.log.write(&format!("stopped {stopped} jobs that were still running"));
            }
            Ok::<_, CleanupError>(())
        };
        if let Err(error) = cleaned.await {
            self.log.write(&format!("warning: jobs may still be running: {error}"));
        }
        if let Err(error) = conversation.close(EndReason::OneShot).await {
            self.log.write(&format!("warning: the conversation could not be closed: {error}"));
        }
        if let Err(error) = self.remove_work_dir(&task_sandbox, &sandbox).await {
            self.log
                .write(&format!("warning: the working directory could not be removed: {error}"));
        }
        runtime.close().await;
    }

    /// Removes the working directory or sandbox of a finished task. An unfinished task keeps it for
    /// the next attempt.
    async fn remove_work_dir(
        &self,
        task_sandbox: &TaskSandbox,
        sandbox: &Sandbox,
    ) -> Result<(), CleanupError> {
        let (board, engine) = (&self.board, &self.engine);
        let task = match board.get(&self.task.id).await {
            Ok(task) => task,
            Err(vestal_board::Error::NotFound { .. }) => self.task.clone(),
            Err(error) => return Err(error.into()),
        };
        if self.kanban.reported() == Some(ReportedState::Finished) && !task_sandbox.is_own {
            cleanup::remove_parents_scratch(sandbox, board, &task).await?;
        }
        if task_sandbox.is_own && cleanup::is_finished(&task) {
            return cleanup::remove_own_sandbox(engine, &task.id).await;
        }
        if !task_sandbox.is_own && cleanup::is_scratch_unused(board, &task).await? {
            return cleanup::remove_scratch(sandbox, &task.id).await;
        }
        Ok(())
    }
}

/// An attempt whose conversation is open.
struct StartedAttempt {
    runtime: Runtime,
    conversation: Conversation,
    sandbox: Sandbox,
    task_sandbox: TaskSandbox,
    /// The first message to the model.
    first: UserMessage,
}

fn not_configured(words: String) -> AttemptError {
    AttemptError(Resolution::Block(BlockKind::Capability, words))
}

/// Wrong settings block the task until a person fixes them. Anything else is a crash, and the task
/// is tried again.
fn not_assembled(error: RuntimeError) -> AttemptError {
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

fn no_work_dir(error: impl std::fmt::Display) -> AttemptError {
    let words = format!("cannot prepare the working directory: {error}");
    AttemptError(Resolution::End(Outcome::SpawnFailed, words))
}

fn crashed(error: impl std::fmt::Display) -> AttemptError {
    AttemptError(Resolution::End(Outcome::Crashed, error.to_string()))
}
