//! Directories of the host in containers, and what must not come along.

use std::path::Path;

use vestal_sandbox::TaskName;

use crate::support::{EngineFixture, out};

fn volume(source: &Path, target: &str) -> String {
    format!(r#"terminal.docker_volumes=["{}:{target}"]"#, source.display())
}

pub(crate) async fn a_mount_that_another_container_has_replaced_is_refused(fixture: EngineFixture) {
    let mono = fixture.scratch("mono");
    std::fs::create_dir_all(mono.join("svc")).unwrap();
    std::fs::write(mono.join("svc/file"), "mine\n").unwrap();
    let secret = fixture.scratch("secret");
    std::fs::create_dir(&secret).unwrap();
    let (svc, attacker): (TaskName, TaskName) = ("svc".parse().unwrap(), "mono".parse().unwrap());
    let engine = fixture.engine_with(&[&volume(&mono.join("svc"), "/svc")]);
    let sandbox = engine.sandbox(&svc).await.unwrap();
    assert_eq!(out(&sandbox, "cat /svc/file").await, "mine\n");
    drop(sandbox);
    engine.stop(&svc).await.unwrap();

    let other = fixture.engine_with(&[&volume(&mono, "/mono")]).sandbox(&attacker).await.unwrap();
    let plant = format!("cd /mono && mv svc was && ln -s {} svc", secret.display());
    assert_eq!(out(&other, &plant).await, "");
    drop(other);
    let engine = fixture.engine_with(&[&volume(&mono.join("svc"), "/svc")]);
    let refused = engine.sandbox(&svc).await.unwrap_err().to_string();
    assert!(refused.contains("svc is a link"), "{refused}");

    std::fs::remove_file(mono.join("svc")).unwrap();
    std::fs::create_dir(mono.join("svc")).unwrap();
    let refused = engine.sandbox(&svc).await.unwrap_err().to_string();
    assert!(refused.contains("was replaced"), "{refused}");
    engine.accept_mounts(&svc).await.unwrap();
    let sandbox = engine.sandbox(&svc).await.unwrap();
    assert_eq!(out(&sandbox, "ls /svc").await, "");
    drop(sandbox);
    fixture.finish().await;
}

pub(crate) async fn the_home_of_vestal_is_covered_in_a_container(fixture: EngineFixture) {
    let above = fixture.home().parent().unwrap().to_owned();
    std::fs::create_dir_all(fixture.home()).unwrap();
    std::fs::write(fixture.home().join(".env"), "KEY=1\n").unwrap();
    let engine = fixture.engine_with(&[&volume(&above, "/all")]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let name = fixture.home().file_name().unwrap().to_str().unwrap().to_owned();
    let text = format!(
        "cd /all && ls -A {name}; cat {name}/.env; mv {name} other; echo x > {name}/config.yaml; \
         ls -d {name}"
    );
    assert_eq!(out(&sandbox, &format!("( {text} ) 2> /dev/null")).await, format!("{name}\n"));
    drop(sandbox);
    // It is so after a start, too.
    engine.stop(&TaskName::default_task()).await.unwrap();
    let sandbox = fixture.engine_with(&[&volume(&above, "/all")]);
    let sandbox = sandbox.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, &format!("ls -A /all/{name}")).await, "");
    drop(sandbox);
    fixture.finish().await;
}
