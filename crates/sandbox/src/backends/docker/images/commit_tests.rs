use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::Value;

use super::*;
use crate::HomeId;

fn inspected(config: &Value) -> ImageInspect {
    serde_json::from_value(json!({
        "Id": "sha256:abc", "Architecture": "arm64", "Variant": "v8", "Os": "linux",
        "RootFS": { "Type": "layers", "Layers": ["sha256:11", "sha256:22"] },
        "Config": config,
    }))
    .unwrap()
}

#[test]
fn an_archive_holds_a_configuration_that_says_nothing_and_no_layer() {
    let layers = ImageLayers::of(inspected(&json!({ "Labels": { "vestal-agent": "1" } }))).unwrap();
    let name = OwnImage::saved(&HomeId("feedface".into()), "1");
    let bytes = archive(&layers, &name, Timestamp::UNIX_EPOCH).unwrap();
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(&*bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(path, content);
    }
    let parse = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
    assert!(!files.keys().any(|path| path.ends_with("layer.tar")), "{:?}", files.keys());

    // Docker's form.
    let docker = parse("manifest.json");
    assert_eq!(docker[0]["RepoTags"], json!(["localhost/vestal/feedface:s-1"]));
    assert_eq!(docker[0]["Layers"], json!(["11/layer.tar", "22/layer.tar"]));
    let config = parse(docker[0]["Config"].as_str().unwrap());
    assert_eq!(config["config"], json!({}));
    assert_eq!(config["rootfs"]["diff_ids"], json!(["sha256:11", "sha256:22"]));
    assert_eq!((&config["architecture"], &config["variant"]), (&json!("arm64"), &json!("v8")));

    // The open form leads to the same configuration, by digests that are right.
    let follow = |descriptor: &Value| -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = files[&format!("blobs/sha256/{digest}")].clone();
        assert_eq!(super::digest(&content), digest);
        assert_eq!(descriptor["size"], content.len());
        content
    };
    let index = parse("index.json");
    let manifest: Value = serde_json::from_slice(&follow(&index["manifests"][0])).unwrap();
    let same: Value = serde_json::from_slice(&follow(&manifest["config"])).unwrap();
    assert_eq!(same, config);
    assert_eq!(manifest["layers"][1]["digest"], "sha256:22");
}

#[test]
fn an_image_that_says_anything_is_not_bare() {
    for nothing in [
        json!({}),
        json!({ "Env": null, "Labels": null, "User": "", "Cmd": [] }),
        json!({ "Volumes": {}, "Entrypoint": null, "WorkingDir": "" }),
    ] {
        assert!(is_bare(&inspected(&nothing)), "{nothing}");
    }
    for something in [
        json!({ "Env": ["A=b"] }),
        json!({ "Labels": { "a": "" } }),
        json!({ "User": "0:0" }),
        json!({ "Cmd": ["serve"] }),
        json!({ "Entrypoint": ["/.vestal/boot/guest"] }),
        json!({ "WorkingDir": "/workspace" }),
        json!({ "Volumes": { "/data": {} } }),
        json!({ "StopSignal": "SIGTERM" }),
        json!({ "Healthcheck": { "Test": ["NONE"] } }),
    ] {
        assert!(!is_bare(&inspected(&something)), "{something}");
    }
}

#[test]
fn an_image_without_layers_cannot_be_copied() {
    let mut image = inspected(&json!({}));
    image.root_fs = None;
    assert_eq!(ImageLayers::of(image), None);
}
