//! A home, a scripted model, and gateways in processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_conversations::{ConversationId, ConversationStore};
use vestal_gateway::{GatewayState, ask_stop, read_state};
use vestal_model::Message;
use vestal_sandbox::{Engine, FilesOnRemoval, TaskName};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::Fifo;
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::{TestHome, clean_up, until_async};

pub(crate) const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015";

/// What the tests say, and what the model then does.
pub(crate) const START_JOB: &str = "start the job";
/// What the model says when it has started the job, when it heard of its end, and when it goes on.
pub(crate) const STARTED: &str = "the job runs";
pub(crate) const HEARD: &str = "the job is done";
pub(crate) const WENT_ON: &str = "went on";

pub(crate) struct GatewayFixture {
    home: TestHome,
    pub(crate) model: ScriptedModel,
    /// What the background job reads; it ends when something is written.
    pub(crate) gate: Fifo,
}

impl GatewayFixture {
    /// Makes a home. `heard` is how the model reacts to the end of the job.
    pub(crate) fn new(heard: ScriptedReply) -> Self {
        let home = TestHome::create();
        let gate = Fifo::create(home.beside("gate"));
        let job = json!({
            "command": format!("cat {}", gate.display()),
            "background": true,
            "notify_on_complete": true,
        });
        let script = Script::rules([
            // What was said just before may be in the same message.
            ReplyRule::when_user_contains("say hello").reply(ScriptedReply::text("hello")),
            ReplyRule::when_user_contains(START_JOB)
                .reply(ScriptedReply::tool_call("terminal", job)),
            ReplyRule::after_tool_result_contains("session_id").reply(ScriptedReply::text(STARTED)),
            ReplyRule::when_user_contains("ended unexpectedly").reply(ScriptedReply::text(WENT_ON)),
            ReplyRule::when_user_contains("was restarted").reply(ScriptedReply::text(WENT_ON)),
            ReplyRule::when_user_contains("has ended").reply(heard),
            ReplyRule::when_user_contains("wait for me")
                .reply(ScriptedReply::text("never").hold_after(0)),
            ReplyRule::always().reply_with(|request| {
                ScriptedReply::text(request.last_user_text().unwrap_or_default())
            }),
        ]);
        Self::in_home(home, gate, script, &[])
    }

    /// Makes a home whose model follows a script, with further settings.
    pub(crate) fn with_script(script: Script, more: &[&str]) -> Self {
        let home = TestHome::create();
        let gate = Fifo::create(home.beside("gate"));
        Self::in_home(home, gate, script, more)
    }

    fn in_home(home: TestHome, gate: Fifo, script: Script, more: &[&str]) -> Self {
        let model = ScriptedModel::start(script);
        let mut set = settings_of(&model, 0);
        set.extend(more.iter().map(|&set| set.to_owned()));
        std::fs::write(home.beside("settings"), set.join("\n")).unwrap();
        std::fs::create_dir_all(home.vestal()).unwrap();
        Self { home, model, gate }
    }

