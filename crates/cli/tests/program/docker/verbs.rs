//! The verbs, on a container.

use std::fs;
use std::os::unix::fs::symlink;

use crate::shell::ShellTerminal;
use crate::support::ProgramFixture;

#[test]
fn a_container_in_json_has_the_promised_shape() {
    let fixture = ProgramFixture::docker();
    let hostname = fixture.run("hostname").exits(0).text();
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    let container = fixture.containers().remove(0);
    assert_eq!(listed[0]["name"], container);
    let inspected = fixture.engine().inspect(&container).unwrap();
    assert_eq!(listed[0]["image_id"], inspected["Image"]);
    insta::assert_json_snapshot!(listed, {
        "[].id" => "[id]",
        "[].name" => "[name]",
        "[].image_id" => "[image id]",
        // What can be enforced is the engine's business.
        "[].unenforced" => "[keys]",
        "[].created_at" => "[time]",
        "[].last_used_at" => "[time]",
        "[].expires_at" => "[time]",
        "[].idle_seconds" => "[seconds]",
    });
    let inspect = fixture.vestal(["inspect", "--json"]).exits(0).json();
    let id = inspect[0]["locator"]["container"].as_str().unwrap();
    assert_eq!(inspected["Id"], id);
    assert!(id.starts_with(hostname.trim()));
    assert_eq!(inspect[0]["transport"], "socket");
    assert_eq!(inspect[0]["spec"]["terminal.docker_image"], "vestal-test/base:latest");
    let text = fixture.vestal(["inspect"]).exits(0).text();
    assert!(text.contains(&container) && text.contains(id), "{text}");
}

#[test]
fn what_weakens_isolation_is_reported_and_shown() {
    let fixture = ProgramFixture::docker();
    let set = "terminal.docker_extra_args=[\"--cap-add\", \"SYS_PTRACE\"]";
    let run = fixture.vestal(["--set", set, "run", "true"]).exits(0);
    assert!(run.stderr.contains("--cap-add SYS_PTRACE"), "{run:?}");
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    assert_eq!(listed[0]["weakened"], serde_json::json!(["--cap-add SYS_PTRACE"]));
    for verb in ["ps", "inspect"] {
        let shown = fixture.vestal([verb]).exits(0).text();
        assert!(shown.contains("--cap-add SYS_PTRACE"), "{shown}");
    }
}

#[test]
fn jobs_are_followed_counted_and_killed_from_other_processes() {
    let fixture = ProgramFixture::docker();
    let job = fixture.background("sleep 1000 & sleep 1000 & echo ready; wait");
    let mut following = fixture.start(["logs", "-f", &job]);
    assert_eq!(following.line(), "ready");
    let stats = fixture.vestal(["stats", "--json"]).exits(0).json();
    assert!(stats[0]["processes"].as_u64().unwrap() >= 3, "{stats}");
    assert!(stats[0]["memory_bytes"].as_u64().unwrap() > 0, "{stats}");
    let running = fixture.vestal(["jobs", "--json"]).exits(0).json();
    assert_eq!(running[0]["id"], job.as_str());
    fixture.vestal(["touch"]).exits(0);
    assert_eq!(fixture.vestal(["kill", &job]).exits(0).text(), format!("killed job {job}\n"));
    assert_eq!(following.end().0, 0, "following ends with the job");
    assert_eq!(fixture.vestal(["jobs", "--json"]).exits(0).json(), serde_json::json!([]));
    fixture.run("ps | grep '[s]leep'").exits(1);
    assert_eq!(fixture.vestal(["logs", &job]).exits(0).text(), "ready\n");
}

#[test]
fn a_shell_in_a_container_is_left_and_found_again() {
    let fixture = ProgramFixture::docker();
    fixture.run("cd /tmp; export A=session").exits(0);
    let mut person = ShellTerminal::start(&fixture, &["shell"]);
    person.types("echo [$A] $PWD; stty size; here=kept\r");
    person.sees("[session] /tmp\r\n24 80");
    person.types("\x1c\x1c");
    person.sees("vestal shell -t default --attach ");
    let (code, rest) = person.leaves();
    assert_eq!(code, 0);
    let job = rest.split_whitespace().next().unwrap().trim_end_matches("\x1b[0m").to_owned();
    let mut person = ShellTerminal::start(&fixture, &["shell", "--attach", &job]);
    person.types("echo [$here]\r");
    person.sees("[kept]");
    person.types("exit 5\r");
    assert_eq!(person.leaves().0, 5);
}

#[test]
fn files_are_copied_both_ways_and_belong_to_the_images_user() {
    let fixture = ProgramFixture::docker();
    let tree = fixture.work().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), b"\0bytes\xff").unwrap();
    symlink("file", tree.join("sub/link")).unwrap();
    for (image, user) in [("vestal-test/base:latest", "0"), ("vestal-test/nonroot:latest", "1000")]
    {
        let task = format!("of-{user}");
        let to = format!("{task}:");
        fixture.vestal(["cp", "--image", image, "tree", &to]).exits(0);
        let seen = fixture.vestal([
            "run",
            "-t",
            &task,
            "stat -c %u tree/sub/file; readlink tree/sub/link",
        ]);
        assert_eq!(seen.exits(0).text(), format!("{user}\nfile\n"));
        let back = format!("back-{user}");
        fixture.vestal(["cp", &format!("{task}:tree"), &back]).exits(0);
        let back = fixture.work().join(back);
        assert_eq!(fs::read(back.join("sub/file")).unwrap(), b"\0bytes\xff");
        assert_eq!(fs::read_link(back.join("sub/link")).unwrap().to_str(), Some("file"));
        let out = fixture.vestal(["cp", &format!("{task}:tree/sub/file"), "-"]).exits(0);
        assert_eq!(out.stdout, b"\0bytes\xff");
    }
    let denied = fixture.vestal(["cp", "tree/sub/file", "of-1000:/etc/file"]).exits(125);
    assert!(denied.stderr.contains("permission denied"), "{denied:?}");
    let nowhere = fixture.vestal(["cp", "tree", "of-0:/no/where"]).exits(125);
    assert!(nowhere.stderr.contains("vestal run -t of-0 mkdir -p /no"), "{nowhere:?}");
}

#[test]
fn the_doctor_describes_the_engine_and_what_is_on_it() {
    let fixture = ProgramFixture::docker();
    fixture.run("true").exits(0);
    let well = fixture.vestal(["doctor"]).exits(0).text();
    for part in [
        "ok      backend docker: works; ",
        "ok      docker engine: ",
        "ok      docker storage: ",
        "docker limits: ",
        "ok      docker containers: 1 of this home",
        "ok      sandboxes: 1 in all, 1 running",
    ] {
        assert!(well.contains(part), "{part}: {well}");
    }
    assert!(!well.contains("docker leaked"), "{well}");
    let set = ["--set", "terminal.docker_image=vestal-test/busybox:latest", "doctor"];
    let drifted = fixture.vestal(set).exits(0).text();
    assert!(
        drifted.contains("note    sandbox default: settings changed since: terminal.docker_image")
    );
    assert!(drifted.contains("vestal rebuild default"), "{drifted}");
    fs::remove_dir_all(fixture.home().join("sandboxes/default")).unwrap();
    let leaked = fixture.vestal(["doctor"]).exits(0).text();
    let container = fixture.containers().remove(0);
    assert!(leaked.contains("warning docker leaked: 1 of this home"), "{leaked}");
    assert!(leaked.contains(&container), "{leaked}");
}
