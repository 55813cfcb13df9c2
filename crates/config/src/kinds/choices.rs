//! Settings that are one of a few words.

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::reserved;
use crate::suggest;
use crate::value::Value;

/// Declares an enum whose variants are the words allowed.
macro_rules! choices {
    (
        $(#[$outer:meta])*
        $name:ident, $noun:literal, $explain:expr, {
            $( $(#[$inner:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$inner])* $variant, )+
        }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$( ($word, Self::$variant), )+];

            /// Returns the word that stands for the choice.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Setting for $name {
            type Limits = ();

            fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
                choose(input, Self::WORDS, $noun, $explain)
            }

            fn to_value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }

            fn allowed((): &()) -> String {
                words(Self::WORDS).join(", ")
            }

            fn examples((): &()) -> Vec<String> {
                words(Self::WORDS).into_iter().rev().map(str::to_owned).collect()
            }

            fn schema((): &()) -> serde_json::Value {
                json!({"enum": words(Self::WORDS)})
            }
        }
    };
}

fn words<T>(all: &[(&'static str, T)]) -> Vec<&'static str> {
    all.iter().map(|(word, _)| *word).collect()
}

fn choose<T: Copy>(
    input: Input<'_>,
    all: &[(&'static str, T)],
    noun: &str,
    explain: fn(&str) -> Option<Refusal>,
) -> Result<T, Refusal> {
    let text = input.scalar()?.trim().to_ascii_lowercase();
    if let Some((_, choice)) = all.iter().find(|(word, _)| *word == text) {
        return Ok(*choice);
    }
    if let Some(refusal) = explain(&text) {
        return Err(refusal);
    }
    let meant = suggest::closest(&text, words(all)).map(|word| format!("did you mean {word}?"));
    Err(Refusal::new(format!("is no {noun}")).suggesting(meant))
}

fn nothing_to_explain(_: &str) -> Option<Refusal> {
    None
}

fn other_backend(text: &str) -> Option<Refusal> {
    if text == "podman" {
        let advice = "Podman is used through the backend docker; set terminal.backend: docker";
        return Some(Refusal::new("is no backend of its own").suggesting(Some(advice.to_owned())));
    }
    reserved::BACKENDS
        .contains(&text)
        .then(|| Refusal::new("is a backend that is not in this version"))
}

choices! {
    /// What makes a sandbox's instances.
    BackendChoice, "backend", other_backend, {
        /// The best one that works here; resolved once per sandbox and recorded.
        Auto = "auto",
        /// Namespaces of the kernel on this machine, without an engine.
        Native = "native",
        /// Processes of the user on this machine, without isolation.
        Local = "local",
        /// Containers of Docker or Podman.
        Docker = "docker",
    }
}

choices! {
    /// What happens when settings changed since a sandbox was made.
    OnConfigChange, "known reaction", nothing_to_explain, {
        /// Names the keys that differ and goes on.
        Warn = "warn",
        /// Makes a new instance as soon as the sandbox is idle.
        Recreate = "recreate",
        /// Says nothing and goes on.
        Keep = "keep",
    }
}

choices! {
    /// How conversations map to sandboxes.
    Isolation, "known isolation", nothing_to_explain, {
        /// One sandbox per profile.
        Shared = "shared",
        /// One per conversation.
        Conversation = "conversation",
        /// One per task.
        Task = "task",
    }
}

choices! {
    /// How the guest in a container is reached.
    DockerTransport, "known transport", nothing_to_explain, {
        /// By the socket when host and container share it, else by the engine.
        Auto = "auto",
        /// By a socket in a directory that host and container share.
        Socket = "socket",
        /// By a stream that the engine carries.
        Exec = "exec",
    }
}

choices! {
    /// What a change that was reported survives.
    Durability, "known durability", nothing_to_explain, {
        /// A loss of power.
        Full = "full",
        /// The death of every process; a loss of power may take the last moments.
        Normal = "normal",
    }
}

choices! {
    /// What a provider speaks.
    ApiMode, "known way to speak to a provider", nothing_to_explain, {
        /// What its name and its address speak for.
        Auto = "auto",
        /// Chat completions, as `OpenAI` began them.
        ChatCompletions = "chat_completions",
        /// Messages, as Anthropic has them.
        AnthropicMessages = "anthropic_messages",
    }
}

choices! {
    /// Whether dangerous commands are asked about.
    ApprovalMode, "known way to approve", nothing_to_explain, {
        /// A person is asked.
        Manual = "manual",
        /// Nobody is asked. What is never allowed stays refused.
        Off = "off",
    }
}

choices! {
    /// What happens to a dangerous command when nobody can be asked.
    Unattended, "known answer", nothing_to_explain, {
        /// It is not run.
        Deny = "deny",
        /// It is run.
        Allow = "allow",
    }
}
