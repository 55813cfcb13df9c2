//! What the tests stand on: a home, a scripted model, an agent between them, and
//! a terminal that is none.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use vestal_agent::redact::Redactor;
use vestal_agent::{
    Agent, AgentParts, Approval, ApprovalRequest, ConversationOptions, Human, PlanAnswer,
    PromptParts, Question, Selection, Start, settings, tools,
};
use vestal_chat::{
    ChatError, ChatExit, ChatHost, ChatParts, ChatTerminal, HostMessage, OpenTarget,
    OpenedConversation, SuspendTerminal,
};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_conversations::{ConversationId, ConversationStore, Stored, Title};
use vestal_model::{Endpoint, Models, ProviderApi, UserMessage};
use vestal_runtime::Termination;
use vestal_sandbox::{Engine, FilesOnRemoval, Isolation, Overrides, TaskName};
use vestal_scripted_model::{Script, ScriptedModel};
pub(crate) use vestal_testkit::{TEST_TIMEOUT, marker, processes_with, until};
use vestal_testkit::{TestHome, clean_up};
use vestal_tui::emulator::Emulator;
use vestal_tui::{Colour, KeyCode, KeyPress, Reflow, Size, TerminalInput};

/// A home, a scripted model and whatever the chat is started with. Its sandboxes are
/// removed when it is dropped.
pub(crate) struct ChatFixture {
    pub(crate) home: TestHome,
    pub(crate) model: ScriptedModel,
    pub(crate) size: Size,
    set: Vec<String>,
    resumed: Option<ConversationId>,
    first: Option<UserMessage>,
}

/// A person before a terminal.
pub(crate) struct Person {
    terminal: Terminal,
    inputs: UnboundedSender<TerminalInput>,
    pub(crate) signals: UnboundedSender<Termination>,
    pub(crate) outside: UnboundedSender<HostMessage>,
    pub(crate) lent: Arc<Mutex<Vec<&'static str>>>,
}

impl ChatFixture {
    pub(crate) fn new(script: Script) -> Self {
        let home = TestHome::create();
        let set = vec![
            "terminal.backend=local".to_owned(),
            format!("terminal.cwd={}", home.user().display()),
            "agent.api_max_retries=1".to_owned(),
        ];
        let size = Size { columns: 80, rows: 24 };
        let model = ScriptedModel::start(script.strict());
        Self { home, model, size, set, resumed: None, first: None }
    }

    /// Sets a key.
    pub(crate) fn with(mut self, assignment: &str) -> Self {
        self.set.push(assignment.to_owned());
        self
    }

    /// Goes on with a conversation.
    pub(crate) fn resuming(mut self, id: ConversationId) -> Self {
        self.resumed = Some(id);
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.user().join(name)
    }

    pub(crate) fn settings(&self) -> Settings {
        let schema = vestal_api::schema();
        let overrides = self.set.iter().map(|text| Override::parse(&schema, text).unwrap());
        let environment = Environment::from_pairs(self.home.variables());
        Settings::load(&schema, Home::at(self.home.vestal()), environment, overrides.collect())
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.home.beside("history")
    }

    pub(crate) fn store_file(&self) -> PathBuf {
        self.home.beside("state.db")
    }

    /// Returns what the store has of the conversation that was used last.
    pub(crate) async fn stored(&self) -> (ConversationId, Vec<Stored>) {
        let store = ConversationStore::open(self.store_file()).await.unwrap();
        let id = store.latest().await.unwrap();
        let stored = store.messages(&id).await.unwrap();
        (id, stored)
    }

    async fn agent(&self, settings: &Settings) -> Agent {
        let options = settings::options(settings).unwrap();
        let model_options = vestal_model::ModelOptions {
            backoff_base: Duration::from_millis(1),
            backoff_cap: Duration::from_millis(5),
            ..settings::model_options(settings).unwrap()
        };
        Agent::new(AgentParts {
            engine: Engine::open(self.settings()).unwrap(),
            store: ConversationStore::open(self.store_file()).await.unwrap(),
            models: Models::new(model_options).unwrap(),
            tools: tools::standard(),
            sources: Vec::new(),
            memory: None,
            redactor: Arc::new(Redactor::default()),
            options,
            remember: Arc::new(|_| Ok(())),
        })
    }

