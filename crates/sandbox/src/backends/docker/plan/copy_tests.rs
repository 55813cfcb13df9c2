//! Containers that are made of a copy of another's system.

use serde_json::json;

use super::testing::Bench;

fn of_a_copy(sets: &[&str]) -> Bench {
    let mut bench = Bench::with(sets);
    bench.image.is_bare = true;
    bench.image.env = vec!["PATH=/bin".into(), "LANG=C".into()];
    bench.image.volumes = vec!["/data/".into(), "/workspace".into(), "/tmp".into()];
    bench.image.stop_signal = Some("SIGINT".into());
    bench
}

#[test]
fn settings_of_the_first_image_are_passed_to_a_container_of_a_copy() {
    let body = of_a_copy(&[]).json();
    assert_eq!(body["Env"], json!(["PATH=/bin", "LANG=C"]));
    assert_eq!(body["Entrypoint"], json!(["/.vestal/boot/guest"]), "the guest is still the first");
    assert_eq!(body["StopSignal"], "SIGTERM");
    let mounts = body["HostConfig"]["Mounts"].as_array().unwrap();
    let volumes: Vec<_> = mounts.iter().filter(|mount| mount["Type"] == "volume").collect();
    // OwnDirs are where the image wanted volumes.
    assert_eq!(volumes, [&json!({ "Type": "volume", "Target": "/data" })]);
}

#[test]
fn a_kept_entrypoint_is_the_first_images() {
    let body = of_a_copy(&["terminal.docker_keep_entrypoint=true"]).json();
    assert_eq!(body["Entrypoint"], json!(["/entrypoint.sh"]));
    assert_eq!(body["StopSignal"], "SIGINT");
    assert_eq!(body["Cmd"][0], "/.vestal/boot/guest");
}

#[test]
fn an_image_that_says_it_itself_is_not_repeated() {
    let mut bench = of_a_copy(&["terminal.docker_keep_entrypoint=true"]);
    bench.image.is_bare = false;
    let body = bench.json();
    assert!(body["Env"].is_null() && body["Entrypoint"].is_null(), "{body}");
    assert!(!body["HostConfig"]["Mounts"].to_string().contains("/data"));
}
