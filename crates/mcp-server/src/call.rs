//! One call of a tool, or one read of a resource: whose it is, what it may reach, and how its client
//! hears of it before it is done.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use vestal_sandbox::client::Connection;
use vestal_sandbox::{Engine, Error, Sandbox, TaskName};

use crate::failure::ToolFailure;
use crate::http::HttpCaller;
use crate::limits::PROGRESS_EVERY;
use crate::service::{SandboxScope, ServiceState};
use crate::task::{self, TaskChoice};

/// One call.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) service: Arc<ServiceState>,
    context: RequestContext<RoleServer>,
    /// What progress is counted from: it must not go back when the next part of the work begins.
    begun: Instant,
    /// The task that the client works in, without a directory.
    base: TaskName,
    /// The same with the directory that is mounted, if one is.
    own: TaskName,
    /// Its place among the calls that are under way. What goes on when the client has given up keeps it,
    /// so that there is no more of that than there are places.
    place: Arc<OwnedSemaphorePermit>,
}

impl Call {
    pub(crate) fn new(
        service: Arc<ServiceState>,
        context: RequestContext<RoleServer>,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, ToolFailure> {
        let caller = http_caller(&context);
        let asked = caller.and_then(|caller| caller.task.clone()).map(TaskChoice::Named);
        let choice = asked.as_ref().unwrap_or(&service.options.task);
        let name = match caller.and_then(HttpCaller::client) {
            Some(name) => Some(name.to_owned()),
            None => context.client_info().map(|client| client.name),
        };
        let invalid = |error| ToolFailure::new(format!("{error}"));
        let base = choice.task(name.as_deref()).map_err(invalid)?;
        let own = match &service.options.overrides.mount {
            Some(dir) => service.engine.task_with_mount(&base, dir)?,
            None => service.engine.scoped(&base)?,
        };
        Ok(Self { service, context, begun: Instant::now(), base, own, place: Arc::new(place) })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.service.engine
    }

    /// Returns the client's own task.
    pub(crate) fn own(&self) -> &TaskName {
        &self.own
    }

    /// Returns what the client calls itself.
    pub(crate) fn client_name(&self) -> String {
        task::short_name(&match http_caller(&self.context).and_then(HttpCaller::client) {
            Some(name) => name.to_owned(),
            None => self.context.client_info().map(|client| client.name).unwrap_or_default(),
        })
    }

    /// Returns the task that a call is about, if the client may use its sandbox.
    pub(crate) fn task(&self, named: Option<&str>) -> Result<TaskName, ToolFailure> {
        let Some(named) = named.filter(|name| !name.is_empty()) else {
            return Ok(self.own.clone());
        };
        let task: TaskName = named.parse().map_err(|error| ToolFailure::argument("task", error))?;
        if self.may_use(&task) {
            return Ok(task);
        }
        Err(ToolFailure::new(format!("the sandbox of task {named:?} is not yours to use here"))
            .advise(format!(
                "leave out `task` to use your own, {:?}, or name a copy of it that sandbox_fork made; the user can open all sandboxes with `vestal mcp serve --all-sandboxes`",
                self.own.as_str()
            )))
    }

    /// Reports whether the client may use a sandbox.
    pub(crate) fn may_use(&self, task: &TaskName) -> bool {
        self.service.options.scope == SandboxScope::All
            || *task == self.own
            || task::is_fork_of(&self.base, &self.own, task)
    }

    /// Returns the task of a copy of a sandbox. A directory that is mounted in the sandbox is in the copy
    /// too, and so is part of its task.
    pub(crate) async fn fork(&self, from: &TaskName, name: &str) -> Result<TaskName, ToolFailure> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 63 || !name.chars().all(is_plain) {
            return Err(ToolFailure::argument(
                "name",
                "must be 1 to 63 letters, digits, hyphens, underscores and dots",
            ));
        }
        let to = task::fork_name(&self.base, name);
        let to = to.map_err(|error| ToolFailure::argument("name", error))?;
        Ok(vestal_operations::fork_target(self.engine(), from, &to).await?)
    }

