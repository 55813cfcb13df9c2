use serde_json::json;

use super::*;

fn facts(value: serde_json::Value) -> Option<ImageFacts> {
    ImageFacts::new("x", serde_json::from_value(value).unwrap())
}

#[test]
fn what_matters_about_an_image_is_kept() {
    let said = json!({
        "Id": "sha256:abc",
        "RootFS": {"Type": "layers", "Layers": ["sha256:1", "sha256:2"]},
        "Config": {
            "User": "app:app", "Entrypoint": ["/init"], "Cmd": ["sh", "-c"],
            "Volumes": {"/data": {}}, "Env": ["A=b"], "WorkingDir": "/srv",
            "StopSignal": "SIGINT",
        },
    });
    let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let expected = ImageFacts {
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
    assert_eq!(facts(said), Some(expected));
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
