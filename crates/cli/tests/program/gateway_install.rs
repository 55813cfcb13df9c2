//! Gateways inside the image, and as units of systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use vestal_testkit::wait_for;

use crate::gateway::serve_nothing;
use crate::support::{ProgramFixture, finish, is_alive};

#[test]
fn inside_the_image_a_gateway_is_supervised_by_default() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    let inside = |words: &[&str]| {
        let mut command = fixture.command(words);
        command.env("VESTAL_IMAGE", "1").env("VESTAL_ALLOW_ROOT_GATEWAY", "1");
        command
    };
    // The command of a container becomes its supervisor, with the gateway started.
    let mut container =
        vestal_testkit::programs::RunningProgram::start(inside(&["gateway", "run"]));
    assert!(container.error_line().contains("runs supervised"));
    let running = |manager: &str| {
        wait_for("the gateway runs", || {
            let status = fixture.vestal(["gateway", "status", "--json"]).json();
            // Between the note and the first answer nobody is the manager yet.
            let is_managed = status["manager"]["kind"] == manager;
            let is_running = status["gateways"][0]["state"] == "running" && is_managed;
            is_running.then(|| status["gateways"][0]["pid"].to_string())
        })
    };
    let pid = running("supervisor");
    // Another one finds the slot, and returns when it is ready.
    let second = finish(inside(&["gateway", "run"]).spawn().unwrap()).exits(0);
    assert!(second.text().contains("gateway default was running already"), "{second:?}");
    assert_eq!(running("supervisor"), pid);
    container.signal(Signal::TERM);
    assert_eq!(container.end().0, 0);
    assert!(!is_alive(&pid));
    // Told otherwise, it is the gateway itself, with its exit code.
    for (option, variable) in [(Some("--no-supervise"), "0"), (None, "true")] {
        let words: Vec<&str> = ["gateway", "run"].into_iter().chain(option).collect();
        let mut command = inside(&words);
        command.env("VESTAL_GATEWAY_NO_SUPERVISE", variable);
        let mut alone = vestal_testkit::programs::RunningProgram::start(command);
        assert!(alone.error_line().contains("nothing to serve yet"));
        let state = wait_for("it runs", || {
            let text = fs::read_to_string(fixture.home().join("gateway_state.json")).ok()?;
            let state: serde_json::Value = serde_json::from_str(&text).unwrap();
            let is_own = state["pid"] == alone.pid() && state["gateway_state"] == "running";
            is_own.then_some(state)
        });
        assert_eq!(state["profile"], "default");
        alone.signal(Signal::TERM);
        assert_eq!(alone.end().0, 1);
    }
}

#[test]
fn root_does_not_serve_inside_the_image() {
    let fixture = ProgramFixture::new();
    serve_nothing(&fixture);
    // An ordinary user is root of a namespace of its own.
    let words: &[&str] = if vestal_testkit::namespaces::is_root() {
        &["env"]
    } else {
        &["unshare", "--user", "--map-root-user"]
    };
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_vestal"));
    command.args(["gateway", "run", "--no-supervise"]).env_clear().envs(fixture.environment());
    command.env("VESTAL_IMAGE", "1").current_dir(fixture.work());
    let refused = vestal_testkit::programs::run(&mut command).exits(78);
    assert!(refused.stderr.contains("VESTAL_ALLOW_ROOT_GATEWAY=1"), "{refused:?}");
    assert!(!fixture.home().join("gateway_state.json").exists());
}

