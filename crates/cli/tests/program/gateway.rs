//! Gateways as an operator meets them. What a gateway itself does is tested elsewhere.

use std::fs;

use rustix::process::Signal;
use vestal_testkit::wait_for;

use crate::support::{ProgramFixture, finish, is_alive};

#[test]
fn a_home_has_one_supervisor_which_says_who_it_is() {
    let fixture = ProgramFixture::new();
    let mut first = fixture.start(["supervise"]);
    assert!(first.error_line().contains("supervising"));
    let status = fixture.vestal(["gateway", "status", "--json"]).exits(1).json();
    assert_eq!(status["manager"]["kind"], "supervisor");
    let pid = status["manager"]["pid"].to_string();
    let shown = fixture.vestal(["gateway", "status"]).exits(1);
    assert!(
        shown.text().starts_with(&format!("Manager: vestal supervise (pid {pid})\n")),
        "{shown:?}"
    );
    assert!(shown.stderr.contains("to start it: vestal gateway start"), "{shown:?}");
    let second = fixture.vestal(["supervise"]).exits(1);
    assert!(
        second.stderr.contains(&format!("supervised already by process {pid} on ")),
        "{second:?}"
    );
    assert!(is_alive(&pid));
    // A profile that is made has a slot, without a word to the supervisor.
    fixture.vestal(["profile", "create", "work"]).exits(0);
    fixture.vestal(["-p", "work", "gateway", "stop"]).exits(0);
    let listed = fixture.vestal(["gateway", "list"]).exits(0).text();
    assert!(listed.contains("default") && listed.contains("work"), "{listed}");
    fixture.vestal(["profile", "delete", "-y", "work"]).exits(0);
    fixture.vestal(["-p", "work", "gateway", "stop"]).exits(1);
    first.signal(Signal::TERM);
    assert_eq!(first.end().0, 0);
    assert!(!is_alive(&pid));
    let log = fs::read_to_string(fixture.home().join("logs/container-boot.log")).unwrap();
    let decisions: Vec<&str> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        decisions,
        [
            "service=dashboard prior_state=missing action=registered",
            "profile=default prior_state=missing action=registered",
            "profile=work prior_state=missing action=registered",
        ]
    );
}

#[test]
fn a_start_without_a_supervisor_starts_one_that_outlives_it() {
    let fixture = ProgramFixture::new();
    // Whether the gateway itself comes up is not the matter here.
    fixture.vestal(["gateway", "start"]);
    let status = fixture.vestal(["gateway", "status", "--json"]).json();
    assert_eq!(status["manager"]["kind"], "supervisor");
    let pid = status["manager"]["pid"].to_string();
    assert!(is_alive(&pid));
    // Another start uses the same one.
    fixture.vestal(["gateway", "start"]);
    let again = fixture.vestal(["gateway", "status", "--json"]).json();
    assert_eq!(again["manager"]["pid"].to_string(), pid);
    fixture.vestal(["gateway", "stop", "--all"]).exits(0);
    fixture.vestal(["supervise", "--stop"]).exits(0);
    assert!(!is_alive(&pid));
    let none = fixture.vestal(["gateway", "status"]).exits(1).text();
    assert!(none.starts_with("Manager: none\n"), "{none}");
    fixture.vestal(["supervise", "--stop"]).exits(1);
}

#[test]
fn a_stop_without_a_supervisor_keeps_the_gateway_down() {
    let fixture = ProgramFixture::new();
    let stopped = fixture.vestal(["gateway", "stop"]).exits(0).text();
    assert_eq!(stopped, "gateway default was not running\n");
    let desired = fs::read_to_string(fixture.home().join("gateway_desired.json")).unwrap();
    assert!(desired.contains("\"desired\":\"stopped\""), "{desired}");
    let mut inside = fixture.command(["gateway", "stop"]);
    inside.env("VESTAL_SUPERVISED_RUN", "1");
    let refused = finish(inside.spawn().unwrap()).exits(1);
    assert!(refused.stderr.contains("this command runs inside a gateway"), "{refused:?}");
}

#[test]
fn a_turn_cannot_stop_the_gateway_that_runs_it() {
    let fixture = ProgramFixture::new();
    for verb in ["gateway stop", "gateway restart", "gateway uninstall", "supervise --stop"] {
        let program = env!("CARGO_BIN_EXE_vestal");
        let inside = format!("{program} {verb}");
        let refused = fixture.run(&inside).exits(1);
        assert!(refused.stderr.contains("this command runs in a sandbox"), "{refused:?}");
        assert!(refused.stderr.contains("from a shell of your own"), "{refused:?}");
    }
    assert!(!fixture.home().join("gateway_desired.json").exists());
}

