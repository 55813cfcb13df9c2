//! Copies of a sandbox whose files are on a volume claim: they are on the same one, and hold
//! nothing of the pod.

use std::path::PathBuf;

use vestal_sandbox::{FilesOnRemoval, WhileBusy};
use vestal_testkit::files::names;

use crate::cases::copying;
use crate::cases::snapshots::{assert_reads, name, run, task, write};
use crate::support::BackendFixture;

/// Returns the directory of the copies on a sandbox's claim.
fn copies(fixture: &BackendFixture, of: &str) -> PathBuf {
    fixture.files_dir(of).join("copies")
}

/// Checks that nothing of what copies is left in the cluster.
fn assert_no_helper(fixture: &BackendFixture) {
    let pods = fixture.machine().namespace().pods();
    assert!(
        pods.iter().all(|pod| pod["metadata"]["labels"]["vestal-helper"].is_null()),
        "{pods:?}"
    );
}

#[tokio::test]
async fn a_restored_sandbox_has_the_files_of_then_and_its_sessions() {
    let fixture = BackendFixture::kubernetes();
    run(&fixture, "default", "kept=session; ln -s /etc/passwd ~/link; chmod 700 ~").await;
    write(&fixture, "default", "before").await;
    let (engine, of, one) = (fixture.engine(), task("default"), name("one"));
    let made = engine.snapshot(&of, &one, Some("a note"), WhileBusy::Refuse).await.unwrap();
    assert!(!made.system, "nothing of the pod is in it");
    assert!(made.files >= 4 && made.bytes >= 14, "{made:?}");
    assert_no_helper(&fixture);
    for what in ["after", "again"] {
        write(&fixture, "default", what).await;
        assert_reads(&fixture, "default", what).await;
        let engine = fixture.engine();
        let restored = engine.restore(&of, &one, WhileBusy::Refuse).await.unwrap();
        assert_eq!(restored.snapshot, made);
        assert_reads(&fixture, "default", "before").await;
        assert_eq!(
            run(&fixture, "default", "echo $kept; readlink ~/link").await,
            "session\n/etc/passwd\n"
        );
    }
    // After a stop, which is another pod, too.
    engine.stop(&of).await.unwrap();
    assert_reads(&fixture, "default", "before").await;
    let namespace = fixture.machine().namespace();
    assert_eq!((namespace.claims().len(), fixture.own_containers().len()), (1, 1));
    // What was replaced makes room with the next copy.
    let two = name("two");
    engine.snapshot(&of, &two, None, WhileBusy::Refuse).await.unwrap();
    assert_eq!(names(&fixture.files_dir("default").join("trees")).len(), 1);
    for one in [one, two] {
        engine.remove_snapshot(&of, &one).await.unwrap();
    }
    assert_eq!(names(&copies(&fixture, "default")), Vec::<String>::new());
    assert_no_helper(&fixture);
    assert_reads(&fixture, "default", "before").await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_fork_has_a_claim_of_its_own() {
    let fixture = BackendFixture::kubernetes();
    write(&fixture, "default", "before").await;
    let (engine, of) = (fixture.engine(), task("default"));
    engine.snapshot(&of, &name("one"), None, WhileBusy::Refuse).await.unwrap();
    write(&fixture, "default", "after").await;
    let forked = engine.fork(&of, Some(&name("one")), &task("then"), WhileBusy::Refuse).await;
    assert!(forked.unwrap().files >= 4);
    engine.fork(&of, None, &task("now"), WhileBusy::Refuse).await.unwrap();
    assert_reads(&fixture, "then", "before").await;
    assert_reads(&fixture, "now", "after").await;
    assert_eq!(fixture.machine().namespace().claims().len(), 3);
    engine.remove(&of, FilesOnRemoval::Remove).await.unwrap();
    engine.stop(&task("then")).await.unwrap();
    assert_reads(&fixture, "then", "before").await;
    assert_no_helper(&fixture);
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_whose_pod_was_deleted_has_files_to_copy() {
    let fixture = BackendFixture::kubernetes();
    write(&fixture, "default", "before").await;
    let namespace = fixture.machine().namespace();
    let pod = namespace.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    namespace.admin(&["delete", "pod", &pod, "--grace-period=1"], "");
    let (engine, of, one) = (fixture.engine(), task("default"), name("one"));
    let made = engine.snapshot(&of, &one, None, WhileBusy::Refuse).await.unwrap();
    assert!(made.files >= 4, "{made:?}");
    write(&fixture, "default", "after").await;
    fixture.engine().restore(&of, &one, WhileBusy::Refuse).await.unwrap();
    assert_reads(&fixture, "default", "before").await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_process_may_die_at_any_step_of_a_snapshot() {
    let fixture = BackendFixture::kubernetes();
    copying::a_process_may_die_at_any_step_of_a_snapshot(&fixture).await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_process_may_die_at_any_step_of_a_fork() {
    let fixture = BackendFixture::kubernetes();
    copying::a_process_may_die_at_any_step_of_a_fork(&fixture).await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_process_may_die_at_any_step_of_a_restore() {
    let fixture = BackendFixture::kubernetes();
    copying::a_process_may_die_at_any_step_of_a_restore(&fixture).await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_process_may_die_at_any_step_of_the_removal_of_a_snapshot() {
    let fixture = BackendFixture::kubernetes();
    copying::a_process_may_die_at_any_step_of_the_removal_of_a_snapshot(&fixture).await;
    fixture.finish().await;
}