/// Makes a `systemctl` that notes how it is called.
fn fake_systemctl(fixture: &ProgramFixture) -> String {
    let dir = fixture.work().join("bin");
    fs::create_dir(&dir).unwrap();
    let script = dir.join("systemctl");
    let calls = fixture.work().join("calls");
    fs::write(&script, format!("#!/bin/sh\necho \"$*\" >> {}\n", calls.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", dir.display())
}

#[test]
fn systemd_understands_the_unit_of_the_system_and_of_a_user() {
    let fixture = ProgramFixture::new();
    let path = fake_systemctl(&fixture);
    let units = fixture.work().join("units");
    for (option, scope) in [(Some("--system"), "--system"), (None, "--user")] {
        let words = ["gateway", "install", "--json"].into_iter().chain(option);
        let mut command = fixture.command(words);
        command.env("PATH", &path).env("SYSTEMD_UNIT_PATH", &units);
        let unit = finish(command.spawn().unwrap()).exits(0).json();
        let file = Path::new(unit["path"].as_str().unwrap());
        let text = fs::read_to_string(file).unwrap();
        // It runs as the home's owner, no matter who installs it.
        let is_system = option.is_some();
        assert_eq!(file.starts_with(&units), is_system, "{}", file.display());
        assert_eq!(text.contains("\nUser="), is_system, "{text}");
        let mut analyze = std::process::Command::new("systemd-analyze");
        analyze.args(["verify", "--man=no", scope]).arg(file);
        analyze.env("XDG_RUNTIME_DIR", fixture.work()).env("HOME", fixture.user());
        // A machine without systemd has nobody to ask.
        let Ok(printed) = analyze.output() else { continue };
        let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
        let name = unit["unit"].as_str().unwrap();
        assert!(!printed.lines().any(|line| line.contains(name)), "{printed}");
    }
}

#[test]
fn where_systemd_does_not_run_nothing_is_installed_and_what_is_can_be_removed() {
    let fixture = ProgramFixture::new();
    let path = fake_systemctl(&fixture);
    let call = |words: &[&str]| finish(fixture.command(words).env("PATH", &path).spawn().unwrap());
    let installed = call(&["gateway", "install", "--json"]).exits(0).json();
    let file = Path::new(installed["path"].as_str().unwrap()).to_owned();
    call(&["gateway", "uninstall"]).exits(0);
    // As in a container: it is there, and what it should talk to is not.
    let dead = "#!/bin/sh\ncase \"$*\" in *--version*) exit 0;; esac\necho 'Failed to connect to bus' >&2; exit 1\n";
    let script = fixture.work().join("bin/systemctl");
    let alive = fs::read(&script).unwrap();
    fs::write(&script, dead).unwrap();
    let refused = call(&["gateway", "install"]).exits(125);
    assert!(refused.stderr.contains("Failed to connect to bus"), "{refused:?}");
    assert!(refused.stderr.contains("nothing was installed"), "{refused:?}");
    assert!(!file.exists());
    // One that an earlier version left there, or that was there before systemd went away.
    fs::write(&script, alive).unwrap();
    call(&["gateway", "install"]).exits(0);
    let wants = file.parent().unwrap().join("default.target.wants");
    fs::create_dir(&wants).unwrap();
    std::os::unix::fs::symlink(&file, wants.join(file.file_name().unwrap())).unwrap();
    fs::write(&script, dead).unwrap();
    let started = call(&["gateway", "start"]);
    assert!(started.stderr.contains("vestal gateway uninstall"), "{started:?}");
    call(&["gateway", "uninstall"]).exits(0);
    assert!(!file.exists());
    assert_eq!(vestal_testkit::files::entries(&wants), Vec::<std::path::PathBuf>::new());
}

#[test]
fn systemd_gets_one_unit_for_the_home() {
    let fixture = ProgramFixture::new();
    let path = fake_systemctl(&fixture);
    let call = |words: &[&str]| finish(fixture.command(words).env("PATH", &path).spawn().unwrap());
    let unit = call(&["gateway", "install", "--json"]).exits(0).json();
    let (name, file) = (unit["unit"].as_str().unwrap(), unit["path"].as_str().unwrap());
    assert!(Path::new(file).starts_with(fixture.user().join(".config/systemd/user")), "{file}");
    let text = fs::read_to_string(file).unwrap();
    let home = fixture.home().display().to_string();
    assert!(text.contains(&format!("Environment=\"VESTAL_HOME={home}\"")), "{text}");
    assert!(text.contains("\" \"supervise\"\n") && text.contains("Type=notify"), "{text}");
    // `start` makes systemd start the service: a gateway that was started beside it would
    // keep it from starting.
    let started = call(&["gateway", "start"]).exits(1);
    let look = format!("{name} was started: no supervisor runs");
    assert!(started.stderr.contains(&look), "{started:?}");
    assert!(started.stderr.contains(&format!("systemctl --user status {name}")), "{started:?}");
    let shown = call(&["gateway", "status"]).exits(1).text();
    let manager = format!("Manager: none ({name} is installed and not running)\n");
    assert!(shown.starts_with(&manager), "{shown}");
    call(&["gateway", "uninstall"]).exits(0);
    assert!(!Path::new(file).exists());
    call(&["gateway", "uninstall"]).exits(1);
    let calls = fs::read_to_string(fixture.work().join("calls")).unwrap();
    let expected = [
        "--user --version".to_owned(),
        "--user daemon-reload".to_owned(),
        format!("--user enable --now {name}"),
        format!("--user --no-ask-password start {name}"),
        format!("--user disable --now {name}"),
        "--user daemon-reload".to_owned(),
    ];
    assert_eq!(calls.lines().collect::<Vec<_>>(), expected);
    // A supervisor that has the home already would keep the service from starting.
    let mut supervisor = fixture.start(["supervise"]);
    assert!(supervisor.error_line().contains("supervising"));
    let refused = call(&["gateway", "install"]).exits(1);
    assert!(refused.stderr.contains("vestal supervise --stop"), "{refused:?}");
    supervisor.signal(Signal::INT);
    assert_eq!(supervisor.end().0, 0);
}
