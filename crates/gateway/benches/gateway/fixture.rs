//! A home with an API server, a scripted model, and a client of both.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vestal_bench::Result;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::TestHome;

/// A question whose answer runs a tool that does not end by itself.
pub(crate) const WORK: &str = "work without end";

/// A question whose answer comes in many pieces.
pub(crate) const TALK: &str = "talk in pieces";

/// The command of that tool; no other process on the machine has this command line.
pub(crate) const ENDLESS: &str = "sleep 86399";

/// Longest that anything may take.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

const KEY: &str = "0b3e1c9ad0f64b7d8a5e2f1c7d9b4a60";

pub(crate) struct GatewayBench {
    home: TestHome,
    pub(crate) model: ScriptedModel,
    program: PathBuf,
    port: u16,
    pub(crate) client: reqwest::Client,
}

impl GatewayBench {
    pub(crate) fn new(program: PathBuf) -> Result<Self> {
        let home = TestHome::create();
        let endless = ScriptedReply::tool_call("terminal", json!({ "command": ENDLESS }));
        let talk = ScriptedReply::text("one more piece. ".repeat(50)).chunked(16);
        let script = Script::rules([
            ReplyRule::when_user_contains(WORK).reply(endless),
            ReplyRule::when_user_contains(TALK).reply(talk.paced(Duration::from_millis(20))),
        ]);
        let model = ScriptedModel::start(script.or_echo().forget_bodies());
        // The port is free, and nothing else takes ports during the benchmark.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // The program chooses the TLS provider; this process has to choose one itself.
        drop(rustls::crypto::ring::default_provider().install_default());
        let bench = Self { home, model, program, port, client: reqwest::Client::new() };
        bench.home.write_config(&bench.config(true));
        std::fs::write(bench.home().join(".env"), format!("API_SERVER_KEY={KEY}\n"))?;
        Ok(bench)
    }

    /// Returns the settings of a profile, with or without an API server.
    pub(crate) fn config(&self, is_served: bool) -> String {
        let (url, port) = (self.model.base_url(), self.port);
        format!(
            "model: {{default: m, base_url: '{url}', context_length: 1000000}}\n\
             terminal: {{backend: local}}\n\
             api_server: {{enabled: {is_served}, port: {port}, max_concurrent_runs: 400}}\n"
        )
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.vestal()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(&self.program);
        command.args(args);
        command
    }

    /// Runs the program to its end. It must succeed.
    pub(crate) fn vestal(&self, args: &[&str]) -> Result<Output> {
        let output = self.command(args).output()?;
        if output.status.success() {
            return Ok(output);
        }
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("vestal {} failed: {stderr}", args.join(" ")).into())
    }

    /// Starts a gateway without a supervisor and waits until it is healthy.
    pub(crate) async fn serve(&self) -> Result<(Child, Duration)> {
        let mut command = self.command(&["gateway", "run"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn()?;
        self.healthy().await?;
        Ok((child, start.elapsed()))
    }

    /// Waits until the API answers.
    pub(crate) async fn healthy(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/health", self.port);
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let answer = self.client.get(&url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Err("the gateway did not become healthy".into())
    }

    fn ask(&self, url: &str, question: &str, stream: bool) -> reqwest::RequestBuilder {
        let body = json!({
            "model": "m",
            "stream": stream,
            "messages": [{ "role": "user", "content": question }],
        });
        self.client
            .post(format!("{url}/chat/completions"))
            .bearer_auth(KEY)
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    pub(crate) fn ask_gateway(&self, question: &str, stream: bool) -> reqwest::RequestBuilder {
        self.ask(&format!("http://127.0.0.1:{}/v1", self.port), question, stream)
    }

    /// Asks the model itself.
    pub(crate) fn ask_model(&self, question: &str, stream: bool) -> reqwest::RequestBuilder {
        self.ask(&self.model.base_url(), question, stream)
    }

    /// Returns the process of the gateway that serves the home.
    pub(crate) fn gateway_pid(&self) -> Result<u32> {
        let text = std::fs::read_to_string(self.home().join("gateway_state.json"))?;
        let state: Value = serde_json::from_str(&text)?;
        let pid = state["pid"].as_u64().ok_or("no pid in the state")?;
        Ok(u32::try_from(pid)?)
    }

    /// Removes the sandbox.
    pub(crate) fn close(self) -> Result<()> {
        self.vestal(&["rm", "-y", "--files", "default"]).map(|_| ())
    }
}

/// Reads an answer to its end. It must be successful.
pub(crate) async fn complete(request: reqwest::RequestBuilder) -> Result<()> {
    let response = request.send().await?;
    let status = response.status();
    let text = response.text().await?;
    if status.is_success() { Ok(()) } else { Err(format!("{status}: {text}").into()) }
}