    /// Sends a request; status and body, if the gateway lives to answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Option<(u16, Value)> {
        let address = self.state().platforms.get("api_server")?.address.clone()?;
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client().request(method, format!("http://{address}{path}"));
        request = request.bearer_auth(KEY);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let text = response.text().await.ok()?;
        Some((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Begins a run and returns its id.
    pub(crate) async fn run(&self, input: &str) -> String {
        let begun = self.send("POST", "/v1/runs", &[], Some(json!({ "input": input }))).await;
        let (status, body) = begun.unwrap();
        assert_eq!(status, 202, "{body}");
        body["run_id"].as_str().unwrap().to_owned()
    }

    /// Returns a run as it is now.
    pub(crate) async fn show(&self, run: &str) -> Value {
        let (status, body) = self.send("GET", &format!("/v1/runs/{run}"), &[], None).await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(crate) async fn until_run(&self, run: &str, what: &str, is: impl Fn(&Value) -> bool) {
        until_async(what, || async { is(&self.show(run).await) }).await;
    }

    /// Reads the events of a run to the last: the number, the name and the data of each.
    pub(crate) async fn events(&self, run: &str, after: i64) -> Vec<(i64, String, Value)> {
        let last = after.to_string();
        let path = format!("/v1/runs/{run}/events");
        let (status, body) =
            self.send("GET", &path, &[("last-event-id", &last)], None).await.unwrap();
        assert_eq!(status, 200, "{body}");
        let field = |event: &str, name: &str| {
            let line = event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::to_owned)
        };
        let events = body.as_str().unwrap_or_default().split("\n\n").filter_map(|event| {
            let data = serde_json::from_str(&field(event, "data")?).unwrap();
            Some((field(event, "id")?.parse().unwrap(), field(event, "event")?, data))
        });
        events.collect()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.vestal()
    }

    fn settings(&self) -> Settings {
        settings(&self.home(), &self.home.beside("settings"))
    }

    /// Starts a gateway, which dies at the failpoint.
    pub(crate) fn spawn(&self, failpoint: Option<&str>) -> RunningProgram {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.arg(self.home()).arg(self.home.beside("settings"));
        command.envs(self.home.variables()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(failpoint.map(|name| ("VESTAL_FAILPOINT", name)));
        RunningProgram::start(command)
    }

    /// Starts a gateway and waits until it is ready.
    pub(crate) fn start(&self) -> RunningProgram {
        let mut gateway = self.spawn(None);
        assert_eq!(gateway.line(), "ready");
        gateway
    }

    /// Stops a gateway as an operator does.
    pub(crate) async fn stop(&self, gateway: RunningProgram) {
        assert!(ask_stop(&self.home(), false).await.unwrap().is_some());
        let (code, _) = gateway.end();
        assert_eq!(code, 0);
    }

    pub(crate) fn state(&self) -> GatewayState {
        read_state(&self.home()).unwrap().unwrap()
    }

    /// Asks something; the answer's words and its session, if the gateway lives to tell.
    pub(crate) async fn ask(
        &self,
        question: &str,
        session: Option<&str>,
    ) -> Option<(String, String)> {
        let address = self.state().platforms.get("api_server")?.address.clone()?;
        let body = json!({ "messages": [{ "role": "user", "content": question }] });
        let mut request = client()
            .post(format!("http://{address}/v1/chat/completions"))
            .bearer_auth(KEY)
            .header("content-type", "application/json")
            .body(body.to_string());
        if let Some(session) = session {
            request = request.header("x-vestal-session-id", session);
        }
        let response = request.send().await.ok()?;
        let session = response.headers().get("x-vestal-session-id")?.to_str().unwrap().to_owned();
        let body: Value = serde_json::from_str(&response.text().await.ok()?).unwrap();
        Some((body["choices"][0]["message"]["content"].as_str()?.to_owned(), session))
    }

    /// Has the model start the background job, and returns the session.
    pub(crate) async fn start_job(&self) -> String {
        let (reply, session) = self.ask(START_JOB, None).await.unwrap();
        assert_eq!(reply, STARTED);
        session
    }

    pub(crate) async fn store(&self) -> ConversationStore {
        ConversationStore::open(self.home().join("state.db")).await.unwrap()
    }

    /// Returns what the model said in a session, in order.
    pub(crate) async fn messages(&self, session: &str) -> Vec<String> {
        let store = self.store().await;
        let id: ConversationId = session.parse().unwrap();
        let messages = store.messages(&id).await.unwrap();
        let reply = messages.into_iter().filter_map(|stored| match stored.message {
            Message::Assistant(reply) if !reply.text.is_empty() => Some(reply.text),
            _ => None,
        });
        let reply = reply.collect();
        store.close().await.unwrap();
        reply
    }

    pub(crate) async fn until_message(&self, session: &str, words: &str) {
        let what = format!("the model said {words:?}");
        until_async(&what, || async {
            self.messages(session).await.last().is_some_and(|reply| reply == words)
        })
        .await;
    }

    /// Waits until no conversation has anything left to do.
    pub(crate) async fn until_settled(&self) {
        until_async("nothing is left to do", || async {
            let store = self.store().await;
            let left = store.with_state("gateway").await.unwrap();
            store.close().await.unwrap();
            left.is_empty()
        })
        .await;
    }
}

/// Returns a client; the gateway is another process, so that nobody else chooses who does its TLS.
pub(crate) fn client() -> reqwest::Client {
    // Another test of this process may be first.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::new()
}

/// Returns the settings of a gateway with an API server on a port.
pub(crate) fn settings_of(model: &ScriptedModel, port: u16) -> Vec<String> {
    vec![
        "terminal.backend=local".to_owned(),
        "kanban.dispatch_in_gateway=false".to_owned(),
        "agent.api_max_retries=0".to_owned(),
        "approvals.mode=off".to_owned(),
        format!("model.base_url={}", model.base_url()),
        "model.default=m".to_owned(),
        "api_server.enabled=true".to_owned(),
        format!("api_server.port={port}"),
        format!("api_server.key={KEY}"),
    ]
}

fn settings(home: &Path, file: &Path) -> Settings {
    let schema = vestal_api::schema();
    let set = std::fs::read_to_string(file).unwrap();
    let set = set.lines().map(|line| Override::parse(&schema, line).unwrap()).collect();
    Settings::load(&schema, Home::at(home), Environment::default(), set)
}

impl Drop for GatewayFixture {
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
