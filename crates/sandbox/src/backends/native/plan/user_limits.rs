//! What a sandbox may use of what the kernel counts for a whole user.

use vestal_wire::UserLimits;

use crate::backends::native::facts::Counted;

/// A sandbox has this part of what its maker may use.
const SHARE: u64 = 4;

/// The same of watches, of which those who watch large trees need many.
const SHARE_OF_WATCHES: u64 = 2;

/// Returns what a sandbox may use, so that something is left for whoever made
/// it.
pub(super) fn user_limits(counted: &Counted) -> UserLimits {
    let part = |most: Option<u64>, share: u64| most.map(|most| (most / share).max(1));
    UserLimits {
        inotify_instances: part(counted.inotify_instances, SHARE),
        inotify_watches: part(counted.inotify_watches, SHARE_OF_WATCHES),
        pending_signals: part(counted.pending_signals, SHARE),
        message_queues: part(counted.message_queues, SHARE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_has_a_part_of_what_there_is() {
        let counted = Counted {
            inotify_instances: Some(128),
            inotify_watches: Some(1000),
            pending_signals: Some(3),
            message_queues: None,
        };
        let expected = UserLimits {
            inotify_instances: Some(32),
            inotify_watches: Some(500),
            pending_signals: Some(1),
            message_queues: None,
        };
        assert_eq!(user_limits(&counted), expected);
    }
}
