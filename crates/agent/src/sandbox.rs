//! The sandbox a conversation works in, attached to when it is first needed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use vestal_sandbox::files::Files;
use vestal_sandbox::{Command, Engine, Error, Overrides, Sandbox, TaskName};

use crate::event::{EventSink, TurnEvent};

/// The sandbox of a conversation, which it may share with others, and a shell
/// session in it, which is its own. Cheap to clone.
#[derive(Clone)]
pub struct ConversationSandbox {
    inner: Arc<SharedSandbox>,
    session: Arc<str>,
    /// Where shells begin, in place of where they do in this sandbox.
    start_dir: Option<Arc<Path>>,
}

struct SharedSandbox {
    engine: Engine,
    task: TaskName,
    overrides: Overrides,
    /// Holds the sandbox, so that the end of another conversation does not remove it.
    held: Mutex<Option<Sandbox>>,
}

impl ConversationSandbox {
    /// Returns the sandbox of a conversation; nothing is started before it is needed.
    pub fn new(engine: Engine, task: TaskName, overrides: Overrides, session: &str) -> Self {
        let inner = SharedSandbox { engine, task, overrides, held: Mutex::new(None) };
        Self { inner: Arc::new(inner), session: session.into(), start_dir: None }
    }

    /// Returns the same sandbox with another shell session, for a child.
    #[must_use]
    pub fn with_session(&self, session: &str) -> Self {
        Self { session: session.into(), ..self.clone() }
    }

    /// Makes shells, also those of children, begin in a directory of the sandbox. The
    /// sandbox itself is not changed, because others may use it as well.
    pub(crate) fn start_in(&mut self, dir: &Path) {
        self.start_dir = Some(dir.into());
    }

    /// Returns a command of the conversation's shell, which begins where it should.
    pub fn in_session(&self, command: Command) -> Command {
        let command = command.session(&*self.session);
        match &self.start_dir {
            Some(dir) => command.start_dir(dir),
            None => command,
        }
    }

    /// Returns the sandbox, attached to, started or made. Notices about it go to `events`,
    /// once.
    ///
    /// The engine is asked each time: it knows the sandbox that this process
    /// has, and makes another where the end of a turn took that one away.
    #[boxed]
    pub async fn attach(&self, events: &EventSink) -> Result<Sandbox, Error> {
        let SharedSandbox { engine, task, overrides, .. } = &*self.inner;
        let sandbox = Box::pin(engine.sandbox_with(task, overrides)).await?;
        let before = self.held().replace(sandbox.clone());
        if !before.is_some_and(|before| before.is_same_hold(&sandbox)) {
            for text in sandbox.notice_texts() {
                events.emit(TurnEvent::Warning { text });
            }
        }
        Ok(sandbox)
    }

    /// Returns the sandbox's files, relative paths starting where the
    /// conversation's shell is.
    #[boxed]
    pub async fn files(&self, events: &EventSink) -> Result<Files, Error> {
        self.files_of(Some(&self.session), events).await
    }

    /// Returns the sandbox's files, relative paths starting where the conversation's
    /// shell began, wherever it is by now.
    pub(crate) async fn files_at_start(&self, events: &EventSink) -> Result<Files, Error> {
        self.files_of(None, events).await
    }

    async fn files_of(&self, session: Option<&str>, events: &EventSink) -> Result<Files, Error> {
        let files = self.attach(events).await?.files(session).await?;
        Ok(match &self.start_dir {
            Some(dir) => files.start_dir(dir),
            None => files,
        })
    }

    /// Returns the sandbox if it has been attached to.
    pub fn attached(&self) -> Option<Sandbox> {
        self.held().clone()
    }

    /// Tells the engine that a turn has ended. A sandbox that is to last is left alone.
    pub(crate) fn turn_ended(&self) -> Result<(), Error> {
        // Its own task: a mounted directory is part of that.
        match self.attached() {
            Some(sandbox) => self.inner.engine.turn_ended(sandbox.task()),
            None => Ok(()),
        }
    }

    /// Releases the sandbox at the end of the conversation.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let Some(sandbox) = self.held().take() else { return Ok(()) };
        let task = sandbox.task().clone();
        drop(sandbox);
        self.inner.engine.conversation_closed(&task)
    }

    /// Returns the name of the conversation's shell session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the directory of the user's that was asked to be its workspace.
    pub fn mounted(&self) -> Option<&Path> {
        self.inner.overrides.mount.as_deref()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Returns the task of the sandbox that the conversation works in, or would
    /// work in: a mounted directory is part of it.
    pub fn sandbox_task(&self) -> TaskName {
        let SharedSandbox { engine, task, overrides, .. } = &*self.inner;
        if let Some(sandbox) = self.attached() {
            return sandbox.task().clone();
        }
        let scoped = match &overrides.mount {
            Some(dir) => engine.task_with_mount(task, dir),
            None => engine.scoped(task),
        };
        // A directory that does not exist has no sandbox either.
        scoped.unwrap_or_else(|_| task.clone())
    }

    /// Returns the task whose sandbox it is.
    pub fn task(&self) -> &TaskName {
        &self.inner.task
    }

    fn held(&self) -> MutexGuard<'_, Option<Sandbox>> {
        self.inner.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ConversationSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationSandbox")
            .field("task", &self.inner.task)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
