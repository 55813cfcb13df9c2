//! `/etc` of a sandbox.

use std::path::Path;

use vestal_wire::{Mapping, SandboxMount};

use super::layout::{Access, Layout};
use crate::backends::native::etc::APT_ALONE;
use crate::backends::native::tier::Tier;

const ETC: &str = "/etc";

/// Files of a system of its own that only the host can know today.
const OF_THE_HOST: [&str; 2] = ["hosts", "resolv.conf"];

/// Where apt is told how to work.
const APT_CONF: &str = "/etc/apt/apt.conf.d";

/// Lays out `/etc`: the picture of the host's, or what a system of its own
/// lacks.
pub(super) fn etc(layout: &mut Layout<'_>) {
    let (tier, picture) = (layout.input.tier, layout.input.etc_dir);
    match tier {
        Tier::ReadOnly => layout.put_own(Path::new(ETC), picture, Access::Read),
        Tier::Overlay => {
            if !layout.is_taken(Path::new(ETC)) {
                let layers = layout.layers("etc", picture, 0o755);
                layout.put(Path::new(ETC), |target| SandboxMount::Overlay { target, layers });
            }
        }
        Tier::Rootfs => {
            for name in OF_THE_HOST {
                let target = Path::new(ETC).join(name);
                if !layout.is_of_user(&target) {
                    layout.put_own(&target, &picture.join(name), Access::Read);
                }
            }
            apt_alone(layout, picture);
        }
    }
}

/// Has apt do without a user of its own where there is none but root.
fn apt_alone(layout: &mut Layout<'_>, picture: &Path) {
    let alone = layout.input.users.mapping == Mapping::Own;
    let has_apt = layout.input.rootfs.is_some_and(|rootfs| {
        rootfs
            .join(APT_CONF.trim_start_matches('/'))
            .symlink_metadata()
            .is_ok_and(|dir| dir.is_dir())
    });
    let target = Path::new(APT_CONF).join("90vestal-alone");
    if alone && has_apt && !layout.is_of_user(&target) {
        layout.put_own(&target, &picture.join(APT_ALONE), Access::Read);
    }
}
