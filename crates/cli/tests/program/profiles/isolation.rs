//! Two profiles never meet.

use std::fs;

use vestal_scripted_model::{Script, ScriptedModel};

use super::{create, delete};
use crate::support::{ProgramFixture, finish};

#[test]
fn settings_secrets_and_sandboxes_of_two_profiles_never_meet() {
    let fixture = ProgramFixture::new();
    // One name is the beginning of the other.
    create(&fixture, "alpha");
    create(&fixture, "alpha2");
    for (name, value) in [("alpha", "1"), ("alpha2", "2")] {
        fixture.vestal(["-p", name, "config", "set", "terminal.jobs_kept", value]).exits(0);
        let dir = fixture.home().join("profiles").join(name);
        let text = format!("EXTRA=from-{name}\nTERMINAL_ENV_PASSTHROUGH=[\"EXTRA\"]\n");
        fs::write(dir.join(".env"), text).unwrap();
        fixture.vestal(["-p", name, "run", &format!("export KEPT={name}")]).exits(0);
    }
    fixture.run("export KEPT=default").exits(0);
    for (name, value) in [("alpha", "1"), ("alpha2", "2"), ("default", "200")] {
        let of = |args: &[&str]| {
            let args = ["-p", name].iter().chain(args).copied().collect::<Vec<_>>();
            fixture.vestal(args).exits(0)
        };
        assert_eq!(of(&["config", "get", "terminal.jobs_kept"]).text(), format!("{value}\n"));
        let extra = if name == "default" { String::new() } else { format!("from-{name}") };
        let seen = of(&["run", "echo $KEPT:$EXTRA"]).text();
        assert_eq!(seen, format!("{name}:{extra}\n"));
        let listed = of(&["ps", "--json"]).json();
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["profile"], *name);
    }
    // What ends in one profile goes on in the other.
    fixture.vestal(["-p", "alpha", "rm", "-y", "default"]).exits(0);
    let listed = fixture.vestal(["-p", "alpha2", "ps", "--json"]).exits(0).json();
    assert_eq!(listed[0]["state"], "running");
    delete(&fixture, &["alpha", "alpha2"]);
    assert_eq!(fixture.run("echo $KEPT").text(), "default\n");
}

#[test]
fn a_variable_given_to_the_process_beats_the_dotenv_of_every_profile() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    for dir in [fixture.home(), fixture.home().join("profiles/work")] {
        fs::write(dir.join(".env"), "TERMINAL_JOBS_KEPT=2\n").unwrap();
    }
    for name in ["default", "work"] {
        let get = |variable: Option<&str>| {
            let mut command = fixture.command(["-p", name, "config", "get", "terminal.jobs_kept"]);
            if let Some(value) = variable {
                command.env("TERMINAL_JOBS_KEPT", value);
            }
            finish(command.spawn().unwrap()).exits(0).text()
        };
        assert_eq!((get(None), get(Some("3"))), ("2\n".to_owned(), "3\n".to_owned()));
    }
}

#[test]
fn a_clone_has_an_identity_and_sandboxes_of_its_own() {
    let fixture = ProgramFixture::new();
    fixture.run("export KEPT=default").exits(0);
    fixture.vestal(["profile", "create", "copy", "--clone"]).exits(0);
    assert_eq!(fixture.vestal(["-p", "copy", "run", "echo [$KEPT]"]).exits(0).text(), "[]\n");
    let id = |dir: &str| fs::read_to_string(fixture.home().join(dir).join("home.json")).unwrap();
    assert_ne!(id(""), id("profiles/copy"));
    delete(&fixture, &["copy"]);
    assert_eq!(fixture.run("echo $KEPT").text(), "default\n");
}

#[test]
fn a_new_profile_asks_the_model_of_default_and_says_so() {
    let fixture = ProgramFixture::new();
    let model = ScriptedModel::start(Script::echo());
    let alone = fixture.vestal(["profile", "create", "early"]).exits(0);
    assert!(alone.stderr.contains("vestal -p early model setup"), "{}", alone.stderr);
    let refused = fixture.vestal(["-p", "early", "chat", "-q", "hi"]).exits(1);
    assert!(refused.stderr.contains("vestal -p early model setup"), "{}", refused.stderr);
    for (key, value) in [("model.base_url", model.base_url()), ("model.default", "lantern".into())]
    {
        fixture.vestal(["config", "set", key, &value]).exits(0);
    }
    let made = fixture.vestal(["profile", "create", "writer"]).exits(0);
    assert!(made.stderr.contains("the model of the profile default (custom:lantern)"), "{made:?}");
    assert_eq!(fixture.vestal(["-p", "writer", "chat", "-q", "hi"]).exits(0).text().trim(), "hi");
}
