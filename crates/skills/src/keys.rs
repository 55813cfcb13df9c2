//! What the agent can look up how to do.

use vestal_config::{Group, Names};

vestal_config::keys! {
    /// Skills that are installed and not used: the agent does not see them, and the variables they
    /// ask for are not forwarded.
    SKILLS_DISABLED: Names = "skills.disabled" {
        default: Names::EMPTY,
        limits: (),
        env: ["VESTAL_SKILLS_DISABLED"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group::of(KEYS);