/// Gives the default profile settings with which a gateway starts, and serves nothing.
pub(crate) fn serve_nothing(fixture: &ProgramFixture) {
    fs::create_dir_all(fixture.home()).unwrap();
    fs::write(
        fixture.home().join("config.yaml"),
        "kanban: {dispatch_in_gateway: false}\ncron: {enabled: false}\n",
    )
    .unwrap();
}

/// Ends the supervisor of a home with its gateways.
fn end_supervisor(fixture: &ProgramFixture) {
    fixture.vestal(["supervise", "--stop"]).exits(0);
}

/// Returns what `gateway status` says about the default profile.
fn status(fixture: &ProgramFixture, code: i32) -> (serde_json::Value, String) {
    let shown = fixture.vestal(["gateway", "status"]).exits(code);
    let status = fixture.vestal(["gateway", "status", "--json"]).exits(code).json();
    (status["gateways"][0].clone(), shown.text() + &shown.stderr)
}

fn pid_in(status: &serde_json::Value) -> u32 {
    status["pid"].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn what_was_wanted_is_not_called_stopped_when_its_supervisor_is_gone() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    fixture.vestal(["gateway", "start"]).exits(0);
    let manager = fixture.vestal(["gateway", "status", "--json"]).exits(0).json();
    let kill = |pid: u32| {
        vestal_testkit::kill(pid);
        vestal_testkit::wait_until("it is gone", || !vestal_testkit::is_alive(pid));
    };
    kill(pid_in(&manager["manager"]));
    let (left, shown) = status(&fixture, 0);
    assert!(left["reason"].as_str().unwrap().contains("its supervisor is gone"), "{left}");
    assert!(shown.contains("to have a supervisor keep it: vestal gateway stop"), "{shown}");
    // What is left is ended by the command that ends supervisors, and stays wanted.
    let ended = fixture.vestal(["supervise", "--stop"]).exits(0);
    let pid = pid_in(&left);
    assert!(ended.text().contains(&format!("ended default (pid {pid})")), "{ended:?}");
    assert!(!vestal_testkit::is_alive(pid));
    let (down, shown) = status(&fixture, 1);
    assert_eq!((&down["state"], &down["desired"]), (&"stopped".into(), &"running".into()));
    assert!(shown.contains("state      down\n"), "{shown}");
    assert!(shown.contains("no supervisor runs to keep it"), "{shown}");
    assert!(shown.contains("to bring it back: vestal gateway start"), "{shown}");
    let none = fixture.vestal(["supervise", "--stop"]).exits(1);
    assert!(none.stderr.contains("none has left anything"), "{none:?}");
    assert!(!none.stderr.contains("to start one"), "{none:?}");
    // A part that failed is not passed over.
    fixture.vestal(["gateway", "start"]).exits(0);
    let file = fixture.home().join("gateway_state.json");
    let state = fs::read_to_string(&file).unwrap();
    fs::write(&file, state.replace("\"running\"", "\"degraded\"")).unwrap();
    let (degraded, shown) = status(&fixture, 1);
    assert_eq!(
        (&degraded["state"], &degraded["reported"]),
        (&"running".into(), &"degraded".into())
    );
    assert!(shown.contains("state      degraded\n"), "{shown}");
    end_supervisor(&fixture);
    // Nor is a file that does not tell what is wanted.
    fs::write(fixture.home().join("gateway_desired.json"), "{").unwrap();
    let (damaged, shown) = status(&fixture, 1);
    assert_eq!(damaged["state"], "failed");
    assert!(shown.contains("gateway_desired.json is damaged"), "{shown}");
}

#[test]
fn a_start_is_refused_while_a_terminal_serves_the_profile() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    let mut terminal = fixture.start(["gateway", "run"]);
    terminal.error_line();
    wait_for("it runs", || {
        let status = fixture.vestal(["gateway", "status", "--json"]).json();
        (status["gateways"][0]["state"] == "running").then_some(())
    });
    for verb in ["start", "restart"] {
        let refused = fixture.vestal(["gateway", verb]).exits(1);
        let pid = terminal.pid();
        assert!(
            refused.stderr.contains(&format!("process {pid} serves this profile")),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("vestal gateway stop"), "{refused:?}");
    }
    // Nothing is wanted that cannot be.
    assert!(!fixture.home().join("gateway_desired.json").exists());
    fixture.vestal(["gateway", "stop"]).exits(0);
    assert_eq!(terminal.end().0, 0);
    fixture.vestal(["gateway", "start"]).exits(0);
    end_supervisor(&fixture);
}

