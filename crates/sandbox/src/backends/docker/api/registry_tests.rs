use std::fs;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::fake_engine::{FakeEngine, answer, write_program};
use super::super::image::{exists, find_or_pull};
use super::*;

const INSPECT: &str = r#"{"Id": "sha256:abc", "Config": {"User": ""}}"#;

/// An engine that has an image only after it was pulled with these words.
fn registry_engine(status: &'static str, stream: &'static str) -> FakeEngine {
    let complete = stream.contains("Pull complete");
    let pulled = Mutex::new(false);
    FakeEngine::start(move |head| {
        let mut pulled = pulled.lock().unwrap();
        if head.starts_with("POST ") {
            *pulled = complete;
            return answer(status, stream);
        }
        if *pulled {
            answer("200 OK", INSPECT)
        } else {
            answer("404 Not Found", r#"{"message": "No such image"}"#)
        }
    })
}

async fn connect(engine: &FakeEngine) -> EngineClient {
    EngineClient::connect(&engine.settings(), &engine.path("run")).await.unwrap()
}

fn recording_sink() -> (ProgressSink, Arc<Mutex<Vec<Progress>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let received = Arc::clone(&received);
        ProgressSink::new(move |progress| received.lock().unwrap().push(progress))
    };
    (sink, received)
}

const STREAM: &str = concat!(
    r#"{"status":"Pulling from library/debian","id":"12"}"#,
    "\r\n",
    r#"{"status":"Already exists","progressDetail":{},"id":"aaa"}"#,
    "\r\n",
    r#"{"status":"Pulling fs layer","progressDetail":{},"id":"bbb"}"#,
    "\r\n",
    r#"{"status":"Downloading","progressDetail":{"current":30,"total":100},"id":"bbb"}"#,
    "\r\n",
    r#"{"status":"Download complete","progressDetail":{},"id":"bbb"}"#,
    "\r\n",
    r#"{"status":"Extracting","progressDetail":{"current":1,"total":100},"id":"bbb"}"#,
    "\r\n",
    r#"{"status":"Pull complete","progressDetail":{},"id":"bbb"}"#,
    "\r\n",
    r#"{"status":"Digest: sha256:0"}"#,
    "\r\n",
);

#[tokio::test]
async fn an_image_that_is_not_there_is_pulled_with_progress() {
    let engine = registry_engine("200 OK", STREAM);
    let client = connect(&engine).await;
    let (sink, received) = recording_sink();
    assert!(!exists(&client, "debian:12").await.unwrap());
    let facts = find_or_pull(&client, "debian:12", &sink).await.unwrap();
    assert_eq!(facts.id, "sha256:abc");
    assert!(exists(&client, "debian:12").await.unwrap());
    let received = received.lock().unwrap().clone();
    let image = || "debian:12".to_owned();
    let all =
        Progress::Pulling { image: image(), layers_done: 2, layers: 2, bytes: 100, total: 100 };
    assert!(matches!(received.first(), Some(Progress::Pulling { layers: 0, .. })), "{received:?}");
    assert_eq!(received[received.len() - 2..], [all, Progress::Pulled { image: image() }]);
    let pull = engine.requests().into_iter().find(|head| head.starts_with("POST ")).unwrap();
    assert!(pull.starts_with("POST /v1.41/images/create?fromImage=debian&tag=12&"), "{pull}");
    assert!(!pull.to_ascii_lowercase().contains("x-registry-auth"), "{pull}");
}

#[tokio::test]
async fn an_image_that_is_there_is_not_pulled() {
    let engine = FakeEngine::start(|_| answer("200 OK", INSPECT));
    let client = connect(&engine).await;
    let (sink, received) = recording_sink();
    find_or_pull(&client, "debian", &sink).await.unwrap();
    assert_eq!((engine.requests().len(), received.lock().unwrap().len()), (1, 0));
}

#[tokio::test]
async fn an_id_is_never_asked_of_a_registry() {
    let engine = registry_engine("200 OK", STREAM);
    let client = connect(&engine).await;
    let error = find_or_pull(&client, "sha256:0123", &ProgressSink::default()).await.unwrap_err();
    assert!(error.to_string().contains("no image has that id"), "{error}");
    assert!(engine.requests().iter().all(|head| head.starts_with("GET ")));
}

#[tokio::test]
async fn what_is_no_name_never_reaches_the_engine() {
    let engine = registry_engine("200 OK", STREAM);
    let client = connect(&engine).await;
    let error = find_or_pull(&client, "../x\n", &ProgressSink::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("image ../x is not available"), "{error}");
    assert!(engine.requests().is_empty());
}

