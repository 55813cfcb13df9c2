//! What is mounted from the host, and what must not come along.

use std::path::Path;

use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, TaskName};

use crate::cell::{Cell, run_in};

/// Returns the setting that mounts directories.
fn volumes(mounts: &[(&Path, &str)]) -> String {
    let volume = |(source, target): &(&Path, &str)| format!("\"{}:{target}\"", source.display());
    let volumes: Vec<String> = mounts.iter().map(volume).collect();
    format!("terminal.docker_volumes=[{}]", volumes.join(","))
}

/// Returns why there is no such sandbox, with the advice.
async fn refused(engine: &Engine, task: &TaskName) -> String {
    let error = engine.sandbox(task).await.unwrap_err();
    match &error {
        vestal_sandbox::Error::Backend { source, .. } => {
            format!("{error}; {}", source.advice().unwrap_or_default())
        }
        _ => error.to_string(),
    }
}

pub(crate) async fn a_mount_that_another_sandbox_has_replaced_is_refused(cell: &Cell) {
    let mono = cell.fixture.scratch("mono");
    std::fs::create_dir_all(mono.join("svc")).unwrap();
    std::fs::write(mono.join("svc/file"), "mine\n").unwrap();
    let (of_svc, of_mono) = (volumes(&[(&mono.join("svc"), "/svc")]), volumes(&[(&mono, "/mono")]));
    let (svc, later): (TaskName, TaskName) = ("svc".parse().unwrap(), "later".parse().unwrap());
    let engine = cell.engine(&[&of_svc]);
    let sandbox = engine.sandbox(&svc).await.unwrap();
    assert_eq!(run_in(&sandbox, "cat /svc/file").await, "mine\n");
    drop(sandbox);
    engine.stop(&svc).await.unwrap();

    let attacker = cell.another("mono", &[&of_mono]).await;
    let home = cell.fixture.user_home();
    let plant = format!("cd /mono && mv svc was && ln -s {} svc && echo done", home.display());
    assert_eq!(run_in(&attacker, &plant).await, "done\n");
    // Neither the sandbox that had it nor one that is made now is given the link's target, also
    // when the process that made the link is gone.
    for round in ["while it runs", "when it is gone"] {
        for task in [&svc, &later] {
            let printed = refused(&cell.engine(&[&of_svc]), task).await;
            assert!(printed.contains("svc is a link"), "{round}: {printed}");
        }
        let both = volumes(&[(&mono, "/mono"), (&mono.join("svc/.ssh"), "/keys")]);
        let printed = refused(&cell.engine(&[&both]), &later).await;
        assert!(printed.contains("svc is a link"), "{round}: {printed}");
        if round == "while it runs" {
            let engine = cell.engine(&[]);
            engine.remove(&"mono".parse().unwrap(), FilesOnRemoval::Remove).await.unwrap();
        }
    }

    // What took the place of a directory is another one, until somebody accepts it.
    std::fs::remove_file(mono.join("svc")).unwrap();
    std::fs::create_dir(mono.join("svc")).unwrap();
    std::fs::write(mono.join("svc/file"), "another\n").unwrap();
    let engine = cell.engine(&[&of_svc]);
    let printed = refused(&engine, &svc).await;
    assert!(
        printed.contains("was replaced") && printed.contains("--accept-mounts svc"),
        "{printed}"
    );
    engine.accept_mounts(&svc).await.unwrap();
    let sandbox = engine.sandbox(&svc).await.unwrap();
    assert_eq!(run_in(&sandbox, "cat /svc/file").await, "another\n");
}

pub(crate) async fn the_home_of_vestal_is_covered_in_what_is_mounted(cell: &Cell) {
    let fixture = cell.fixture.scratch("");
    let above = volumes(&[(&fixture, "/all"), (&fixture, "/workspace/again")]);
    let sandbox = cell.another("above", &[&above]).await;
    let name = cell.fixture.home().file_name().unwrap().to_str().unwrap().to_owned();
    for place in ["/all", "/workspace/again"] {
        let text = format!(
            "cd {place} && ls -A {name}; cat {name}/.env; mv {name} other; rm -rf {name}; \
             mkdir -p {name}/profiles user/.vestal/x; echo backend > {name}/config.yaml; ls user"
        );
        // What is beside it is there.
        let seen = run_in(&sandbox, &format!("( {text} ) 2> /dev/null")).await;
        assert_eq!(seen, "", "{place}");
    }
    drop(sandbox);
    let planted = std::fs::read_dir(cell.fixture.user_home().join(".vestal")).unwrap().count();
    assert_eq!(planted, 0);
    // Nor can what is above it be moved, to put another home in its place.
    let deep = fixture.join("deep/er/vestal");
    let engine = engine_at(cell, &deep, &volumes(&[(&fixture, "/all")]));
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let text = "cd /all && for d in deep deep/er deep/er/vestal; do mv $d moved; rmdir $d; done; ls deep/er/vestal";
    assert_eq!(run_in(&sandbox, &format!("( {text} ) 2> /dev/null")).await, "");
    drop(sandbox);
    assert!(deep.join("sandboxes").is_dir());
    engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    // It is not mounted itself, nor what is in it.
    for part in ["", "sandboxes"] {
        let itself = volumes(&[(&cell.fixture.home().join(part), "/own")]);
        let task = "itself".parse().unwrap();
        let printed = refused(&cell.engine(&[&itself]), &task).await;
        assert!(printed.contains("is in the Vestal home"), "{printed}");
    }
}

/// Returns an engine on another home.
fn engine_at(cell: &Cell, home: &Path, volumes: &str) -> Engine {
    let pairs = [("HOME", cell.fixture.user_home().to_str().unwrap().to_owned())];
    let sets = ["terminal.backend=native", volumes]
        .map(|text| Override::parse(&vestal_sandbox::schema(), text).unwrap());
    let environment = Environment::from_pairs(pairs);
    Engine::open(Settings::load(
        &vestal_sandbox::schema(),
        Home::at(home),
        environment,
        sets.to_vec(),
    ))
    .unwrap()
}
