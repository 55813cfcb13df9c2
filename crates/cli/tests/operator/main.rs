//! An operator with the program as it is: a supervisor, the gateways of three profiles of which one is
//! broken, the dashboard in its slot, and a browser. `scripts/test` installs what drives the browser and
//! names it by `VESTAL_TEST_BROWSER`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::programs::{ProgramOutcome, run};
use vestal_testkit::{TestHome, is_alive, kill, wait_until};

const KEY: &str = "5d41402abc4b2a76b9719d911017c592";

/// Where the packages are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it is no setting: scripts/test tells it to tests")]
fn packages() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_BROWSER");
    PathBuf::from(dir.expect("VESTAL_TEST_BROWSER is not set; scripts/test installs the browser"))
}

/// Where pictures of the pages are kept, if somebody wants them.
#[expect(clippy::disallowed_methods, reason = "a switch of the test is not a setting")]
fn pictures() -> Option<std::ffi::OsString> {
    std::env::var_os("VESTAL_TEST_PICTURES")
}

/// A home with the profiles `default`, which serves the API, `work`, and `broken`, whose state is
/// nothing that can be read.
struct Operator {
    home: TestHome,
    _model: ScriptedModel,
    port: u16,
}

impl Operator {
    fn new() -> Self {
        let home = TestHome::create();
        let dangerous = json!({ "command": "rm -rf ./precious" });
        let write = json!({ "command": "echo one > note.txt; printf '<b>two</b>\\n' >> note.txt" });
        let submit = json!({ "summary": "It is written." });
        let model = ScriptedModel::start(Script::rules([
            ReplyRule::when_user_contains("Write a note")
                .reply(ScriptedReply::tool_call("terminal", write)),
            ReplyRule::when_user_contains("Write a note")
                .after_tool_results(1)
                .reply(ScriptedReply::tool_call("kanban_submit", submit)),
            ReplyRule::when_user_contains("remove")
                .reply(ScriptedReply::tool_call("terminal", dangerous.clone())),
            // A gateway that was killed over the question asks the model again.
            ReplyRule::when_user_contains("ended unexpectedly")
                .reply(ScriptedReply::tool_call("terminal", dangerous)),
            ReplyRule::after_tool_results(1).reply(ScriptedReply::text("so be it")),
        ]));
        // It is free, and taken by nothing else as long as the kernel hands out others first.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        home.write_config(&format!(
            "model: {{default: m, base_url: '{}'}}\nterminal: {{backend: local}}\n\
             approvals: {{timeout: 600}}\n\
             api_server: {{enabled: true, port: {port}}}\n",
            model.base_url()
        ));
        std::fs::write(home.vestal().join(".env"), format!("API_SERVER_KEY={KEY}\n")).unwrap();
        let operator = Self { home, _model: model, port };
        operator.vestal(["profile", "create", "work"]).exits(0);
        operator.vestal(["profile", "create", "broken"]).exits(0);
        let broken = operator.home.vestal().join("profiles/broken/gateway_state.json");
        std::fs::write(broken, b"\xff\xfe not a state").unwrap();
        operator
    }

    fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_vestal"));
        // The slot of the dashboard takes any free port.
        command.args(args).env("VESTAL_DASHBOARD_PORT", "0");
        command
    }

    fn vestal<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> ProgramOutcome {
        run(&mut self.command(args))
    }

    /// Returns what is known of the gateway of a profile.
    fn gateway(&self, profile: &str) -> Value {
        // Its exit code is about all of them.
        let status = self.vestal(["gateway", "status", "--all", "--json"]).json();
        let all = status["gateways"].as_array().unwrap();
        all.iter().find(|one| one["profile"] == profile).unwrap().clone()
    }

    fn pid(&self, profile: &str) -> u32 {
        self.gateway(profile)["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// Node with the story, in a browser whose files go with the home.
    fn browser(&self, base: &str) -> Command {
        let own = |name: &str| {
            let dir = self.home.beside(name);
            std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
            dir
        };
        let mut command = Command::new("node");
        command
            .env("XDG_RUNTIME_DIR", own("runtime"))
            .env("TMPDIR", own("browser"))
            .env("GSETTINGS_BACKEND", "memory")
            .env("PACKAGES", packages())
            .env("BASE", base)
            .env("API", format!("http://127.0.0.1:{}", self.port))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operator/operator.mjs"))
            .current_dir(self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(dir) = pictures() {
            command.env("PICTURES", dir);
        }
        command
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.vestal(["supervise", "--stop"]);
        let sandboxes = self.vestal(["ps", "--json"]);
        if let Ok(Value::Array(sandboxes)) = serde_json::from_slice(&sandboxes.stdout) {
            for sandbox in sandboxes {
                let task = sandbox["task"].as_str().unwrap_or_default();
                self.vestal(["rm", "-y", "--files", task]);
            }
        }
    }
}

/// What runs of the API ask is answered on the first page as it is asked, also after their gateway was
/// killed over the question; what a worker has made in its sandbox is reviewed; the broken profile is said to be so, and keeps nothing else from working.
#[test]
fn an_operator_answers_runs_of_the_api_in_the_browser_while_gateways_come_and_go() {
    let operator = Operator::new();
    operator.vestal(["gateway", "start", "--dashboard"]).exits(0);
    operator.vestal(["gateway", "start"]).exits(0);
    operator.vestal(["-p", "work", "gateway", "start"]).exits(0);
    let link = operator.vestal(["dashboard", "link", "--json"]).exits(0).json();
    let (base, token) = link["url"].as_str().unwrap().split_once("/login#").unwrap();
    let mut child = operator.browser(base).spawn().expect("node is not installed");
    let mut stdin = child.stdin.take().unwrap();
    let mut say = |line: &str| stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    // By standard input: everybody can read arguments and variables of a process.
    say(token);
    say(KEY);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines {
        match line.unwrap().as_str() {
            "kill the gateway" => {
                let pid = operator.pid("default");
                kill(pid);
                wait_until("the gateway is gone", || !is_alive(pid));
                say("done");
            }
            "make a task" => {
                let create = ["kanban", "create", "Write a note", "--assignee", "default"];
                operator.vestal(create).exits(0);
                say("done");
            }
            "look at the gateway of work" => {
                assert_eq!(operator.gateway("work")["state"], "stopped");
                say("done");
            }
            other => println!("{other}"),
        }
    }
    let status = child.wait().unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(status.success(), "{errors}");
}
