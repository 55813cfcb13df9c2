use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::fake_engine::write_program;
use super::*;

/// A user with a `config.json`, and helpers on the path.
struct User {
    dir: TempDir,
}

impl User {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), config).unwrap();
        Self { dir }
    }

    fn helper(self, name: &str, script: &str) -> Self {
        let path = self.dir.path().join(format!("docker-credential-{name}"));
        write_program(&path, script);
        self
    }

    async fn get(&self, registry: &str) -> Result<Option<(String, String)>, String> {
        let dir = self.dir.path().to_str().unwrap();
        let path = format!("{dir}:/usr/bin:/bin");
        let environment = Environment::from_pairs([("DOCKER_CONFIG", dir), ("PATH", &path)]);
        let found = Keyring::new(&environment).get(registry).await?;
        Ok(found.map(|found| {
            let user = found.username.or(found.identitytoken).or(found.registrytoken);
            (user.unwrap_or_default(), found.password.unwrap_or_default())
        }))
    }
}

fn pair(user: &str, password: &str) -> (String, String) {
    (user.to_owned(), password.to_owned())
}

#[tokio::test]
async fn credentials_in_the_file_are_found_under_every_name_of_a_registry() {
    let user = User::new(
        r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOnA6dw=="},
            "quay.io": {"username": "q", "password": "w"},
            "https://ghcr.io/v2/": {"identitytoken": "token"},
            "empty.example": {}, "broken.example": {"auth": "%%%"}
        }}"#,
    );
    assert_eq!(user.get("docker.io").await, Ok(Some(pair("hub", "p:w"))));
    assert_eq!(user.get("quay.io").await, Ok(Some(pair("q", "w"))));
    assert_eq!(user.get("ghcr.io").await, Ok(Some(pair("token", ""))));
    for unknown in ["empty.example", "broken.example", "other.example", "io"] {
        assert_eq!(user.get(unknown).await, Ok(None), "{unknown}");
    }
}

#[tokio::test]
async fn dockers_own_registry_is_known_by_all_its_names() {
    for name in ["docker.io", "https://index.docker.io/v2/", "registry-1.docker.io"] {
        let user = User::new(&format!(r#"{{"auths": {{"{name}": {{"auth": "aHViOnB3"}}}}}}"#));
        assert_eq!(user.get("docker.io").await, Ok(Some(pair("hub", "pw"))), "{name}");
    }
}

#[tokio::test]
async fn a_helper_is_asked_for_its_registry_and_a_store_for_all() {
    let user = User::new(
        r#"{"auths": {"a.example": {"auth": "dTpw"}},
            "credHelpers": {"b.example": "own"}, "credsStore": "all"}"#,
    )
    .helper("own", r#"read -r server; echo "{\"Username\": \"own\", \"Secret\": \"$1 $server\"}""#)
    .helper("all", r#"read -r server; echo "{\"Username\": \"all\", \"Secret\": \"$1 $server\"}""#);
    assert_eq!(user.get("b.example").await, Ok(Some(pair("own", "get b.example"))));
    assert_eq!(user.get("a.example").await, Ok(Some(pair("all", "get a.example"))));
    assert_eq!(
        user.get("docker.io").await,
        Ok(Some(pair("all", "get https://index.docker.io/v1/")))
    );
}

#[tokio::test]
async fn a_helpers_token_is_a_token() {
    let user = User::new(r#"{"credsStore": "t"}"#)
        .helper("t", r#"echo '{"Username": "<token>", "Secret": "s"}'"#);
    assert_eq!(user.get("a.example").await, Ok(Some(pair("s", ""))));
}

#[tokio::test]
async fn a_helper_that_knows_nothing_is_no_failure_and_one_that_fails_is_named() {
    let get = |config: &str, script: &str| {
        let user = User::new(config).helper("x", script);
        async move { user.get("a.example").await }
    };
    let store = r#"{"credsStore": "x"}"#;
    let unknown = "echo 'credentials not found in native keychain'; exit 1";
    assert_eq!(get(store, unknown).await, Ok(None));
    let failed = get(store, "echo secret; exit 3").await.unwrap_err();
    assert_eq!(failed, "docker-credential-x failed (exit status: 3)");
    let garbage = get(store, "echo secret").await.unwrap_err();
    assert_eq!(garbage, "docker-credential-x said something unexpected");
    let absent = get(r#"{"credsStore": "y"}"#, "").await.unwrap_err();
    assert_eq!(absent, "docker-credential-y is not on PATH");
    let hostile = get(r#"{"credsStore": "../x"}"#, "").await.unwrap_err();
    assert!(hostile.contains("name"), "{hostile}");
    let broken = get("{", "").await.unwrap_err();
    assert!(broken.contains("config.json cannot be read"), "{broken}");
}

#[tokio::test]
async fn without_a_file_there_are_no_credentials() {
    let keyring = Keyring::new(&Environment::from_pairs([("HOME", "/nowhere")]));
    assert_eq!(keyring.get("a.example").await.map(|found| found.is_none()), Ok(true));
    let homeless = Keyring::new(&Environment::default());
    assert_eq!(homeless.get("a.example").await.map(|found| found.is_none()), Ok(true));
}

#[test]
fn base64_is_read_with_and_without_padding() {
    for (text, expected) in [
        ("", Some(&b""[..])),
        ("Zg==", Some(b"f")),
        ("Zm8", Some(b"fo")),
        ("Zm9v", Some(b"foo")),
        ("+/-_", Some(&[0xfb, 0xff, 0xbf])),
        ("Z m", None),
        ("é", None),
    ] {
        assert_eq!(decode_base64(text).as_deref(), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_decoder(text in "\\PC{0,60}") {
        if let Some(bytes) = decode_base64(&text) {
            prop_assert!(bytes.len() <= text.len());
        }
    }
}
