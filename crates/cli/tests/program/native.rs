//! What people see of native sandboxes.

use crate::support::ProgramFixture;

#[test]
fn the_first_run_on_a_fresh_machine_is_isolated_and_needs_nothing() {
    let fixture = ProgramFixture::automatic();
    let first = fixture.run("date >> visits; wc -l < visits; pwd; id -u").exits(0);
    assert_eq!(first.text(), "1\n/workspace\n0\n");
    assert!(!first.stderr.contains("without isolation"), "{first:?}");
    let second = fixture.run("date >> visits; wc -l < visits").exits(0);
    assert_eq!((second.text(), &*second.stderr), ("2\n".to_owned(), ""));
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    assert_eq!(listed[0]["backend"], "native");
    // It is a system of its own: neither the user's files nor Vestal's are there.
    let here = fixture.work().display().to_string();
    fixture.run(&format!("test ! -e '{here}'")).exits(0);
    fixture.run(&format!("test ! -e '{}'", fixture.home().display())).exits(0);
}

#[test]
fn the_tier_is_reported_wherever_one_looks() {
    let fixture = ProgramFixture::native();
    fixture.run("true").exits(0);
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    let tier = listed[0]["tier"].as_str().unwrap();
    let inspected = fixture.vestal(["inspect"]).exits(0).text();
    let reported = inspected.lines().find(|line| line.starts_with("tier ")).unwrap();
    assert!(reported.ends_with(&format!(" {tier}")), "{reported}");
    let json = fixture.vestal(["inspect", "--json"]).exits(0).json();
    assert_eq!(json[0]["tier"], tier);
    assert!(json[0]["missing"].is_array(), "{json}");
    for missing in json[0]["missing"].as_array().unwrap() {
        assert!(inspected.contains(missing.as_str().unwrap()), "{inspected}");
    }
    let doctor = fixture.vestal(["doctor"]).text();
    assert!(doctor.contains("backend native: works"), "{doctor}");
    // Limits that nobody asked for and nobody can enforce are not secret.
    for limit in listed[0]["unenforced"].as_array().unwrap() {
        let limit = limit.as_str().unwrap();
        assert!(inspected.contains(limit) && doctor.contains(limit), "{limit}: {doctor}");
    }
    let plain = fixture.vestal(["ps"]).exits(0).text();
    assert!(plain.contains("native"), "{plain}");
}

#[test]
fn changed_settings_are_taken_at_the_next_start() {
    let fixture = ProgramFixture::native();
    fixture.run("echo kept > file").exits(0);
    fixture.vestal(["config", "set", "terminal.job_log_bytes", "1M"]).exits(0);
    let drifted = fixture.run("cat file").exits(0);
    assert!(drifted.stderr.contains("vestal stop default"), "{drifted:?}");
    fixture.vestal(["stop"]).exits(0);
    let after = fixture.run("cat file").exits(0);
    assert_eq!(after.text(), "kept\n");
    let taken = "was started with changed settings: terminal.job_log_bytes (default → 1048576)\n";
    assert!(after.stderr.ends_with(taken), "{after:?}");
    assert_eq!(fixture.run("true").exits(0).stderr, "", "once");
}

#[test]
fn a_stopped_sandbox_that_is_started_with_less_isolation_says_so() {
    let fixture = ProgramFixture::native();
    fixture.vestal(["config", "set", "terminal.docker_network", "false"]).exits(0);
    fixture.run("true").exits(0);
    fixture.vestal(["stop"]).exits(0);
    fixture.vestal(["config", "unset", "terminal.docker_network"]).exits(0);
    let after = fixture.run("true").exits(0);
    let less = "terminal.docker_network (false → default); it may be isolated less than before: \
                terminal.docker_network\n";
    assert!(after.stderr.ends_with(less), "{after:?}");
}

