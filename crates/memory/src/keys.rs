//! What the agent remembers from conversation to conversation.

use vestal_config::{Count, Group, Range};

vestal_config::keys! {
    /// Whether the agent has notes of its own, `MEMORY.md`.
    MEMORY_ENABLED: bool = "memory.memory_enabled" {
        default: true,
        limits: (),
        env: ["VESTAL_MEMORY_ENABLED"],
    }

    /// Whether the agent has notes about the person it works for, `USER.md`.
    MEMORY_USER_PROFILE_ENABLED: bool = "memory.user_profile_enabled" {
        default: true,
        limits: (),
        env: ["VESTAL_USER_PROFILE_ENABLED"],
    }

    /// Characters that the agent's own notes may have.
    MEMORY_CHAR_LIMIT: Count = "memory.memory_char_limit" {
        default: Count::new(2200),
        limits: Range { min: 100, max: 100_000 },
        env: ["VESTAL_MEMORY_CHAR_LIMIT"],
    }

    /// Characters that the notes about the person may have.
    MEMORY_USER_CHAR_LIMIT: Count = "memory.user_char_limit" {
        default: Count::new(1375),
        limits: Range { min: 100, max: 100_000 },
        env: ["VESTAL_USER_CHAR_LIMIT"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group { reserved: RESERVED, ..Group::of(KEYS) };

/// Names that belong to features on the way.
static RESERVED: &[&str] = &["memory.flush_min_turns", "memory.nudge_interval", "memory.provider"];
