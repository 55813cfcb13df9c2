//! Reaps what nobody else does, as the first process of a container must.
//!
//! A supervisor that is not process 1 is not asked to. It never waits for any child, only for those
//! that are dead and not its own: those of slots are waited for where they are kept.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::child::children;

/// Reaps dead children of this process that it did not start.
pub(crate) fn reap() -> io::Result<usize> {
    // Held to the end: a child that is started meanwhile would look like an orphan.
    let kept = children();
    let own = std::process::id();
    let mut reaped = 0;
    for entry in std::fs::read_dir("/proc")? {
        // What vanished meanwhile was reaped.
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if kept.contains(&pid) || !is_dead_child_of(pid, own) {
            continue;
        }
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
        if let Ok(Some(_)) = waitpid(Some(pid), WaitOptions::NOHANG) {
            reaped += 1;
        }
    }
    Ok(reaped)
}

fn is_dead_child_of(pid: u32, parent: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The command name is in parentheses and may contain anything.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let is_dead = fields.next() == Some("Z");
    is_dead && fields.next().and_then(|field| field.parse().ok()) == Some(parent)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_dead_are_reaped_but_for_those_that_are_kept() {
        let mut children = [(); 2].map(|()| Command::new("true").spawn().unwrap());
        let [kept, orphan] = children.each_ref().map(std::process::Child::id);
        let own = std::process::id();
        while ![kept, orphan].iter().all(|pid| is_dead_child_of(*pid, own)) {
            std::thread::yield_now();
        }
        crate::child::children().insert(kept);
        assert_eq!(reap().unwrap(), 1);
        assert!(!is_dead_child_of(orphan, own) && is_dead_child_of(kept, own));
        children[0].wait().unwrap();
    }
}
