use proptest::prelude::*;
use serde_json::json;

use super::*;

fn named<'a>(registry: &'a str, repository: &'a str, tag: Option<&'a str>) -> Reference<'a> {
    Reference::Named { registry, is_qualified: registry != HUB, repository: repository.into(), tag }
}

#[test]
fn names_are_taken_apart_as_registries_do() {
    let hex = "0123456789abcdef".repeat(4);
    let digest = format!("debian@sha256:{hex}");
    let both = format!("quay.io/a/b:1@sha256:{hex}");
    let plain = format!("quay.io/a/b@sha256:{hex}");
    for (name, expected) in [
        ("debian", named(HUB, "debian", Some("latest"))),
        ("debian:12-slim", named(HUB, "debian", Some("12-slim"))),
        ("team/tool", named(HUB, "team/tool", Some("latest"))),
        ("localhost/tool", named("localhost", "localhost/tool", Some("latest"))),
        ("127.0.0.1:5000/a/b:x_1", named("127.0.0.1:5000", "127.0.0.1:5000/a/b", Some("x_1"))),
        ("[::1]:5000/a", named("[::1]:5000", "[::1]:5000/a", Some("latest"))),
        ("ghcr.io/o/r__x-y.z", named("ghcr.io", "ghcr.io/o/r__x-y.z", Some("latest"))),
        (&digest, named(HUB, &digest, None)),
        (&plain, named("quay.io", &plain, None)),
        (&both, named("quay.io", &plain, None)),
        (&format!("sha256:{hex}"), Reference::Id),
        ("sha256:0123abcd", Reference::Id),
        (&hex, Reference::Id),
        ("0123456789ab", Reference::Id),
    ] {
        assert_eq!(Reference::parse(name), Ok(expected), "{name}");
    }
}

#[test]
fn nothing_but_a_name_gets_into_a_request() {
    for name in [
        "",
        " ",
        "a b",
        "../containers/json",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "-a",
        "a:",
        "a:-x",
        "a@",
        "a@sha256",
        "a@sha256:xyz",
        "a?x=y",
        "a#b",
        "a%2f..%2fb",
        "a\nb",
        "A/b/../c",
        "Debian",
        "ex ample.com/a",
        "a..b",
        "é",
        "a\\b",
        "http://x/y",
        "x.y/",
        ".x/y",
        ":5000/a",
    ] {
        assert!(Reference::parse(name).is_err(), "{name:?}");
    }
    assert!(Reference::parse(&"a".repeat(2000)).is_err());
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(name in "[a-z0-9A-Z./:@_\\[\\]?#%-]{0,40}") {
        if Reference::parse(&name).is_ok() {
            prop_assert!(!name.contains(['?', '#', '%']));
            prop_assert!(!name.contains("..") && !name.starts_with('/'));
        }
    }
}

fn facts(value: serde_json::Value) -> Option<ImageInfo> {
    ImageInfo::new("x", serde_json::from_value(value).unwrap())
}

#[test]
fn what_matters_about_an_image_is_kept() {
    let response = json!({
        "Id": "sha256:abc",
        "RootFS": {"Type": "layers", "Layers": ["sha256:1", "sha256:2"]},
        "Config": {
            "User": "app:app", "Entrypoint": ["/init"], "Cmd": ["sh", "-c"],
            "Volumes": {"/data": {}}, "Env": ["A=b"], "WorkingDir": "/srv",
            "StopSignal": "SIGINT",
        },
    });
    let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let expected = ImageInfo {
        name: "x".to_owned(),
        id: "sha256:abc".to_owned(),
        user: Some("app:app".to_owned()),
        entrypoint: text(&["/init"]),
        cmd: text(&["sh", "-c"]),
        volumes: text(&["/data"]),
        env: text(&["A=b"]),
        working_dir: "/srv".to_owned(),
        stop_signal: Some("SIGINT".to_owned()),
        layers: 2,
        is_bare: false,
    };
    assert_eq!(facts(response), Some(expected));
}

#[test]
fn an_image_that_says_nothing_has_defaults() {
    let bare = facts(json!({"Id": "abc", "Config": {"User": "", "Volumes": null}})).unwrap();
    assert_eq!(bare.id, "sha256:abc");
    assert_eq!((bare.user, bare.entrypoint, bare.volumes), (None, vec![], vec![]));
    assert!(facts(json!({"Id": "abc"})).is_some());
    assert!(facts(json!({"Id": ""})).is_none());
    assert!(facts(json!({})).is_none());
}
