//! Logging in at a server made with the official SDK for TypeScript, at an authorization server that
//! others made (`oidc-provider`). `scripts/test` installs both and names them by
//! `VESTAL_TEST_CLIENTS` and `VESTAL_TEST_BROWSER`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Url};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use vestal_agent::{ConversationSandbox, ToolContext, ToolSource as _};
use vestal_config::{Environment, Home, Settings};
use vestal_mcp::{
    LoginError, McpServer, McpServerName, PendingLogin, Servers, forget_login, is_logged_in, keys,
};
use vestal_sandbox::{Engine, Overrides, TaskName};

/// Returns where packages of other people are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it comes from scripts/test and is not a setting")]
fn packages(variable: &str, below: &str) -> PathBuf {
    let dir = std::env::var_os(variable);
    let why = format!("{variable} is not set; scripts/test installs what it names");
    PathBuf::from(dir.expect(&why)).join(below)
}

/// A program of the tests, which ends with its standard input.
struct Script {
    _child: Child,
    stdin: ChildStdin,
    /// What it printed first.
    line: String,
    /// Kept open: what it prints later must have somewhere to go.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Script {
    async fn start(name: &str, packages: PathBuf, variables: &[(&str, &str)]) -> Self {
        let script = format!("{}/tests/oauth/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("node")
            .arg(script)
            .env("PACKAGES", packages)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("it has begun");
        Self { _child: child, stdin, line, _lines: lines }
    }
}

/// A guarded server, an authorization server, and a home whose settings name the former.
struct Guarded {
    home: TempDir,
    _server: Script,
    authorization: Script,
}

impl Guarded {
    async fn start(variables: &[(&str, &str)]) -> Self {
        let node = packages("VESTAL_TEST_CLIENTS", "node");
        let mut server = Script::start("server.mjs", node, &[]).await;
        let mut all = vec![("RESOURCE", server.line.as_str())];
        all.extend(variables);
        let packages = packages("VESTAL_TEST_BROWSER", "");
        let authorization = Script::start("authorization.mjs", packages, &all).await;
        let issuer = format!("{}\n", authorization.line);
        server.stdin.write_all(issuer.as_bytes()).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let config = format!("mcp_servers:\n  work: {{url: {:?}}}\n", server.line);
        std::fs::write(home.path().join("config.yaml"), config).unwrap();
        Self { home, _server: server, authorization }
    }

    fn settings(&self) -> Settings {
        let environment = Environment::from_pairs([
            ("HOME", self.home.path().as_os_str()),
            ("VESTAL_MCP_DISCOVERY_TIMEOUT", "60".as_ref()),
        ]);
        let schema = vestal_agent::schema().with([&vestal_mcp::keys::GROUP]);
        Settings::load(&schema, Home::at(self.home.path()), environment, Vec::new())
    }

    fn server(&self) -> McpServer {
        self.settings().get(&keys::MCP_SERVERS).unwrap().value.get(&name()).unwrap().clone()
    }

    async fn begin(&self) -> PendingLogin {
        PendingLogin::begin(&self.settings(), &name(), &self.server()).await.unwrap()
    }

    /// Logs in as a person with a browser on this machine does.
    async fn log_in(&self) {
        let pending = self.begin().await;
        let url = pending.url().to_owned();
        let (done, _) = tokio::join!(pending.finish(std::future::ready(None)), async {
            let back = browse(&url).await;
            Client::new().get(back).send().await.unwrap().text().await.unwrap()
        });
        done.unwrap();
    }

    /// Asks the server, as every process of the home does, who we are.
    async fn who(&self) -> Result<String, String> {
        let servers = Servers::from_settings(&self.settings());
        servers.settle().await;
        let status = servers.statuses().into_iter().next().unwrap();
        let tool = servers.tools().into_iter().next();
        let result = match tool {
            Some(tool) => {
                let engine = Engine::open(self.settings()).unwrap();
                let task = TaskName::default_task();
                let sandbox = ConversationSandbox::new(engine, task, Overrides::default(), "s");
                let context = ToolContext::new("20261115-103001-k3f9ab".parse().unwrap(), sandbox);
                Ok(tool.call(&context, serde_json::json!({})).await.content)
            }
            None => Err(status.error.unwrap_or_default()),
        };
        servers.close().await;
        result
    }

