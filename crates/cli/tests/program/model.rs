//! `vestal model`.

use std::fs;

use vestal_scripted_model::{Model, Reply, Script};

use crate::chat::world::Chatting;
use crate::support::World;

fn offering(models: &[&str]) -> Chatting {
    let models = models.iter().map(|id| Model::new(*id).context_length(8000));
    Chatting::new(Script::new().models(models))
}

#[test]
fn the_models_are_listed_and_asked_for_only_once() {
    let chat = offering(&["scripted", "other"]);
    let first = chat.vestal(["model"]).exits(0);
    assert_eq!(
        first.text(),
        "MODEL            CONTEXT  NAME\ncustom:other     8000     \ncustom:scripted  8000     \n"
            .replace("     \n", "\n")
    );
    assert!(first.stderr.contains("the default is custom:scripted"), "{first:?}");
    assert!(first.stderr.contains("custom: 2 models, listed now"), "{first:?}");
    let again = chat.vestal(["model", "list"]).exits(0);
    assert_eq!(again.text(), first.text());
    assert_eq!(chat.model.other_requests().len(), 1);
    chat.vestal(["model", "list", "--refresh"]).exits(0);
    assert_eq!(chat.model.other_requests().len(), 2);
}

#[test]
fn the_list_in_json_has_the_promised_shape() {
    let chat = offering(&["scripted"]);
    let outcome = chat.vestal(["model", "list", "--json"]).exits(0);
    insta::assert_json_snapshot!(outcome.json(), { ".providers[].fetched_at" => "[time]" });
}

#[test]
fn one_provider_that_fails_is_a_line_and_not_the_end() {
    let chat = offering(&["scripted"]);
    let broken = Chatting::new(Script::new().models_reply(Reply::error(401, "no such key")));
    let declare = |name: &str, chat: &Chatting| {
        format!("  {name}:\n    base_url: {}\n", chat.model.base_url())
    };
    let config = format!("providers:\n{}{}", declare("bad", &broken), declare("good", &chat));
    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.yaml"), &config).unwrap();
    let outcome = world.vestal(["model"]).exits(0);
    assert!(outcome.text().contains("good:scripted"), "{outcome:?}");
    assert!(outcome.stderr.contains("warning: bad: "), "{outcome:?}");

    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.yaml"), format!("providers:\n{}", declare("bad", &broken)))
        .unwrap();
    let outcome = world.vestal(["model"]).exits(3);
    assert_eq!(outcome.text(), "");
}

#[test]
fn without_a_provider_it_is_said_what_to_set() {
    let outcome = World::new().vestal(["model"]).exits(1);
    assert_eq!(outcome.text(), "");
    assert!(outcome.stderr.contains("model.default"), "{outcome:?}");
}

#[test]
fn the_default_is_set_with_its_provider_and_a_slip_is_noticed() {
    let chat = offering(&["lantern-large", "lantern-small"]);
    let mut variables = chat.variables();
    variables.retain(|(name, _)| *name != "VESTAL_MODEL");
    let vestal = |args: &[&str]| {
        let mut command = chat.world.command(args);
        crate::support::finish(command.envs(variables.clone()).spawn().unwrap())
    };
    let unknown = vestal(&["model", "set", "lantern-lrge"]).exits(0);
    assert!(!unknown.stderr.contains("does not list"), "nobody was asked yet: {unknown:?}");
    vestal(&["model", "list"]).exits(0);
    let slip = vestal(&["model", "set", "custom:lantern-lrge"]).exits(0);
    assert!(slip.stderr.contains("custom does not list a model lantern-lrge"), "{slip:?}");
    assert!(slip.stderr.contains("did you mean custom:lantern-large?"), "{slip:?}");
    let right = vestal(&["model", "set", "custom:lantern-large"]).exits(0);
    assert!(!right.stderr.contains("warning"), "{right:?}");
    assert_eq!(vestal(&["config", "get", "model.default"]).exits(0).text(), "lantern-large\n");
    assert_eq!(vestal(&["config", "get", "model.provider"]).exits(0).text(), "custom\n");
    assert_eq!(chat.model.other_requests().len(), 1);
}
