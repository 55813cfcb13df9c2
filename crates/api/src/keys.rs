//! Settings of how front ends look and behave. Every reader of a profile has to know them.

use vestal_config::{
    ChangedBy, Count, Group, LineMode, Protection, Range, Seconds, Secrecy, SecretText, Text,
    TextLimits, Variable, VariableScope,
};

const LINE: TextLimits = TextLimits { max_bytes: 4096, lines: LineMode::One };

vestal_config::choices! {
    /// What becomes of a prompt that comes while a turn runs.
    BusyInputMode, "known busy input mode", {
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
        changed_by: ChangedBy::Clients,
    }

    /// Whether the terminal rings when something has ended that nobody was looking at.
    DISPLAY_BELL: bool = "display.bell" {
        default: true,
        limits: (),
        env: ["VESTAL_BELL"],
        changed_by: ChangedBy::Clients,
    }

    /// What becomes of a prompt that a program sends while a turn runs (`vestal serve`): `interrupt`
    /// ends the turn and goes on with the prompt, `queue` lets the turn end first, `steer` tells it
    /// to the model at its next step.
    DISPLAY_BUSY_INPUT_MODE: BusyInputMode = "display.busy_input_mode" {
        default: BusyInputMode::Interrupt,
        limits: (),
        env: ["VESTAL_BUSY_INPUT_MODE"],
        changed_by: ChangedBy::Clients,
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

    /// Socket that the API server listens on: a file in a directory that only you may enter, so that no
    /// other process can take its place; a relative path is below the profile's home. Then no port is
    /// opened unless `api_server.host` is set, too.
    API_SERVER_SOCKET: Text = "api_server.socket" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["API_SERVER_SOCKET"],
        protection: Protection::Guards,
        travels: false,
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

    /// Backends, separated by commas, that requests about sandboxes may name besides that of
    /// `terminal.backend`; empty for none. `local` lets everyone with the key run commands on this
    /// machine.
    API_SERVER_BACKENDS: Text = "api_server.backends" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_API_SERVER_BACKENDS"],
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
pub static GROUP: Group =
    Group { reserved: RESERVED, variables: IMAGE_VARIABLES, ..Group::of(KEYS) };

/// Variables of the image, and of a gateway in it.
static IMAGE_VARIABLES: &[Variable] = &[
    Variable {
        name: "VESTAL_IMAGE",
        doc: "Set by the image: `1`. A gateway that is run there is supervised.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_UID",
        doc: "In the image: number of the user that everything runs as and that the data directory belongs to. Default: `10000`.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_GID",
        doc: "In the image: number of that user's group. Default: that of the user.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_DOCKER_EXEC_AS_ROOT",
        doc: "In the image: `1`, `true` or `yes` lets `docker exec` run `vestal` as root.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_GATEWAY_NO_SUPERVISE",
        doc: "In the image: has `vestal gateway run` serve in its own process.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_ALLOW_ROOT_GATEWAY",
        doc: "In the image: lets root run a gateway.",
        scope: VariableScope::Environment,
    },
];

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
