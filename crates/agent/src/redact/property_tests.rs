use proptest::prelude::*;

use super::*;

const ROUNDS: u32 = 300;

fn rounds() -> ProptestConfig {
    ProptestConfig { cases: ROUNDS, failure_persistence: None, ..ProptestConfig::default() }
}

/// A secret of every kind, as a regular expression, and what stands before and after it.
fn planted() -> impl Strategy<Value = (String, String)> {
    let tokens: Vec<&'static str> = shapes::patterns().collect();
    let token = prop::sample::select(tokens)
        .prop_flat_map(|pattern| {
            proptest::string::string_regex(&bounded(pattern)).expect("a pattern")
        })
        .prop_map(|secret| (secret.clone(), secret));
    let value = "[A-Za-z0-9!@#%^*+/_.~-]{3,10}[0-9][A-Za-z0-9]{3,30}";
    let field = (
        prop::sample::select(vec![
            ("API_KEY=", ""),
            ("export MY_TOKEN=", ""),
            ("DB_PASSWORD='", "'"),
            ("password = \"", "\""),
            ("\"client_secret\": \"", "\""),
            ("{\"apiKey\":\"", "\"}"),
            ("password: ", ""),
            ("x-api-key: ", ""),
            ("Authorization: Bearer ", ""),
            ("--password ", ""),
            ("{\\\"secret\\\":\\\"", "\\\"}"),
        ]),
        value.prop_map(|secret| format!("k{secret}")),
    )
        .prop_map(|((before, after), secret)| (secret.clone(), format!("{before}{secret}{after}")));
    let dsn = "[A-Za-z0-9!%^*_.~-]{6,30}"
        .prop_map(|secret| (secret.clone(), format!("postgres://user:{secret}@host/db")))
        .prop_filter("a placeholder is none", |(secret, _)| !value::is_placeholder(secret));
    let pem = "[A-Za-z0-9+/]{40,64}".prop_map(|secret| {
        let text = format!(
            "\n-----BEGIN EC PRIVATE KEY-----\n{secret}\nAAAA\n-----END EC PRIVATE KEY-----\n"
        );
        (secret, text)
    });
    prop_oneof![token, field, dsn, pem]
}

/// Gives a repetition without end one.
fn bounded(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(",}") {
        let digits = rest[..at].rfind('{').map_or(0, |open| open + 1);
        let least: usize = rest[digits..at].parse().expect("a number");
        out.push_str(&rest[..at]);
        out.extend([",".to_owned(), (least + 8).to_string(), "}".to_owned()]);
        rest = &rest[at + 2..];
    }
    out + rest
}

