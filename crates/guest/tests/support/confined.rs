//! Guests as a container engine starts them: root with a few capabilities, in
//! an image whose user is somebody else.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command as Program;

use vestal_wire::GuestSettings;

use super::{TestGuest, launch_by, settings_in};

/// The user of the image.
pub(crate) const APP: u32 = vestal_testkit::namespaces::ORDINARY_USER;

/// Somebody who has to do with neither the guest nor the user.
pub(crate) const STRANGER: u32 = 54_999;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
app:x:54321:54321:App:/home/app:/bin/sh
";

const GROUP: &str = "root:x:0:
tty:x:5:
audio:x:29:app
app:x:54321:
";

/// What is left of root's power in a container.
pub(crate) const CAPABILITIES: &str = "-all,+chown,+dac_override,+fowner,+setuid,+setgid";

/// How a guest is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// The first process of its namespace.
    PidOne,
    /// A process among others, as under an image's own init.
    Service,
}

/// Starts a guest that is root, for jobs of the image's user.
pub(crate) fn for_app(how: As) -> TestGuest {
    confined(how, |_| {})
}

/// Starts a guest that is root, with settings that are changed first.
pub(crate) fn confined(how: As, change: impl FnOnce(&mut GuestSettings)) -> TestGuest {
    let guest = try_confined(how, change);
    assert!(guest.ready.starts_with('{'), "the guest did not start: {}", guest.ready);
    guest
}

/// Starts a guest that perhaps refuses to.
pub(crate) fn try_confined(how: As, change: impl FnOnce(&mut GuestSettings)) -> TestGuest {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings_in(dir.path());
    open_to_all(dir.path(), 0o755);
    for name in ["io", "state"] {
        // Created by the user of the engine, who need not be root.
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
        open_to_all(&dir.path().join(name), 0o777);
        chown(dir.path().join(name), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let work = dir.path().join("work").into_os_string().into_encoded_bytes();
    settings.hand_over = vec![work.clone().into()];
    settings.user = Some("app".into());
    settings.socket_mode = Some(0o666);
    settings.inherit_env = true;
    settings.env.clear();
    settings.home = work.into();
    change(&mut settings);
    let (child, ready) = launch_by(program(how, dir.path()), &settings, None);
    TestGuest { dir, settings, ready, child }
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn program(how: As, dir: &Path) -> Program {
    let mut program = Program::new("unshare");
    program.arg("--mount");
    if how == As::PidOne {
        program.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    }
    let lists = [("passwd", PASSWD), ("group", GROUP)];
    for (name, content) in lists {
        std::fs::write(dir.join(name), content).unwrap();
        open_to_all(&dir.join(name), 0o644);
    }
    let script = "mount --bind \"$1/passwd\" /etc/passwd && mount --bind \"$1/group\" /etc/group \
        && ulimit -Sn 99 && shift && exec \"$@\"";
    program.args(["sh", "-c", script, "sh"]).arg(dir);
    program.args(["setpriv", "--nnp", "--inh-caps=-all", "--bounding-set", CAPABILITIES]);
    program.arg(env!("CARGO_BIN_EXE_vestal-guest"));
    program.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("FROM_IMAGE", "yes");
    program
}
