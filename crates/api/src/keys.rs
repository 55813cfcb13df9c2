//! How front ends look and behave: their settings, which whoever reads a profile has to know.

use vestal_config::Group;

vestal_config::keys! {
    /// Whether what the model thinks is shown in the chat.
    DISPLAY_SHOW_REASONING: bool = "display.show_reasoning" {
        default: false,
        limits: (),
        env: ["VESTAL_SHOW_REASONING"],
    }

    /// Whether the terminal rings when something has ended that nobody was looking at.
    DISPLAY_BELL: bool = "display.bell" {
        default: true,
        limits: (),
        env: ["VESTAL_BELL"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group { reserved: RESERVED, ..Group::of(KEYS) };

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "display.bell_on_complete",
    "display.busy_input_mode",
    "display.compact",
    "display.file_mutation_verifier",
    "display.interface",
    "display.personality",
    "display.resume_display",
    "display.skin",
    "display.streaming",
    "display.tool_progress",
    "display.turn_completion_explainer",
    "gateway",
];
