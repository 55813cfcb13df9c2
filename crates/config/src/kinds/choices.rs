//! Settings that are one of a few words.

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::suggest;
use crate::value::Value;

/// Declares an enum whose variants are the words allowed.
macro_rules! choices {
    (
        $(#[$outer:meta])*
        $name:ident, $noun:literal, {
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
                choose(input, Self::WORDS, $noun)
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

fn choose<T: Copy>(input: Input<'_>, all: &[(&'static str, T)], noun: &str) -> Result<T, Refusal> {
    let text = input.scalar()?.trim().to_ascii_lowercase();
    if let Some((_, choice)) = all.iter().find(|(word, _)| *word == text) {
        return Ok(*choice);
    }
    let meant = suggest::closest(&text, words(all)).map(|word| format!("did you mean {word}?"));
    Err(Refusal::new(format!("is no {noun}")).suggesting(meant))
}

choices! {
    /// What happens when settings changed since a sandbox was made.
    OnConfigChange, "known reaction", {
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
    Isolation, "known isolation", {
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
    DockerTransport, "known transport", {
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
    Durability, "known durability", {
        /// A loss of power.
        Full = "full",
        /// The death of every process; a loss of power may take the last moments.
        Normal = "normal",
    }
}

choices! {
    /// What a provider speaks.
    ApiMode, "known way to speak to a provider", {
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
    ApprovalMode, "known way to approve", {
        /// A person is asked.
        Manual = "manual",
        /// Nobody is asked. What is never allowed stays refused.
        Off = "off",
    }
}

choices! {
    /// What happens to a dangerous command when nobody can be asked.
    Unattended, "known answer", {
        /// It is not run.
        Deny = "deny",
        /// It is run.
        Allow = "allow",
    }
}
