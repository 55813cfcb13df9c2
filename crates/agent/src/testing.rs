//! What the tests of tools stand on: a home of their own with a real sandbox
//! on backend `local`, a scripted person, and recorded events.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tempfile::TempDir;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, Overrides, Sandbox, TaskName};
pub(crate) use vestal_testkit::{TEST_TIMEOUT, marker, processes_with, until};

use crate::approvals::{ApprovalPolicy, Guard, GuardMode, Unattended};
use crate::delegation::Delegates;
use crate::event::{EventSink, TurnEvent};
use crate::human::{Approval, ApprovalRequest, Human, Question};
use crate::limits::ToolLimits;
use crate::registry::Registry;
use crate::sandbox::ConversationSandbox;
use crate::tool::{Tool, ToolContext, ToolOutput};

/// A home with one sandbox. When it is dropped, the sandbox is removed with
/// all that runs in it, also when the test has failed.
pub(crate) struct AgentFixture {
    dir: TempDir,
    events: Arc<Mutex<Vec<TurnEvent>>>,
    pub(crate) context: ToolContext,
}

impl AgentFixture {
    /// Returns a fixture in which everything is allowed and nobody answers.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("user")).unwrap();
        let sandbox = ConversationSandbox::new(
            engine(dir.path()),
            TaskName::default_task(),
            Overrides::default(),
            "conversation-under-test",
        );
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let policy = ApprovalPolicy {
            mode: GuardMode::Off,
            unattended: Unattended::Allow,
            ..ApprovalPolicy::default()
        };
        let context = ToolContext {
            events: EventSink::new(move |event| heard.lock().unwrap().push(event)),
            guard: Arc::new(Guard::new(policy, Arc::new(|_| Ok(())))),
            ..ToolContext::new("20261115-103001-k3f9ab".parse().unwrap(), sandbox)
        };
        Self { dir, events, context }
    }

    /// Guards with this policy from now on.
    pub(crate) fn guarded_by(mut self, policy: ApprovalPolicy) -> Self {
        self.context.guard = Arc::new(Guard::new(policy, Arc::new(|_| Ok(()))));
        self
    }

    /// Lets this person be there from now on.
    pub(crate) fn with_human(mut self, human: Arc<dyn Human>) -> Self {
        self.context.human = human;
        self
    }

    /// Changes the limits.
    pub(crate) fn with_limits(mut self, change: impl FnOnce(&mut ToolLimits)) -> Self {
        change(Arc::make_mut(&mut self.context.limits));
        self
    }

    /// Gives the conversation these tools.
    pub(crate) fn with_tools(mut self, tools: Registry) -> Self {
        self.context.tools = Arc::new(tools);
        self
    }

    /// Lets work be given to these.
    pub(crate) fn with_delegates(mut self, delegates: Arc<dyn Delegates>) -> Self {
        self.context.delegates = delegates;
        self
    }

    /// Returns the directory that commands start in.
    pub(crate) fn start_dir(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    /// Returns a path beside the sandbox's files that nothing uses.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns where the guest of a task's sandbox keeps its state.
    pub(crate) fn state_dir(&self, task: &vestal_sandbox::TaskName) -> PathBuf {
        self.dir.path().join("vestal/sandboxes").join(task.to_string()).join("state")
    }

    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.context.sandbox.attach(&self.context.events).await.unwrap()
    }

    /// Returns another engine on the same home, as another process would have.
    pub(crate) fn another_engine(&self) -> Engine {
        engine(self.dir.path())
    }

    /// Returns the events so far.
    pub(crate) fn events(&self) -> Vec<TurnEvent> {
        self.events.lock().unwrap().clone()
    }

    /// Returns all that tools have printed so far.
    pub(crate) fn tool_output(&self) -> String {
        let events = self.events.lock().unwrap();
        let text = |event: &TurnEvent| match event {
            TurnEvent::ToolOutput { text, .. } => Some(text.clone()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }

    /// Calls a tool and returns all that came of it.
    pub(crate) async fn output(&self, tool: &dyn Tool, arguments: Value) -> ToolOutput {
        tool.call(&self.context, arguments).await
    }

    /// Calls a tool and returns what the model reads, which must be JSON.
    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> Value {
        let output = self.output(tool, arguments).await;
        serde_json::from_str(&output.content).unwrap()
    }
}

impl Drop for AgentFixture {
    fn drop(&mut self) {
        let root = self.dir.path().to_owned();
        vestal_testkit::clean_up(move || async move {
            let (engine, task) = (engine(&root), TaskName::default_task());
            match Box::pin(engine.remove(&task, FilesOnRemoval::Remove)).await {
                Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
}

fn engine(root: &Path) -> Engine {
    let user = root.join("user");
    let path = Environment::capture();
    let path = path.get("PATH").unwrap_or_default();
    let environment = Environment::from_pairs([("PATH", path), ("HOME", user.as_os_str())]);
    let settings =
        ["terminal.backend=local".to_owned(), format!("terminal.cwd={}", user.display())];
    let settings =
        settings.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
    let home = Home::at(root.join("vestal"));
    Engine::open(Settings::load(&crate::schema(), home, environment, settings)).unwrap()
}

/// A person who answers from a list, and gives no answer when it is at
/// its end.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) approvals: Mutex<VecDeque<Approval>>,
    pub(crate) answers: Mutex<VecDeque<Option<String>>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Scripted {
    /// Returns a person who answers approvals like this.
    pub(crate) fn approving(approvals: impl IntoIterator<Item = Approval>) -> Arc<Self> {
        Arc::new(Self { approvals: Mutex::new(approvals.into_iter().collect()), ..Self::default() })
    }

    /// Returns a person who answers questions like this.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Option<String>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    /// Returns what was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Human for Scripted {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        self.asked.lock().unwrap().push(request.action.clone());
        let answer = self.approvals.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        self.asked.lock().unwrap().push(question.question.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
