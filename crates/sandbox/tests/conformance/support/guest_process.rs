//! Guests as processes of the tests: started in a directory, found, and killed.

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use vestal_testkit::processes::{kill_if_alive, with_variable};
use vestal_wire::{EnvVar, GuestSettings};

use super::process::alive;

/// Writes the guest's program to a file.
pub(super) fn install(program: &Path) {
    fs::write(program, vestal_sandbox::GUEST).unwrap();
    fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Starts a guest as a process of its own and waits until it listens. The directory of its instance
/// has its socket, that of the sandbox its files and what it keeps.
pub(super) fn start(
    program: &Path,
    instance: &Path,
    files: &Path,
    mut guest: GuestSettings,
    failpoint: Option<&str>,
) -> Result<()> {
    for name in ["workspace", "home"] {
        fs::create_dir_all(files.join(name))?;
    }
    // What the guest of an instance keeps that ends with its owner does so, too.
    let state = if guest.ephemeral { instance } else { files }.join("state");
    let bytes_of = |path: PathBuf| path.to_str().unwrap().as_bytes().to_vec();
    let home = files.join("home");
    let path = vestal_config::Environment::capture().get("PATH").unwrap().to_owned();
    let variable = |name: &str, value: Vec<u8>| EnvVar {
        name: name.as_bytes().to_vec().into(),
        value: value.into(),
    };
    guest.socket_dir = bytes_of(instance.join("io")).into();
    guest.state_dir = bytes_of(state).into();
    guest.home = bytes_of(home.clone()).into();
    guest.start_dir = bytes_of(files.join("workspace")).into();
    guest.env =
        vec![variable("PATH", path.as_encoded_bytes().to_vec()), variable("HOME", bytes_of(home))];
    let settings = instance.join("settings");
    fs::write(&settings, vestal_wire::encode(&guest).map_err(Error::other)?)?;
    let mut command = Command::new(program);
    command
        .args(["serve", "--detach", "--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"])
        .env_clear()
        .env("PATH", path)
        .envs(failpoint.map(|name| ("VESTAL_GUEST_FAILPOINT", name)))
        .current_dir("/")
        .stdin(fs::File::open(settings)?)
        .stderr(fs::File::open("/dev/null")?)
        .stdout(Stdio::piped());
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match printed.strip_prefix("error: ") {
        Some(reason) => Err(Error::other(reason.trim())),
        None if printed.is_empty() => Err(Error::other("it ended before it was ready")),
        None => Ok(()),
    }
}

/// Returns the number that the guest of an instance knows itself by.
pub(super) fn number(instance: &Path) -> Option<u32> {
    recorded_number(&instance.join("io/guest.json"))
}

/// Returns the number of the process that is on record in a file.
pub(super) fn recorded_number(file: &Path) -> Option<u32> {
    let bytes = fs::read(file).ok()?;
    let printed: Value = serde_json::from_slice(&bytes).ok()?;
    u32::try_from(printed["pid"].as_u64()?).ok()
}

/// Returns the guest of an instance on this machine, if it lives.
pub(super) fn pid(instance: &Path) -> Option<u32> {
    number(instance).filter(|pid| alive(*pid))
}

/// Kills the guest of an instance on this machine, and all that it started.
pub(super) fn kill(instance: &Path) {
    let mark = format!("VESTAL_INSTANCE={}", instance.file_name().unwrap().to_str().unwrap());
    loop {
        let found: Vec<u32> = pid(instance).into_iter().chain(with_variable(&mark)).collect();
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(kill_if_alive);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Removes a directory that may be gone already.
pub(super) fn remove_tree(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