#[tokio::test]
async fn a_pull_that_fails_says_why_and_what_to_do() {
    let denied = r#"{"message": "pull access denied for x, repository does not exist"}"#;
    let midway = concat!(
        r#"{"status":"Pulling fs layer","progressDetail":{},"id":"bbb"}"#,
        "\r\n",
        r#"{"errorDetail":{"message":"unexpected EOF"},"error":"unexpected EOF"}"#,
        "\r\n",
    );
    let silent = r#"{"error":"only this field"}"#;
    for (status, stream, part) in [
        ("404 Not Found", denied, "pull access denied for x"),
        ("200 OK", midway, "unexpected EOF"),
        ("200 OK", silent, "pulled it and does not have it"),
    ] {
        let engine = registry_engine(status, stream);
        let client = connect(&engine).await;
        let (sink, received) = recording_sink();
        let error = find_or_pull(&client, "x", &sink).await.unwrap_err();
        assert!(matches!(error, BackendError::NoImage { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.advice().unwrap().contains("docker pull x"), "{error:?}");
        let pulled = Progress::Pulled { image: "x".to_owned() };
        assert!(part.contains("pulled it") || !received.lock().unwrap().contains(&pulled));
    }
}

#[tokio::test]
async fn an_engine_that_dies_in_a_pull_is_unreachable() {
    let engine = FakeEngine::start(|head| {
        if head.starts_with("POST ") {
            return "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"status\":\"x\"}\r\n"
                .to_owned();
        }
        answer("404 Not Found", "{}")
    });
    let client = connect(&engine).await;
    let error = find_or_pull(&client, "x", &ProgressSink::default()).await.unwrap_err();
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn credentials_go_to_the_engine_in_the_alphabet_it_reads() {
    let engine = registry_engine("200 OK", STREAM);
    std::fs::create_dir(engine.path(".docker")).unwrap();
    // A password whose encoding has letters that differ.
    let config = r#"{"auths": {"127.0.0.1:5000": {"username": "u", "password": ">>>???"}}}"#;
    std::fs::write(engine.path(".docker/config.json"), config).unwrap();
    let client = connect(&engine).await;
    find_or_pull(&client, "127.0.0.1:5000/x", &ProgressSink::default()).await.unwrap();
    let pull = engine.requests().into_iter().find(|head| head.starts_with("POST ")).unwrap();
    let headers: HashMap<_, _> = pull.lines().filter_map(|line| line.split_once(": ")).collect();
    let header = headers["x-registry-auth"];
    assert!(!header.contains(['+', '/']), "{header}");
    assert!(header.contains(['-', '_']), "the sample must have letters that differ: {header}");
}

#[test]
fn layers_are_counted_and_nothing_else() {
    let event = |status: &str, id: Option<&str>, current: i64, total: i64| CreateImageInfo {
        id: id.map(str::to_owned),
        status: Some(status.to_owned()),
        error_detail: None,
        progress_detail: Some(bollard::models::ProgressDetail {
            current: Some(current),
            total: Some(total),
        }),
    };
    let mut pulled = PullProgress::new("x", Flavour::Docker);
    pulled.update(event("Pulling from x", Some("latest"), 0, 0));
    pulled.update(event("Downloading", None, 5, 5));
    pulled.update(event("Downloading", Some("a"), i64::MAX, -1));
    pulled.update(event("Downloading", Some("b"), -7, i64::MAX));
    pulled.update(event("Downloading", Some("c"), i64::MAX, i64::MAX));
    let Progress::Pulling { layers, layers_done, bytes, total, .. } = pulled.progress() else {
        panic!("no progress");
    };
    assert_eq!((layers, layers_done), (3, 0));
    assert!(bytes <= total);
    for number in 0..5000 {
        pulled.update(event("Waiting", Some(&number.to_string()), 0, 0));
    }
    assert_eq!(pulled.layers.len(), MAX_LAYERS);
}

#[test]
fn advice_fits_the_engine_and_the_refusal() {
    let advice = |flavour, name: &str, why| {
        super::advice(flavour, name, &Reference::parse(name).unwrap(), why)
    };
    let docker = advice(Flavour::Docker, "x", "no such host");
    assert!(docker.contains("`docker pull x`") && !docker.contains("login"), "{docker}");
    let locked = advice(Flavour::Docker, "quay.io/a", "Unauthorized");
    assert!(locked.contains("`docker login quay.io`"), "{locked}");
    let podman = advice(Flavour::Podman, "debian:12", "short name");
    assert!(podman.contains("docker.io/library/debian:12"), "{podman}");
    let podman = advice(Flavour::Podman, "team/tool", "short name");
    assert!(podman.contains("such as docker.io/team/tool,"), "{podman}");
    let podman = advice(Flavour::Podman, "quay.io/a", "no such host");
    assert!(!podman.contains("in full"), "{podman}");
    assert!(advice(Flavour::Podman, "sha256:01", "").contains("`podman load`"));
}

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
    assert_eq!(garbage, "docker-credential-x printed an unexpected answer");
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
