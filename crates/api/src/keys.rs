//! How front ends look and behave: their settings, which whoever reads a profile has to know.

use vestal_config::{
    Count, Group, LineMode, Protection, Range, Seconds, Secrecy, SecretText, Text, TextLimits,
};

const LINE: TextLimits = TextLimits { max_bytes: 4096, lines: LineMode::One };

vestal_config::choices! {
    /// What becomes of a prompt that comes while a turn runs.
    BusyInputMode, "known way", {
        /// The turn is interrupted, and the prompt is next.
        Interrupt = "interrupt",
        /// The prompt waits for the end of the turn.
        Queue = "queue",
        /// The model is told at its next step.
        Steer = "steer",
    }
}

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

    /// What becomes of a prompt that a program sends while a turn runs (`vestal serve`): `interrupt`
    /// ends the turn and goes on with the prompt, `queue` lets the turn end first, `steer` tells it
    /// to the model at its next step.
    DISPLAY_BUSY_INPUT_MODE: BusyInputMode = "display.busy_input_mode" {
        default: BusyInputMode::Interrupt,
        limits: (),
        env: ["VESTAL_BUSY_INPUT_MODE"],
    }

    /// Sessions that `vestal serve`, or the gateway over WebSocket, has open at once. One more is
    /// refused, unless one that nobody watches can be closed for it.
    SERVE_MAX_LIVE_SESSIONS: Count = "serve.max_live_sessions" {
        default: Count::new(16),
        limits: Range { min: 1, max: 10_000 },
        env: ["VESTAL_SERVE_MAX_LIVE_SESSIONS"],
    }

    /// Time that a session stays open at the gateway after its last connection is gone. A turn that
    /// runs then is not interrupted; its session is closed when it has ended.
    SERVE_DETACH_GRACE_SECONDS: Seconds = "serve.detach_grace_seconds" {
        default: Seconds::new(300),
        limits: Range { min: 0, max: 86_400 },
        env: ["VESTAL_SERVE_DETACH_GRACE_SECONDS"],
    }

    /// Whether the gateway serves an API that is shaped like OpenAI's. It needs a key:
    /// `api_server.key`.
    API_SERVER_ENABLED: bool = "api_server.enabled" {
        default: false,
        limits: (),
        env: ["API_SERVER_ENABLED"],
        protection: Protection::Guards,
    }

    /// Address that the API server listens on; empty for `127.0.0.1`. `0.0.0.0` is every address
    /// of this machine.
    API_SERVER_HOST: Text = "api_server.host" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["API_SERVER_HOST"],
        protection: Protection::Guards,
    }

    /// Port that the API server listens on; 0 for any that is free. Each profile's gateway needs
    /// its own.
    API_SERVER_PORT: Count = "api_server.port" {
        default: Count::new(8642),
        limits: Range { min: 0, max: 65_535 },
        env: ["API_SERVER_PORT"],
        protection: Protection::Guards,
    }

    /// Key that requests must carry (`Authorization: Bearer KEY`), at least 16 characters, also on
    /// loopback. Its place is `.env`: `API_SERVER_KEY=…`.
    API_SERVER_KEY: SecretText = "api_server.key" {
        default: SecretText::EMPTY,
        limits: (),
        env: ["API_SERVER_KEY"],
        secrecy: Secrecy::Secret,
        protection: Protection::Guards,
        travels: false,
    }

    /// Origins, separated by commas, whose pages may use the API from a browser; empty for none.
    API_SERVER_CORS_ORIGINS: Text = "api_server.cors_origins" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["API_SERVER_CORS_ORIGINS"],
        protection: Protection::Guards,
    }

    /// Name of the model that clients of the API see; empty for the profile's name, or
    /// `vestal-agent` for the default profile.
    API_SERVER_MODEL_NAME: Text = "api_server.model_name" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["API_SERVER_MODEL_NAME"],
        protection: Protection::Guards,
    }

    /// Turns that the gateway runs at once; further requests are refused with 429.
    API_SERVER_MAX_CONCURRENT_RUNS: Count = "api_server.max_concurrent_runs" {
        default: Count::new(10),
        limits: Range { min: 1, max: 10_000 },
        env: ["VESTAL_API_SERVER_MAX_CONCURRENT_RUNS"],
        protection: Protection::Guards,
    }

    /// Time that running turns have to end when the gateway stops, before they are interrupted.
    AGENT_RESTART_DRAIN_TIMEOUT: Seconds = "agent.restart_drain_timeout" {
        default: Seconds::new(0),
        limits: Range { min: 0, max: 3600 },
        env: ["VESTAL_RESTART_DRAIN_TIMEOUT"],
    }

    /// Whether the gateway starts workers for ready tasks of the boards, as
    /// `vestal kanban dispatch --watch` does.
    KANBAN_DISPATCH_IN_GATEWAY: bool = "kanban.dispatch_in_gateway" {
        default: true,
        limits: (),
        env: ["VESTAL_KANBAN_DISPATCH_IN_GATEWAY"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group { reserved: RESERVED, ..Group::of(KEYS) };

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "display.bell_on_complete",
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
