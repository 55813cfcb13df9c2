//! Images that this program makes, of containers' own filesystems.

mod commit;
mod own_image;
mod snapshot;

pub(super) use snapshot::{Beginning, KnownUser, Origin};
