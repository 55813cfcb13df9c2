//! Users and namespaces of the kernel.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// An ordinary user whom no machine knows by a name.
pub const ORDINARY_USER: u32 = 54_321;

/// Returns whether the test is run by root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a shell script as root of a user and mount namespace of its own; its arguments are `$1` and
/// so on.
pub fn in_namespace<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> Output {
    enter(&["--user", "--map-root-user", "--mount"], script, arguments)
}

/// Runs a shell script in a mount namespace of its own; root stays the machine's root there.
/// Somebody else is root of a user namespace, as in [`in_namespace`].
pub fn in_mount_namespace<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> Output {
    let mut options = vec!["--mount", "--propagation", "private"];
    if !is_root() {
        options.push("--map-root-user");
    }
    enter(&options, script, arguments)
}

fn enter<A: AsRef<OsStr>>(options: &[&str], script: &str, arguments: &[A]) -> Output {
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-euc", script, "sh"]).args(arguments);
    command.output().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_mounts_is_seen_by_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs none \"$1\"; touch \"$1/$2\"; id -u; ls \"$1\"";
        let arguments = [dir.path().as_os_str(), OsStr::new("file")];
        for output in [in_namespace(script, &arguments), in_mount_namespace(script, &arguments)] {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "0\nfile\n");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