    /// Lets a person do something at a chat, and returns how it was left.
    pub(crate) async fn play<F: Future<Output = ()>>(
        &self,
        script: impl FnOnce(Person) -> F,
    ) -> ChatExit {
        let settings = self.settings();
        let agent = self.agent(&settings).await;
        let (human, questions) = vestal_chat::question_channel();
        let human: Arc<dyn Human> = Arc::new(Clumsy(human));
        let start = match &self.resumed {
            Some(id) => Start::Resume(id.clone()),
            None => Start::New { source: "cli".to_owned(), title: None, state: Vec::new() },
        };
        let endpoint = Endpoint {
            name: "scripted".to_owned(),
            api: ProviderApi::ChatCompletions,
            base_url: self.model.base_url(),
            key: None,
            model: "scripted-model".to_owned(),
            context_length: Some(100_000),
            prices: None,
            reasoning: vestal_model::ReasoningOptions::AUTO,
        };
        let terminal = Terminal::new(self.size);
        let (inputs, typed) = unbounded_channel();
        let (signals, signalled) = unbounded_channel();
        let (outside, reply) = unbounded_channel();
        let lent = Arc::default();
        let host = Arc::new(TestHost {
            agent: agent.clone(),
            human,
            start,
            endpoint,
            verbs: terminal.clone(),
            until: self.file(VERB_GOES_ON),
        });
        let parts = ChatParts {
            host,
            agent: agent.clone(),
            settings: Arc::new(settings),
            colour: Colour::On,
            history: self.history(),
            questions,
            outside: reply,
            first: self.first.clone(),
            cwd: std::env::current_dir().ok(),
        };
        let surface = ChatTerminal {
            inputs: typed,
            signals: signalled,
            out: Box::new(terminal.clone()),
            size: self.size,
            reflow: Reflow::Yes,
            terminal: Box::new(TestTerminal(Arc::clone(&lent))),
        };
        let person = Person { terminal, inputs, signals, outside, lent };
        let chat = Box::pin(vestal_chat::run_on(parts, surface));
        let (left, ()) = tokio::join!(chat, script(person));
        agent.store().clone().close().await.unwrap();
        left.unwrap()
    }
}

impl Person {
    pub(crate) fn types(&self, text: &str) {
        for c in text.chars() {
            self.presses(KeyPress::plain(KeyCode::Char(c)));
        }
    }

    pub(crate) fn submits(&self, text: &str) {
        self.types(text);
        self.presses(KeyPress::plain(KeyCode::Enter));
    }

    pub(crate) fn presses(&self, key: KeyPress) {
        self.does(TerminalInput::Key(key));
    }

    pub(crate) fn does(&self, input: TerminalInput) {
        self.inputs.send(input).unwrap_or_default();
    }

    /// Leaves the chat, whatever is typed.
    pub(crate) fn leaves(&self) {
        self.presses(KeyPress::control('u'));
        self.presses(KeyPress::control('d'));
    }

    pub(crate) fn resizes(&self, size: Size) {
        self.terminal.lock().resize(size);
        self.does(TerminalInput::Resized(size));
    }

    /// Waits until a text is on the screen.
    pub(crate) async fn sees(&self, text: &str) {
        self.sees_that(text, |rows| rows.iter().any(|row| row.contains(text))).await;
    }

    /// Waits until a text is no longer on the screen.
    pub(crate) async fn sees_no(&self, text: &str) {
        self.sees_that(text, |rows| rows.iter().all(|row| !row.contains(text))).await;
    }

    /// Waits until no turn runs.
    pub(crate) async fn sees_the_turn_end(&self) {
        // While one runs, the status line ends with its time.
        self.sees_that("the end of the turn", |screen| {
            let status = screen.iter().rfind(|row| !row.trim().is_empty());
            status.is_some_and(|row| !row.trim_end().ends_with('s'))
        })
        .await;
    }

    /// Waits until the screen is as it should be.
    pub(crate) async fn sees_that(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        let waiting = async {
            loop {
                let drawn = self.terminal.drawn.notified();
                if is_so(&self.terminal.lock().screen()) {
                    return;
                }
                drawn.await;
            }
        };
        let seen = tokio::time::timeout(TEST_TIMEOUT, waiting).await;
        seen.unwrap_or_else(|_| panic!("not seen: {what}\n{}", self.all().join("\n")));
    }

    /// Returns all that was said, the scroll-back included.
    pub(crate) fn all(&self) -> Vec<String> {
        self.terminal.lock().all()
    }

    pub(crate) fn bells(&self) -> usize {
        self.terminal.lock().bells()
    }

    /// Returns how many frames were drawn.
    pub(crate) fn frames(&self) -> usize {
        *self.terminal.frames.lock().unwrap()
    }

    /// From now on the terminal cannot be written to.
    pub(crate) fn breaks_the_terminal(&self) {
        *self.terminal.broken.lock().unwrap() = true;
    }
}

