//! Schedules as a person meets them. When something is due, and who runs it, is tested elsewhere.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

use crate::support::{ProgramFixture, ProgramOutcome, RunningProgram, finish};

/// A fixture with a model, in which it is always UTC.
struct Crontab {
    fixture: ProgramFixture,
    model: ScriptedModel,
}

impl Crontab {
    fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self {
            fixture: ProgramFixture::new(),
            model: ScriptedModel::start(Script::replies(replies)),
        }
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.fixture.command(words);
        command.envs([
            ("TZ", "UTC"),
            ("VESTAL_MODEL", "m"),
            ("VESTAL_BASE_URL", self.model.base_url().as_str()),
            ("VESTAL_API_MAX_RETRIES", "0"),
            ("VESTAL_KANBAN_DISPATCH_IN_GATEWAY", "false"),
        ]);
        command
    }

    fn vestal(&self, words: &[&str]) -> ProgramOutcome {
        finish(self.command(words).spawn().unwrap())
    }

    /// Makes a schedule and returns its id.
    fn create(&self, words: &[&str]) -> String {
        let made = self.vestal(&[&["cron", "create"], words].concat()).exits(0);
        made.text().trim().to_owned()
    }

    /// Returns what is printed, with a name for the id.
    fn shown(&self, words: &[&str], id: &str) -> String {
        let outcome = self.vestal(words);
        format!("{}{}", outcome.text(), outcome.stderr).replace(id, "[id]")
    }

    fn runs(&self) -> Vec<Value> {
        self.vestal(&["cron", "runs", "--json"]).exits(0).json().as_array().unwrap().clone()
    }

    /// Starts a gateway and waits until it runs schedules.
    fn gateway(&self) -> RunningProgram {
        let gateway = RunningProgram::start(self.command(&["gateway", "run"]));
        vestal_testkit::wait_until("the gateway runs schedules", || {
            self.vestal(&["cron", "status", "--json"]).json()["runner"]["is_running"] == true
        });
        gateway
    }
}

#[test]
fn what_people_read_of_schedules() {
    let crontab = Crontab::new([]);
    assert_eq!(
        crontab.vestal(&["cron", "list"]).exits(0).stderr,
        "note: no schedules; `vestal cron create --help` says how to make one\n"
    );
    // Looking made no file.
    assert!(!crontab.fixture.home().join("cron").exists());
    let words = ["at 2099-12-24T18:00", "say merry christmas", "--tz", "Europe/Berlin"];
    let made = crontab.vestal(&[&["cron", "create"], &words[..]].concat()).exits(0);
    let id = made.text().trim().to_owned();
    insta::assert_snapshot!("created", made.stderr);
    insta::assert_snapshot!(
        "wrong",
        crontab.vestal(&["cron", "create", "every day at 9am", "x"]).exits(2).stderr
    );
    insta::assert_snapshot!("status", crontab.shown(&["cron", "status"], &id));
    let shown = crontab.shown(&["cron", "show", &id[..6]], &id);
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("created")).collect();
    insta::assert_snapshot!("shown", shown.join("\n"));
    let listed = crontab.shown(&["cron", "list"], &id);
    assert!(listed.contains("[id]") && listed.contains("at 2099-12-24T18:00"), "{listed}");
}

