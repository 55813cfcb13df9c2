//! Shell sessions.

use std::time::Duration;

use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::{Command, Sandbox, TaskName};
use vestal_wire::SessionState;

use crate::support::{BackendFixture, Kind};

async fn main(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text).session("main")).await.unwrap().stdout.text()
}

pub(crate) async fn functions_aliases_arrays_and_plain_variables_are_kept(
    fixture: &BackendFixture,
) {
    let sandbox = fixture.sandbox().await;
    main(
        &sandbox,
        "plain='two words'; export loud=$'a\\nb'; list=(x 'y z'); declare -A map=([k]=v)",
    )
    .await;
    main(
        &sandbox,
        "greet() { echo \"hello $1\"; }; alias ll='echo listed'; shopt -s nullglob; set -f",
    )
    .await;
    let text = "echo \"$plain\"; sh -c 'echo \"$loud\"'; echo \"${list[1]}\" \"${map[k]}\"; greet you; ll; shopt -q nullglob && echo on; echo *";
    assert_eq!(main(&sandbox, text).await, "two words\na\nb\ny z v\nhello you\nlisted\non\n*\n");
}

pub(crate) async fn state_is_kept_after_exit_set_e_and_syntax_errors(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let exit = sandbox.run(Command::shell("export A=1; exit 3").session("main")).await.unwrap();
    assert_eq!((exit.exit.code, exit.session_state), (Some(3), SessionState::Saved));
    main(&sandbox, "B=2; set -e; false; echo unreachable").await;
    let options = main(&sandbox, "echo $-").await;
    assert!(options.contains('e'), "set -e itself is part of the state: {options}");
    main(&sandbox, "set +e").await;
    main(&sandbox, "C=3\nif then").await;
    main(&sandbox, "trap 'echo bye' EXIT; D=4; cd /usr").await;
    assert_eq!(main(&sandbox, "echo $A $B $C $D $PWD").await, "1 2 3 4 /usr\n");
}

pub(crate) async fn a_killed_command_leaves_the_state_it_started_from(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    main(&sandbox, "x=old").await;
    for text in ["x=new; kill -KILL $$", "x=new; exec true"] {
        let output = sandbox.run(Command::shell(text).session("main")).await.unwrap();
        assert_eq!(output.session_state, SessionState::None, "{text}");
        assert_eq!(main(&sandbox, "echo $x").await, "old\n", "{text}");
    }
    let timed_out =
        Command::shell("x=new; sleep 1000").session("main").timeout(Duration::from_secs(1));
    sandbox.run(timed_out).await.unwrap();
    assert_eq!(main(&sandbox, "echo $x").await, "old\n");
}

pub(crate) async fn sessions_do_not_see_each_other(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let run = |name: &'static str, text: &'static str| {
        let sandbox = sandbox.clone();
        async move {
            let command = Command::shell(text).session(name);
            sandbox.run(command).await.unwrap().stdout.text()
        }
    };
    run("one", "export TOKEN=first; cd /usr").await;
    run("two", "export TOKEN=second; cd /etc").await;
    assert_eq!(run("one", "echo $TOKEN $PWD").await, "first /usr\n");
    assert_eq!(run("two", "echo $TOKEN $PWD").await, "second /etc\n");
    let clean = sandbox.run(Command::shell("echo ${TOKEN-none}")).await.unwrap();
    assert_eq!(clean.stdout.bytes(), b"none\n");
    assert_eq!(clean.session_state, SessionState::None);
}

pub(crate) async fn of_two_commands_at_once_the_last_started_wins(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    main(&sandbox, "x=start").await;
    let (gate, there) = fixture.meeting_place("gate");
    let text = format!("mkfifo {0}; cat {0} >/dev/null; x=first-started", there.display());
    let mut first = sandbox
        .start(Command::shell(format!("echo up; {text}")).session("main"), Follow::EveryByte)
        .await
        .unwrap();
    while !matches!(first.next().await.unwrap(), Some(JobEvent::Stdout(_))) {}
    let second =
        sandbox.run(Command::shell("echo $x; x=last-started").session("main")).await.unwrap();
    assert_eq!(second.stdout.bytes(), b"start\n", "both start from the last saved state");
    assert_eq!(second.session_state, SessionState::Saved);
    crate::support::until("the gate is there", || async { gate.exists() }).await;
    tokio::task::spawn_blocking(move || std::fs::write(gate, "")).await.unwrap().unwrap();
    let first = first.finish().await.unwrap().into_info().unwrap();
    assert_eq!(first.session_state, SessionState::Superseded);
    assert_eq!(main(&sandbox, "echo $x").await, "last-started\n");
}

