use super::*;
use crate::testing::TestHome;

fn names(list: &[&str]) -> Vec<EnvName> {
    list.iter().map(|name| EnvName::new(name).expect("a name")).collect()
}

fn handed(home: &TestHome, env: &[(&str, &str)], sets: &[&str], asked: &[&str]) -> Vec<String> {
    let settings = home.settings(env, sets);
    let pairs = settings.handed(&names(asked));
    pairs.iter().map(|(name, value)| format!("{name}={}", value.display())).collect()
}

#[test]
fn what_is_asked_for_comes_from_the_environment_else_from_the_file() {
    let home = TestHome::new().dotenv("NOTION_TOKEN=file\nONLY_FILE=f\n");
    let env = [("NOTION_TOKEN", "env"), ("EMPTY", "")];
    assert_eq!(
        handed(&home, &env, &[], &["NOTION_TOKEN", "ONLY_FILE", "EMPTY", "NOT_SET", "ONLY_FILE"]),
        ["NOTION_TOKEN=env", "ONLY_FILE=f"]
    );
}

#[test]
fn keys_of_model_providers_are_not_handed_to_what_asks_for_them() {
    let home = TestHome::with_config(
        "providers: {mine: {base_url: 'http://127.0.0.1:1/v1', api_key_env: MINE}}\n",
    );
    let env = [
        ("OPENAI_API_KEY", "o"),
        ("MINE", "m"),
        ("SUDO_PASSWORD", "s"),
        ("VESTAL_API_KEY", "v"),
        ("PATH", "/bin"),
        ("LD_PRELOAD", "x.so"),
        ("TAVILY_API_KEY", "t"),
    ];
    let asked: Vec<&str> = env.iter().map(|(name, _)| *name).collect();
    assert_eq!(handed(&home, &env, &[], &asked), ["TAVILY_API_KEY=t"]);
    // Unless the user names it.
    let named = ["terminal.docker_forward_env=[\"OPENAI_API_KEY\"]"];
    assert_eq!(handed(&home, &env, &named, &asked), ["OPENAI_API_KEY=o", "TAVILY_API_KEY=t"]);
    let settings = home.settings(&env, &[]);
    let handing = |name: &str| settings.handing(&names(&[name])[0]);
    assert_eq!(handing("anthropic_api_key"), Handing::Withheld);
    assert_eq!(handing("home"), Handing::OfTheMachine);
}

#[test]
fn a_file_that_cannot_be_read_hands_out_nothing_and_fails_nothing() {
    let home = TestHome::with_config("[broken").dotenv("A=1\n");
    // Which of the names are a provider's is not known then.
    assert_eq!(handed(&home, &[("B", "2")], &[], &["A", "B"]), Vec::<String>::new());
}