    /// Returns a sandbox. The client's own is made if there is none; of another one there must be.
    pub(crate) async fn sandbox(&self, named: Option<&str>) -> Result<Sandbox, ToolFailure> {
        let task = self.task(named)?;
        let (engine, own, base) = (self.engine().clone(), self.own.clone(), self.base.clone());
        let overrides = self.service.options.overrides.clone();
        let attach = self.keeping_place(async move {
            if task != own {
                return engine.existing_sandbox(&task).await;
            }
            // With a directory to mount, the engine makes the whole name of the short one.
            let task = if overrides.mount.is_some() { base } else { own };
            engine.sandbox_with(&task, &overrides).await
        });
        self.watched(attach, getting_ready).await
    }

    /// Returns a sandbox that there must be.
    pub(crate) async fn existing_sandbox(&self, task: &TaskName) -> Result<Sandbox, ToolFailure> {
        let (engine, task) = (self.engine().clone(), task.clone());
        let attach = self.keeping_place(async move { engine.existing_sandbox(&task).await });
        self.watched(attach, getting_ready).await
    }

    /// Connects to a sandbox that there must be, without using it unless it has to be started.
    pub(crate) async fn existing_connection(
        &self,
        task: &TaskName,
    ) -> Result<Connection, ToolFailure> {
        let (engine, task) = (self.engine().clone(), task.clone());
        let connect = self.keeping_place(async move { engine.existing_connection(&task).await });
        self.watched(connect, getting_ready).await
    }

    /// Has what a job changed in the user's directory, where the workspace is a copy of that. Commands
    /// that are waited for and tools that write files do it themselves.
    pub(crate) async fn bring_back(&self, task: &TaskName) {
        // A directory that is mounted or copied is part of the task.
        if task.as_str().contains("@/")
            && let Ok(sandbox) = self.existing_sandbox(task).await
        {
            sandbox.bring_back().await;
        }
    }

    /// Does work that goes on when the caller gives up, so that nothing is left half-made: it has the
    /// place of the call until it has ended.
    async fn keeping_place<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, ToolFailure> {
        let place = Arc::clone(&self.place);
        let task = tokio::spawn(async move {
            let done = work.await;
            drop(place);
            done
        });
        let given_up = |error| ToolFailure::new(format!("the sandbox was given up: {error}"));
        Ok(task.await.map_err(given_up)??)
    }

    /// Does something that may take long, and tells a client that asked to be told how far it is.
    pub(crate) async fn watched<T>(
        &self,
        work: impl Future<Output = T>,
        state: impl Fn() -> BoxFuture<'static, Option<String>>,
    ) -> T {
        let Some(token) = self.context.meta.get_progress_token() else { return work.await };
        tokio::pin!(work);
        let mut ticks = interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut telling: Option<tokio::task::JoinHandle<()>> = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    // No notification comes after the answer.
                    if let Some(telling) = telling {
                        telling.abort();
                    }
                    return done;
                }
                _ = ticks.tick() => {
                    // A client that does not read has one notification waiting, not a queue of them.
                    if telling.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
                        telling = Some(tokio::spawn(tell(
                            self.context.clone(), token.clone(), self.begun.elapsed(), state(),
                        )));
                    }
                }
            }
        }
    }
}

fn getting_ready() -> BoxFuture<'static, Option<String>> {
    Box::pin(async { Some("getting the sandbox ready".to_owned()) })
}

async fn tell(
    context: RequestContext<RoleServer>,
    token: ProgressToken,
    elapsed: Duration,
    state: BoxFuture<'static, Option<String>>,
) {
    let seconds = elapsed.as_secs();
    let mut progress = ProgressNotificationParam::new(token, elapsed.as_secs_f64());
    if let Some(state) = state.await {
        progress = progress.with_message(format!("{state} ({seconds} s)"));
    }
    if let Err(error) = context.peer.notify_progress(progress).await {
        tracing::debug!(%error, "the client cannot be told how far a call is");
    }
}

/// Returns who called over HTTP; nothing over standard input.
pub(crate) fn http_caller(context: &RequestContext<RoleServer>) -> Option<&HttpCaller> {
    context.extensions.get::<Parts>()?.extensions.get::<HttpCaller>()
}
