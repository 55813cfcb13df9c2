//! What the kernel counts for a user of the host, and how much of it the users
//! of a sandbox may use.
//!
//! What somebody in a user namespace uses counts for whoever made the namespace,
//! too. So a sandbox could use up what its maker has, unless it is given less.

use std::fs::OpenOptions;
use std::io::{self, Write as _};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vestal_wire::UserLimits;

/// Limits what each user of the namespace that this process is in may use of
/// what the kernel counts by namespace.
pub(crate) fn limit_namespace(limits: &UserLimits) -> io::Result<()> {
    let counted = [
        ("max_inotify_instances", limits.inotify_instances),
        ("max_inotify_watches", limits.inotify_watches),
    ];
    for (name, most) in counted {
        let Some(most) = most else {
            continue;
        };
        let written = OpenOptions::new()
            .write(true)
            .open(format!("/proc/sys/user/{name}"))
            .and_then(|mut file| file.write_all(most.to_string().as_bytes()));
        match written {
            // A container around this process may show the settings of the
            // kernel read-only, and a kernel may not count this.
            Err(error) if is_out_of_reach(&error) => {}
            written => written?,
        }
    }
    Ok(())
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EROFS | libc::ENOENT | libc::EACCES))
}

/// Limits what a user of this process, and of all that come from it, may use of
/// what the kernel counts by process. A user namespace that is made from now on
/// has no more for all its users together.
pub(crate) fn limit_process(limits: &UserLimits) -> io::Result<()> {
    let counted = [
        (Resource::Sigpending, limits.pending_signals),
        (Resource::Msgqueue, limits.message_queues),
    ];
    for (resource, most) in counted {
        if let Some(most) = most {
            let hard = getrlimit(resource).maximum;
            let most = hard.map_or(most, |hard| hard.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
    }
    Ok(())
}