#[test]
fn a_supervisor_takes_over_what_is_wanted_when_a_terminal_serves_it_no_more() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    let wanted = r#"{"version":1,"desired":"running","updated_at":""}"#;
    for file in ["gateway_desired.json", "dashboard_desired.json"] {
        fs::write(fixture.home().join(file), wanted).unwrap();
    }
    let terminals =
        [fixture.start(["gateway", "run"]), fixture.start(["dashboard", "run", "--port", "0"])];
    let status = || {
        let mut status = fixture.vestal(["gateway", "status", "--all", "--json"]).json();
        [status["gateways"][0].take(), status["dashboard"].take()]
    };
    wait_for("both run", || status().iter().all(|one| one["state"] == "running").then_some(()));
    let mut supervisor = fixture.start(["supervise"]);
    assert!(supervisor.error_line().contains("supervising"));
    supervisor.discard_output();
    let shown = wait_for("both were tried in vain", || {
        let shown = status();
        shown.iter().all(|one| !one["last_exit"].is_null()).then_some(shown)
    });
    for (shown, terminal) in shown.iter().zip(&terminals) {
        assert_eq!((&shown["state"], pid_in(shown)), (&"running".into(), terminal.pid()));
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains("a supervisor takes it over when it ends"), "{reason}");
    }
    for terminal in terminals {
        terminal.signal(Signal::INT);
        assert_eq!(terminal.end().0, 0);
    }
    wait_for("the supervisor has them", || {
        let is_kept =
            |one: &serde_json::Value| one["state"] == "running" && one["reason"].is_null();
        status().iter().all(is_kept).then_some(())
    });
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.end().0, 0);
}