#[test]
fn a_sandbox_that_could_not_be_made_leaves_no_directory() {
    let fixture = ProgramFixture::native();
    let odd = "terminal.docker_volumes=[\"/dev/null:/workspace\"]";
    fixture.vestal(["--set", odd, "run", "true"]).exits(125);
    let sandboxes = fixture.home().join("sandboxes");
    let left: Vec<_> =
        std::fs::read_dir(sandboxes).unwrap().map(|dir| dir.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    // Files of before stay, whatever becomes of the attempt.
    fixture.run("echo kept > file").exits(0);
    fixture.vestal(["rm", "-y", "default"]).exits(0);
    fixture.vestal(["--set", odd, "run", "true"]).exits(125);
    assert_eq!(fixture.run("cat file").exits(0).text(), "kept\n");
}

#[test]
fn a_project_is_mounted_where_it_is_asked_for() {
    let fixture = ProgramFixture::automatic();
    std::fs::write(fixture.work().join("file"), "mine\n").unwrap();
    let mounted = fixture.vestal(["run", "--mount-cwd", "cat file; echo made > new"]).exits(0);
    assert_eq!(mounted.text(), "mine\n");
    assert_eq!(std::fs::read_to_string(fixture.work().join("new")).unwrap(), "made\n");
    let task = format!("default@{}", fixture.work().display());
    assert_eq!(fixture.tasks(), std::slice::from_ref(&task));
    assert_eq!(fixture.vestal(["ps", "--json"]).json()[0]["backend"], "native");
    // A fork has the same directory, and so it is part of its task.
    let forked = fixture.vestal(["fork", &task, "other", "--json"]).exits(0).json();
    let other = format!("other@{}", fixture.work().display());
    assert_eq!(forked["task"], other);
    let seen = fixture.vestal(["run", "-t", "other", "--mount-cwd", "cat file new"]).exits(0);
    assert_eq!(seen.text(), "mine\nmade\n");
    assert_eq!(fixture.tasks().len(), 2);
}

#[test]
fn an_image_is_asked_of_containers_only() {
    let fixture = ProgramFixture::native();
    let asked = fixture.vestal(["run", "-b", "native", "--image", "x:1", "true"]).exits(2);
    assert!(asked.stderr.contains("-b docker"), "{asked:?}");
    let fixture = ProgramFixture::automatic();
    fixture.run("true").exits(0);
    // It has no image, whichever one is asked for.
    let other = fixture.vestal(["run", "--image", "x:1", "touch ran"]).exits(125);
    assert!(other.stderr.contains("vestal rebuild default --backend docker"), "{other:?}");
    fixture.run("test ! -e ran").exits(0);
}

#[test]
fn a_removal_that_cannot_be_finished_stays_listed_with_the_reason() {
    let fixture = ProgramFixture::native();
    fixture.run("echo 1 > /workspace/kept").exits(0);
    let kept = fixture.home().join("sandboxes/default/workspace/kept");
    let chattr = |flag: &str| {
        let done = std::process::Command::new("chattr").arg(flag).arg(&kept).status().unwrap();
        assert!(done.success());
    };
    chattr("+i");
    let failed = fixture.vestal(["rm", "-y", "--files", "default"]).exits(125);
    assert!(failed.stderr.contains("cannot delete everything") && failed.stderr.contains("chattr"));
    assert!(!failed.stderr.contains('{'), "{failed:?}");
    let listed = fixture.vestal(["ps"]).exits(0);
    assert!(listed.text().contains("default"), "{listed:?}");
    assert!(listed.stderr.contains("its removal is not finished"), "{listed:?}");
    chattr("-i");
    fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);
    assert!(!fixture.home().join("sandboxes/default").exists());
    assert_eq!(fixture.vestal(["ps", "--json"]).exits(0).json(), serde_json::json!([]));
}

/// A small filesystem for a home, which goes with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: std::path::PathBuf) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&at).status();
        assert!(mounted.unwrap().success());
        Self(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("--lazy").arg(&self.0).status().ok();
        // The fixture could not remove the directory while something was mounted there.
        std::fs::remove_dir(&self.0).ok();
        self.0.parent().map(std::fs::remove_dir);
    }
}

#[test]
fn a_full_disk_stops_no_sandbox_and_keeps_none_from_starting() {
    // The disk goes after what the fixture ends.
    let (_disk, fixture) = {
        let fixture = ProgramFixture::native();
        (SmallDisk::mount(fixture.home()), fixture)
    };
    fixture.run("kept=1; echo 2 > /workspace/kept").exits(0);
    let running = fixture.vestal(["ps", "--json"]).exits(0).json();
    fixture.run("cat /dev/zero > /workspace/fill; true").exits(0);
    let refused = fixture.vestal(["snapshot", "--name", "one"]).exits(125);
    assert!(refused.stderr.contains("too full") && refused.stderr.contains("nothing was stopped"));
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    assert_eq!((&listed[0]["state"], &listed[0]["id"]), (&"running".into(), &running[0]["id"]));
    assert_eq!(fixture.vestal(["snapshots", "--json"]).exits(0).json(), serde_json::json!([]));
    // Stopped all the same, it is started, and room is made in it.
    fixture.vestal(["stop"]).exits(0);
    let room = fixture.run("rm /workspace/fill; echo $kept; cat /workspace/kept").exits(0);
    assert_eq!(room.text(), "1\n2\n");
    fixture.vestal(["snapshot", "--name", "one"]).exits(0);
    fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);
}
