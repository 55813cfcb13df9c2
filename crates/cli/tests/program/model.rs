//! `vestal model`.

use std::fs;

use vestal_scripted_model::{Model, Script, ScriptedReply};

use crate::chat::fixture::ChatFixture;
use crate::support::ProgramFixture;

fn offering(models: &[&str]) -> ChatFixture {
    let models = models.iter().map(|id| Model::new(*id).context_length(8000));
    ChatFixture::new(Script::new().models(models))
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
    let broken =
        ChatFixture::new(Script::new().models_reply(ScriptedReply::error(401, "no such key")));
    let declare = |name: &str, chat: &ChatFixture| {
        format!("  {name}:\n    base_url: {}\n", chat.model.base_url())
    };
    let config = format!("providers:\n{}{}", declare("bad", &broken), declare("good", &chat));
    let fixture = ProgramFixture::new();
    fs::create_dir_all(fixture.home()).unwrap();
    fs::write(fixture.home().join("config.yaml"), &config).unwrap();
    let outcome = fixture.vestal(["model"]).exits(0);
    assert!(outcome.text().contains("good:scripted"), "{outcome:?}");
    assert!(outcome.stderr.contains("warning: bad: "), "{outcome:?}");

    let fixture = ProgramFixture::new();
    fs::create_dir_all(fixture.home()).unwrap();
    fs::write(
        fixture.home().join("config.yaml"),
        format!("providers:\n{}", declare("bad", &broken)),
    )
    .unwrap();
    let outcome = fixture.vestal(["model"]).exits(3);
    assert_eq!(outcome.text(), "");
}

#[test]
fn without_a_provider_the_error_names_what_to_set() {
    let outcome = ProgramFixture::new().vestal(["model"]).exits(1);
    assert_eq!(outcome.text(), "");
    assert!(outcome.stderr.contains("model.default"), "{outcome:?}");
}

#[test]
fn the_default_is_set_with_its_provider_and_a_slip_is_noticed() {
    let chat = offering(&["lantern-large", "lantern-small"]);
    let mut variables = chat.variables();
    variables.retain(|(name, _)| *name != "VESTAL_MODEL");
    let vestal = |args: &[&str]| {
        let mut command = chat.fixture.command(args);
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

#[test]
fn a_key_is_sent_to_its_own_address_and_nobody_else_is_asked() {
    let (own, other) = (offering(&["mine"]), offering(&["theirs"]));
    // Whatever is asked of a server that is not on this machine comes by here.
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "model: {{default: mine, base_url: '{}'}}\nproviders:\n  other: {{base_url: '{}', api_mode: anthropic_messages, api_key_env: OTHER_KEY}}\n",
        own.model.base_url(),
        other.model.anthropic_url(),
    );
    fs::create_dir_all(own.fixture.home()).unwrap();
    fs::write(own.fixture.home().join("config.yaml"), config).unwrap();
    let mut command = own.fixture.command(["model", "list", "--refresh"]);
    command
        .env("VESTAL_API_KEY", "sk-own")
        .env("OTHER_KEY", "sk-other")
        .env("HTTPS_PROXY", format!("http://{}", elsewhere.local_addr().unwrap()));
    let outcome = crate::support::finish(command.spawn().unwrap()).exits(0);
    assert_eq!(
        outcome.text(),
        "MODEL         CONTEXT  NAME\nother:theirs  8000\ncustom:mine   8000\n"
    );
    let keys = |chat: &ChatFixture| -> Vec<(Option<String>, Option<String>)> {
        let header = |request: &vestal_scripted_model::ReceivedRequest, name| {
            request.header(name).map(str::to_owned)
        };
        let asked = chat.model.other_requests();
        asked
            .iter()
            .map(|asked| (header(asked, "authorization"), header(asked, "x-api-key")))
            .collect()
    };
    assert_eq!(keys(&own), [(Some("Bearer sk-own".to_owned()), None)]);
    assert_eq!(keys(&other), [(None, Some("sk-other".to_owned()))]);
    elsewhere.set_nonblocking(true).unwrap();
    assert_eq!(elsewhere.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn the_key_of_one_provider_does_not_become_the_key_of_another() {
    let fixture = ProgramFixture::new();
    fs::create_dir_all(fixture.home()).unwrap();
    let config = "model:\n  default: m\n  provider: openai\n";
    fs::write(fixture.home().join("config.yaml"), config).unwrap();
    fs::write(fixture.home().join(".env"), "VESTAL_API_KEY=sk-openai\n").unwrap();
    let refused = fixture.vestal(["model", "set", "anthropic:claude"]).exits(125);
    assert!(
        refused.stderr.contains("is the key of openai, and would be sent to anthropic"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("set OPENAI_API_KEY in .env"), "{refused:?}");
    assert_eq!(fs::read_to_string(fixture.home().join("config.yaml")).unwrap(), config);
    fixture.vestal(["model", "set", "openai:other"]).exits(0);
}
