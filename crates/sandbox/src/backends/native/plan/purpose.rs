//! The first process of a sandbox.

use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use vestal_wire::Purpose;

use super::places::HOME;
use crate::backends::layout::{GUEST_FILE, SETTINGS_FILE};
use crate::backends::native::tier::Owners;

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the purpose of a sandbox with a guest. `record` is told who the
/// first process is; the guest says on `ready` that it listens and closes
/// `hold` once it can be found.
pub(in crate::backends::native) fn serve(
    record: &Path,
    ready: RawFd,
    hold: RawFd,
    owners: Owners,
) -> Purpose {
    let arguments = [
        GUEST_FILE,
        "serve",
        "--settings",
        SETTINGS_FILE,
        "--ready-fd",
        &ready.to_string(),
        "--hold-fd",
        &hold.to_string(),
    ];
    let mut environment = vec![
        format!("PATH={PATH}"),
        format!("HOME={HOME}"),
        "USER=root".to_owned(),
        "LOGNAME=root".to_owned(),
    ];
    if owners == Owners::One {
        // To tar, root is somebody who can give files away.
        environment.push("TAR_OPTIONS=--no-same-owner".to_owned());
    }
    Purpose::Serve {
        arguments: arguments.into_iter().map(|text| text.as_bytes().to_vec().into()).collect(),
        environment: environment.into_iter().map(|text| text.into_bytes().into()).collect(),
        record: record.as_os_str().as_bytes().to_vec().into(),
    }
}
