//! Sandboxes that are containers of the engine of a machine which is reached over ssh alone.

use std::path::Path;

use vestal_sandbox::backend::{Availability, BackendError};
use vestal_sandbox::{Command, Error, Overrides, Rebuild, TaskName, WhileBusy};
use vestal_testkit::engines::EngineApi;

use crate::support::BackendFixture;

fn to(backend: &str) -> Rebuild {
    Rebuild { backend: Some(backend.to_owned()), ..Rebuild::default() }
}

#[tokio::test]
async fn what_is_made_is_a_container_of_that_machines_engine_with_its_limits() {
    let fixture = BackendFixture::ssh_containers();
    let engine =
        fixture.engine_with(&["terminal.container_memory=256", "terminal.container_pids=64"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let command = Command::shell("cat ~/.image-marker; pwd; echo one > /usr/own; cat /usr/own");
    let output = sandbox.run(command).await.unwrap();
    assert_eq!(output.stdout.text(), "from the image\n/workspace\none\n");
    let shown = engine.inspect(&TaskName::default_task()).await.unwrap().remove(0);
    assert_eq!(shown.backend, "ssh-docker");
    let description = shown.description;
    assert_eq!(description.transport.as_deref(), Some("exec, over ssh"));
    assert!(description.name.as_deref().unwrap().ends_with(" on box"), "{description:?}");
    assert_eq!(description.weakened, [""; 0]);
    let container = fixture.own_containers().remove(0);
    let container = fixture.containers().inspect(container["Id"].as_str().unwrap()).unwrap();
    assert_eq!(container["HostConfig"]["Memory"], 256 << 20);
    // The system's own files are the container's: they outlive a stop.
    engine.stop(&TaskName::default_task()).await.unwrap();
    let output = sandbox.run(Command::shell("cat /usr/own")).await.unwrap();
    assert_eq!(output.stdout.text(), "one\n");
    // Of the machine's home only what carries the connection was used.
    let there = vestal_testkit::files::names(&fixture.machine().host().home().join(".vestal-ssh"));
    assert_eq!(there, ["bin"]);
    drop((sandbox, engine));
    fixture.finish().await;
}

#[tokio::test]
async fn an_image_can_be_asked_for_one_task_alone() {
    let fixture = BackendFixture::ssh_containers();
    let engine = fixture.engine();
    let asked =
        Overrides { image: Some("vestal-test/nonroot:latest".to_owned()), ..Overrides::default() };
    let sandbox = engine.sandbox_with(&TaskName::default_task(), &asked).await.unwrap();
    let output =
        sandbox.run(Command::shell("id -un; touch file && stat -c %U file")).await.unwrap();
    assert_eq!(output.stdout.text(), "app\napp\n");
    drop((sandbox, engine));
    fixture.finish().await;
}

#[tokio::test]
async fn doctor_says_which_machine_and_which_engine_it_is() {
    let fixture = BackendFixture::ssh_containers();
    let found = fixture.engine().backends().await;
    let notes = |wanted: &str| match found.iter().find(|(name, _)| *name == wanted) {
        Some((_, Availability::Works { notes })) => notes.join("\n"),
        other => panic!("{other:?}"),
    };
    assert!(notes("ssh").contains("containers of that machine's engine: see ssh-docker"));
    let notes = notes("ssh-docker");
    assert!(notes.contains("box is box, Linux") && notes.contains("at ssh://box"), "{notes}");
    let loose = fixture.engine_with(&["terminal.ssh_isolation=none"]).backends().await;
    let found = loose.into_iter().find(|(name, _)| *name == "ssh-docker").unwrap().1;
    assert!(matches!(found, Availability::Missing { .. }), "{found:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn a_machine_without_an_engine_is_an_error_and_nothing_is_made() {
    let fixture = BackendFixture::ssh_with(&[]);
    let docker = "terminal.ssh_isolation=docker";
    let error =
        fixture.engine_with(&[docker]).sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Backend { backend, source } = &error else { panic!("{error:?}") };
    assert_eq!(*backend, "ssh-docker");
    assert!(source.to_string().contains("no engine listens at /var/run/docker.sock"), "{source}");
    assert!(source.advice().unwrap().contains("terminal.ssh_isolation to native"), "{source:?}");
    fixture.nothing_was_made();
    fixture.finish().await;
}

#[tokio::test]
async fn an_engine_that_its_user_may_not_use_is_named_with_what_to_do() {
    let engine = EngineApi::docker();
    let socket = Path::new(engine.address().strip_prefix("unix://").unwrap());
    let shared = socket.parent().unwrap().to_str().unwrap();
    let fixture = BackendFixture::ssh_with(&["--user", "tester", "--share", shared]);
    let host = fixture.machine().host();
    host.run(&["mkdir", "-p", "/var/run"]);
    host.run(&["ln", "-s", socket.to_str().unwrap(), "/var/run/docker.sock"]);
    let docker = "terminal.ssh_isolation=docker";
    let error =
        fixture.engine_with(&[docker]).sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source, BackendError::Unreachable { .. }), "{source:?}");
    assert!(source.to_string().contains("Permission denied"), "{source}");
    fixture.nothing_was_made();
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_becomes_a_container_by_a_move_with_its_files_and_never_unasked() {
    let fixture = BackendFixture::ssh_containers();
    let (docker, task) = (fixture.engine(), TaskName::default_task());
    let plain = fixture.engine_with(&["terminal.ssh_isolation=none"]);
    let sandbox = plain.sandbox(&task).await.unwrap();
    let text = "echo one > file; mkdir d; echo two > ~/home; chmod 640 file";
    sandbox.run(Command::shell(text)).await.unwrap();
    assert_eq!(sandbox.backend(), "ssh");
    drop(sandbox);
    let error = docker.sandbox(&task).await.unwrap_err();
    let Error::BackendChanged { was, now, .. } = &error else { panic!("{error:?}") };
    assert_eq!((was.as_str(), now.as_str()), ("ssh", "ssh-docker"));

    // By the name that people know it by.
    let moved = docker.rebuild(&task, &to("ssh"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("ssh", "ssh-docker"));
    let look = "cat file ~/home; stat -c %a file; ls";
    assert_eq!(fixture.run(look).await.stdout.text(), "one\ntwo\n640\nd\nfile\n");
    assert_eq!(fixture.own_containers().len(), 1);
    let kept = fixture.machine().host().home().join(".vestal-ssh/sandboxes");
    assert_eq!(vestal_testkit::files::names(&kept), [""; 0]);

    let moved = docker.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("ssh-docker", "native"));
    let native = fixture.engine_with(&["terminal.backend=native"]);
    let sandbox = native.sandbox(&task).await.unwrap();
    let output = sandbox.run(Command::shell(look)).await.unwrap();
    assert_eq!(output.stdout.text(), "one\ntwo\n640\nd\nfile\n");
    assert_eq!(fixture.own_containers().len(), 0);
    drop((sandbox, plain, docker, native));
    fixture.finish().await;
}
