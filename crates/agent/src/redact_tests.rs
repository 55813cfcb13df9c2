use super::*;

mod property {
    use proptest::prelude::*;

    use super::*;

    const ROUNDS: u32 = 300;

    fn rounds() -> ProptestConfig {
        ProptestConfig { cases: ROUNDS, failure_persistence: None, ..ProptestConfig::default() }
    }

    /// A secret of every kind, as a regular expression, and what stands before and after it.
    fn planted() -> impl Strategy<Value = (String, String)> {
        let tokens: Vec<&'static str> = find::patterns().collect();
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
            .prop_map(|((before, after), secret)| {
                (secret.clone(), format!("{before}{secret}{after}"))
            });
        let dsn = "[A-Za-z0-9!%^*_.~-]{6,30}"
            .prop_map(|secret| (secret.clone(), format!("postgres://user:{secret}@host/db")))
            .prop_filter("a placeholder is none", |(secret, _)| !fields::is_placeholder(secret));
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
            secret in prop::sample::select(find::patterns().collect::<Vec<_>>()).prop_flat_map(
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
}

mod redact {
    use super::*;

    fn shown(text: &str) -> String {
        Redactor::default().redact(text).into_owned()
    }

    #[track_caller]
    fn becomes(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(shown(text), *expected, "{text}");
        }
    }

    #[track_caller]
    fn stays(texts: &[&str]) {
        for text in texts {
            assert_eq!(shown(text), *text);
            assert_eq!(Redactor::default().redact_file(text), *text);
        }
    }

    #[test]
    fn long_secrets_keep_their_ends_and_short_ones_nothing() {
        becomes(&[
            ("ghp_abcdefghijklmnopqrstuvwxyz0123", "ghp_ab…0123"),
            ("PASSWORD=hunter2", "PASSWORD=***"),
            ("PASSWORD=seventeen-letters", "PASSWORD=***"),
            ("PASSWORD=eighteen-letters-1", "PASSWORD=eighte…rs-1"),
        ]);
    }

    #[test]
    fn values_of_secret_names_are_masked_however_they_are_written() {
        becomes(&[
            ("export OPENAI_API_KEY=abc123", "export OPENAI_API_KEY=***"),
            ("DB_PASSWORD='a b c 1'", "DB_PASSWORD='***'"),
            ("DB_PASSWORD=\"a \\\" b\"", "DB_PASSWORD=\"***\""),
            ("db_password = 'hunter2'", "db_password = '***'"),
            (
                "{\"password\":\"hunter2\",\"user\":\"me\"}",
                "{\"password\":\"***\",\"user\":\"me\"}",
            ),
            ("{\"apiKey\": \"abc123\"}", "{\"apiKey\": \"***\"}"),
            ("{\\\"token\\\":\\\"abc123\\\"}", "{\\\"token\\\":\\\"***\\\"}"),
            ("password: hunter2", "password: ***"),
            ("  client_secret: abc # of the client", "  client_secret: *** # of the client"),
            ("- token: abc123", "- token: ***"),
            ("'secret' => 'abc1'", "'secret' => '***'"),
            ("x-api-key: abc123", "x-api-key: ***"),
            ("X-Auth-Token: abc123", "X-Auth-Token: ***"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("Authorization: Basic dXNlcjpw", "Authorization: Basic ***"),
            ("authorization: abcdef", "authorization: ***"),
            ("sent Bearer abcdefghijklmnop-1 to it", "sent Bearer abcdef…op-1 to it"),
            (
                "curl -H \"Authorization: token abc\" url",
                "curl -H \"Authorization: token ***\" url",
            ),
            ("mysql --password hunter2 -u me", "mysql --password *** -u me"),
            ("mysql --password=hunter2 -u me", "mysql --password=*** -u me"),
            ("AWS_SECRET_ACCESS_KEY=a/b+c=", "AWS_SECRET_ACCESS_KEY=***"),
            ("OPENAI_API_KEY_2=abc", "OPENAI_API_KEY_2=***"),
            ("WIFI_PSK=abc SUDO_PASS=def", "WIFI_PSK=*** SUDO_PASS=***"),
        ]);
    }

    #[test]
    fn an_address_in_the_text_switches_nothing_off() {
        becomes(&[
            ("see https://x.y\npassword=hunter2", "see https://x.y\npassword=***"),
            ("see https://x.y password=hunter2", "see https://x.y password=***"),
            ("password=hunter2 https://x.y", "password=*** https://x.y"),
            (
                "a: https://x.y/?a=b\nAPI_TOKEN=abc\nb: c",
                "a: https://x.y/?a=b\nAPI_TOKEN=***\nb: c",
            ),
        ]);
    }

    #[test]
    fn addresses_pass_unchanged() {
        stays(&[
            "https://example.com/login?token=abcdef123456&password=hunter2",
            "https://bucket.s3.amazonaws.com/x?X-Amz-Signature=0123456789abcdef&X-Amz-Security-Token=abc",
            "see http://example.com/reset?secret=abc#api_key=def, then go on",
            "<a href=\"https://example.com/?api_key=abc123\">",
            "https://example.com:8080/a:b@c",
            "RESET_TOKEN=https://example.com/reset/abcdef",
        ]);
    }

    #[test]
    fn tokens_and_passwords_in_addresses_are_masked_alone() {
        becomes(&[
            (
                "https://x.y/?t=ghp_abcdefghijklmnopqrstuvwxyz0123&u=v",
                "https://x.y/?t=ghp_ab…0123&u=v",
            ),
            ("postgres://me:hunter2@db:5432/x", "postgres://me:***@db:5432/x"),
            ("redis://:hunter2@db", "redis://:***@db"),
            ("https://me:hunter2@example.com/a", "https://me:***@example.com/a"),
            ("postgres://me:p@ss@db/x", "postgres://me:***@db/x"),
            (
                "https://ghp_abcdefghijklmnopqrstuvwxyz0123@github.com/a",
                "https://ghp_ab…0123@github.com/a",
            ),
            (
                "https://hooks.slack.com/services/T0AAAA/B0BBBB/abcdefghijklmnopqrstuvwx",
                "https://hooks.slack.com/services/T0AAAA/B0BBBB/abcdef…uvwx",
            ),
        ]);
    }

    #[test]
    fn private_keys_are_masked_line_by_line() {
        let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEowIBAAKCAQEA0\nabc=\n-----END RSA PRIVATE KEY-----\nb\n";
        let masked = shown(key);
        assert_eq!(masked.lines().count(), key.lines().count());
        assert!(!masked.contains("MIIEow") && !masked.contains("abc="), "{masked}");
        assert!(
            masked.starts_with("a\n-----BEGIN RSA PRIVATE KEY-----\n")
                && masked.ends_with("KEY-----\nb\n")
        );
        let json = r#"{"key":"-----BEGIN PRIVATE KEY-----\nMIIEvQ\nabc\n-----END PRIVATE KEY-----\n","a":1}"#;
        assert!(!shown(json).contains("MIIEvQ"), "{}", shown(json));
        assert!(shown(json).ends_with(r#"-----END PRIVATE KEY-----\n","a":1}"#), "{}", shown(json));
        let unfinished =
            "-----BEGIN OPENSSH PRIVATE KEY-----\nMIIEow\nMIIEox\nthat was it, friends\n";
        assert_eq!(
            shown(unfinished),
            "-----BEGIN OPENSSH PRIVATE KEY-----\n***\n***\nthat was it, friends\n"
        );
        stays(&["-----BEGIN CERTIFICATE-----\nMIIEow\n-----END CERTIFICATE-----\n"]);
    }

    #[test]
    fn code_and_prose_are_left_alone() {
        stays(&[
            "password = input(\"Password: \")",
            "def login(user: str, password: str) -> Token:",
            "    pub token: String,",
            "    api_key: Option<String>,",
            "token = self.token",
            "connect(password=args.password, token=token)",
            "password=${DB_PASSWORD}",
            "API_KEY=$API_KEY",
            "password: <your password>",
            "API_KEY=your-api-key",
            "if token == \"x\" { }",
            "let secret = Secret::new();",
            "max_tokens=4096",
            "total_tokens: 123",
            "token=1",
            "PRIMARY_KEY=id",
            "The token: it is short lived.",
            "fetch(url, { credentials: \"include\" })",
            "password: null",
            "\"password\": false",
            "\"password\": \"\"",
            "Enter your password:",
            "  --token string   the token to use",
            "  --password PASSWORD",
            "task-abcdefghijklmnopqrstuvwxyz",
            "a bearer of good news",
            "secret: true,",
            "token::Token",
            "process.env.API_TOKEN",
            "sort_key=name",
            "let token = next;",
            "API_TOKEN=***",
            "export PATH=/usr/bin PWD=/home/me",
        ]);
    }

    #[test]
    fn known_secrets_are_masked_wherever_they_are() {
        let redactor = Redactor::new([
            "correct-horse".to_owned(),
            "tiny".to_owned(),
            "a\"quote-and-more".to_owned(),
        ]);
        assert_eq!(redactor.redact("xcorrect-horsey tiny"), "x***y tiny");
        assert_eq!(redactor.redact("https://x.y/correct-horse"), "https://x.y/***");
        assert_eq!(redactor.redact("{\"a\":\"a\\\"quote-and-more\"}"), "{\"a\":\"***\"}");
        assert!(!format!("{redactor:?}").contains("correct"));
        let address = Redactor::new(["https://example.com/api".to_owned()]);
        assert_eq!(
            address.redact("GET https://example.com/api/x"),
            "GET https://example.com/api/x"
        );
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END PRIVATE KEY-----";
        let lines = Redactor::new([key.to_owned()]);
        assert_eq!(lines.redact("x MIIEvQIBADANBgkqhkiG9w0 y"), "x MIIEvQ…G9w0 y");
    }

    #[test]
    fn a_masked_file_cannot_be_written_back_unnoticed() {
        let redactor = Redactor::new(["correct-horse".to_owned()]);
        let file = "A_KEY=abc\nB=ghp_abcdefghijklmnopqrstuvwxyz0123\nC=correct-horse\n";
        let masked = redactor.redact_file(file);
        assert_eq!(masked, "A_KEY=«redacted:value»\nB=«redacted:token»\nC=«redacted:secret»\n");
        for line in masked.lines() {
            assert!(Redactor::is_sentinel_in(line), "{line}");
        }
        for text in
            ["", "«redacted»", "«redacted:»", "«redacted:nonsense»", "redacted:value", "«value»"]
        {
            assert!(!Redactor::is_sentinel_in(text), "{text}");
        }
    }

    #[test]
    fn switched_off_it_changes_nothing() {
        let text = "PASSWORD=hunter2 ghp_abcdefghijklmnopqrstuvwxyz0123";
        assert_eq!(Redactor::off().redact(text), text);
        let mut stream = Redactor::off().stream();
        assert_eq!(stream.push(text), text);
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_line_is_shown_when_it_has_ended() {
        let mut stream = Redactor::default().stream();
        assert_eq!(stream.push("one\nPASSW"), "one\n");
        assert_eq!(stream.push("ORD=hunt"), "");
        assert_eq!(stream.push("er2\r50%\r"), "PASSWORD=***\r50%\r");
        assert_eq!(stream.push("ghp_abcdefghijklmno"), "");
        assert_eq!(stream.push("pqrstuvwxyz0123"), "");
        assert_eq!(stream.finish(), "ghp_ab…0123");
    }

    #[test]
    fn a_line_without_end_is_shown_in_parts() {
        let mut stream = Redactor::default().stream();
        let mut shown = String::new();
        for _ in 0..20_000 {
            shown.push_str(&stream.push("some words and more "));
        }
        assert!(shown.len() > 200_000);
        shown.push_str(&stream.finish());
        assert_eq!(shown, "some words and more ".repeat(20_000));
        let mut solid = Redactor::default().stream();
        let mut shown = String::new();
        for _ in 0..200 {
            shown.push_str(&solid.push(&"é".repeat(1000)));
        }
        shown.push_str(&solid.finish());
        assert_eq!(shown, "é".repeat(200_000));
    }

    #[test]
    fn no_text_takes_longer_than_it_is_long() {
        for piece in [
            "token=(",
            "token=$a ",
            "password: ",
            "--token ",
            "://a:",
            "://a:b@",
            "eyJabcdefgh.",
            "sk-",
            "AKIA",
            "-----BEGIN PRIVATE KEY-----\n",
            "-----BEGIN ",
            "\"token\":\"",
            "Authorization: ",
            "a",
            "=",
            "\\\"",
            "https://",
            "bearer ",
            "token=\"a\" ",
            "secret:",
            "'",
            "token\\",
        ] {
            let text = piece.repeat(300_000 / piece.len());
            let began = std::time::Instant::now();
            drop(shown(&text));
            let took = began.elapsed();
            assert!(took < std::time::Duration::from_mins(2), "{piece:?} took {took:?}");
        }
    }

    #[test]
    fn a_result_is_masked_text_by_text() {
        let redactor = Redactor::default();
        let result = r#"{"client_secret":"ab\"c1","list":["TOKEN=abc1\nx"],"n":1,"s":"a \"password\": \"it1\""}"#;
        let expected = r#"{"client_secret":"***","list":["TOKEN=***\nx"],"n":1,"s":"a \"password\": \"***\""}"#;
        assert_eq!(redactor.redact_result(result), expected);
        assert_eq!(redactor.redact_result(expected), expected);
        assert_eq!(redactor.redact_result("{ TOKEN=abc1"), "{ TOKEN=***");
        assert_eq!(redactor.redact_result("{ \"a\" : 1 }"), "{ \"a\" : 1 }");
    }

    #[test]
    fn what_one_clone_learns_all_of_them_know() {
        let redactor = Redactor::default();
        let (clone, mut stream) = (redactor.clone(), redactor.stream());
        let value = "plain words that are a secret";
        assert_eq!(clone.redact(value), value);
        redactor.learn([value.to_owned(), "short".to_owned()]);
        redactor.learn(["another value of somebody".to_owned()]);
        for secret in [value, "another value of somebody"] {
            assert!(!clone.redact(&format!("it is {secret}.")).contains(secret));
        }
        assert_eq!(clone.redact("short"), "short");
        let streamed = stream.push(&format!("{value}\n")) + &stream.finish();
        assert!(!streamed.contains(value), "{streamed}");
    }
}
