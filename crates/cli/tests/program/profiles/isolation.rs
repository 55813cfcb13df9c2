//! Two profiles never meet.

use std::fs;

use vestal_scripted_model::{Script, ScriptedModel};

use super::{create, delete};
use crate::support::{World, finish};

#[test]
fn settings_secrets_and_sandboxes_of_two_profiles_never_meet() {
    let world = World::new();
    // One name is the beginning of the other.
    create(&world, "alpha");
    create(&world, "alpha2");
    for (name, value) in [("alpha", "1"), ("alpha2", "2")] {
        world.vestal(["-p", name, "config", "set", "terminal.jobs_kept", value]).exits(0);
        let dir = world.home().join("profiles").join(name);
        let text = format!("EXTRA=from-{name}\nTERMINAL_ENV_PASSTHROUGH=[\"EXTRA\"]\n");
        fs::write(dir.join(".env"), text).unwrap();
        world.vestal(["-p", name, "run", &format!("export KEPT={name}")]).exits(0);
    }
    world.run("export KEPT=default").exits(0);
    for (name, value) in [("alpha", "1"), ("alpha2", "2"), ("default", "200")] {
        let of = |args: &[&str]| {
            let args = ["-p", name].iter().chain(args).copied().collect::<Vec<_>>();
            world.vestal(args).exits(0)
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
    world.vestal(["-p", "alpha", "rm", "-y", "default"]).exits(0);
    let listed = world.vestal(["-p", "alpha2", "ps", "--json"]).exits(0).json();
    assert_eq!(listed[0]["state"], "running");
    delete(&world, &["alpha", "alpha2"]);
    assert_eq!(world.run("echo $KEPT").text(), "default\n");
}

#[test]
fn a_variable_given_to_the_process_beats_the_dotenv_of_every_profile() {
    let world = World::new();
    create(&world, "work");
    for dir in [world.home(), world.home().join("profiles/work")] {
        fs::write(dir.join(".env"), "TERMINAL_JOBS_KEPT=2\n").unwrap();
    }
    for name in ["default", "work"] {
        let get = |variable: Option<&str>| {
            let mut command = world.command(["-p", name, "config", "get", "terminal.jobs_kept"]);
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
    let world = World::new();
    world.run("export KEPT=default").exits(0);
    world.vestal(["profile", "create", "copy", "--clone"]).exits(0);
    assert_eq!(world.vestal(["-p", "copy", "run", "echo [$KEPT]"]).exits(0).text(), "[]\n");
    let id = |dir: &str| fs::read_to_string(world.home().join(dir).join("home.json")).unwrap();
    assert_ne!(id(""), id("profiles/copy"));
    delete(&world, &["copy"]);
    assert_eq!(world.run("echo $KEPT").text(), "default\n");
}

#[test]
fn a_new_profile_asks_the_model_of_default_and_says_so() {
    let world = World::new();
    let model = ScriptedModel::start(Script::echo());
    let alone = world.vestal(["profile", "create", "early"]).exits(0);
    assert!(alone.stderr.contains("vestal -p early model setup"), "{}", alone.stderr);
    let refused = world.vestal(["-p", "early", "chat", "-q", "hi"]).exits(1);
    assert!(refused.stderr.contains("vestal -p early model setup"), "{}", refused.stderr);
    for (key, value) in [("model.base_url", model.base_url()), ("model.default", "lantern".into())]
    {
        world.vestal(["config", "set", key, &value]).exits(0);
    }
    let made = world.vestal(["profile", "create", "writer"]).exits(0);
    assert!(made.stderr.contains("the model of the profile default (custom:lantern)"), "{made:?}");
    assert_eq!(world.vestal(["-p", "writer", "chat", "-q", "hi"]).exits(0).text().trim(), "hi");
}