    async fn counts(&self) -> Value {
        let url = format!("{}/counts", self.authorization.line);
        let text = Client::new().get(url).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn token_file(&self) -> PathBuf {
        self.home.path().join("mcp-tokens/work.json")
    }
}

fn name() -> McpServerName {
    McpServerName::new("work").unwrap()
}

/// Goes where a browser goes, cookies and all, until it is sent back to this program, and returns the
/// address that it is sent to.
async fn browse(url: &str) -> Url {
    let client = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        // The server closes connections that nobody uses, also while somebody begins to.
        .pool_max_idle_per_host(0)
        .build()
        .unwrap();
    let mut url = Url::parse(url).unwrap();
    // By name and path, as the provider counts on.
    let mut cookies: BTreeMap<(String, String), String> = BTreeMap::new();
    for _ in 0..20 {
        let is_sent = |path: &str| url.path().starts_with(path);
        let sent = cookies.iter().filter(|((_, path), _)| is_sent(path));
        let sent: Vec<String> = sent.map(|((name, _), value)| format!("{name}={value}")).collect();
        let response =
            client.get(url.clone()).header(COOKIE, sent.join("; ")).send().await.unwrap();
        for cookie in response.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            let mut parts = cookie.split("; ");
            let (name, value) = parts.next().unwrap().split_once('=').unwrap();
            let path = parts.find_map(|part| part.strip_prefix("path=")).unwrap_or("/");
            let key = (name.to_owned(), path.to_owned());
            if cookie.contains("1970") {
                cookies.remove(&key);
            } else {
                cookies.insert(key, value.to_owned());
            }
        }
        let Some(location) = response.headers().get(LOCATION) else {
            panic!("{url}: {} {}", response.status(), response.text().await.unwrap());
        };
        url = url.join(location.to_str().unwrap()).unwrap();
        if url.path() == "/callback" {
            return url;
        }
    }
    panic!("sent around in circles")
}

fn provide_tls() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_logs_in_is_known_to_the_server_in_every_process_until_they_log_out() {
    provide_tls();
    let guarded = Guarded::start(&[]).await;
    let outside = guarded.who().await.unwrap_err();
    assert!(outside.contains("vestal mcp login work"), "{outside}");
    guarded.log_in().await;
    assert!(is_logged_in(&guarded.settings(), &name()));
    assert_eq!(guarded.who().await.unwrap(), "you are ann");
    assert_eq!(guarded.who().await.unwrap(), "you are ann");
    assert_eq!(guarded.counts().await, serde_json::json!({"registrations": 1, "refreshes": 0}));
    let mode = guarded.token_file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(forget_login(&guarded.settings(), &name()).unwrap());
    assert!(guarded.who().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_runs_out_is_renewed() {
    provide_tls();
    // Renewed 30 s before its end, so at once.
    let guarded = Guarded::start(&[("LIFETIME", "20")]).await;
    guarded.log_in().await;
    let before = std::fs::read_to_string(guarded.token_file()).unwrap();
    assert_eq!(guarded.who().await.unwrap(), "you are ann");
    assert_ne!(std::fs::read_to_string(guarded.token_file()).unwrap(), before);
    assert!(guarded.counts().await["refreshes"].as_u64().unwrap() >= 1);
    // What two processes do at once, they do one after the other.
    let (one, other) = tokio::join!(guarded.who(), guarded.who());
    assert_eq!((one.unwrap().as_str(), other.unwrap().as_str()), ("you are ann", "you are ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_machine_without_a_browser_the_address_is_pasted() {
    provide_tls();
    let guarded = Guarded::start(&[]).await;
    let pending = guarded.begin().await;
    let back = browse(pending.url()).await;
    let pasted = format!("  {back}\n");
    pending.finish(std::future::ready(Some(pasted))).await.unwrap();
    assert_eq!(guarded.who().await.unwrap(), "you are ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_login_is_refused_and_so_is_who_is_not_let_in() {
    provide_tls();
    let guarded = Guarded::start(&[]).await;
    let other = guarded.begin().await;
    let of_other = browse(other.url()).await;
    let pending = guarded.begin().await;
    let refused = pending.finish(std::future::ready(Some(of_other.to_string()))).await;
    assert!(matches!(refused, Err(LoginError::Failed(_))), "{refused:?}");
    assert!(!is_logged_in(&guarded.settings(), &name()));

    let denying = Guarded::start(&[("DENY", "1")]).await;
    let pending = denying.begin().await;
    let back = browse(pending.url()).await;
    let refused = pending.finish(std::future::ready(Some(back.to_string()))).await.unwrap_err();
    assert_eq!(refused.to_string(), "the login was refused: access_denied: not today");
}