/// Whatever may stand around a secret without becoming part of it.
fn surrounding() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "https://example.com/a?token=b&c=d",
        "see",
        "password:",
        "://",
        "\"",
        "'",
        "`",
        "{",
        "}",
        ";",
        "é",
        "日本",
        "-----BEGIN CERTIFICATE-----",
        "=",
        ":",
        "\t",
        "***",
        "…",
        "token = x;",
        "\\",
        "$HOME",
        "<a>",
        "#",
        "key=value",
        "abcdef…wxyz",
        "«redacted:value»",
        "Authorization",
        "--token",
    ]);
    proptest::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(rounds())]

    #[test]
    fn a_planted_secret_never_survives(
        (secret, text) in planted(),
        before in surrounding(),
        after in surrounding(),
        sign in prop::sample::select(vec!["\n", " \n", "\n\t", "\r\n"]),
    ) {
        let whole = format!("{before}{sign}{text}{sign}{after}");
        let redactor = Redactor::default();
        for masked in [redactor.redact(&whole), redactor.redact_file(&whole)] {
            prop_assert!(!masked.contains(&secret), "{whole:?} became {masked:?}");
            prop_assert_eq!(masked.matches('\n').count(), whole.matches('\n').count());
        }
    }

    #[test]
    fn a_token_never_survives_within_a_line(
        secret in prop::sample::select(shapes::patterns().collect::<Vec<_>>()).prop_flat_map(
            |pattern| proptest::string::string_regex(&bounded(pattern)).expect("a pattern")),
        before in surrounding(),
        after in surrounding(),
        sign in prop::sample::select(vec![" ", "\"", "'", "=", ":", "/", "?a=", ",", "(", "<", "\t", "é"]),
    ) {
        let whole = format!("{before}{sign}{secret} {after}");
        let masked = Redactor::default().redact(&whole).into_owned();
        prop_assert!(!masked.contains(&secret), "{whole:?} became {masked:?}");
    }

    #[test]
    fn no_split_lets_a_secret_through(
        (secret, text) in planted(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = format!("before\n{text}\nafter\n");
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).collect();
        at.retain(|at| whole.is_char_boundary(*at));
        at.extend([0, whole.len()]);
        at.sort_unstable();
        let mut stream = Redactor::default().stream();
        let mut shown: String = at.windows(2).map(|cut| stream.push(&whole[cut[0]..cut[1]])).collect();
        shown.push_str(&stream.finish());
        prop_assert!(!shown.contains(&secret), "{shown:?}");
        prop_assert_eq!(shown, Redactor::default().redact(&whole).into_owned());
    }

    #[test]
    fn a_known_secret_never_survives(
        secret in "[ -~]{8,40}", before in any::<String>(), after in any::<String>(),
    ) {
        let secret = secret.trim().to_owned();
        prop_assume!(secret.len() >= 8 && !secret.starts_with("http") && !secret.starts_with("-----"));
        let redactor = Redactor::new([secret.clone()]);
        let masked = redactor.redact(&format!("{before}{secret}{after}")).into_owned();
        prop_assert!(!masked.contains(&secret), "{masked:?}");
    }

    #[test]
    fn twice_is_once((_, text) in planted(), before in surrounding(), after in surrounding()) {
        let whole = format!("{before}\n{text}\n{after}");
        let redactor = Redactor::default();
        let once = redactor.redact(&whole).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
        let file = redactor.redact_file(&whole).into_owned();
        prop_assert_eq!(redactor.redact_file(&file), file.as_str());
    }

    #[test]
    fn a_result_stays_json(
        (secret, text) in planted(), before in surrounding(), after in surrounding(),
    ) {
        let output = format!("{before}\n{text}\n{after}");
        let result = serde_json::json!({ "output": output, "exit_code": 0, "error": null });
        let redactor = Redactor::default();
        let masked = redactor.redact_result(&result.to_string()).into_owned();
        let masked: serde_json::Value = serde_json::from_str(&masked).expect("JSON");
        let expected = redactor.redact(&output).into_owned();
        prop_assert_eq!(masked["output"].as_str(), Some(expected.as_str()));
        prop_assert!(!masked.to_string().contains(&secret));
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let redactor = Redactor::default();
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
        drop(redactor.redact_file(&text).into_owned());
    }

    #[test]
    fn no_soup_of_signs_is_too_strange(parts in proptest::collection::vec(prop::sample::select(vec![
        "token", "=", ":", "\"", "'", "\\", " ", "\n", "://", "@", "a:b", "Authorization", "Bearer ", "{", "}",
        "-----BEGIN ", "PRIVATE KEY", "-----", "-----END", "é", "***", "…", "«redacted:", "value»", "password",
        "--", "sk-", "abcdefghijklmnopqrst", "https", "_KEY", "=>", "eyJ", ".", "\r", "`", "$", "<", "\t", "(",
    ]), 0..30)) {
        let text = parts.concat();
        let redactor = Redactor::new(["abcdefghij".to_owned()]);
        for masked in [redactor.redact(&text), redactor.redact_file(&text)] {
            prop_assert!(!masked.contains("abcdefghij"), "{text:?} became {masked:?}");
        }
    }

    #[test]
    fn ordinary_addresses_pass_unchanged(
        url in "https?://[a-z]{1,10}\\.(com|org|dev)(:[0-9]{2,4})?(/[a-z0-9._~-]{0,8}){0,3}(\\?(token|password|api_key|secret|sig)=[a-z0-9]{1,30}(&(access_token|key)=[a-z0-9%]{1,20}){0,2})?",
        before in prop::sample::select(vec!["", "see ", "\"", "(", "a\n", "<", "GET ", "[x](", "link="]),
        after in prop::sample::select(vec!["", " and", "\"", ")", "\n", ">", " PASSWORD=hunter2"]),
    ) {
        prop_assume!(!url.contains("sk-") && !url.contains("hf_"));
        let whole = format!("{before}{url}{after}");
        let masked = Redactor::default().redact(&whole).into_owned();
        prop_assert!(masked.contains(&url), "{masked:?}");
    }
}