#[test]
fn what_nobody_took_is_overdue_and_says_why() {
    let crontab = Crontab::new([]);
    let id = crontab.create(&["0 9 * * *", "look"]);
    let file = crontab.fixture.home().join("cron/schedules.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let past = "UPDATE schedules SET next_at = next_at - 3 * 86400000";
    runtime.block_on(vestal_testkit::sqlite::execute(&file, past));
    let shown = crontab.vestal(&["cron", "show", &id, "--json"]).exits(0).json();
    assert_eq!(shown["overdue"], true, "{shown}");
    for words in [&["cron", "list"][..], &["cron", "show", &id], &["cron", "status"]] {
        let outcome = crontab.vestal(words);
        let text = format!("{}{}", outcome.text(), outcome.stderr);
        assert!(text.contains("overdue") && text.contains("vestal gateway start"), "{text}");
    }
}

#[test]
fn a_schedule_is_changed_paused_resumed_and_removed() {
    let crontab = Crontab::new([]);
    let id = crontab.create(&["0 9 * * *", "look", "--name", "logs"]);
    crontab.vestal(&["cron", "pause", "logs"]).exits(0);
    let paused = crontab.vestal(&["cron", "show", &id, "--json"]).exits(0).json();
    assert_eq!((&paused["state"], &paused["next_run_at"]), (&"paused".into(), &Value::Null));
    crontab.vestal(&["cron", "resume", "logs"]).exits(0);
    crontab.vestal(&["cron", "edit", &id]).exits(2);
    let change = ["cron", "edit", &id, "--schedule", "every 2h", "-m", "other", "--json"];
    let changed = crontab.vestal(&change).exits(0).json();
    assert_eq!((&changed["schedule"], &changed["model"]), (&"every 2h".into(), &"other".into()));
    let back = crontab.vestal(&["cron", "edit", &id, "-m", "", "--json"]).exits(0).json();
    assert_eq!((&back["model"], &back["name"]), (&Value::Null, &"logs".into()));
    let unknown = crontab.vestal(&["cron", "show", "nope"]).exits(1);
    assert!(unknown.stderr.contains("`vestal cron list` lists them"), "{unknown:?}");
    for words in [
        ["cron", "edit", &id, "--skill", "nope"],
        ["cron", "create", "every 1h", "x", "--skill=nope"],
    ]
    .iter()
    .map(|words| &words[..])
    {
        let refused = crontab.vestal(words).exits(1);
        assert!(refused.stderr.contains("there is no skill \"nope\""), "{refused:?}");
    }
    let target = ["cron", "edit", &id, "--deliver", "conversation:nope"];
    assert!(crontab.vestal(&target).exits(1).stderr.contains("no conversation"));
    // Nothing goes unasked, and a mistyped name removes nothing.
    assert!(crontab.vestal(&["cron", "remove", &id]).exits(2).stderr.contains("use -y"));
    crontab.vestal(&["cron", "rm", "-y", &id, "nope"]).exits(1);
    let values = crontab.vestal(&["completions", "--values", "schedules"]).exits(0).text();
    assert_eq!(values.trim(), id);
    crontab.vestal(&["cron", "rm", "-y", &id]).exits(0);
    assert_eq!(crontab.vestal(&["cron", "list", "--json"]).exits(0).json(), serde_json::json!([]));
}

#[test]
fn a_run_by_hand_shows_what_the_agent_says_and_has_a_true_exit_code() {
    let crontab =
        Crontab::new([ScriptedReply::text("all is quiet"), ScriptedReply::error(500, "broken")]);
    let id = crontab.create(&["0 9 * * *", "look at the logs"]);
    let run = crontab.vestal(&["cron", "run", &id]).exits(0);
    assert_eq!(run.text(), "all is quiet\n");
    let failed = crontab.vestal(&["cron", "run", &id]).exits(1);
    assert!(failed.stderr.contains("error:"), "{failed:?}");
    assert_eq!(failed.text(), "");
    let runs = crontab.runs();
    let kept: Vec<_> =
        runs.iter().map(|run| (&run["status"], &run["trigger"], &run["output"])).collect();
    let manual = &Value::from("manual");
    assert_eq!(
        kept,
        [
            (&"failed".into(), manual, &"".into()),
            (&"succeeded".into(), manual, &"all is quiet".into())
        ]
    );
    let output = crontab.vestal(&["cron", "runs", &id, "--output"]).exits(0).text();
    assert!(output.contains("all is quiet") && output.contains(", by hand"), "{output}");
    let table = crontab.vestal(&["cron", "runs", &id]).exits(0).text();
    assert_eq!(table.matches(" manual ").count(), 2, "{table}");
    // A failure is reported until it succeeds.
    let status = crontab.vestal(&["cron", "status", "--json"]).exits(1).json();
    assert_eq!(status["trouble"][0]["id"], runs[0]["id"]);
    let nobody = crontab.vestal(&["cron", "run", &id, "--background"]).exits(1);
    assert!(nobody.stderr.contains("vestal gateway start"), "{nobody:?}");
}

#[test]
fn a_gateway_runs_what_is_asked_of_it_and_one_that_is_killed_loses_a_run_and_repeats_none() {
    let replies = [
        ScriptedReply::text("done"),
        ScriptedReply::text("never").hold_after(0),
        ScriptedReply::text("again"),
    ];
    let crontab = Crontab::new(replies);
    let id = crontab.create(&["0 9 1 1 *", "look"]);
    let gateway = crontab.gateway();
    // Nothing is to be warned of any more.
    let quiet = crontab.vestal(&["cron", "resume", &id]).exits(0);
    assert_eq!(quiet.stderr, "");
    crontab.vestal(&["cron", "run", &id, "--background"]).exits(0);
    let last = |status: &str| crontab.runs().first().is_some_and(|run| run["status"] == status);
    vestal_testkit::wait_until("the run has ended", || last("succeeded"));
    crontab.vestal(&["cron", "run", &id, "--background"]).exits(0);
    vestal_testkit::wait_until("the model is asked", || crontab.model.requests().len() == 2);
    let twice = crontab.vestal(&["cron", "run", &id]).exits(1);
    assert!(twice.stderr.contains("never runs twice at once"), "{twice:?}");
    gateway.signal(Signal::KILL);
    gateway.end();
    let gateway = crontab.gateway();
    vestal_testkit::wait_until("the run is lost", || last("lost"));
    assert_eq!(crontab.runs().len(), 2);
    crontab.vestal(&["cron", "status"]).exits(1);
    crontab.vestal(&["cron", "run", &id, "--background"]).exits(0);
    vestal_testkit::wait_until("another run has ended", || last("succeeded"));
    let state = fs::read_to_string(crontab.fixture.home().join("gateway_state.json")).unwrap();
    assert!(state.contains("\"schedules\""), "{state}");
    gateway.signal(Signal::INT);
    assert_eq!(gateway.end().0, 0);
    crontab.vestal(&["cron", "status"]).exits(1);
}
