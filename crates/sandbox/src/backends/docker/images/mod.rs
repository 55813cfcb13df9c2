//! Images that Vestal makes of containers' filesystems.

mod commit;
mod own_image;
mod snapshot;

pub(super) use snapshot::{BaseImage, BaseSystem, KnownUser};
