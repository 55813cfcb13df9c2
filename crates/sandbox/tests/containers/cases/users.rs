//! Who runs what, and whose files that leaves.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{EngineFixture, OwnEngine, given, out, restarted, use_all};

/// A user that nobody else is.
const USER: u32 = 61_185;

pub(crate) async fn an_ordinary_users_jobs_can_be_that_user_and_leave_no_foreign_file() {
    let engine = OwnEngine::docker(&[]).await;
    engine.open_to_everyone();
    let fixture = EngineFixture::on(engine.host());
    let project = fixture.user_home().join("project");
    std::fs::create_dir(&project).unwrap();
    std::os::unix::fs::chown(&project, Some(USER), Some(USER)).unwrap();
    let volumes = format!(r#"terminal.docker_volumes=["{}:/project"]"#, project.display());
    let fixture = fixture.set("terminal.docker_run_as_host_user=true").set(&volumes);
    let user = fixture.give_to(USER);
    let text = "id -u; id -g; touch ~/x /workspace/x /project/x; cd; pwd; x=1";
    assert_eq!(user.out(text).await, format!("{USER}\n{USER}\n/home/vestal\n"));
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    user.worker(&["stop", "default"]).done().await;
    assert_eq!(user.out("echo $x; id -u; ls ~/x /workspace/x").await, {
        format!("1\n{USER}\n/home/vestal/x\n/workspace/x\n")
    });
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    assert_eq!(user.worker(&["remove", "default"]).done().await["removed"], 1);
    assert_eq!(user.out("ls ~/x /workspace/x").await, "/home/vestal/x\n/workspace/x\n");
    user.worker(&["remove", "default", "--files"]).done().await;
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    assert!(project.join("x").exists(), "what the user has mounted stays");
    fixture.is_empty().await;
}

pub(crate) async fn what_belongs_to_root_is_removed_for_an_ordinary_user() {
    let engine = OwnEngine::docker(&[]).await;
    engine.open_to_everyone();
    for image in ["base", "nonroot"] {
        let fixture = EngineFixture::on(engine.host()).image(image);
        let user = fixture.give_to(USER);
        let text = "umask 077; mkdir -p ~/a/b /workspace/a/b; echo 1 > ~/a/b/c; \
                    echo 2 > /workspace/a/b/c; chmod 500 ~/a";
        user.out(text).await;
        assert_ne!(user.foreign_files(), Vec::<PathBuf>::new(), "root made them");
        user.worker(&["stop", "default"]).done().await;
        assert_eq!(user.out("cat ~/a/b/c /workspace/a/b/c").await, "1\n2\n");
        assert_eq!(user.worker(&["remove", "default"]).done().await["removed"], 1);
        assert_eq!(fixture.containers(), Vec::<Value>::new());
        assert_eq!(user.out("cat ~/a/b/c /workspace/a/b/c").await, "1\n2\n");
        user.worker(&["remove", "default", "--files"]).done().await;
        assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
        fixture.is_empty().await;
    }
}

pub(crate) async fn a_socket_that_may_not_be_used_is_an_error_that_says_so() {
    let engine = OwnEngine::docker(&["--images", "none"]).await;
    let fixture = EngineFixture::on(engine.host());
    let user = fixture.give_to(USER);
    let printed = user.worker(&["run", "default", "true"]).failed().await;
    assert!(printed.to_lowercase().contains("permission denied"), "{printed}");
    assert!(printed.contains("advice"), "{printed}");
    fixture.finish().await;
}

pub(crate) async fn users_of_containers_may_be_mapped() {
    let engine = OwnEngine::docker(&["--", "--userns-remap=default"]).await;
    let fixture = EngineFixture::on(engine.host());
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    assert_eq!(out(&sandbox, "id -u; cat ~/.image-marker").await, "0\nfrom the image\n");
    let owner = std::fs::metadata(fixture.workspace().join("deep/here")).unwrap().uid();
    assert_ne!(owner, 0, "root in there is somebody else out here");
    assert_eq!(out(&restarted(&fixture).await, "cat ~/note; echo $kept").await, {
        "needle\ntwo words\n"
    });
    fixture.finish().await;
}

/// Returns a fixture on the engine of an ordinary user, and that user.
fn rootless() -> (EngineFixture, u32) {
    let user = given("VESTAL_TEST_ROOTLESS_USER").parse().unwrap();
    (EngineFixture::on(&given("VESTAL_TEST_PODMAN_ROOTLESS_HOST")), user)
}

pub(crate) async fn the_root_of_a_users_own_engine_is_that_user() {
    let (fixture, id) = rootless();
    let user = fixture.give_to(id);
    let text = "id -u; touch ~/x /workspace/x; cat ~/.image-marker; x=1";
    assert_eq!(user.out(text).await, "0\nfrom the image\n");
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    user.worker(&["stop", "default"]).done().await;
    assert_eq!(user.out("echo $x; ls ~/x /workspace/x").await, "1\n/root/x\n/workspace/x\n");
    user.worker(&["remove", "default", "--files"]).done().await;
    fixture.is_empty().await;
}

pub(crate) async fn what_belongs_to_the_users_of_an_image_is_removed_for_the_engines_user() {
    let (fixture, id) = rootless();
    let fixture = fixture.image("nonroot");
    let user = fixture.give_to(id);
    let text = "id -u; umask 077; mkdir -p ~/a/b; echo 1 > ~/a/b/c; echo 2 > /workspace/d";
    assert_eq!(user.out(text).await, "1000\n");
    assert_ne!(user.foreign_files(), Vec::<PathBuf>::new(), "they are another's");
    assert_eq!(user.worker(&["remove", "default"]).done().await["removed"], 1);
    assert_eq!(user.out("cat ~/a/b/c /workspace/d").await, "1\n2\n");
    user.worker(&["remove", "default", "--files"]).done().await;
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    fixture.is_empty().await;
}

pub(crate) async fn jobs_can_be_the_user_of_a_users_own_engine() {
    let (fixture, id) = rootless();
    let fixture = fixture.set("terminal.docker_run_as_host_user=true");
    let user = fixture.give_to(id);
    assert_eq!(user.out("id -u; touch ~/x /workspace/x").await, format!("{id}\n"));
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    user.worker(&["stop", "default"]).done().await;
    assert_eq!(user.out("id -u; ls /workspace").await, format!("{id}\nx\n"));
    user.worker(&["remove", "default", "--files"]).done().await;
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    fixture.is_empty().await;
}

pub(crate) async fn an_engine_that_may_not_raise_limits_is_given_lower_ones() {
    let engine = OwnEngine::podman(&["--no-ulimits"]).await;
    let fixture = EngineFixture::on(engine.host());
    assert_eq!(fixture.out("echo ok").await, "ok\n");
    assert_eq!(out(&restarted(&fixture).await, "echo ok").await, "ok\n");
    fixture.finish().await;
}