pub(crate) async fn background_jobs_never_write_back(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    main(&sandbox, "x=kept; cd /usr").await;
    let job =
        sandbox.spawn(Command::shell("echo $x $PWD; x=lost; cd /").session("main")).await.unwrap();
    sandbox.wait(&job.id, None).await.unwrap();
    assert_eq!(main(&sandbox, "echo $x $PWD").await, "kept /usr\n");
}

pub(crate) async fn secrets_are_given_to_the_job_and_never_saved(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let secret = "s3cret-value-never-on-disk";
    let command =
        Command::shell("echo ${#TOKEN}; copy=1").session("main").secret_env("TOKEN", secret);
    assert_eq!(sandbox.run(command).await.unwrap().stdout.text(), format!("{}\n", secret.len()));
    assert_eq!(main(&sandbox, "echo ${TOKEN-gone} $copy").await, "gone 1\n");
    let found = std::process::Command::new("grep")
        .args(["--recursive", "--files-with-matches", "--fixed-strings", secret])
        .arg(fixture.home())
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    let Kind::Containers(_) = fixture.kind() else { return };
    for container in fixture.own_containers() {
        let known = fixture.containers().inspect(container["Id"].as_str().unwrap()).unwrap();
        assert!(!known.to_string().contains(secret), "the engine knows it");
    }
}

pub(crate) async fn the_callers_environment_comes_anew_each_time(fixture: &BackendFixture) {
    // To a sandbox with a system of its own only what is named goes along.
    let forward = [r#"terminal.docker_forward_env=["FROM_CALLER"]"#];
    let overrides = if fixture.is_contained() { &forward[..] } else { &[] };
    let with = |value: &str| fixture.engine_in(overrides, &[("FROM_CALLER", value)]);
    let task = TaskName::default_task();
    let first = with("one").sandbox(&task).await.unwrap();
    assert_eq!(main(&first, "echo $FROM_CALLER; export MINE=kept").await, "one\n");
    let second = with("two").sandbox(&task).await.unwrap();
    assert_eq!(main(&second, "echo $FROM_CALLER $MINE").await, "two kept\n");
    assert_eq!(main(&second, "export FROM_CALLER=changed; echo").await, "\n");
    let third = with("three").sandbox(&task).await.unwrap();
    let fourth = with("four").sandbox(&task).await.unwrap();
    let show = "echo ${FROM_CALLER-unset}";
    if fixture.is_contained() {
        // What is forwarded may be a secret: it goes with each job, and no
        // session saves it or its outcome.
        assert_eq!(main(&third, show).await, "three\n");
        assert_eq!(main(&third, "unset FROM_CALLER").await, "");
        assert_eq!(main(&fourth, show).await, "four\n");
        let silent = fixture.engine_in(&[], &[("FROM_CALLER", "five")]);
        let silent = silent.sandbox(&task).await.unwrap();
        assert_eq!(main(&silent, show).await, "unset\n", "it is not named any more");
    } else {
        assert_eq!(main(&third, show).await, "changed\n", "the session's own change stays");
        assert_eq!(main(&third, "unset FROM_CALLER").await, "");
        assert_eq!(main(&fourth, show).await, "unset\n");
    }
}

pub(crate) async fn provider_keys_of_the_caller_are_stripped(fixture: &BackendFixture) {
    let extra = [("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2"), ("ORDINARY", "yes")];
    let shown = async |overrides: &[&str]| {
        let engine = fixture.engine_in(overrides, &extra);
        let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
        let text = "echo ${OPENAI_API_KEY-none} ${ANTHROPIC_API_KEY-none} ${ORDINARY-none}";
        main(&sandbox, text).await
    };
    if fixture.is_contained() {
        assert_eq!(shown(&[]).await, "none none none\n", "nothing of the caller's is there");
        let forward = [r#"terminal.docker_forward_env=["ORDINARY"]"#];
        assert_eq!(shown(&forward).await, "none none yes\n");
    } else {
        assert_eq!(shown(&[]).await, "none none yes\n");
    }
}