#[test]
fn profiles_that_are_set_to_one_port_are_named_before_they_start() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["profile", "create", "work"]).exits(0);
    fixture.vestal(["profile", "create", "aa"]).exits(0);
    let order = || {
        let listed = fixture.vestal(["gateway", "list", "--json"]).exits(0).json();
        let names = listed.as_array().unwrap().iter();
        names.map(|gateway| gateway["profile"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let without = order();
    assert_eq!(without, ["default", "aa", "work"]);
    for home in [fixture.home(), fixture.home().join("profiles/work")] {
        // Without a key they end at once.
        fs::write(home.join("config.yaml"), "api_server: {enabled: true}\n").unwrap();
    }
    let started = fixture.vestal(["gateway", "start", "--all", "--json"]).exits(1);
    assert!(
        started.stderr.contains("profiles default and work are set to serve their API at the same port, 8642 (api_server.port)"),
        "{started:?}"
    );
    let outcomes = started.json();
    let names: Vec<_> = (0..3).map(|index| outcomes[index]["profile"].clone()).collect();
    assert_eq!(names, ["default", "aa", "work"]);
    assert_eq!(order(), without);
    // A gateway with a port of its own starts without a message.
    let alone = fixture.vestal(["-p", "aa", "gateway", "start"]).exits(0);
    assert!(!alone.stderr.contains("api_server.port"), "{alone:?}");
    end_supervisor(&fixture);
}

#[test]
fn the_dashboard_has_a_slot_that_is_down_unless_it_is_asked_for() {
    let fixture = ProgramFixture::new();
    let status = fixture.vestal(["gateway", "status", "--dashboard", "--json"]).exits(1).json();
    assert_eq!(status["gateways"], serde_json::json!([]));
    assert_eq!(status["dashboard"]["profile"], "@dashboard");
    assert_eq!(status["dashboard"]["state"], "stopped");
    let shown = fixture.vestal(["gateway", "status", "--dashboard"]).exits(1);
    assert!(shown.stderr.contains("to start it: vestal gateway start --dashboard"), "{shown:?}");
    let stopped = fixture.vestal(["gateway", "stop", "--dashboard"]).exits(0).text();
    assert_eq!(stopped, "the dashboard was not running\n");
    let mut command = fixture.command(["supervise"]);
    command.env("VESTAL_DASHBOARD", "true").env("VESTAL_DASHBOARD_PORT", "0");
    let mut supervisor = vestal_testkit::programs::RunningProgram::start(command);
    assert!(supervisor.error_line().contains("supervising"));
    supervisor.discard_output();
    let log = fs::read_to_string(fixture.home().join("logs/container-boot.log")).unwrap();
    assert!(log.contains(" service=dashboard prior_state=stopped action=started\n"), "{log}");
    let printed = fs::read_to_string(fixture.home().join("logs/dashboard/current")).unwrap();
    assert!(printed.contains("supervisor: started as process "), "{printed}");
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.end().0, 0);
}

#[test]
fn an_operator_starts_and_stops_the_dashboard_as_a_gateway() {
    let fixture = ProgramFixture::new();
    fs::create_dir_all(fixture.home()).unwrap();
    fs::write(fixture.home().join("config.yaml"), "dashboard: {port: 0}\n").unwrap();
    fixture.vestal(["gateway", "start", "--dashboard"]).exits(0);
    let status = fixture.vestal(["gateway", "status", "--dashboard", "--json"]).exits(0).json();
    assert_eq!(status["dashboard"]["state"], "running");
    let served = fixture.vestal(["dashboard", "--status", "--json"]).exits(0).json();
    assert_eq!(served["pid"], status["dashboard"]["pid"]);
    let part = &status["dashboard"]["listeners"][0];
    assert_eq!((&part["name"], &part["address"]), (&"web".into(), &served["url"]));
    fixture.vestal(["dashboard", "link"]).exits(0);
    fixture.vestal(["gateway", "stop", "--dashboard"]).exits(0);
    fixture.vestal(["dashboard", "--status"]).exits(1);
    let status = fixture.vestal(["gateway", "status", "--dashboard", "--json"]).exits(1).json();
    assert_eq!(status["dashboard"]["listeners"], serde_json::json!([]));
    // One in a terminal is not started beside, and stopped as gateways are.
    let mut terminal = fixture.start(["dashboard", "run"]);
    assert!(terminal.error_line().contains("the dashboard is at"));
    let refused = fixture.vestal(["gateway", "start", "--dashboard"]).exits(1);
    let is_it = format!("process {} is the dashboard already", terminal.pid());
    assert!(refused.stderr.contains(&is_it), "{refused:?}");
    let stopped = fixture.vestal(["gateway", "stop", "--dashboard"]).exits(0).text();
    assert_eq!(stopped, "the dashboard is stopped\n");
    assert_eq!(terminal.end().0, 0);
    end_supervisor(&fixture);
}

#[test]
fn a_start_that_fails_says_why() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    let config = "kanban: {dispatch_in_gateway: false}\napi_server: {enabled: true}\n";
    fs::write(fixture.home().join("config.yaml"), config).unwrap();
    let failed = fixture.vestal(["gateway", "start"]).exits(1);
    assert!(failed.stderr.contains("exited with code 78 before it was ready"), "{failed:?}");
    assert!(failed.stderr.contains("has no key"), "{failed:?}");
    // One that ran before and was killed does not lend its listeners or its reason to the next.
    serve_nothing(&fixture);
    fixture.vestal(["gateway", "start"]).exits(0);
    fixture.vestal(["gateway", "stop"]).exits(0);
    let status = fixture.vestal(["gateway", "status", "--json"]).exits(1).json();
    assert_eq!(status["gateways"][0]["listeners"], serde_json::json!([]), "{status}");
    end_supervisor(&fixture);
}

#[test]
fn settings_that_a_supervised_gateway_would_not_get_are_not_passed_over_in_silence() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    let set = ["--set", "api_server.port=1", "gateway", "start"];
    let refused = fixture.vestal(set).exits(2);
    assert!(refused.stderr.contains("vestal config set KEY VALUE"), "{refused:?}");
    let with_port = |port: &str| {
        let mut command = fixture.command(["gateway", "start"]);
        finish(command.env("API_SERVER_PORT", port).spawn().unwrap()).exits(0)
    };
    // A supervisor that is started now has the variable.
    let first = with_port("4001");
    assert!(!first.stderr.contains("API_SERVER_PORT"), "{first:?}");
    let same = with_port("4001");
    assert!(!same.stderr.contains("API_SERVER_PORT"), "{same:?}");
    let other = with_port("4002");
    assert!(other.stderr.contains("not passed on") && other.stderr.contains(": API_SERVER_PORT."));
    assert!(!other.stderr.contains("4002"), "values may be secrets: {other:?}");
    end_supervisor(&fixture);
}