/// A terminal in memory.
#[derive(Clone)]
struct Terminal {
    emulator: Arc<Mutex<Emulator>>,
    drawn: Arc<tokio::sync::Notify>,
    frames: Arc<Mutex<usize>>,
    broken: Arc<Mutex<bool>>,
}

impl Terminal {
    fn new(size: Size) -> Self {
        Self {
            emulator: Arc::new(Mutex::new(Emulator::new(size))),
            drawn: Arc::default(),
            frames: Arc::default(),
            broken: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Emulator> {
        self.emulator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if *self.broken.lock().unwrap() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.lock().feed(bytes);
        *self.frames.lock().unwrap() += 1;
        self.drawn.notify_waiters();
        // One who comes later finds it, too.
        self.drawn.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct TestTerminal(Arc<Mutex<Vec<&'static str>>>);

impl SuspendTerminal for TestTerminal {
    fn suspend(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().push("lent");
        Ok(())
    }

    fn resume(&mut self) -> io::Result<Option<Size>> {
        self.0.lock().unwrap().push("back");
        Ok(None)
    }

    fn stop(&mut self) -> io::Result<Option<Size>> {
        self.0.lock().unwrap().push("stopped");
        Ok(None)
    }
}

/// The program around the chat.
struct TestHost {
    agent: Agent,
    human: Arc<dyn Human>,
    start: Start,
    endpoint: Endpoint,
    verbs: Terminal,
    /// The file that a command waits for which takes its time.
    until: PathBuf,
}

/// The title of a conversation that is never opened.
pub(crate) const NEVER: &str = "never";

/// The job whose log is followed until [`VERB_GOES_ON`] exists.
pub(crate) const SLOW: &str = "slow";

/// See [`SLOW`].
pub(crate) const VERB_GOES_ON: &str = "verb-goes-on";

/// A question at which the program breaks.
pub(crate) const BREAKS: &str = "Does it break?";

/// The person, asked by a program with a mistake in it.
struct Clumsy(Arc<dyn Human>);

#[async_trait]
impl Human for Clumsy {
    fn is_present(&self) -> bool {
        self.0.is_present()
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        self.0.approve(request).await
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        assert_ne!(question.question, BREAKS, "as it should");
        self.0.clarify(question).await
    }

    async fn approve_plan(&self, plan: &str) -> PlanAnswer {
        self.0.approve_plan(plan).await
    }
}

#[async_trait]
impl ChatHost for TestHost {
    async fn open(&self, what: OpenTarget) -> Result<OpenedConversation, ChatError> {
        if matches!(&what, OpenTarget::New { title: Some(title), .. } if title == NEVER) {
            return std::future::pending().await;
        }
        let (start, task) = match what {
            OpenTarget::First => (self.start.clone(), None),
            OpenTarget::New { task, title, .. } => (
                Start::New {
                    source: "cli".to_owned(),
                    title: title.map(Title::Given),
                    state: Vec::new(),
                },
                task,
            ),
            OpenTarget::Resume { id, task, .. } => (Start::Resume(id), task),
        };
        let is_resumed = matches!(start, Start::Resume(_));
        let opening = ConversationOptions {
            start,
            chain: vec![self.endpoint.clone()],
            task: task.unwrap_or_else(TaskName::default_task),
            isolation: Isolation::Shared,
            overrides: Overrides::default(),
            human: Arc::clone(&self.human),
            selection: Selection::default(),
            prompt: PromptParts {
                profile: "default".to_owned(),
                is_attended: true,
                ..PromptParts::default()
            },
            cwd: None,
            max_turns: None,
        };
        let opened = self.agent.open(opening).await;
        let conversation =
            opened.map_err(|error| ChatError { problem: error.to_string(), advice: Vec::new() })?;
        Ok(OpenedConversation { conversation, is_resumed, notices: Vec::new() })
    }

    async fn run_command(&self, words: Vec<String>) -> bool {
        let line = format!("ran: {}\r\n", words.join(" "));
        self.verbs.clone().write_all(line.as_bytes()).unwrap();
        if words.last().is_some_and(|word| word == SLOW) {
            until("the command may end", || self.until.exists()).await;
        }
        true
    }

    fn complete_command(&self, _: &[String]) -> Vec<String> {
        Vec::new()
    }
}

impl Drop for ChatFixture {
    fn drop(&mut self) {
        let settings = self.settings();
        clean_up(move || async move {
            let engine = Engine::open(settings).unwrap();
            for sandbox in Box::pin(engine.list()).await.unwrap() {
                let task: TaskName = sandbox.task.parse().unwrap();
                Box::pin(engine.remove(&task, FilesOnRemoval::Remove)).await.unwrap();
            }
        });
    }
}
