//! `vestal migrate` on homes that hermes-agent itself made, of several versions. `scripts/test` installs
//! them beside the other clients and names the directory by `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::TestHome;
use vestal_testkit::programs::{ProgramOutcome, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_vestal");
const SECRET: &str = "sk-migrated-0123456789abcdefghij";

/// Where the clients are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it is no setting: scripts/test tells it to tests")]
fn clients() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

/// A home of one version, and what its maker says is in it.
struct MadeHome {
    root: TestHome,
    made: Value,
}

impl MadeHome {
    fn of(version: &str) -> Self {
        let root = TestHome::create();
        let python = clients().join(format!("hermes-{version}/bin/python"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lib/hermes-home.py");
        let mut maker = Command::new(python);
        maker
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", root.user())
            .arg(script)
            .arg(root.user().join(".hermes"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let made = run(&mut maker).exits(0);
        let made = serde_json::from_str(made.text().lines().last().unwrap()).unwrap();
        Self { root, made }
    }

    fn vestal(&self, args: &[&str], more: &[(&str, &str)]) -> ProgramOutcome {
        let mut command = self.root.command(PROGRAM);
        command
            .args(args)
            .envs(more.iter().copied())
            .env("TERMINAL_ENV", "local")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let outcome = run(&mut command);
        let printed = format!("{}{}", String::from_utf8_lossy(&outcome.stdout), outcome.stderr);
        assert!(!printed.contains(SECRET), "a secret was printed");
        outcome
    }

    fn json(&self, args: &[&str]) -> Value {
        self.vestal(args, &[]).exits(0).json()
    }

    fn text(&self, args: &[&str]) -> String {
        self.vestal(args, &[]).exits(0).text()
    }
}

/// Returns one field of each object of a list, sorted.
fn all(list: &Value, field: &str) -> Vec<String> {
    let values = list.as_array().unwrap().iter();
    let mut values: Vec<String> =
        values.map(|own| own[field].as_str().unwrap_or_default().to_owned()).collect();
    values.sort();
    values
}

fn comes_over_whole(version: &str) {
    let home = MadeHome::of(version);
    let plan = home.json(&["migrate", "--dry-run", "--json"]);
    assert!(!home.root.vestal().exists(), "a plan makes nothing");
    let broken = plan["items"].as_array().unwrap().iter().filter(|own| own["action"] == "broken");
    assert_eq!(broken.collect::<Vec<_>>(), Vec::<&Value>::new());
    let done = home.json(&["migrate", "-y", "--json"]);
    assert_eq!(done["failed"], json!(0), "{done:#}");

    for (key, value) in [
        ("model.default", "scripted"),
        ("model.base_url", "http://127.0.0.1:9/v1"),
        ("terminal.timeout", "240"),
        ("terminal.docker_image", "debian:stable-slim"),
        ("agent.max_turns", "33"),
        ("compression.threshold", "0.7"),
        ("kanban.failure_limit", "4"),
    ] {
        assert_eq!(home.text(&["config", "get", key]).trim(), value, "{key}");
    }
    let env = fs::read_to_string(home.root.vestal().join(".env")).unwrap();
    assert!(env.contains(SECRET), "the key is there, and was never printed");
    home.vestal(&["config", "check"], &[]).exits(0);
    assert_eq!(all(&home.json(&["profile", "list", "--json"]), "name"), ["default", "research"]);
    let notes = home.json(&["memory", "--json"]);
    assert_eq!(
        notes[0]["entries"],
        json!(["The tests need a running database.", "Deployments happen on Tuesdays."])
    );
    assert_eq!(notes[1]["entries"], json!(["Likes short answers."]));
    assert!(home.text(&["skills", "list"]).contains("restart-lamp"));
    let lamp = home.root.vestal().join("skills/restart-lamp/lamp.sh");
    assert_eq!(fs::read_to_string(lamp).unwrap(), "#!/bin/sh\necho lit\n");
    let soul = home.root.vestal().join("SOUL.md");
    assert_eq!(fs::read_to_string(soul).unwrap(), "You are the keeper of the lighthouse.\n");

    let listed = all(&home.json(&["conversations", "list", "--json"]), "id");
    for id in ["20260301_080000_aa11bb", "20260301_090000_cc22dd", "20260302_100000_ee33ff"] {
        assert!(listed.contains(&id.to_owned()), "{listed:?}");
    }
    assert!(home.text(&["conversations", "search", "lumens"]).contains("aa11bb"));
    assert!(home.text(&["conversations", "search", "foghorn"]).contains("ee33ff"));
    let elsewhere = home.text(&["-p", "research", "conversations", "search", "almanac"]);
    assert!(elsewhere.contains("20260304_120000_bb55cc"), "{elsewhere}");
    let shown = home.text(&["conversations", "show", "20260301_080000_aa11bb"]);
    assert!(shown.contains("Lighthouse keeping") && shown.contains("Eighty thousand."), "{shown}");
    if version == "0.19.0" {
        // What was compacted there is found, and the model sees what replaced it.
        assert!(home.text(&["conversations", "search", "noon"]).contains("ff44aa"));
    }

    let tasks = home.json(&["kanban", "list", "--json"]);
    let status = |title: &str| {
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.find(|own| own["title"] == title).unwrap()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("Clean the lens"), "ready");
    assert_eq!(status("Light the lamp"), "todo");
    assert_eq!(status("Buy vinegar"), "done");
    assert_eq!(status("Ask the harbour master"), "blocked");
    assert_eq!(status("Paint the tower"), "blocked", "its worker is another program's");
    assert_eq!(status("Something about gulls"), "triage");
    let parent = home.made["tasks"]["parent"].as_str().unwrap();
    let shown = home.text(&["kanban", "show", parent]);
    for words in ["With vinegar.", "Use the soft cloth.", "plan.txt"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let done = home.text(&["kanban", "show", home.made["tasks"]["done"].as_str().unwrap()]);
    assert!(done.contains("Two litres of vinegar"), "{done}");
    let blocked = home.text(&["kanban", "show", home.made["tasks"]["blocked"].as_str().unwrap()]);
    assert!(blocked.contains("he is away"), "{blocked}");
    let harbour = home.text(&["kanban", "--board", "harbour", "list"]);
    assert!(harbour.contains("Mend the jetty"), "{harbour}");

    let schedules = home.json(&["cron", "list", "--json"]);
    assert_eq!(all(&schedules, "name"), ["lamp check", "morning weather", "stairs"]);
    let paused = schedules.as_array().unwrap().iter().find(|own| own["name"] == "stairs");
    assert_eq!(paused.unwrap()["state"], "paused");

    let again = home.json(&["migrate", "-y", "--json"]);
    assert_eq!(again["counts"].get("take"), None, "{again:#}");
    assert_eq!(again["counts"].get("update"), None, "{again:#}");
    assert_eq!(home.json(&["kanban", "list", "--json"]), tasks);

    let script = Script::replies([ScriptedReply::text("As I said.")]).strict();
    let model = ScriptedModel::start(script);
    let url = model.base_url();
    let ask = ["chat", "--resume", "Lighthouse keeping", "-q", "How many?"];
    let answer = home.vestal(&ask, &[("VESTAL_BASE_URL", &url)]).exits(0);
    assert!(answer.text().contains("As I said."), "{answer:?}");
    let asked = model.requests().last().unwrap().body.to_string();
    for words in ["fresnel", "eighty thousand", "And this picture?"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    home.vestal(&["rm", "-y", "--files", "default"], &[]);
}

#[test]
fn a_home_of_0_16_comes_over_whole() {
    comes_over_whole("0.16.0");
}

#[test]
fn a_home_of_0_19_comes_over_whole() {
    comes_over_whole("0.19.0");
}

#[test]
fn what_cannot_be_read_is_named_the_rest_comes_and_the_exit_code_says_so() {
    let root = TestHome::create();
    let there = root.user().join(".hermes");
    fs::create_dir_all(&there).unwrap();
    fs::write(there.join("config.yaml"), "model: {broken").unwrap();
    fs::write(there.join("SOUL.md"), "You keep a lighthouse.\n").unwrap();
    let vestal = |args: &[&str]| {
        let mut command = root.command(PROGRAM);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        run(&mut command)
    };
    // The table alone has done nothing that could fail.
    vestal(&["migrate", "--dry-run"]).exits(0);
    let done = vestal(&["migrate", "-y", "--json"]).exits(1).json();
    let of = |action: &str| -> Vec<String> {
        let items = done["items"].as_array().unwrap().iter();
        let meant = items.filter(|item| item["action"] == action);
        meant.map(|item| item["from"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("broken"), ["config.yaml"]);
    assert_eq!(of("take"), ["SOUL.md"]);
    let soul = fs::read_to_string(root.vestal().join("SOUL.md")).unwrap();
    assert_eq!(soul, "You keep a lighthouse.\n");
}
